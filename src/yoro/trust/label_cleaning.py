"""A reviewed list of issues applied to a model, exactly, and undone again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from yoro import limits
from yoro.data.examples import Example, class_name, shown, storable
from yoro.data.lists import listed_rows
from yoro.data.response_streams import Collected, collect
from yoro.errors import ImageError, InputError, StoreError, counted, did_you_mean
from yoro.files.reading import read_bounded
from yoro.files.rows import FORMULA
from yoro.files.tensors import parse_tensors, write_tensors
from yoro.mappings.batches import DIGEST
from yoro.model.classifier import Change, Classifier, need_ledger
from yoro.model.settings import HERE, Loading

KIND = "yoro-undo"
SUFFIX = ".undo"
RELABEL, REMOVE, KEEP = "relabel", "remove", "keep"
ACTIONS = (RELABEL, REMOVE, KEEP)


@dataclass(frozen=True)
class Correction:
    """What becomes of one fitted example: another label, or nothing at all."""

    name: str
    label: str
    new: str | None  # None: it is removed
    digest: bytes = b""  # of its content, where the list tells


@dataclass(frozen=True)
class Exchange:
    """Fitted examples under their labels, and the label that each shall have, or none if it is removed."""

    before: Collected
    new: tuple[str | None, ...]

    @property
    def after(self) -> Collected:
        """What is left of them, under the new labels."""
        kept = self.before.take(np.array([i for i, label in enumerate(self.new) if label is not None], dtype=np.intp))
        return replace(kept, labels=np.array([label for label in self.new if label is not None], dtype=np.str_))


def clean(classifier: Classifier, path: str | Path, *, loading: Loading = HERE) -> tuple[Change, Exchange]:
    """Apply a reviewed list, or an undo file; what was exchanged, as `write_undo` takes it."""
    file = Path(path)
    if file.suffix == SUFFIX:
        done = _read_undo(file, classifier.model.statistics.width)
        change = classifier.change("clean", remove=done.after.batch(), add=done.before.batch())
    else:
        done = _exchange(classifier, read_corrections(file), file.parent, loading)
        change = classifier.change("clean", remove=done.before.batch(), add=done.after.batch())
    gone = sum(label is None for label in done.new)
    moved, away = counted(len(done.new) - gone, "example"), "put back" if file.suffix == SUFFIX else "removed"
    return replace(change, notes=(f"{moved} relabelled, {counted(gone, 'example')} {away}.", *change.notes)), done


def read_corrections(path: Path) -> list[Correction]:
    """The rows of a reviewed list that ask for something: their column `action` says relabel or remove."""
    found: dict[tuple[str, str], Correction] = {}
    for where, row in listed_rows(path):
        lacking = [name for name in ("path", "label", "action") if name not in row]
        if lacking:
            raise InputError(
                f"{where}: there is no column {lacking[0]!r}; expected path, label, action and, to relabel, proposed, "
                "as `yoro inspect M.yoro DATA --issues` writes them."
            )
        values = {key: _plain(row.get(key)) for key in ("path", "label", "action", "proposed", "digest")}
        action = values["action"].lower() or KEEP
        if action not in ACTIONS:
            raise InputError(f"{where}: the action is {action!r}; {did_you_mean(action, ACTIONS)}")
        if action == KEEP:
            continue
        one = _correction(values, action, where)
        if found.setdefault((one.name, one.label), one) != one:
            raise InputError(f"{where}: {one.name!r} is given two different actions; give it one.")
    if not found:
        raise InputError(f"'{shown(path)}' asks for nothing: no row has the action relabel or remove.")
    return list(found.values())


def _correction(values: dict[str, str], action: str, where: str) -> Correction:
    label, new = class_name(values["label"]), class_name(values["proposed"]) if action == RELABEL else None
    if not values["path"] or not label or new == "":
        raise InputError(f"{where} has no {'path' if not values['path'] else 'label' if not label else 'proposed'}.")
    if new == label:
        raise InputError(f"{where}: {values['path']!r} is labelled {label!r} already; give it another, or remove it.")
    try:
        content = bytes.fromhex(values["digest"])
    except ValueError:
        content = b"?"
    if len(content) not in (0, DIGEST):
        raise InputError(f"{where}: the digest is {values['digest']!r:.60}; expected {2 * DIGEST} hex digits, or none.")
    return Correction(values["path"], label, new, content)


def _plain(value: object) -> str:
    """A cell as it was before it was made safe for spreadsheets."""
    text = "" if value is None else storable(str(value)).strip()
    return text[1:] if text[:1] == "'" and text[1:2] in FORMULA else text


def _exchange(classifier: Classifier, wanted: Sequence[Correction], folder: Path, loading: Loading) -> Exchange:
    """The corrections with the responses of their examples: those kept in the model, and the others read again."""
    need_ledger(classifier.model, "clean")
    named = [one for one in wanted if one.digest]
    classifier.model.ledger.check(
        [one.digest for one in named], [one.label for one in named], [one.name for one in named]
    )
    members = classifier.model.members()
    kept = {content: row for row, content in enumerate(members.digests)} if members else {}
    rest = [one for one in wanted if one.digest not in kept]
    read = _read(classifier, rest, folder, loading) if rest else None
    again = {name: row for row, name in enumerate(read.names)} if read else {}
    responses, groups, contents = [], [], []
    for one in wanted:
        if members and one.digest in kept:
            row = kept[one.digest]
            responses.append(members.responses[row])
            groups.append(str(members.groups[row]))
            contents.append(one.digest)
        elif read:
            row = again[one.name]
            responses.append(read.responses[row])
            groups.append("")
            contents.append(read.digests[row])
    names, labels = tuple(one.name for one in wanted), np.array([one.label for one in wanted], dtype=np.str_)
    before = Collected(np.stack(responses), labels, tuple(groups), names, tuple(contents))
    return Exchange(before, tuple(one.new for one in wanted))


def _read(classifier: Classifier, wanted: Sequence[Correction], folder: Path, loading: Loading) -> Collected:
    """The responses of images by their paths, from the list's own folder or from here."""
    if not classifier.model.origin.images:
        raise InputError(
            f"The response of {wanted[0].name!r} is not kept in the model, and a model of responses reads no images. "
            "Take it out with `yoro forget`, and put it in with `yoro update`."
        )
    places = [folder / one.name if (folder / one.name).is_file() else Path(one.name) for one in wanted]
    examples = [Example(place, one.label, one.name) for place, one in zip(places, wanted, strict=True)]
    stream = classifier.pipeline.stream(examples, replace(loading, strict=True))
    found = collect(stream, "reading")
    for one, content in zip(wanted, found.digests, strict=True):
        if one.digest and one.digest != content:
            raise ImageError(f"'{one.name}' is another image than the one that was reviewed. Make the list again.")
    return found


