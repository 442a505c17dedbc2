"""What unlabelled images are worth: the default with and without them, and other ways to use them.

Run: python unlabelled.py [FOLDER ...] [--labels 1 2 4 8 16] [--draws 3] [--pile 0 10 40 all] [--junk 0 0.1 0.3 0.6]
     [--ways without "with the pile" ...]

Tasks are those of accuracy.py. Of the pool so many images a class are labelled and the others are the pile; every way
reads the same responses. The first table compares ways; the second piles of so many images a class, with four labels;
the third piles of which a share is junk (images of the other tasks), and a pile of junk alone; the fourth piles whose
classes are as unequal as 1 to 20. Accuracy in percent on test images, the mean of the draws.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

import yoro
from accuracy import draw, gathered_of, read, tasks
from timing import print_machine, print_table
from yoro.data.responses import ResponseBatch
from yoro.discriminant.readings import Layout
from yoro.mappings.batches import row_digests
from yoro.model.model import Origin
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import FitSettings, SolveSettings
from yoro.model.solve import solve

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]  # labelled responses, their labels, the pile


@dataclass(frozen=True)
class Responses:
    """The responses of a task: the pool first, then the test images."""

    name: str
    layout: Layout
    rows: np.ndarray
    labels: np.ndarray
    pool: int

    @property
    def features(self) -> slice:
        return self.layout.compared


def fitted(task: Responses, labelled: np.ndarray, labels: np.ndarray, pile: np.ndarray) -> yoro.AffineMapping:
    """The default's mapping with a pile, as `yoro fit --unlabelled` makes it from the same responses."""
    gathered = gathered_of(task.layout, labelled, labels)
    if len(pile):
        names = [f"row {i}" for i in range(len(pile))]
        gathered.add_unlabelled([ResponseBatch(pile, None, None, row_digests(pile), names)], SolveSettings.reservoir, 0)
    return solve(gathered, SolveSettings(), Origin()).mapping


def with_pile(task: Responses, labelled: np.ndarray, labels: np.ndarray, pile: np.ndarray) -> np.ndarray:
    mapping = fitted(task, labelled, labels, pile)
    return np.array(mapping.classes)[mapping(task.rows[task.pool :]).argmax(axis=1)]


def without(task: Responses, labelled: np.ndarray, labels: np.ndarray, pile: np.ndarray) -> np.ndarray:
    return with_pile(task, labelled, labels, pile[:0])


def spreading(task: Responses, labelled: np.ndarray, labels: np.ndarray, pile: np.ndarray) -> np.ndarray:
    """Label spreading over the seven nearest neighbours by features."""
    classes, codes = np.unique(labels, return_inverse=True)
    rows = np.concatenate([labelled, pile])[:, task.features]
    model = LabelSpreading(kernel="knn", n_neighbors=7, max_iter=100)
    model.fit(rows, np.concatenate([codes, np.full(len(pile), -1)]))
    return classes[model.predict(task.rows[task.pool :, task.features])]


def self_training(task: Responses, labelled: np.ndarray, labels: np.ndarray, pile: np.ndarray) -> np.ndarray:
    """Logistic regression on features that takes its surest answers for labels."""
    classes, codes = np.unique(labels, return_inverse=True)
    rows = np.concatenate([labelled, pile])[:, task.features]
    model = SelfTrainingClassifier(LogisticRegression(C=100.0, max_iter=500), threshold=0.8)
    model.fit(rows, np.concatenate([codes, np.full(len(pile), -1)]))
    return classes[model.predict(task.rows[task.pool :, task.features])]


