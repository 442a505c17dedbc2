"""Which images are fitted, validated on and tested: the one answer, for every verb and for the bench.

Data are marked by the folders or the column they come with: train, val, test. What has no mark counts as training
data. Data given for one purpose (`--val`, `--test`, and what `evaluate` measures on) serve it with the split of that
name if they have it; a test split serves no other purpose, whoever gives it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from yoro.data.examples import Example, class_name, listed
from yoro.data.file_trees import on_disk
from yoro.data.find import find
from yoro.data.folders import folder_of_several
from yoro.data.response_streams import (
    ResponseData,
    ResponseStream,
    is_response_data,
    open_response_file,
    open_responses,
)
from yoro.data.responses import ResponseBatch, ResponseFile
from yoro.data.splits import MOST_VALIDATION, describe_hold_out, draw_few, hold_tenth
from yoro.discriminant.rules import MEMBERS, rule_unavailable, working_rules
from yoro.errors import InputError, SelectionError, counted

ROLES = ("train", "val", "test")
USES = {  # what each verb does with the splits of its data; it leaves the others alone
    "fit": ("train", "val"),
    "update": ("train", "val"),
    "forget": ("train", "val"),
    "refine": ("train", "val"),
    "compare": ROLES,
    "bench": ROLES,
}
SERVES = {"val": ("val", "train"), "test": ("test", "val", "train")}  # by which split data given for a role serve it
PURPOSE = {"val": "validate on", "test": "test on"}
CALLED = {"train": "training", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class Rows:
    """Some rows of response data: all, those of some splits or classes, or a given selection."""

    data: ResponseData
    count: int
    marks: frozenset[str] | None = None
    between: range | None = None
    classes: frozenset[str] | None = None  # `count` does not tell these apart

    def __len__(self) -> int:
        return self.count

    def take(self, rows: range) -> Rows:
        return replace(self, count=len(rows), between=rows)

    def stream(self) -> ResponseStream:
        whole, marks, rows = open_responses(self.data, labelled=True), self.marks, self.between
        found: Iterable[ResponseBatch] = whole
        if marks is not None:
            found = (batch.marked(marks) for batch in found)
        if rows is not None:
            found = _between(found, rows)
        if (classes := self.classes) is not None:
            found = (batch.of_classes(classes) for batch in found)
        return whole if found is whole else ResponseStream(lambda _: iter(found), self.count)


Part = list[Example] | Rows


@dataclass(frozen=True)
class Roles:
    """What is fitted, validated on and tested, before any of it is read; and sentences on what was left alone."""

    train: Part = field(default_factory=list)
    val: Part = field(default_factory=list)
    test: Part = field(default_factory=list)
    notes: tuple[str, ...] = ()


def find_roles(
    verb: str, data: object, *, val: object | None = None, test: object | None = None, known: Collection[str] = ()
) -> Roles:
    """The roles of a verb's data, and of data given for one role; `known` are the classes of a model, as in `find`."""
    parts, notes = _by_mark(data, known)
    if not len(parts["train"]):
        splits = ", ".join(role for role in ROLES if len(parts[role]))
        if not splits:
            raise InputError("The data are empty: no example was found. Give at least two classes of examples.")
        raise InputError(f"The data have the splits {splits} but no training images to fit.")
    given = {"val": val, "test": test}
    for role in ROLES:
        own = len(parts[role])
        again = _is_place(data) and given.get(role) == data  # which has a split of its own
        if given.get(role) is not None and not (own and again):
            if own:
                notes.append(
                    f"The {counted(own, 'image')} of the data's own {CALLED[role]} split {_are(own)} not used: "
                    "others were given."
                )
            parts[role], said = _serving(role, given[role], known)
            parts[role] = _renamed(parts[role], given[role], parts["train"])
            notes += said
        elif own and role not in USES[verb]:
            notes.append(f"The {counted(own, 'image')} of the {CALLED[role]} split {_are(own)} not used.")
            parts[role] = []
    return Roles(parts["train"], parts["val"], parts["test"], tuple(notes))


def to_measure(data: object, known: Collection[str] = ()) -> tuple[Part, list[str]]:
    """What a model of known classes is measured on: the test split, else the validation split, else all."""
    return _serving("test", data, known)


def to_change(verb: str, data: object, rule: str | float, known: Collection[str] = ()) -> tuple[list[Part], list[str]]:
    """What is added to a model of known classes or taken out of it: what a fit by its rule would have fitted."""
    roles = find_roles(verb, data, known=known)
    if rule != "validation" or not len(roles.val):
        return [part for part in (roles.train, roles.val) if len(part)], list(roles.notes)
    what = f"The {counted(len(roles.val), 'image')} of the validation split {_are(len(roles.val))} not used"
    told = f"{what}: the model's rule validates on them."
    return [roles.train], [*roles.notes, told]


