"""Backbones tried on this machine: how an ONNX file of your own answers photos, and how many a second each reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from yoro.errors import SourceError
from yoro.sources.added import AddedNetwork, check_new, write_added
from yoro.sources.models import CatalogueRow
from yoro.sources.onnx_file import open_onnx, own_white
from yoro.sources.open import open_source
from yoro.sources.preprocessing_file import FILE, Preprocessing, read_preprocessing
from yoro.sources.protocol import Colour, Images, Responses, layout_of
from yoro.sources.sample_photos import real_photos

SAME = 1e-3  # of the largest response: answers that differ by less are the same
IMAGES = 32  # of one call whose speed is measured
SECONDS = 0.5  # that a measurement takes at least
MEASURED = "embedded:"  # what is here, and opened in a moment
PLAIN = {  # options for a graph that normalises its input itself, by the value of white in it
    1: {"mean": "0,0,0", "std": "1,1,1"},
    255: {"mean": "0,0,0", "std": ",".join([repr(1 / 255)] * 3)},
}


@dataclass(frozen=True)
class NetworkTrial:
    """What was found in a network, and how it answered photos."""

    network: AddedNetwork
    layout: str  # "nchw" or "nhwc"
    element: str  # "float32" or "uint8"
    batch: int | None  # None: of any size
    mean: Colour
    std: Colour
    output: str
    readings: Mapping[str, int]  # names and widths
    photos: int
    milliseconds: float  # an image
    white: int | None  # 1 or 255 in a graph that normalises its input itself
    preprocessing: str | None  # the file beside the network's that says how images are prepared
    assumed: tuple[str, ...]  # of side, mean and std: what neither a file nor an option says
    warnings: tuple[str, ...]


def add_network(
    file: str | Path,
    name: str,
    options: Mapping[str, str] | None = None,
    *,
    photos: Callable[[int], Images] = real_photos,
    force: bool = False,
) -> NetworkTrial:
    """Inspect an ONNX file, try it on photos and record it under a name, which names a source from then on.

    `options` are those of `onnx:PATH`, for what neither the file nor a `preprocessor_config.json` beside it says: side,
    mean, std, layout, output. `photos` gives images (n, side, side, 3) of a side. A name that is taken is an error,
    unless `force` replaces it.
    """
    check_new(name, force=force)
    path, given = Path(file).expanduser().absolute(), dict(options or {})
    beside = None if {"side", "mean", "std"} <= set(given) else _preprocessing_beside(path)
    if beside is not None:
        given = {**beside[1].options, **given}
    network = AddedNetwork(name, str(path), given)
    source = open_onnx(network.source, "logits", None)
    white = own_white(source.inner, source.form.tensor) if {"mean", "std"} <= set(source.assumed) else None
    if white is not None:
        network = replace(network, options={**network.options, **PLAIN[white]})
        source = open_onnx(network.source, "logits", None)
    network = replace(network, digest=str(source.describe()["digest"]), side=source.side, width=source.width)
    form, images = source.form, photos(source.side)
    readings = layout_of(source.read_all()).readings
    responses = source.respond(images)
    start = time.perf_counter()
    source.respond(images)  # once more, now that it is warm
    seconds = (time.perf_counter() - start) / len(images)
    warnings = _odd(responses, source.respond(images[:1]), network)
    write_added(network)
    return NetworkTrial(
        network,
        "nchw" if form.channels_first else "nhwc",
        "uint8" if form.takes_bytes else "float32",
        source.batch,
        form.mean,
        form.std,
        form.output,
        {reading.name: reading.width for reading in readings},
        len(images),
        1000 * seconds,
        white,
        str(beside[0]) if beside is not None else None,
        source.assumed,
        warnings,
    )


def _preprocessing_beside(path: Path) -> tuple[Path, Preprocessing] | None:
    """What the folder of an ONNX file says of its images, or the one above, as in a copy of a hub's repository."""
    file = path.with_name(FILE)
    if not file.is_file() and path.parent.name == "onnx":
        file = path.parent.with_name(FILE)
    said = read_preprocessing(file) if file.is_file() else None
    return None if said is None else (file, said)


def _odd(responses: Responses, alone: Responses, network: AddedNetwork) -> tuple[str, ...]:
    """Warnings about answers to photos; `alone` is the answer to the first of them without the others."""
    if not np.isfinite(responses).all():
        raise SourceError(f"{network.path!r} answers photos with numbers that are not finite, so it was not added.")
    scale, odd = float(np.abs(responses).max()) or 1.0, []
    if len(responses) > 1 and float(np.ptp(responses, axis=0).max()) < SAME * scale:
        odd.append("It answers all photos alike. Check its normalisation (--mean, --std) and --output.")
    if float(np.abs(responses[:1] - alone).max()) > SAME * scale:
        odd.append(
            "It answers a photo differently beside others, so updates would not be exact. "
            "In torch, call model.eval() before the export."
        )
    return tuple(odd)


def with_speeds(rows: Sequence[CatalogueRow]) -> list[CatalogueRow]:
    """The rows with their speeds; one that is not measured is forecast by the multiply-adds a second of the others."""
    here = [row for row in rows if row.multiply_adds and row.weights and row.name.startswith(MEASURED)]
    speeds = {row.name: images_per_second(row.name) for row in here}
    rates = [speeds[row.name] * row.multiply_adds for row in rows if row.name in speeds and row.multiply_adds]
    filled = []
    for row in rows:
        if row.name in speeds:
            row = replace(row, speed=speeds[row.name], measured=True)
        elif row.multiply_adds and rates:
            row = replace(row, speed=float(np.median(rates)) / row.multiply_adds, measured=False)
        filled.append(row)
    return filled


def images_per_second(name: str) -> float:
    """How many images a second a source reads, decoding not included."""
    source = open_source(name)
    images = np.random.default_rng(0).integers(0, 256, (IMAGES, source.side, source.side, 3), dtype=np.uint8)
    source.respond(images)
    calls, start = 0, time.perf_counter()
    while (taken := time.perf_counter() - start) < SECONDS:
        source.respond(images)
        calls += 1
    return calls * IMAGES / taken
