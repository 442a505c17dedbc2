"""The tray of unsorted photos: groups that look alike, to be split and joined, and labels to accept at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from yoro.desk.grouping import compared_space, group_alike
from yoro.desk.proposals import Proposals
from yoro.errors import InputError
from yoro.model.answers import log_answers
from yoro.model.model import Json
from yoro.studio.background_learner import Learner
from yoro.studio.edits import UNSORTED
from yoro.studio.solving import Learned
from yoro.studio.training_data import Rows
from yoro.studio.workspace import Workspace

FEWEST = 2  # photos that can be grouped


class Tray:
    """Groups of the unsorted photos; they stay as they are while some of them get their class."""

    def __init__(self, work: Workspace, learner: Learner) -> None:
        self._work, self._learner = work, learner
        self._groups: list[list[str]] = []
        self._lock = threading.Lock()  # of the groups

    def to_json(self) -> Json:
        """The groups, the largest first, and what can be accepted; by digests."""
        with self._work.lock:
            unsorted = self._work.state.members(UNSORTED)
        found = {digest: self._learner.response(digest) for digest in unsorted}
        rows = {digest: row for digest, row in found.items() if row is not None}
        learned = self._learner.learned
        proposed = {"accept": [], "expected": None} if learned is None or not rows else acceptable(learned, rows)
        return {"groups": self._grouped(rows), "waiting": len(unsorted) - len(rows), **proposed}

    def split(self, photos: Sequence[str]) -> None:
        """Part a group in two by what its photos look like."""
        rows = {digest: row for digest in photos if (row := self._learner.response(digest)) is not None}
        halves = groups_of(list(rows), rows, self._learner, 2)
        if len(halves) < FEWEST:
            raise InputError("This group cannot be split: its photos are all the same.")
        self._regroup(photos, halves)

    def join(self, photos: Sequence[str]) -> None:
        """Make one group of the photos of several."""
        self._regroup(photos, [list(photos)])

    def _regroup(self, photos: Sequence[str], groups: list[list[str]]) -> None:
        """Put groups in the place of the first that had any of their photos."""
        taken = set(photos)
        with self._lock:
            if not taken <= set().union(*self._groups):
                raise InputError("These photos are no longer in a group; another page may have sorted them.")
            at = next(i for i, group in enumerate(self._groups) if taken.intersection(group))
            rest = [[digest for digest in group if digest not in taken] for group in self._groups]
            self._groups = [*rest[:at], *groups, *rest[at:]]

    def _grouped(self, rows: Rows) -> list[list[str]]:
        """The groups of before without what left them; all anew if there is a photo that is in none."""
        with self._lock:
            if not set().union(*self._groups).issuperset(rows):
                self._groups = groups_of(list(rows), rows, self._learner)
            groups = self._groups
        return [kept for group in groups if (kept := [digest for digest in group if digest in rows])]


def groups_of(digests: Sequence[str], rows: Rows, learner: Learner, count: int | None = None) -> list[list[str]]:
    """Photos that look alike, the largest group first; in a group, those nearest to its middle first."""
    if len(digests) < FEWEST:
        return [list(digests)] if digests else []
    space = compared_space(learner.pipeline.layout, np.stack([rows[digest] for digest in digests]))
    codes, groups = group_alike(space, count), []
    for code in range(int(codes.max()) + 1):
        mine = np.flatnonzero(codes == code)
        order = np.argsort(-(space[mine] @ space[mine].mean(axis=0)), kind="stable")
        groups.append([digests[i] for i in mine[order]])
    return groups


def acceptable(learned: Learned, rows: Rows) -> Json:
    """Labels to accept at once, in parts of which a known share is expected to be right; and this share of all."""
    digests, model = list(rows), learned.classifier.model
    probabilities = np.exp(log_answers(model, np.stack(list(rows.values()))))
    found = Proposals(np.arange(len(digests)), model.mapping.classes, probabilities)
    labels = found.labels
    parts = [
        {"expected": round(expected, 4), "photos": {digests[i]: labels[i] for i in chosen}}
        for chosen, expected in found.acceptable()
    ]
    return {"accept": parts, "expected": float(found.chances.mean())}