def labels_to_change(verb: str, data: object, known: Collection[str] = ()) -> set[str]:
    """The classes of what is added to a model or taken out of it; of responses, only those of a response file."""
    if not is_response_data(data):
        roles = find_roles(verb, data, known=known)
        return {example.label or "" for part in (roles.train, roles.val) for example in part}  # type: ignore[union-attr]
    opened = open_response_file(data)
    if opened is None:
        return set()
    with opened as file:
        labels = file.labels if isinstance(file, ResponseFile) else None
        return {class_name(str(label)) for label in labels} if labels is not None else set()


def to_fit(
    data: object, val: object | None, *, rule: str | float, seed: int, shots: int | None = None
) -> tuple[list[Part], Part, list[str]]:
    """What is fitted, what is validated on, and sentences on what was found and done.

    Only the rule "validation" validates; under every other rule images that were marked for it are
    fitted too, except beside a few-shot draw, which is of exactly `shots` images a class.
    """
    roles = find_roles("fit", data, val=val)
    train, held, notes = roles.train, roles.val, list(roles.notes)
    if isinstance(train, Rows) or isinstance(held, Rows):
        return _rows_to_fit(train, held, rule, notes)
    if shots is not None:
        train, held = _few(train, held, shots, seed, rule)
        notes.append(f"Drew {counted(shots, 'image')} per class (seed {seed}); classes with fewer give all they have.")
    elif held and rule != "validation":
        notes.append(_fitted_too(len(held), rule))
        train, held = train + held, []
    notes.insert(0, _found(train))
    if rule == "validation" and not held:
        train, held, note = _held_out(train, seed)
        notes.append(note)
    return [train], held, notes


def to_refine(
    data: object, val: object | None, *, seed: int, shots: int | None = None
) -> tuple[list[Example], list[Example], list[str]]:
    """What a prompt is trained on, what decides on it, and sentences on what was found.

    Where no images are marked or given for validation, a tenth of each class decides.
    """
    responses = "A prompt is trained on images, not on responses; give image folders or lists."
    if is_response_data(data) or is_response_data(val):
        raise InputError(responses)
    roles = find_roles("refine", data, val=val)
    train, held, notes = roles.train, roles.val, list(roles.notes)
    if isinstance(train, Rows) or isinstance(held, Rows):
        raise InputError(responses)
    if shots is not None:
        train, held = _few(train, held, shots, seed, "validation")
    if held:
        return train, held, notes
    kept, out = hold_tenth(train, seed)
    if not len(out):
        raise InputError(
            "Refinement needs validation images, and the classes are too small to hold any out. Give some with --val "
            "(val=...), or as a folder 'val' next to 'train'."
        )
    told = f"No validation images given; holding out {len(out):,} of {counted(len(train), 'image')} (seed {seed})."
    return [train[i] for i in kept], [train[i] for i in out], [*notes, told]


def refuse_one_class(classes: Collection[str], data: object) -> None:
    """Raise if all images are of one class: known before the first of them is read, it need not be read at all."""
    if len(classes) > 1:
        return
    places = data if isinstance(data, list) else [data]
    where = " in " + ", ".join(f"'{place}'" for place in places) if _is_place(data) else ""
    only = "".join(classes)
    below = folder_of_several(on_disk(Path(data))) if isinstance(data, str | Path) and Path(data).is_dir() else None
    meant = f" If the classes are the folders in '{Path(str(data)) / below}', give that." if below else ""
    raise InputError(
        f"All images{where} are of one class, {only!r}; a classifier needs at least 2. Give a folder with one "
        f"subfolder of images per class, or several folders.{meant}"
    )


def _found(train: Sequence[Example]) -> str:
    """What there is to fit, with class names, so that a wrong folder is noticed."""
    classes = sorted({example.label or "" for example in train})
    return f"Found {counted(len(train), 'image')} of {counted(len(classes), 'class')} to fit: {listed(classes)}."


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _is_place(data: object) -> bool:
    return isinstance(data, str | Path) or (isinstance(data, list) and all(isinstance(d, str | Path) for d in data))


def by_role(examples: Iterable[Example]) -> dict[str, list[Example]]:
    """Examples by their mark; those without one are training images."""
    parts: dict[str, list[Example]] = {role: [] for role in ROLES}
    for example in examples:
        parts[example.split or "train"].append(example)
    return parts


