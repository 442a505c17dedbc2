"""What can be trusted: calibration, sets of labels, unknown images, wrong labels; each measured on images set aside.

Run: python trust.py [FOLDER ...] [--draws 5] [--test 300] [--only unknown|planted]

Images as in accuracy.py. Of every draw 5 or 16 images a class are fitted, and images that were not are answered.
Planted: labels are made wrong, and their number is told. Unknown: a third of the classes is hidden; the usual
out-of-distribution score beside the one that is chosen.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from accuracy import Task, draw, gathered_of, read, tasks
from timing import print_machine, print_table
from yoro.discriminant.calibration import log_probabilities, margins
from yoro.discriminant.readings import Layout
from yoro.errors import LabelWarning
from yoro.mappings.batches import class_codes, row_digests
from yoro.model.metrics import Tally
from yoro.model.model import Model, Origin
from yoro.model.pipeline import make_pipeline
from yoro.model.question import FULL, SETS_BY
from yoro.model.settings import FitSettings, SolveSettings
from yoro.model.solve import solve
from yoro.trust.conformal_sets import left_out_sets
from yoro.trust.detector_choice import auroc, choose_terms
from yoro.trust.label_issues import expected_wrong_labels
from yoro.trust.out_of_distribution import left_out_scores, usual_term

COVERAGE = 0.9
LOST = 0.05  # of the known images, by --unknown
FLIPPED = 0.05  # of the labels
PLANTED = (0.0, 0.01, 0.04, 0.1)  # shares of wrong labels whose number is to be told
PLANTED_SHOTS = 40  # images a class, as many as there are
FIRST, REVIEWED = 0.10, 0.07  # of the ranking


class Drawn:
    """A model of one draw, and what was not fitted."""

    def __init__(self, layout: Layout, responses: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> None:
        self.layout, self.responses, self.labels, self.rows = layout, responses, labels, rows
        self.model = fitted(layout, responses[rows], labels[rows])

    def answers(self, rows: np.ndarray) -> np.ndarray:
        return log_probabilities(self.model.mapping(self.responses[rows]), self.model.choice.temperature)

    def truth(self, rows: np.ndarray) -> np.ndarray:
        return class_codes(self.labels[rows].tolist(), self.model.statistics.classes)


def fitted(layout: Layout, responses: np.ndarray, labels: np.ndarray) -> Model:
    """The default's model of responses."""
    return solve(gathered_of(layout, responses, labels), SolveSettings(), Origin())


def error(logs: np.ndarray, truth: np.ndarray, classes: tuple[str, ...]) -> float:
    """Expected calibration error, as `evaluate` gives it."""
    tally = Tally(classes)
    tally.update(logs, [classes[i] for i in truth])
    return float(tally.result().calibration_error)


def calibration(drawn: Drawn, test: np.ndarray) -> list[float]:
    """Calibration error before the temperature, and after."""
    logs, truth, choice = drawn.answers(test), drawn.truth(test), drawn.model.choice
    parts = [part.weight / part.temperature for part in choice.parts] or [1.0]
    before = log_probabilities(drawn.model.mapping(drawn.responses[test]) / sum(parts), 1.0)
    return [error(before, truth, drawn.model.statistics.classes), error(logs, truth, drawn.model.statistics.classes)]


def sets(drawn: Drawn, test: np.ndarray, way: str) -> list[float]:
    """Coverage where a set may be empty, size where not, milliseconds an image."""
    logs, truth = drawn.answers(test), drawn.truth(test)
    made = left_out_sets(drawn.model, COVERAGE, way, empty=True)
    started = time.perf_counter()
    inside = made(drawn.responses[test], logs)
    seconds = (time.perf_counter() - started) / len(test)
    covered = inside[np.arange(len(test)), truth].mean()
    inside[np.arange(len(test)), logs.argmax(axis=1)] = True
    return [float(covered), float(inside.sum(axis=1).mean()), 1000 * seconds]


def unknown(drawn: Drawn, test: np.ndarray, hidden: np.ndarray, others: Sequence[np.ndarray]) -> list[float]:
    """By the usual score and by the chosen one: AUROC against the hidden classes, the least against other data, and
    the share of known images accepted; then whether another one than the usual was chosen, and the seconds it took.
    """
    model, known, figures = drawn.model, drawn.responses[test], []
    members, usual = model.members(), usual_term(model)
    assert members is not None
    started = time.perf_counter()
    chosen = choose_terms(drawn.layout, usual, members)
    seconds = time.perf_counter() - started
    for terms in ((usual,), chosen):
        measure = left_out_scores(model, members, terms)[0]
        strange = measure(known)
        outside = [auroc(strange, measure(rows)) for rows in others]
        hard = auroc(strange, measure(drawn.responses[hidden]))
        accepted = float((measure.typicality(known) > LOST).mean())
        figures += [hard, min(outside, default=float("nan")), accepted]
    return [*figures, float(chosen != (usual,)), seconds]


