"""What noise costs: accuracy at several epsilons, by the width of the responses and the number of images."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from timing import print_machine, print_table
from yoro.data.roles import find_roles
from yoro.discriminant.readings import Layout
from yoro.model.partial_pass import Clip, gather_shard
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import FitSettings, Loading, PipelineSettings
from yoro.model.shards import Shard, solve_shards
from yoro.parties.differential_privacy import Noise, with_noise

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 32.0)
DRAWS = 3  # of the noise, whose accuracies are averaged
PROJECTED = 64  # coordinates of a public random projection


@dataclass(frozen=True)
class Task:
    """Responses of length at most `clip`, to fit and to be measured on."""

    name: str
    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    clip: float


def digits() -> Task:
    """Pixels of scikit-learn's digits; an image of 64 pixels up to 16 is at most 128 long, most are half of that."""
    responses, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[:1300], order[1300:]
    labels = labels.astype(str)
    return Task("digits", (responses[train], labels[train]), (responses[test], labels[test]), 60.0)


def photos(folder: Path, settings: PipelineSettings) -> tuple[Task, Task]:
    """Features of a folder with the splits train and test, and the same projected to a few coordinates."""
    pipeline = make_pipeline(settings)
    roles = find_roles("compare", folder)
    parts = []
    for examples in ([*roles.train, *roles.val], roles.test):
        batches = list(pipeline.stream(examples, Loading()))
        parts.append((np.concatenate([b.responses for b in batches]), np.array([n for b in batches for n in b.labels])))
    width = pipeline.layout.width
    projection = np.random.default_rng(0).normal(size=(width, PROJECTED)) / np.sqrt(PROJECTED)
    narrow = [(responses @ projection, labels) for responses, labels in parts]
    return Task(folder.name, *parts, 1.0), Task(f"{folder.name}, projected", *narrow, 1.0)


def sums_of(task: Task) -> Shard:
    """The sums of the clipped responses."""
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "z.npz"
        np.savez(file, responses=task.train[0], labels=task.train[1])
        return gather_shard(file, FitSettings(), sums_only=True, clip=Clip(task.clip)).shard


def accuracy(task: Task, sums: Shard) -> float:
    """Of the model of these sums."""
    model = solve_shards([sums], "oas", "uniform").model
    rows = Clip(task.clip)(task.test[0], Layout.of(task.test[0].shape[1]))
    answers = np.array(model.mapping.classes)[model.mapping(rows).argmax(axis=1)]
    return float((answers == task.test[1]).mean())


def row(task: Task, delta: float) -> list[str]:
    cells = [task.name, f"{len(task.train[1]):,}", str(len(set(task.train[1]))), str(task.train[0].shape[1])]
    sums = sums_of(task)
    for epsilon in EPSILONS:
        noise = Noise(epsilon, delta, task.clip)
        found = np.mean([accuracy(task, with_noise(sums, noise)) for _ in range(DRAWS)])
        cells.append(f"{100 * found:.1f}")
    return [*cells, f"{100 * accuracy(task, sums):.1f}"]


def bench(folders: list[Path], delta: float) -> None:
    tasks = [digits()]
    for folder in folders:
        tasks += photos(folder, PipelineSettings(read="features"))
    print_table(
        f"Accuracy in % by epsilon, delta {delta:g}, means of {DRAWS} draws of the noise",
        ["data", "images", "classes", "width", *(f"{epsilon:g}" for epsilon in EPSILONS), "no noise"],
        [row(task, delta) for task in tasks],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="of photos with the splits train and test")
    parser.add_argument("--delta", type=float, default=1e-5)
    given = parser.parse_args()
    print_machine()
    bench(given.folders, given.delta)