def _by_mark(data: object, known: Collection[str] = ()) -> tuple[dict[str, Part], list[str]]:
    """The parts of data by mark, and what there is to say of them."""
    if not is_response_data(data):
        found = find(data, known=known)
        odd = sum(example.split is None for example in found) if found.splits else 0
        unmarked = [f"{counted(odd, 'image')} without a split, used for training."] if odd else []
        return dict(by_role(found)), [*found.notes, *unmarked]
    opened = open_response_file(data)
    if opened is None:
        count = len(data[0]) if isinstance(data, tuple) else 0
        return {"train": Rows(data, count), "val": [], "test": []}, []  # type: ignore[arg-type]
    with opened as file:
        splits = file.splits
        if splits is None or not any(splits):
            return {"train": Rows(data, len(file)), "val": [], "test": []}, []  # type: ignore[arg-type]
        counts = Counter(splits.tolist())
    marks = {"train": frozenset({"train", ""}), "val": frozenset({"val"}), "test": frozenset({"test"})}
    rows = {
        role: Rows(data, sum(counts[mark] for mark in mine), mine)  # type: ignore[arg-type]
        for role, mine in marks.items()
    }
    return {role: part if len(part) else [] for role, part in rows.items()}, []


def _serving(role: str, data: object, known: Collection[str]) -> tuple[Part, list[str]]:
    """The part of data given for one role that is used for it, and a note on the rest."""
    parts, notes = _by_mark(data, known)
    chosen = next((split for split in SERVES[role] if len(parts[split])), None)
    if chosen is None:
        raise InputError(
            f"The data given to {PURPOSE[role]} have only a test split, and test images are used for testing only. "
            "Give other images."
        )
    rest = [f"{len(part):,} {CALLED[split]}" for split, part in parts.items() if split != chosen and len(part)]
    if rest:
        what = f"Using the {len(parts[chosen]):,} {CALLED[chosen]} images to {PURPOSE[role]}"
        notes.append(f"{what}; the {' and '.join(rest)} images are not used.")
    return parts[chosen], notes


def _rows_to_fit(train: Part, held: Part, rule: str | float, notes: list[str]) -> tuple[list[Part], Part, list[str]]:
    """The same for responses, which are fitted as they are."""
    if isinstance(train, Rows) != isinstance(held, Rows) and len(held):
        raise InputError("Images and responses cannot be fitted together; give both as images, or both as responses.")
    if rule == "validation" and not len(held):
        raise rule_unavailable("validation", MEMBERS)
    if rule == "validation" or not len(held):
        return [train], held, notes
    return [train, held], [], [*notes, _fitted_too(len(held), rule)]


def _fitted_too(count: int, rule: str | float) -> str:
    what = f"The {counted(count, 'validation example')} {_are(count)} fitted too"
    return f"{what}; none has to be held out."


def _few(
    train: list[Example], held: list[Example], shots: int, seed: int, rule: str | float
) -> tuple[list[Example], list[Example]]:
    """`shots` images a class to fit; to validate on, at most four a class of the validation images or of the rest."""
    drawn = draw_few(train, shots, seed)
    if rule != "validation":
        return drawn, []
    taken = {id(example) for example in drawn}
    pool = held or [example for example in train if id(example) not in taken]
    return drawn, draw_few(pool, min(shots, MOST_VALIDATION), seed) if pool else []


def _held_out(train: list[Example], seed: int) -> tuple[list[Example], list[Example], str]:
    kept, out = hold_tenth(train, seed)
    labels = [example.label or "" for example in train]
    if not len(out):
        raise SelectionError(
            "The rule 'validation' needs validation images, and the classes are too small to hold any out. "
            f"Rules that work here: {working_rules(MEMBERS)}."
        )
    return [train[i] for i in kept], [train[i] for i in out], describe_hold_out(labels, kept, out, seed)


def _renamed(part: Part, given: object, train: Part) -> Part:
    """Examples under names that no training example has, so that a name tells which is meant."""
    if isinstance(part, Rows) or isinstance(train, Rows):
        return part
    if {example.name for example in part}.isdisjoint(example.name for example in train):
        return part
    place = str(given) if isinstance(given, str | Path) else "validation"
    return [replace(example, name=f"{place}: {example.name}") for example in part]


def _between(batches: Iterable[ResponseBatch], rows: range) -> Iterator[ResponseBatch]:
    """The rows of batches by their number among all."""
    start = 0
    for batch in batches:
        mine = [i for i in range(len(batch)) if start + i in rows]
        start += len(batch)
        if mine:
            yield batch.take(mine)