def wrong_labels(drawn: Drawn, test: np.ndarray, seed: int) -> list[float]:
    """Flipped labels in the first tenth, right classes proposed, and accuracy clean, flipped and reviewed."""
    rng, rows = np.random.default_rng(seed), drawn.rows
    classes = np.array(drawn.model.statistics.classes)
    clean = drawn.labels[rows]
    flipped = rng.permutation(len(rows))[: max(1, round(FLIPPED * len(rows)))]
    labels = clean.copy()
    for i in flipped:
        labels[i] = rng.choice(classes[classes != clean[i]])
    model = fitted(drawn.layout, drawn.responses[rows], labels)
    found = model.left_out()
    assert found is not None
    assert model.reservoir is not None
    members = model.reservoir.members()
    where = {digest: i for i, digest in enumerate(row_digests(drawn.responses[rows]))}
    order = np.array([where[members.digests[row]] for row in found.rows])
    logs, truth = log_probabilities(found.scored.scores, model.choice.temperature), found.scored.truth
    margin, best = margins(logs, truth)
    ranked = np.argsort(-margin)
    first = set(order[ranked[: round(FIRST * len(rows))]].tolist())
    proposed = {int(order[i]): str(classes[best[i]]) for i in range(len(logs))}
    caught = np.mean([i in first for i in flipped])
    right = np.mean([proposed.get(int(i)) == clean[i] for i in flipped])
    reviewed = labels.copy()
    for i in order[ranked[: round(REVIEWED * len(rows))]]:
        reviewed[i] = clean[i]
    accuracies = []
    for given in (clean, labels, reviewed):
        mapping = fitted(drawn.layout, drawn.responses[rows], given).mapping
        accuracies.append(float((mapping.predict(drawn.responses[test]) == drawn.labels[test]).mean()))
    return [float(caught), float(right), *accuracies]


def told(
    responses: np.ndarray, labels: np.ndarray, layout: Layout, share: float, alike: bool, seed: int
) -> list[float]:
    """Planted wrong labels, how many are expected, listed as wrong and planted, and listed where none is cut.

    alike : whether a wrong label is the class that the clean model holds most probable besides the right one.
    """
    rng = np.random.default_rng(seed)
    rows = draw(labels, len(labels), PLANTED_SHOTS, seed)
    clean, mine = labels[rows], responses[rows]
    logs, order = left_out_logs(layout, mine, clean)
    classes = np.unique(clean)
    _, second = margins(logs, class_codes(clean[order].tolist(), tuple(classes)))
    other = dict(zip(order.tolist(), second.tolist(), strict=True))
    flipped = rng.permutation(len(rows))[: round(share * len(rows))]
    given = clean.copy()
    for i in flipped.tolist():
        given[i] = classes[other[i]] if alike and i in other else rng.choice(classes[classes != clean[i]])
    logs, order = left_out_logs(layout, mine, given)
    truth = class_codes(given[order].tolist(), tuple(classes))
    expected, (margin, _) = expected_wrong_labels(logs, truth), margins(logs, truth)
    strong = order[np.argsort(-margin)[: min(round(expected), int((margin > 0).sum()))]]
    return [len(flipped), expected, float(np.isin(strong, flipped).sum()), float((margin > 0).sum())]


