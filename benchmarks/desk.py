"""How many decisions label a pile: the desk, active picks alone, and labels at random.

Run: python desk.py [FOLDER ...] [--photos 1000] [--decisions 150] [--seed 0]

A FOLDER holds CLASS/ or train/CLASS/ and test/CLASS/; all of its photos are the pile. Without folders: what accuracy.py
takes from registries. A simulated person who knows the truth names groups by what most of their photos are, throws the
strangers out, has the rest grouped again, and then checks the proposals that are expected to be wrong most often and
answers questions. A decision is one step of the desk, however many photos it is about; how many photos were thrown out
is told beside it. Accuracy is that of all photos, with the proposed label where a photo has no other.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from accuracy import Task, read, tasks
from timing import print_machine, print_table
from yoro.data.find import find
from yoro.desk.desk import Desk
from yoro.desk.proposals import Pile, Proposals
from yoro.mappings.batches import row_digests
from yoro.model.pipeline import make_pipeline

SMALL = 8  # photos of a group that is not worth naming, once the rest was grouped again
PURE = 0.4  # share of a group that its commonest class must have to be named
PAGES, QUESTIONS = 4, 3  # checked and answered before the next look at the proposals


class Person:
    """Knows the truth, and counts how many photos are thrown out."""

    def __init__(self, desk: Desk, truth: Sequence[str]) -> None:
        self.desk, self.truth, self.thrown = desk, truth, 0

    def name_groups(self, least: int) -> None:
        for group, rows in self.desk.groups().items():
            label, count = Counter(self.truth[row] for row in rows).most_common(1)[0]
            if len(rows) < least or count < PURE * len(rows):
                continue
            self.desk.name(group, label)
            if strangers := [row for row in rows if self.truth[row] != label]:
                self.desk.throw_out(group, strangers)
                self.thrown += len(strangers)

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
    desk = person.desk
    person.name_groups(1)
    desk.regroup()
    person.name_groups(SMALL)
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


def one_by_one(person: Person, most: int, rng: np.random.Generator | None) -> Iterator[None]:
    """Photos labelled one by one: those that teach most, or any."""
    desk = person.desk
    while desk.decisions < most and desk.rest():
        stride = max(1, min(most // 5, most - desk.decisions))
        rows = desk.next_questions(stride) if rng is None else rng.permutation(desk.rest())[:stride].tolist()
        for row in rows or desk.rest()[:stride]:
            person.answer(row)
        yield


def curves(task: Task, pile: Pile, truth: Sequence[str], most: int, seed: int) -> list[list[str]]:
    """Decisions and accuracy along each way."""
    groups = Desk(pile).first_groups
    rows = []
    for way in ("desk", "active picks", "random"):
        person = Person(Desk(pile, groups), truth)
        rng = np.random.default_rng(seed) if way == "random" else None
        for _ in by_desk(person, most) if way == "desk" else one_by_one(person, most, rng):
            told = [task.name, way, str(person.desk.decisions), f"{100 * accuracy_of(person):.1f}", str(person.thrown)]
            print(*told, sep="\t", flush=True)
            rows.append(told)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--decisions", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print_machine()
    pipeline, rows = make_pipeline(), []
    found = [Task(folder.name, list(find(folder).examples), []) for folder in options.folders] or tasks([])
    for whole in found:
        everything = [*whole.pool, *whole.test]
        drawn = np.random.default_rng(options.seed).permutation(len(everything))[: options.photos]
        task = Task(whole.name, [everything[i] for i in drawn], [])
        responses = read(task, pipeline).responses
        names = [example.name for example in task.pool]
        pile = Pile(pipeline.layout, responses, row_digests(responses), names)
        truth = [example.label or "" for example in task.pool]
        rows += curves(task, pile, truth, options.decisions, options.seed)
    columns = ["photos", "way", "decisions", "accuracy, %", "thrown out"]
    print_table("Accuracy of all labels after so many decisions", columns, rows)


if __name__ == "__main__":
    main()
