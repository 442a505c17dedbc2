"""How many decisions label a pile: the desk, active picks alone, and labels at random.

Run: python desk.py [FOLDER ...] [--photos 1000] [--decisions 150] [--seed 0] [--effort [PICTURE]]

A FOLDER holds CLASS/ or train/CLASS/ and test/CLASS/; all of its photos are the pile. Without folders: what accuracy.py
takes from registries. A simulated person who knows the truth names groups by what most of their photos are, throws the
strangers out, has the rest grouped again, and then checks the proposals that are expected to be wrong most often and
answers questions. A decision is one step of the desk, however many photos it is about; how many photos were thrown out
is told beside it. Accuracy is that of all photos, with the proposed label where a photo has no other.

With --effort: how many clicks it takes to classify test photos as well as 16 labels a class do (the mean of two draws),
and the curves up to there as a picture. A click is a decision or a photo that is selected to be thrown out. The
classifier is the default one of the labels given so far, the other photos of the pile unlabelled; so is that of 16
labels a class, drawn at random.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from accuracy import Task, read, tasks
from timing import print_machine, print_table
from unlabelled import Responses, accuracy, fitted, parts
from yoro.data.find import find
from yoro.desk.desk import Desk
from yoro.desk.proposals import Pile, Proposals
from yoro.discriminant.readings import Layout
from yoro.errors import DegenerateWarning
from yoro.mappings.batches import row_digests
from yoro.model.pipeline import make_pipeline

SMALL = 8  # photos of a group that is not worth naming, once the rest was grouped again
PURE = 0.4  # share of a group that its commonest class must have to be named
PAGES, QUESTIONS = 4, 3  # checked and answered before the next look at the proposals
STRIDE = 20  # decisions of naming between two looks
ENOUGH = 16  # labels a class whose accuracy is to be reached
WAYS = ("desk", "active picks", "random")

Curve = list[tuple[int, float]]  # clicks, and the accuracy then


class Person:
    """Knows the truth, and counts how many photos are thrown out."""

    def __init__(self, desk: Desk, truth: Sequence[str]) -> None:
        self.desk, self.truth, self.thrown = desk, truth, 0

    @property
    def clicks(self) -> int:
        return self.desk.decisions + self.thrown

    def name_groups(self, least: int) -> Iterator[None]:
        for group, rows in self.desk.groups().items():
            label, count = Counter(self.truth[row] for row in rows).most_common(1)[0]
            if len(rows) < least or count < PURE * len(rows):
                continue
            self.desk.name(group, label)
            if strangers := [row for row in rows if self.truth[row] != label]:
                self.desk.throw_out(group, strangers)
                self.thrown += len(strangers)
            yield

    def check(self, proposals: Proposals, label: str) -> None:
        rows = proposals.of_class(label)[0].tolist()
        wrong = [row for row in rows if self.truth[row] != label]
        right = [row for row in rows if self.truth[row] == label]
        if wrong:
            self.desk.refuse(wrong)
            self.thrown += len(wrong)
        if right:
            self.desk.label(right, label)

    def answer(self, row: int) -> None:
        self.desk.label(row, self.truth[row])


def accuracy_of(person: Person) -> float:
    """Of labels given and proposed."""
    proposals, labels = person.desk.proposals(), list(person.desk.labels)
    for row, label in zip(proposals.rows.tolist(), proposals.labels, strict=True):
        labels[row] = label
    return float(np.mean([a == b for a, b in zip(labels, person.truth, strict=True)]))


def by_desk(person: Person, most: int) -> Iterator[None]:
    """The way of the desk, in strides."""
    desk, told = person.desk, 0
    for _ in person.name_groups(1):
        if desk.decisions >= told + STRIDE:
            told = desk.decisions
            yield
    desk.regroup()
    for _ in person.name_groups(SMALL):
        pass
    yield
    while desk.decisions < most and desk.rest():
        proposals = desk.proposals()
        for label, _, _ in proposals.doubtful()[:PAGES]:
            if desk.decisions < most - 1:
                person.check(proposals, label)
        for row in desk.next_questions(QUESTIONS):
            if desk.decisions < most:
                person.answer(row)
        yield


def one_by_one(person: Person, most: int, each: int, rng: np.random.Generator | None) -> Iterator[None]:
    """Photos labelled one by one, so many at a stride: those that teach most, or any."""
    desk = person.desk
    while desk.decisions < most and desk.rest():
        stride = min(each, most - desk.decisions)
        rows = desk.next_questions(stride) if rng is None else rng.permutation(desk.rest())[:stride].tolist()
        for row in rows or desk.rest()[:stride]:
            person.answer(row)
        yield


def labelling(way: str, person: Person, most: int, each: int, seed: int) -> Iterator[None]:
    """One of the ways, in strides."""
    if way == "desk":
        return by_desk(person, most)
    return one_by_one(person, most, each, np.random.default_rng(seed) if way == "random" else None)


def curves(task: Task, pile: Pile, truth: Sequence[str], most: int, seed: int) -> list[list[str]]:
    """Decisions and accuracy along each way."""
    groups = Desk(pile).first_groups
    rows = []
    for way in WAYS:
        person = Person(Desk(pile, groups), truth)
        for _ in labelling(way, person, most, max(1, most // 5), seed):
            told = [task.name, way, str(person.desk.decisions), f"{100 * accuracy_of(person):.1f}", str(person.thrown)]
            print(*told, sep="\t", flush=True)
            rows.append(told)
    return rows


def pile_of(layout: Layout, responses: np.ndarray) -> Pile:
    return Pile(layout, responses, row_digests(responses), [f"photo {i}" for i in range(len(responses))])


def effort(data: Responses, seed: int) -> tuple[float, dict[str, Curve]]:
    """The accuracy of 16 labels a class on test photos, and that of each way after so many clicks, in percent."""
    pile, truth = pile_of(data.layout, data.rows[: data.pool]), data.labels[: data.pool].tolist()
    groups, classes = Desk(pile).first_groups, len(set(truth))
    target = accuracy(data, "with the pile", partial(parts, data, ENOUGH), 2)
    found: dict[str, Curve] = {way: [] for way in WAYS}
    for way in WAYS:
        person = Person(Desk(pile, groups), truth)
        for _ in labelling(way, person, ENOUGH * classes, 2 * classes, seed):
            found[way].append((person.clicks, accuracy_on_test(data, person.desk.labels)))
            print(data.name, way, *found[way][-1], f"(aim {target:.1f})", flush=True)
            if found[way][-1][1] >= target:
                break
    return target, found


def accuracy_on_test(data: Responses, given: Sequence[str | None]) -> float:
    """Of the default fit of the labels given, the other photos of the pile unlabelled; in percent."""
    known = np.array([label is not None for label in given])
    labels, pool = np.array([label for label in given if label is not None]), data.rows[: data.pool]
    mapping = fitted(data, pool[known], labels, pool[~known])
    answers = np.array(mapping.classes)[mapping(data.rows[data.pool :]).argmax(axis=1)]
    return 100 * float((answers == data.labels[data.pool :]).mean())


def reached(curve: Curve, target: float) -> str:
    """The clicks after which a curve is at the target for the first time."""
    return next((str(clicks) for clicks, found in curve if found >= target), f"more than {curve[-1][0]}")


def draw_curves(every: dict[str, tuple[float, dict[str, Curve]]], file: Path) -> None:
    """The curves of all tasks, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(every), 3.2), layout="constrained")
    for place, (name, (target, found)) in enumerate(every.items()):
        axes = figure.add_subplot(1, len(every), place + 1)
        axes.axhline(target, color="#777777", linestyle=":", label=f"{ENOUGH} labels a class")
        for (way, curve), colour in zip(found.items(), ("#0b6e4f", "#d1495b", "#33658a"), strict=True):
            axes.plot(*zip(*curve, strict=True), color=colour, marker="o", markersize=3, label=way)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("clicks")
        axes.set_ylim(bottom=max(0.0, target - 45))
    figure.axes[0].set_ylabel("accuracy on test photos, %")
    figure.axes[-1].legend(fontsize=8, loc="lower right")
    figure.savefig(file, dpi=100)