def left_out_logs(layout: Layout, responses: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave-one-out log-probabilities of a default fit, and the rows that they are of."""
    model = fitted(layout, responses, labels)
    found = model.left_out()
    assert found is not None
    assert model.reservoir is not None
    members = model.reservoir.members()
    where = {digest: i for i, digest in enumerate(row_digests(responses))}
    order = np.array([where[members.digests[row]] for row in found.rows])
    return log_probabilities(found.scored.scores, model.choice.temperature), order


def print_planted(data: Sequence[tuple[Task, np.ndarray, np.ndarray]], layout: Layout, draws: int) -> None:
    """The table of planted wrong labels."""
    rows = []
    for task, responses, labels in data:
        for alike in (False, True):
            for share in PLANTED if not alike else PLANTED[2:3]:
                each = [told(responses, labels, layout, share, alike, seed) for seed in range(draws)]
                planted, expected, hits, errors = np.mean(each, axis=0)
                precision = f"{100 * hits / round(expected):.0f}" if round(expected) else "-"
                recall = f"{100 * hits / planted:.0f}" if planted else "-"
                how = "the likeliest other class" if alike else "any other class"
                rows.append([task.name, how, f"{planted:.0f}", f"{expected:.1f}", precision, recall, f"{errors:.0f}"])
    columns = ["data", "taken for", "planted", "expected", "precision (%)", "recall (%)", "another class more probable"]
    print_table(f"Wrong labels among at most {PLANTED_SHOTS} images a class, means of {draws} draws", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--test", type=int, default=300, help="images answered a draw")
    parser.add_argument("--only", choices=("unknown", "planted"), help="measure this alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore", LabelWarning)
    print_machine()
    pipeline = make_pipeline(FitSettings().pipeline)
    data: list[tuple[Task, np.ndarray, np.ndarray]] = []
    for task in tasks(options.folders):
        found = read(task, pipeline)
        data.append((task, found.responses, np.array([e.label for e in (*task.pool, *task.test)])))
    if options.only != "unknown":
        print_planted(data, pipeline.layout, options.draws)
    if options.only == "planted":
        return
    rows: dict[str, list[list[str]]] = {name: [] for name in ("calibration", "sets", "unknown", "labels")}
    for task, responses, labels in data:
        everything = np.arange(len(labels))
        for shots in () if options.only else (5, 16):
            drawn = []
            for seed in range(options.draws):
                mine = draw(labels, len(labels), shots, seed)
                rest = np.random.default_rng(seed).permutation(np.setdiff1d(everything, mine))[: options.test]
                drawn.append((Drawn(pipeline.layout, responses, labels, mine), rest))
            before, after = np.mean([calibration(*one) for one in drawn], axis=0)
            rows["calibration"].append([task.name, str(shots), f"{before:.3f}", f"{after:.3f}"])
            for way in SETS_BY:
                few = [(one, rest[:40] if way == FULL else rest) for one, rest in drawn]
                if way == FULL and len(np.unique(labels)) > 20:
                    continue  # a second an image
                covered, size, each = np.mean([sets(*one, way) for one in few], axis=0)
                rows["sets"].append([task.name, str(shots), way, f"{100 * covered:.1f}", f"{size:.2f}", f"{each:.0f}"])
            if shots == 16:
                figures = np.mean([wrong_labels(*one, seed) for seed, one in enumerate(drawn)], axis=0)
                rows["labels"].append([task.name, *(f"{100 * figure:.1f}" for figure in figures)])
        hard = []
        for seed in range(options.draws):
            names = np.random.default_rng(seed).permutation(np.unique(labels))
            kept = np.isin(labels, names[len(names) // 3 :])
            mine = np.flatnonzero(kept)[draw(labels[kept], int(kept.sum()), 16, seed)]
            one = Drawn(pipeline.layout, responses, labels, mine)
            test = np.random.default_rng(seed).permutation(np.setdiff1d(np.flatnonzero(kept), mine))[: options.test]
            others = [more[: options.test] for other, more, _ in data if other is not task]
            hard.append(unknown(one, test, np.flatnonzero(~kept), others))
        means = np.mean(hard, axis=0)
        scores = [f"{100 * mean:.1f}" if i % 3 == 2 else f"{mean:.3f}" for i, mean in enumerate(means[:6])]
        rows["unknown"].append([task.name, *scores, f"{100 * means[6]:.0f}", f"{means[7]:.1f}"])
    draws = f"means of {options.draws} draws"
    if not options.only:
        print_table(
            f"Calibration error, {draws}", ["data", "images a class", "temperature 1", "fitted"], rows["calibration"]
        )
        columns = ["data", "images a class", "by", "coverage (%)", "size of a set", "ms an image"]
        print_table(f"Sets of labels, {100 * COVERAGE:g} % asked for, {draws}", columns, rows["sets"])
        columns = ["data", "in the first tenth", "right class proposed", "clean", "flipped", "7 % reviewed"]
        print_table(f"5 % of the labels flipped (%), 16 images a class, {draws}", columns, rows["labels"])
    scores = ["AUROC, a third of the classes hidden", "other data, least AUROC", "known accepted (%)"]
    columns = ["data", *(f"{name}: {score}" for name in ("usual", "chosen") for score in scores)]
    print_table(
        f"Unknown, 16 images a class, {100 * (1 - LOST):g} % of the known asked for, {draws}",
        [*columns, "another than the usual chosen (%)", "seconds to choose"],
        rows["unknown"],
    )


if __name__ == "__main__":
    main()
