"""The desk: which group every photo is in and which label it has, changed by steps that can be undone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from yoro.data.examples import checked_label
from yoro.desk.grouping import compared_space, group_alike
from yoro.desk.proposals import Pile, Proposals, propose
from yoro.errors import InputError, counted

REST, OUT = 0, -1  # the groups of photos without a group, and of photos that are left out of the result
UNDO: Mapping[str, object] = {"undo": True}
REDO: Mapping[str, object] = {"redo": True}

Entry = Mapping[str, object]  # a step as the journal keeps it


class Place(NamedTuple):
    """Where a photo is: its group, its label, whether a person saw it there, and the labels it was refused."""

    group: int
    label: str | None = None
    seen: bool = False
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One decision of a person: the places of some photos before and after."""

    what: str
    rows: tuple[int, ...]
    before: tuple[Place, ...]
    after: tuple[Place, ...]
    group: int = REST  # that photos were thrown out of

    def to_json(self) -> Entry:
        """Plain values; `from_json` gives the step back."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, value: Mapping[str, object], count: int) -> Step:
        """The step that plain values describe, of a pile of `count` photos; a ValueError if they do not."""
        rows, before, after = (value[key] for key in ("rows", "before", "after"))
        if not (isinstance(rows, list) and isinstance(before, list) and isinstance(after, list)):
            raise ValueError("a step is not a list of photos")
        if not len(rows) == len(before) == len(after) or not all(type(row) is int and 0 <= row < count for row in rows):
            raise ValueError("a step is of photos that are not there")
        was, now = (tuple(_place(one) for one in side) for side in (before, after))
        return cls(str(value["what"]), tuple(rows), was, now, int(str(value["group"])))


def _place(value: Sequence[object]) -> Place:
    group, label, seen, refused = value
    if type(group) is not int or not isinstance(label, str | None) or not isinstance(refused, list | tuple):
        raise ValueError("a photo is in no possible place")
    return Place(group, label, bool(seen), tuple(map(str, refused)))


class Desk:
    """A pile of photos in groups, and the labels that they have so far.

    Photos are identified by their rows in the pile. `note` is called with every step before it is taken, `entries` are
    the steps of an earlier session. Every verb is one decision of a person; `decisions` counts them.
    """

    def __init__(
        self, pile: Pile, groups: Sequence[int] | None = None, entries: Iterable[Entry] = (),
        note: Callable[[Entry], None] = lambda _: None,
    ) -> None:  # fmt: skip
        if not len(pile):
            raise InputError("The pile has no photo that can be read.")
        self.pile, self.lock = pile, threading.RLock()
        self.space = compared_space(pile.layout, pile.responses)
        first = (group_alike(self.space) + 1).tolist() if groups is None else list(groups)
        if len(first) != len(pile):
            raise InputError(f"There are groups of {len(first):,} photos; the pile has {len(pile):,}.")
        self.first_groups: list[int] = first
        self.places = [Place(group) for group in first]
        self.done: list[Step] = []
        self.undone: list[Step] = []
        self.revision = 0  # steps so far, undoing among them
        self._known: tuple[int, Proposals] | None = None
        self._note: Callable[[Entry], None] = lambda _: None
        for entry in entries:
            if entry == UNDO:
                self.undo()
            elif entry == REDO:
                self.redo()
            else:
                self._do(Step.from_json(entry, len(pile)))
        self._note = note

    @property
    def decisions(self) -> int:
        """Number of steps, without those that were undone."""
        return len(self.done)

    @property
    def classes(self) -> list[str]:
        return sorted({place.label for place in self.places if place.label is not None})

    @property
    def labels(self) -> list[str | None]:
        """The label of every photo; None for what has none or is left out."""
        return [place.label for place in self.places]

    def groups(self) -> dict[int, list[int]]:
        """The rows of every group that has no name yet, the largest group first."""
        found: dict[int, list[int]] = {}
        for row, place in enumerate(self.places):
            if place.group > 0 and place.label is None:
                found.setdefault(place.group, []).append(row)
        return dict(sorted(found.items(), key=lambda one: (-len(one[1]), one[0])))

    def members(self, group: int) -> list[int]:
        """The rows of a group, those nearest to its middle first."""
        rows = [row for row, place in enumerate(self.places) if place.group == group]
        if group <= REST or not rows:
            return rows
        inside = self.space[rows]
        return [rows[i] for i in np.argsort(-(inside @ inside.mean(axis=0)), kind="stable")]

    def of_class(self, label: str) -> list[int]:
        return [row for row, place in enumerate(self.places) if place.label == label]

    def rest(self) -> list[int]:
        """The rows without a label that are not left out, in groups or not."""
        return _unlabelled(self.places)

    def name(self, group: int, label: str) -> None:
        """Give a label to all photos of a group; those thrown out of it before are not of that class."""
        label, mine = checked_label(label), self._group(group)
        gone = {row for step in self.done if step.group == group for row in step.rows}
        gone = {row for row in gone if self.places[row].group != group and self.places[row].label is None}
        changed = {row: self.places[row]._replace(label=label, seen=True) for row in mine}
        changed |= {row: _refusing(self.places[row], label) for row in gone}
        self._take(f"Name a group of {len(mine):,} {label}", changed)

    def throw_out(self, group: int, rows: Iterable[int]) -> None:
        """Put photos of a group among the rest; of a group with a name, they are known not to be of its class."""
        mine, wanted = set(self._group(group)), self._rows(rows)
        if not mine.issuperset(wanted):
            raise InputError(f"Photo {min(set(wanted) - mine)} is not in group {group}.")
        changed = {row: _refusing(self.places[row], self.places[row].label)._replace(group=REST) for row in wanted}
        self._take(f"Throw out {counted(len(wanted), 'photo')}", changed, group=group)

    def refuse(self, rows: Iterable[int]) -> None:
        """Say that photos do not have the label that they have, or that is proposed for them."""
        wanted = self._rows(rows)
        proposed = self._proposed()
        labels = {row: self.places[row].label or proposed.get(row) for row in wanted}
        changed = {row: _refusing(self.places[row], labels[row])._replace(group=REST) for row in wanted}
        self._take(f"Throw out {counted(len(wanted), 'photo')}", changed)

    def split(self, group: int) -> int:
        """Part a group in two by what its photos look like; returns the number of the new group."""
        mine = self._group(group)
        halves = group_alike(self.space[mine], 2)
        if not halves.any():
            raise InputError("This group cannot be split: its photos are all the same.")
        new = self._new_group()
        changed = {row: self.places[row]._replace(group=new) for row, half in zip(mine, halves, strict=True) if half}
        self._take(f"Split a group of {len(mine):,}", changed)
        return new

    def regroup(self) -> None:
        """Group all photos without a label anew: among what was thrown out, classes show that were hidden before."""
        rest = self.rest()
        if len(rest) < 2:
            raise InputError("There is nothing left to group: every photo has a label or is left out.")
        codes = group_alike(compared_space(self.pile.layout, self.pile.responses[rest]))
        first = self._new_group()
        pairs = zip(rest, codes.tolist(), strict=True)
        changed = {row: self.places[row]._replace(group=first + code) for row, code in pairs}
        self._take(f"Group {counted(len(rest), 'photo')} again", changed)

    def join(self, group: int, other: int) -> None:
        """Put the photos of another group into a group, under its name if it has one."""
        into, more = self._group(group), self._group(other)
        if group == other:
            raise InputError("A group cannot be joined with itself.")
        place = self.places[into[0]]
        changed = {row: self.places[row]._replace(group=group, label=place.label, seen=place.seen) for row in more}
        self._take(f"Join groups of {len(into):,} and {len(more):,}", changed)

    def label(self, rows: int | Iterable[int], label: str) -> None:
        """Give photos a label, each of which a person has seen."""
        label, wanted = checked_label(label), self._rows([rows] if isinstance(rows, int) else rows)
        changed = {row: self.places[row]._replace(label=label, seen=True, group=REST) for row in wanted}
        self._take(f"Label {counted(len(wanted), 'photo')} {label}", changed)

    def accept(self, rows: Iterable[int]) -> None:
        """Give photos their proposed labels without looking at each; these labels are not learned from."""
        wanted, proposed = self._rows(rows), self._proposed()
        for row in wanted:
            if row not in proposed:
                raise InputError(f"No label is proposed for photo {row}.")
        changed = {row: self.places[row]._replace(label=proposed[row], seen=False, group=REST) for row in wanted}
        self._take(f"Accept {counted(len(wanted), 'proposed label')}", changed)

    def leave_out(self, rows: Iterable[int]) -> None:
        """Leave photos out of the result: they are of no class."""
        wanted = self._rows(rows)
        changed = {row: Place(OUT, refused=self.places[row].refused) for row in wanted}
        self._take(f"Leave out {counted(len(wanted), 'photo')}", changed)

    def undo(self) -> str:
        """Undo the last step; returns what it was."""
        return self._move_step("undo", UNDO, self.done, self.undone)

    def redo(self) -> str:
        """Redo the step that was undone last; returns what it is."""
        return self._move_step("redo", REDO, self.undone, self.done)

    def _move_step(self, verb: str, entry: Mapping[str, object], steps: list[Step], others: list[Step]) -> str:
        with self.lock:
            if not steps:
                raise InputError(f"There is nothing to {verb}.")
            self._note(entry)
            step = steps.pop()
            self._put(step.rows, step.before if verb == "undo" else step.after)
            others.append(step)
            return step.what

    def proposals(self) -> Proposals:
        """A label for every photo that has none, learnt from those that a person gave; computed once a step."""
        with self.lock:
            revision, places = self.revision, list(self.places)
            if self._known is not None and self._known[0] == revision:
                return self._known[1]
        taught = [place.label if place.seen else None for place in places]
        if len(set(taught) - {None}) < 2:
            raise InputError("Name at least two classes first; then labels can be proposed for the rest.")
        rest = np.array(_unlabelled(places), dtype=np.intp)
        found = propose(self.pile, taught, rest, [place.refused for place in places])
        with self.lock:
            if self.revision == revision:
                self._known = revision, found
        return found

    def next_questions(self, count: int) -> list[int]:
        """The photos that are most useful to label: before two classes are named, the middles of the largest groups."""
        if len({place.label for place in self.places if place.seen} - {None}) < 2:
            return self.middles(count)
        return self.proposals().questions(self.space, count)

    def middles(self, count: int) -> list[int]:
        """The photos in the middle of the largest groups without a name."""
        return [self.members(group)[0] for group in list(self.groups())[:count]]

    @property
    def latest(self) -> Proposals | None:
        """The proposals computed last, for the photos that are still without a label; a person acts on these."""
        with self.lock:
            if self._known is None:
                return None
            found, places = self._known[1], self.places
            still = np.array([places[row].label is None and places[row].group != OUT for row in found.rows], dtype=bool)
            return Proposals(found.rows[still], found.classes, found.probabilities[still])

    def _proposed(self) -> dict[int, str]:
        found = self.latest
        return {} if found is None else dict(zip(found.rows.tolist(), found.labels, strict=True))

    def _new_group(self) -> int:
        taken = (place.group for step in self.done for place in step.after)
        return 1 + max(*self.first_groups, *taken)

    def _group(self, group: int) -> list[int]:
        mine = [row for row, place in enumerate(self.places) if place.group == group]
        if group <= REST or not mine:
            raise InputError(f"There is no group {group}; it may have been joined with another, or thrown out.")
        return mine

    def _rows(self, rows: Iterable[int]) -> list[int]:
        wanted = sorted({int(row) for row in rows})
        if not wanted or wanted[0] < 0 or wanted[-1] >= len(self.pile):
            last = len(self.pile) - 1
            raise InputError(f"Expected rows of the pile, from 0 to {last:,}; got {wanted[:1] or 'none'}.")
        return wanted

    def _take(self, what: str, changed: Mapping[int, Place], group: int = REST) -> None:
        rows = tuple(sorted(changed))
        with self.lock:
            before, after = tuple(self.places[row] for row in rows), tuple(changed[row] for row in rows)
            step = Step(what, rows, before, after, group)
            self._note(step.to_json())
            self._do(step)

    def _do(self, step: Step) -> None:
        self._put(step.rows, step.after)
        self.done.append(step)
        self.undone.clear()

    def _put(self, rows: Sequence[int], places: Sequence[Place]) -> None:
        for row, place in zip(rows, places, strict=True):
            self.places[row] = place
        self.revision += 1


def _unlabelled(places: Sequence[Place]) -> list[int]:
    return [row for row, place in enumerate(places) if place.label is None and place.group != OUT]


def _refusing(place: Place, label: str | None) -> Place:
    """A photo without its label, which is not to be proposed again."""
    refused = place.refused if label is None or label in place.refused else (*place.refused, label)
    return place._replace(label=None, seen=False, refused=refused)
