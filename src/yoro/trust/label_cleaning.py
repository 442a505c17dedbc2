"""Label cleaning: apply a reviewed list of label issues to a model, exactly, or undo it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from yoro import limits
from yoro.data.examples import Example, class_name, shown, storable
from yoro.data.lists import listed_rows
from yoro.data.response_streams import Collected
from yoro.errors import ImageError, InputError, StatisticsError, StoreError, counted
from yoro.files.reading import read_bounded, refusing
from yoro.files.rows import FORMULA
from yoro.files.tensors import parse_tensors, write_tensors
from yoro.mappings.batches import DIGEST
from yoro.model.kept_responses import responses_of
from yoro.model.open_model import Change, OpenModel, need_ledger
from yoro.model.settings import USUAL, Loading

KIND = "yoro-undo"
SUFFIX = ".undo"
RELABEL, REMOVE, KEEP = "relabel", "remove", "keep"
ACTIONS = (RELABEL, REMOVE, KEEP)


@dataclass(frozen=True)
class Correction:
    """A new label for one fitted example, or its removal."""

    name: str
    label: str
    new: str | None  # None: it is removed
    digest: bytes = b""  # of its content, where the list tells

    def file(self, list_: Path) -> Path:
        """Its file, as the list that it stands in names it."""
        return beside(list_, self.name)


@dataclass(frozen=True)
class Exchange:
    """Fitted examples under their labels, and the new label of each, None to remove it."""

    before: Collected
    new: tuple[str | None, ...]

    @property
    def after(self) -> Collected:
        kept = self.before.take(np.array([i for i, label in enumerate(self.new) if label is not None], dtype=np.intp))
        return replace(kept, labels=np.array([label for label in self.new if label is not None], dtype=np.str_))


def beside(list_: Path, name: str) -> Path:
    """The file that a list names: beside the list, or from the working directory."""
    return list_.parent / name if (list_.parent / name).is_file() else Path(name)


def clean(classifier: OpenModel, path: str | Path, *, loading: Loading = USUAL) -> tuple[Change, Exchange]:
    """Apply a reviewed list or an undo file; returns the change, and the exchange for `write_undo`."""
    file = Path(path)
    if file.suffix == SUFFIX:
        done = _read_undo(file, classifier.model.statistics.width)
        change = classifier.change("clean", remove=done.after.batch(), add=done.before.batch())
    else:
        done = _exchange(classifier, read_corrections(file), file, loading)
        change = classifier.change("clean", remove=done.before.batch(), add=done.after.batch())
    gone = sum(label is None for label in done.new)
    moved, away = counted(len(done.new) - gone, "example"), "put back" if file.suffix == SUFFIX else "removed"
    return replace(change, notes=(f"{moved} relabelled, {counted(gone, 'example')} {away}.", *change.notes)), done


def read_corrections(path: Path) -> list[Correction]:
    """The rows of a reviewed list whose column `action` is relabel or remove."""
    found: dict[tuple[str, str], Correction] = {}
    for where, row in listed_rows(path):
        lacking = [name for name in ("path", "label", "action") if name not in row]
        if lacking:
            raise InputError(
                f"{where}: no column {lacking[0]!r}. Expected path, label, action and, to relabel, proposed, "
                "as `yoro issues DATA --out LIST` writes them."
            )
        values = {key: plain_cell(row.get(key)) for key in ("path", "label", "action", "proposed", "digest")}
        action = values["action"].lower() or KEEP
        if action not in ACTIONS:
            raise InputError(f"{where}: unknown action {action!r}; use relabel, remove or keep.")
        if action == KEEP:
            continue
        one = _correction(values, action, where)
        if found.setdefault((one.name, one.label), one) != one:
            raise InputError(f"{where}: {one.name!r} has two different actions; keep one.")
    if not found:
        raise InputError(f"'{shown(path)}' changes nothing: no row has the action relabel or remove.")
    return list(found.values())


def _correction(values: dict[str, str], action: str, where: str) -> Correction:
    label, new = class_name(values["label"]), class_name(values["proposed"]) if action == RELABEL else None
    if not values["path"] or not label or new == "":
        raise InputError(f"{where} has no {'path' if not values['path'] else 'label' if not label else 'proposed'}.")
    if new == label:
        raise InputError(f"{where}: {values['path']!r} already has the label {label!r}; propose another, or remove it.")
    try:
        content = bytes.fromhex(values["digest"])
    except ValueError:
        content = b"?"
    if len(content) not in (0, DIGEST):
        raise InputError(f"{where}: the digest is {values['digest']!r:.60}; expected {2 * DIGEST} hex digits, or none.")
    return Correction(values["path"], label, new, content)


def plain_cell(value: object) -> str:
    """A cell without the quote that protects spreadsheets from formulas."""
    text = "" if value is None else storable(str(value)).strip()
    return text[1:] if text[:1] == "'" and text[1:2] in FORMULA else text


def _exchange(classifier: OpenModel, wanted: Sequence[Correction], list_: Path, loading: Loading) -> Exchange:
    """The corrections with the responses of their examples; files are looked up beside the list, then here."""
    need_ledger(classifier.model, "clean")
    listed = [one for one in wanted if one.digest]
    labels, names = [one.label for one in listed], [one.name for one in listed]
    classifier.model.ledger.check([one.digest for one in listed], labels, names)
    examples = [Example(one.file(list_), one.label, one.name) for one in wanted]
    digests = [one.digest for one in wanted]
    before, _ = responses_of(classifier, examples, replace(loading, strict=True), digests=digests)
    for one, content in zip(wanted, before.digests, strict=True):
        if one.digest and one.digest != content:
            raise ImageError(f"'{one.name}' has changed since it was reviewed. Make the list again.")
    return Exchange(before, tuple(one.new for one in wanted))


def write_undo(path: Path, done: Exchange) -> None:
    """Write what a list changed, so that `clean` can undo it; `path` ends in .undo."""
    before, after = done.before, [label or "" for label in done.new]
    facts: dict[str, object] = {"kind": KIND, "names": list(before.names), "groups": list(before.groups)}
    facts |= {"before": before.labels.tolist(), "after": after}
    contents = np.frombuffer(b"".join(before.digests), dtype=np.uint8).reshape(-1, DIGEST)
    write_tensors(path, {"responses": before.responses, "digests": contents}, facts)


def is_unfinished(classifier: OpenModel, undo: Path, reviewed: Path) -> bool:
    """Whether an undo file belongs to this list and the model is still unchanged: its writer died before it saved."""
    try:
        done = _read_undo(undo, classifier.model.statistics.width)
        names, labels = done.before.names, done.before.labels.tolist()
        classifier.model.ledger.check(done.before.digests, labels, names)
    except (StoreError, StatisticsError, OSError):
        return False
    told = list(zip(names, labels, done.new, strict=True))
    return told == [(one.name, one.label, one.new) for one in read_corrections(reviewed)]


def _read_undo(path: Path, width: int) -> Exchange:
    """The exchange in an undo file; its content is not trusted."""
    with refusing(StoreError, f"'{shown(path)}' is not an undo file"):
        content = read_bounded(path, limits.MODEL_FILE_BYTES)
    arrays, facts = parse_tensors(content, KIND, str(path))
    responses, digests = arrays.get("responses", np.empty(0)), arrays.get("digests", np.empty(0))
    n = len(responses)
    names, groups, before, after = (_texts(facts.get(key), n) for key in ("names", "groups", "before", "after"))
    sound = (
        n > 0 and responses.shape == (n, width) and responses.dtype in (np.float16, np.float32, np.float64)
        and bool(np.isfinite(responses).all()) and digests.dtype == np.uint8 and digests.shape == (n, DIGEST)
        and len(names) == len(groups) == len(before) == len(after) == n and all(map(class_name, before))
    )  # fmt: skip
    if not sound:
        raise StoreError(f"'{shown(path)}' is damaged or belongs to another model: its parts do not fit together.")
    found = Collected(
        responses.astype(responses.dtype), np.array(before, dtype=np.str_), tuple(groups), tuple(names),
        tuple(row.tobytes() for row in digests),
    )  # fmt: skip
    return Exchange(found, tuple(label or None for label in after))


def _texts(value: object, n: int) -> list[str]:
    """A column of n texts; empty if it is anything else."""
    return value if isinstance(value, list) and len(value) == n and all(isinstance(v, str) for v in value) else []
