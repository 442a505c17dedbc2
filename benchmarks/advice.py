"""How far off the forecasts of `yoro advise` are, how often their intervals hold, and what its choice of images buys.

Run: python advice.py [FOLDER ...] [--images 8] [--draws 10] [--constants]

A draw is of 5, 10, 20 or all classes, at random. With so many images a class (8) the accuracy with twice and four times
as many is forecast, and measured on the images that are left. --constants fits the constants of
`yoro/trust/forecast.py` to the draws, and shows the errors of constants that were fitted without the data they are
tested on. The second table starts with four images a class, labels two a class more, chosen by doubt, density and
spread, by doubt alone, and at random, and shows the accuracy on a third of the images that none of them may choose.
Data are those of accuracy.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

from accuracy import read, tasks
from timing import print_machine, print_table
from yoro.data.responses import ResponseBatch
from yoro.discriminant.calibration import log_probabilities, margins
from yoro.discriminant.readings import Layout
from yoro.mappings.batches import row_digests
from yoro.model.gathered import Gathered
from yoro.model.model import Model, Origin
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import FitSettings, SolveSettings
from yoro.model.solve import solve
from yoro.trust.active_learning import features_of, spread_doubt
from yoro.trust.learning_curve import forecast, terms

CLASSES = (5, 10, 10, 20, 1000)  # of a draw, at most
LEFT = 10  # images a class to test on, at least
START, MORE = 4, 2  # images a class to begin with, and that are labelled then


@dataclass(frozen=True)
class Data:
    """Responses to all images of a task."""

    name: str
    layout: Layout
    responses: np.ndarray
    labels: np.ndarray

    def fit(self, rows: np.ndarray) -> Model:
        """The default's model of some rows."""
        gathered, responses = Gathered.empty(len(rows), 0, self.layout), self.responses[rows]
        names = [f"row {i}" for i in rows]
        gathered.add([ResponseBatch(responses, self.labels[rows].tolist(), None, row_digests(responses), names)])
        return solve(gathered, SolveSettings(), Origin())

    def accuracy(self, model: Model, rows: np.ndarray) -> float:
        """The share of rows that a model answers rightly."""
        return float((model.mapping.predict(self.responses[rows]) == self.labels[rows]).mean())

    def shuffled(self, rng: np.random.Generator, classes: int) -> list[np.ndarray]:
        """The rows of some classes, each in a random order."""
        names = rng.permutation(np.unique(self.labels))[:classes]
        return [rng.permutation(np.flatnonzero(self.labels == name)) for name in names]


@dataclass(frozen=True)
class Case:
    """One forecast beside what came of it."""

    data: str
    images: int
    times: int
    classes: int
    margins: np.ndarray  # of the right class to the best other, by leave-one-out
    truth: float


def cases(data: Data, images: int, draws: int) -> Iterator[Case]:
    """Draws of classes and images."""
    for seed in range(draws):
        rng = np.random.default_rng([seed, images])
        own = data.shuffled(rng, int(rng.choice(CLASSES)))
        times = [t for t in (1, 2, 4) if min(map(len, own)) >= t * images + LEFT]
        rest = np.concatenate([rows[times[-1] * images :] for rows in own]) if times else np.empty(0)
        judged = None
        for t in times:
            model = data.fit(np.concatenate([rows[: t * images] for rows in own]))
            found = model.left_out() if judged is None else None
            if found is not None:
                logs = log_probabilities(found.scored.scores, model.choice.temperature)
                judged = -margins(logs, found.scored.truth)[0]
            if judged is not None:
                yield Case(data.name, images, t, len(own), judged, data.accuracy(model, rest))


def judge(found: list[Case]) -> list[str]:
    """Mean absolute error, mean error and coverage of forecasts, in percent."""
    points = [forecast(case.images, case.margins, case.classes, [case.times])[0] for case in found]
    errors = np.array([point.accuracy - case.truth for point, case in zip(points, found, strict=True)])
    naive = np.array([float((case.margins > 0).mean()) - case.truth for case in found])
    held = [point.low <= case.truth <= point.high for point, case in zip(points, found, strict=True)]
    figures = (np.abs(errors).mean(), errors.mean(), np.abs(naive).mean(), np.mean(held))
    return [str(len(found)), *(f"{100 * figure:.1f}" for figure in figures)]


