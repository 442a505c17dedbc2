"""The demonstration: scikit-learn's digits through the embedded network, in one pass."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

from yoro.data.find import find
from yoro.data.splits import hold_out
from yoro.fit import fit
from yoro.machine import peak_memory
from yoro.mappings.affine import AffineMapping
from yoro.mappings.bayesian import bayesian_mapping, plus_table
from yoro.mappings.cooccurrence import CoOccurrence
from yoro.mappings.frequency import frequency_mapping
from yoro.model.classifier import Classifier
from yoro.model.pipeline import Pipeline
from yoro.model.settings import HERE

HELD_OUT = 0.3
SIDE = 64  # of the pictures written; the digits themselves have 8 x 8 pixels


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    method: str
    accuracy: float
    passes: int
    seconds: float
    images_a_second: float
    memory_mb: float


@dataclass(frozen=True)
class Demonstration:
    """What `yoro demo` shows."""

    classifier: Classifier
    lines: list[Line]
    images: int
    new: list[Path]
    answers: list[str]


def demonstrate(folder: Path, *, progress: bool = False) -> Demonstration:
    """Fit, compare, save `digits.yoro` and a few new pictures in `folder`, and predict those."""
    pictures, labels = _digits()
    kept, held = hold_out(labels, HELD_OUT, 0)
    started = time.perf_counter()
    train = [(pictures[i], labels[i]) for i in kept]
    classifier = fit(train, progress=progress)
    seconds = time.perf_counter() - started
    truth = np.array([labels[i] for i in held])
    responses = respond(classifier.pipeline, [pictures[i] for i in held])
    lines = [_line("BDM (YORO)", classifier.model.mapping, responses, truth, seconds, len(kept))]
    for method, mapping, extra in _label_mappings(classifier):
        lines.append(_line(method, mapping, responses, truth, seconds + extra, len(kept)))
    folder.mkdir(parents=True, exist_ok=True)
    classifier.save(folder / "digits.yoro", force=True)
    first = {labels[i]: i for i in reversed(held.tolist())}  # the first held-out picture of each digit
    chosen = [first[label] for label in sorted(first)[::2]]
    new = _write_pictures(folder / "new", [pictures[i] for i in chosen], [labels[i] for i in chosen])
    return Demonstration(classifier, lines, len(pictures), new, classifier.predict(new))


def respond(pipeline: Pipeline, pictures: list[NDArray[np.uint8]]) -> NDArray[np.floating]:
    """Responses (n, width) to pictures in memory."""
    stream = pipeline.stream(find(pictures, labelled=False).examples, HERE)
    return np.concatenate([batch.responses for batch in stream])


def _digits() -> tuple[list[NDArray[np.uint8]], list[str]]:
    """Pictures (SIDE, SIDE, 3) large enough to look at, and their labels."""
    digits = load_digits()
    pictures = []
    for image in digits.images:
        small = Image.fromarray(np.round(image * 255 / 16).astype(np.uint8))
        pictures.append(np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BILINEAR).convert("RGB")))
    return pictures, [str(label) for label in digits.target]


def _label_mappings(classifier: Classifier) -> list[tuple[str, AffineMapping, float]]:
    """The label mappings of the literature on the same responses, which the reservoir has kept."""
    reservoir = classifier.model.reservoir
    if reservoir is None:
        return []
    members = reservoir.members()
    results = []
    for method, table, solve in (
        ("FLM", CoOccurrence(classifier.classes), frequency_mapping),
        ("BLM+", plus_table(classifier.classes), bayesian_mapping),
    ):
        started = time.perf_counter()
        table.update(members.responses, members.labels)
        results.append((method, solve(table), time.perf_counter() - started))
    return results


def _line(
    method: str,
    mapping: AffineMapping,
    responses: NDArray[np.floating],
    truth: NDArray[np.str_],
    seconds: float,
    images: int,
) -> Line:
    accuracy = float((mapping.predict(responses) == truth).mean())
    return Line(method, accuracy, 1, seconds, images / seconds, peak_memory())


def _write_pictures(folder: Path, pictures: list[NDArray[np.uint8]], labels: list[str]) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"a-{label}.png" for label in labels]
    for path, picture in zip(paths, pictures, strict=True):
        Image.fromarray(picture).save(path)
    return paths