def print_effort(folders: Sequence[Path], file: Path, seed: int) -> None:
    pipeline, every, rows = make_pipeline(), dict[str, tuple[float, dict[str, Curve]]](), []
    for task in tasks(folders):
        labels = np.array([example.label for example in (*task.pool, *task.test)])
        data = Responses(task.name, pipeline.layout, read(task, pipeline).responses, labels, len(task.pool))
        target, found = every[task.name] = effort(data, seed)
        count = ENOUGH * len(np.unique(labels))
        rows.append([task.name, str(count), f"{target:.1f}", *(reached(found[way], target) for way in WAYS)])
        draw_curves(every, file)
    columns = ["photos", f"labels, {ENOUGH} a class", "accuracy, %", *WAYS]
    print_table("Clicks to the accuracy of 16 labels a class on test photos", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--decisions", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--effort", nargs="?", type=Path, const=Path("effort.png"), metavar="PICTURE")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DegenerateWarning)  # of the first labels
    print_machine()
    if options.effort is not None:
        print_effort(options.folders, options.effort, options.seed)
        return
    pipeline, rows = make_pipeline(), []
    found = [Task(folder.name, list(find(folder).examples), []) for folder in options.folders] or tasks([])
    for whole in found:
        everything = [*whole.pool, *whole.test]
        drawn = np.random.default_rng(options.seed).permutation(len(everything))[: options.photos]
        task = Task(whole.name, [everything[i] for i in drawn], [])
        pile = pile_of(pipeline.layout, read(task, pipeline).responses)
        truth = [example.label or "" for example in task.pool]
        rows += curves(task, pile, truth, options.decisions, options.seed)
    columns = ["photos", "way", "decisions", "accuracy, %", "thrown out"]
    print_table("Accuracy of all labels after so many decisions", columns, rows)


if __name__ == "__main__":
    main()