def transclip(task: Responses, labelled: np.ndarray, labels: np.ndarray, pile: np.ndarray) -> np.ndarray:
    """TransCLIP's objective (Zanella et al. 2024) on features, with nearest class means in the place of the texts.

    Gaussians of one diagonal covariance, a Laplacian over the three nearest neighbours, and a Kullback-Leibler term
    that holds the assignments to the first prediction. Test images are answered by the Gaussians.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    x, z = (_unit(part[:, task.features]) for part in (labelled, pile))
    hard = np.eye(len(classes))[codes]
    means = _unit(hard.T @ x / hard.sum(axis=0)[:, None])
    first = _softmax(100.0 * z @ means.T)
    affinity = z @ z.T
    np.fill_diagonal(affinity, 0.0)
    affinity[affinity < np.partition(affinity, -3, axis=1)[:, -3:-2]] = 0.0
    variance, soft = np.full(x.shape[1], 1.0 / x.shape[1]), first
    for _ in range(10):
        for _ in range(5):
            soft = first * _softmax(_gaussian(z, means, variance) + affinity @ soft)
            soft /= soft.sum(axis=1, keepdims=True)
        weight = 1.0 / len(x), 1.0 / len(z)
        mass = weight[0] * hard.sum(axis=0) + weight[1] * soft.sum(axis=0)
        means = (weight[0] * hard.T @ x + weight[1] * soft.T @ z) / mass[:, None]
        variance = (weight[0] * ((x - means[codes]) ** 2).sum(axis=0) + weight[1] * (
            (z**2).sum(axis=0) - 2 * np.einsum("nk,nd,kd->d", soft, z, means) + soft.sum(axis=0) @ means**2
        )) / 2 + 1e-9  # fmt: skip
    return classes[_gaussian(_unit(task.rows[task.pool :, task.features]), means, variance).argmax(axis=1)]


def _gaussian(rows: np.ndarray, means: np.ndarray, variance: np.ndarray) -> np.ndarray:
    scaled = rows / variance
    return -0.5 * ((rows * scaled).sum(axis=1)[:, None] - 2 * scaled @ means.T + (means**2 / variance).sum(axis=1))


def _softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


WAYS: dict[str, Callable[[Responses, np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "without": without,
    "with the pile": with_pile,
    "label spreading": spreading,
    "self-training": self_training,
    "TransCLIP": transclip,
}


def parts(task: Responses, labels: int, seed: int, each: int | None = None) -> Arrays:
    """So many labelled images a class, and the rest of the pool as a pile, of at most `each` a class."""
    rows = draw(task.labels, task.pool, labels, seed)
    pile = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(task.pool), rows))
    if each is not None:
        mine = [pile[task.labels[pile] == label][:each] for label in np.unique(task.labels)]
        pile = np.concatenate(mine)
    return task.rows[rows], task.labels[rows], task.rows[pile]


def unequal(task: Responses, labels: int, seed: int) -> Arrays:
    """A pile whose classes are from all of their images to a twentieth of them."""
    rows, rng = draw(task.labels, task.pool, labels, seed), np.random.default_rng(seed)
    classes = np.unique(task.labels)
    shares = rng.permutation(np.geomspace(1 / 20, 1, len(classes)))
    rest = rng.permutation(np.setdiff1d(np.arange(task.pool), rows))
    mine = [rest[task.labels[rest] == label] for label in classes]
    pile = np.concatenate([part[: max(1, round(s * len(part)))] for part, s in zip(mine, shares, strict=True)])
    return task.rows[rows], task.labels[rows], task.rows[pile]


def with_junk(task: Responses, others: np.ndarray, share: float, labels: int, seed: int) -> Arrays:
    """A pile of which a share is images of other tasks; 1: all of it."""
    known, names, pile = parts(task, labels, seed)
    count = len(pile) if share == 1 else round(share / (1 - share) * len(pile))
    junk = others[np.random.default_rng(seed).permutation(len(others))[:count]]
    return known, names, junk if share == 1 else np.concatenate([pile, junk])


def accuracy(task: Responses, way: str, made: Callable[[int], Arrays], draws: int) -> float:
    wanted = task.labels[task.pool :]
    return float(np.mean([100 * (WAYS[way](task, *made(seed)) == wanted).mean() for seed in range(draws)]))


def shown(task: Responses, made: Callable[[int], Arrays], draws: int) -> str:
    """The accuracy with the pile, for a table."""
    return f"{accuracy(task, 'with the pile', made, draws):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--labels", nargs="*", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--pile", nargs="*", default=["0", "10", "40", "all"])
    parser.add_argument("--junk", nargs="*", type=float, default=[0.0, 0.1, 0.3, 0.6, 1.0])
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS), help="of the first table")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # of classes without spread, and of scikit-learn
    print_machine()
    pipeline, all_ = make_pipeline(FitSettings().pipeline), []
    for task in tasks(chosen.folders):
        found, labels = read(task, pipeline), np.array([e.label for e in (*task.pool, *task.test)])
        all_.append(Responses(task.name, found.layout, found.responses, labels, len(task.pool)))
    rows = []
    for labels in chosen.labels:
        for task in all_:
            started, made = time.perf_counter(), partial(parts, task, labels)
            found = [f"{accuracy(task, way, made, chosen.draws):.1f}" for way in chosen.ways]
            rows.append([str(labels), task.name, *found, f"{time.perf_counter() - started:.0f}"])
    print_table("Ways to use a pile", ["labels", "task", *chosen.ways, "seconds"], rows)
    sizes = [None if size == "all" else int(size) for size in chosen.pile]
    rows = [
        [task.name, *(shown(task, partial(parts, task, 4, each=size), chosen.draws) for size in sizes)] for task in all_
    ]
    print_table("Piles of so many images a class, four labels a class", ["task", *chosen.pile], rows)
    rows = []
    for task in all_ if len(all_) > 1 else []:
        others = np.concatenate([other.rows for other in all_ if other is not task])
        for labels in (1, 4):
            piles = [partial(with_junk, task, others, share, labels) for share in chosen.junk]
            rows.append([str(labels), task.name, *(shown(task, made, chosen.draws) for made in piles)])
    print_table("Piles with junk", ["labels", "task", *(f"{share:.0%}" for share in chosen.junk)], rows)
    rows = []
    for labels in (1, 4):
        for task in all_:
            made = partial(unequal, task, labels)
            before = f"{accuracy(task, 'without', made, chosen.draws):.1f}"
            rows.append([str(labels), task.name, before, shown(task, made, chosen.draws)])
    print_table("Piles whose classes are as unequal as 1 to 20", ["labels", "task", "without", "with the pile"], rows)


if __name__ == "__main__":
    main()