def write_undo(path: Path, done: Exchange) -> None:
    """Keep what a list changed, so that `clean` can take it back: `path` ends in .undo."""
    before = done.before
    facts: dict[str, object] = {
        "kind": KIND,
        "names": list(before.names),
        "groups": list(before.groups),
        "before": before.labels.tolist(),
        "after": [label or "" for label in done.new],
    }
    contents = np.frombuffer(b"".join(before.digests), dtype=np.uint8).reshape(-1, DIGEST)
    write_tensors(path, {"responses": before.responses, "digests": contents}, facts)


def _read_undo(path: Path, width: int) -> Exchange:
    """What `write_undo` kept, checked as if a stranger had written it."""
    try:
        content = read_bounded(path, limits.MODEL_FILE_BYTES)
    except ValueError as error:
        raise StoreError(f"'{shown(path)}' is no undo file: {error}.") from None
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
        raise StoreError(f"'{shown(path)}' is damaged, or of another model: its parts do not fit together.")
    found = Collected(
        responses.astype(responses.dtype), np.array(before, dtype=np.str_), tuple(groups), tuple(names),
        tuple(row.tobytes() for row in digests),
    )  # fmt: skip
    return Exchange(found, tuple(label or None for label in after))


def _texts(value: object, n: int) -> list[str]:
    """A column of n texts; of anything else nothing."""
    return value if isinstance(value, list) and len(value) == n and all(isinstance(v, str) for v in value) else []
