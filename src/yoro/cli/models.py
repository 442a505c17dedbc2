"""`yoro models`: the backbones there are, and ONNX files of your own under a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.options import JsonOption, JsonOptions, shown, verb_group
from yoro.cli.output import print_json, print_text
from yoro.errors import InputError, counted
from yoro.option import option

if TYPE_CHECKING:
    from yoro.sources.models import CatalogueRow
    from yoro.sources.network_trial import NetworkTrial
    from yoro.sources.protocol import Images

app = verb_group("models")
TRIED = 5  # photos of the user's own that a network is tried on


@shown()
class InputOptions:
    """What a network takes and gives, where its file does not say."""

    side: int | None = option(None, "Side of its input, in pixels.", metavar="N")
    mean: str | None = option(None, "Mean colour it was trained with, from 0 to 1.", metavar="R,G,B")
    std: str | None = option(None, "Standard deviation of colours, from 0 to 1.", metavar="R,G,B")
    channels: str | None = option(None, "Order of its colours.", metavar="rgb|bgr")
    layout: str | None = option(None, "Order of the axes of its input.", metavar="nchw|nhwc")
    output: str | None = option(None, "Name of the output to read.", metavar="TENSOR")

    @property
    def given(self) -> dict[str, str]:
        """Those that were given, as in a source name."""
        return {key: str(value) for key, value in asdict(self).items() if value is not None}


@shown()
class SpeedOption:
    """What `yoro models` finds out by measurement."""

    speed: bool = option(False, "Add images per second on this machine, measured or forecast; takes seconds.")


@app.default
def models(*, wanted: SpeedOption = SpeedOption(), output: JsonOption = JsonOption()) -> None:
    """List backbones: installed ones, how to get others, which to choose."""
    from yoro.sources import catalogue

    rows = catalogue()
    if wanted.speed:
        from yoro.sources.network_trial import with_speeds

        rows = with_speeds(rows)
    width = max(len(row.name) for row in rows)
    lines = ["recommended (hub networks by published accuracy):"]
    lines += [f"{row.name:<{width}}  {row.purpose}" for row in rows if row.purpose]
    lines += ["", f"{'source':<{width}}  {'library':<8} {'weights':<8} {'side':>5} {'width':>6}  what"]
    here = {True: "here", False: "missing", None: "-"}
    for row in rows:
        there = f"{here[row.installed]:<8} {here[row.weights]:<8}"
        lines.append(f"{row.name:<{width}}  {there} {row.side or '-':>5} {row.width or '-':>6}  {row.what}")
        lines.append(f"{'':<{width}}  {'; '.join(_model_facts(row))}")
    output.show([asdict(row) for row in rows], "\n".join(lines))


def _model_facts(row: CatalogueRow) -> Iterator[str]:
    """What a user may want to know before a backbone is taken."""
    if row.to_do:
        yield row.to_do
    if row.megabytes is not None:
        yield f"{row.megabytes:,.0f} MB"
    if row.speed is not None:
        yield f"{row.speed:.3g} images/s{'' if row.measured else ' forecast'}"
    yield f"licence: {row.licence}"


@app.command
def add(
    file: Annotated[Path, Parameter(name="FILE.onnx", help="A network in an ONNX file.")],
    /,
    *,
    name: Annotated[str, Parameter(help="Its name, for --source.", metavar="NAME")],
    photos: Annotated[str | None, Parameter(name="--try", help="Photos to try it on.", metavar="FOLDER")] = None,
    form: InputOptions = InputOptions(),
    output: JsonOptions = JsonOptions(),
) -> None:
    """Inspect an ONNX file, try it on photos, and give it a name.

    `--source NAME` then reads images with it, on this machine. The file stays where it is.
    """
    from yoro.sources.network_trial import add_network
    from yoro.sources.sample_photos import real_photos

    chosen = real_photos if photos is None else _photos(photos)
    trial = add_network(file, name, form.given, photos=chosen, force=output.force)
    if output.as_json:
        print_json({**asdict(trial.network), **{k: v for k, v in asdict(trial).items() if k != "network"}})
    elif not output.quiet:
        print_text(_text(trial))
    for warning in trial.warnings:
        output.tell(f"Warning: {warning}")
    output.tell(f"Added. To use it: yoro fit photos/ --out mine.yoro --source {name}")


@app.command
def remove(name: Annotated[str, Parameter(name="NAME", help="A name that was added.")], /) -> None:
    """Forget a name that was added; its file stays, and so do models fitted on it."""
    from yoro.sources.added import remove_network

    remove_network(name)


def _photos(folder: str) -> Callable[[int], Images]:
    """The first photos of a folder, at the side that is asked for."""
    import numpy as np

    from yoro.data.find import find
    from yoro.data.geometry import Geometry
    from yoro.data.loading import load

    examples = find(folder, labelled=False).examples[:TRIED]

    def images(side: int) -> Images:
        batches = list(load(examples, Geometry(side), workers=1))
        if not sum(len(batch.pixels) for batch in batches):
            raise InputError(f"None of the first {TRIED} images of {folder!r} can be read; give others with --try.")
        return np.concatenate([batch.pixels for batch in batches])

    return images


def _text(trial: NetworkTrial) -> str:
    """What was found, a line each."""
    network, assumed = trial.network, "assumed, since the file does not say"
    order = "channels first" if trial.layout == "nchw" else "channels last"
    batch = "" if trial.batch is None else f", in batches of {trial.batch} (so a model cannot be exported)"
    side = f": {assumed}; or give --side" if "side" in trial.assumed else ""
    mean, std = (",".join(f"{value:.4g}" for value in colour) for colour in (trial.mean, trial.std))
    normalised = f"mean {mean}, std {std}"
    if trial.element == "uint8":
        normalised = "none: it takes bytes"
    elif trial.preprocessing is not None:
        normalised += f", by {trial.preprocessing}"
    elif {"mean", "std"} & set(trial.assumed):
        normalised += f": {assumed}; or give --mean and --std"
    elif trial.white is not None:
        normalised = f"the graph's own; it gets colours from 0 to {trial.white}"
    return "\n".join(
        [
            f"{network.name}: {network.path}",
            f"  input          {network.side} x {network.side} pixels, {order}, {trial.element}{batch}{side}",
            f"  normalisation  {normalised}",
            f"  output         {trial.output}",
            f"  readings       {', '.join(f'{name} {width}' for name, width in trial.readings.items())}",
            f"  speed          {trial.milliseconds:.1f} ms per image, measured on {counted(trial.photos, 'photo')}",
        ]
    )