def columns(case: Case) -> np.ndarray:
    return terms(case.margins, case.classes, case.images, case.times)


def constants(found: list[Case]) -> np.ndarray:
    """Least squares on the scale of the normal quantile; every task has the same weight."""
    sizes = {case.data: sum(other.data == case.data for other in found) for case in found}
    weights = np.sqrt([1 / sizes[case.data] for case in found])
    truth = ndtri(np.clip([case.truth for case in found], 0.002, 0.998))
    rows = np.array([columns(case) for case in found])
    return np.linalg.lstsq(rows * weights[:, None], truth * weights, rcond=None)[0]


def print_constants(found: list[Case]) -> None:
    """The constants of all data, and the error of those of all other data on each."""
    print("START, FEW, GROWTH, SLOPE, MANY:", constants(found).round(3))
    for name in sorted({case.data for case in found}):
        mine, others = ([case for case in found if (case.data == name) == own] for own in (True, False))
        if not others:
            return
        errors = ndtr(np.array([columns(case) for case in mine]) @ constants(others)) - [case.truth for case in mine]
        print(f"  {name}, by the constants of the others: off by {100 * np.abs(errors).mean():.1f} points")


def choices(data: Data, seed: int) -> dict[str, float]:
    """Accuracy after labels for images chosen in three ways, and before."""
    rng = np.random.default_rng(seed)
    own = data.shuffled(rng, 1000)
    start = np.concatenate([rows[:START] for rows in own])
    rest = np.concatenate([rows[-(len(rows) // 3) :] for rows in own])
    pool = np.concatenate([rows[START : -(len(rows) // 3)] for rows in own])
    model, count = data.fit(start), MORE * len(own)
    probabilities = np.exp(log_probabilities(model.mapping(data.responses[pool]), model.choice.temperature))
    two, features = np.sort(probabilities, axis=1)[:, -2:], features_of(model, data.responses[pool])
    ways = {
        "at random": rng.permutation(len(pool))[:count],
        "by doubt": np.argsort(two[:, 1] - two[:, 0])[:count],
        "by doubt, density and spread": np.array(spread_doubt(probabilities, features, count)),
    }
    found = {"before": data.accuracy(model, rest)}
    return found | {
        way: data.accuracy(data.fit(np.concatenate([start, pool[rows]])), rest) for way, rows in ways.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--images", nargs="*", type=int, default=[8], help="images a class to forecast from")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--constants", action="store_true", help="fit the constants of the forecast")
    options = parser.parse_args()
    print_machine()
    pipeline = make_pipeline(FitSettings().pipeline)
    every, rows, chosen = list[Case](), [], []
    for task in tasks(options.folders):
        labels = np.array([example.label for example in (*task.pool, *task.test)])
        data = Data(task.name, pipeline.layout, read(task, pipeline).responses, labels)
        for images in options.images:
            found = list(cases(data, images, options.draws))
            every += found
            for times in (1, 2, 4):
                mine = [case for case in found if case.times == times]
                if mine:
                    rows.append([data.name, str(images), str(images * times), *judge(mine)])
                    print(*rows[-1], sep="  ", flush=True)
        draws = [choices(data, seed) for seed in range(options.draws)]
        chosen.append([data.name, *(f"{100 * np.mean([draw[way] for draw in draws]):.1f}" for way in draws[0])])
        print(*chosen[-1], sep="  ", flush=True)
    for images in options.images:
        for times in (1, 2, 4):
            mine = [case for case in every if (case.images, case.times) == (images, times)]
            if mine:
                rows.append(["all", str(images), str(images * times), *judge(mine)])
    head = ["data", "from", "to", "draws", "off by", "on average", "leave-one-out off by", "interval holds"]
    print_table("Forecasts of accuracy with more images a class: points, and percent of the draws", head, rows)
    ways = ["before", "at random", "by doubt", "by doubt, density and spread"]
    print_table(f"Accuracy (%) with {MORE} images a class more than {START}, chosen", ["data", *ways], chosen)
    if options.constants:
        print_constants(every)


if __name__ == "__main__":
    main()
