"""The receipt of machine unlearning: which contents were removed, and the model before and after."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from yoro import limits
from yoro.data.examples import shown
from yoro.discriminant.evidence import Choice
from yoro.discriminant.rules import MEMBERS, RULES
from yoro.environment import __version__
from yoro.errors import StoreError, counted
from yoro.files.atomic import write_file
from yoro.files.reading import json_digest, read_table, refuse_damaged
from yoro.files.result_view import Result, Table
from yoro.mappings.batches import DIGEST
from yoro.model.ledger import Entry
from yoro.model.model import Json, Model
from yoro.model.store import check_output, model_digest

KIND = "yoro-receipt"
FORMAT = 1


@dataclass(frozen=True, repr=False)
class Receipt(Result):
    """What was forgotten: contents and labels, the model before and after, and what is not certain."""

    removed: tuple[Entry, ...]
    before: Json  # digest of the model, number of examples, its choices
    after: Json
    uncertain: tuple[str, ...] = ()  # sentences: where a fit without the images might have chosen otherwise
    version: str = __version__
    date: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def digests(self) -> list[bytes]:
        """The contents that were taken out."""
        return [digest for digest, _ in self.removed]

    def headline(self) -> str:
        counts = f"{self.before.get('examples')} -> {self.after.get('examples')} examples"
        return " ".join([f"{counted(len(self.removed), 'example')} forgotten ({counts}).", *self.uncertain])

    def tables(self) -> list[Table]:
        return [Table([{"digest": digest.hex(), "label": label} for digest, label in self.removed])]

    def to_json(self) -> Json:
        """The receipt as plain values, with a digest of itself."""
        plain: Json = {
            "kind": KIND,
            "format": FORMAT,
            "version": self.version,
            "date": self.date,
            "count": len(self.removed),
            "removed": [{"digest": digest.hex(), "label": label} for digest, label in self.removed],
            "before": self.before,
            "after": self.after,
            "uncertain": list(self.uncertain),
        }
        return plain | {"digest": json_digest(plain, ascii_only=False)}

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the receipt as JSON, atomically."""
        check_output(Path(path), force=force)
        write_file(Path(path), json.dumps(self.to_json(), indent=1, ensure_ascii=False).encode())


def make_receipt(before: Model, after: Model, removed: Sequence[Entry]) -> Receipt:
    """The receipt of what led from one model to the other."""
    uncertain = uncertainties(after, [digest for digest, _ in removed])
    return Receipt(tuple(removed), _state(before), _state(after), uncertain)


def read_receipt(path: str | Path) -> Receipt:
    """A receipt from its file, checked as untrusted input."""
    value = cast(Any, read_table(Path(path), KIND, FORMAT, limits.RECEIPT_BYTES))
    signed = {key: part for key, part in value.items() if key != "digest"}
    with refuse_damaged(Path(path)):
        digest = json_digest(signed, ascii_only=False)  # half a character has none
    if value.get("digest") != digest:
        raise StoreError(f"'{shown(Path(path))}' was changed after it was written: its digest does not match.")
    with refuse_damaged(Path(path)):
        removed = tuple((_content(entry["digest"]), str(entry["label"])) for entry in value["removed"])
        before, after = ({**value[key], "digest": str(value[key]["digest"])} for key in ("before", "after"))
        uncertain = tuple(str(sentence) for sentence in value["uncertain"])
        return Receipt(removed, before, after, uncertain, str(value["version"]), str(value["date"]))


def is_unfinished(path: Path, model: Model) -> bool:
    """Whether a receipt is there of what is yet to be forgotten by this model: its writer died before it saved."""
    try:
        known = read_receipt(path)
    except (StoreError, OSError):
        return False
    return known.before["digest"] == model_digest(model)


def digest_of(removed: Iterable[Entry]) -> str:
    """One digest of all that was removed, whatever its order; a model's history has it too."""
    table = {"removed": sorted([digest.hex(), label] for digest, label in removed)}
    return json_digest(table, ascii_only=False)


def uncertainties(model: Model, removed: Sequence[bytes]) -> tuple[str, ...]:
    """Why a fit without what was removed might differ, in sentences; usually none."""
    reasons, rule = [], model.choice.asked
    held = sum(model.ledger.holds(list(dict.fromkeys(removed))))
    if held:
        reasons.append(f"{counted(held, 'image')} still in the model: added more than once, or under another label.")
    if rule == "validation":
        reasons.append("The shrinkage was chosen on validation images, which are not kept, and stays as it was.")
    elif isinstance(rule, str) and model.reservoir is None and RULES[rule] == MEMBERS:
        reasons.append("No individual responses are kept, so shrinkage and weights stay as they were.")
    elif model.reservoir is not None and not model.gathered.whole:
        kept, all_ = f"{len(model.reservoir):,}", counted(len(model.ledger), "example")
        reasons.append(f"Chosen again on the {kept} responses kept of {all_}; a fresh fit would keep others.")
    if any(entry.get("verb") == "refine" for entry in model.history):
        reasons.append("The prompt may have been trained on these images; refine again to remove their influence.")
    if asked_views(model) == 2:
        reasons.append("Whether to read mirror images was decided with these images; the alternative is not kept.")
    return tuple(reasons)


def asked_views(model: Model) -> int:
    """How many views the fit was asked for; it may have chosen fewer."""
    return max((n for entry in model.history if isinstance(n := entry.get("views"), int)), default=1)


def _state(model: Model) -> Json:
    """A model in a few facts."""
    return {"digest": model_digest(model), "examples": len(model.ledger), "chosen": _chosen(model.choice)}


def _chosen(choice: Choice) -> Json:
    facts: Json = {"rule": choice.rule, "shrinkage": choice.shrinkage, "temperature": choice.temperature}
    if choice.alpha:
        facts["alpha"] = choice.alpha
    if choice.parts:
        facts["readings"] = {part.name: {"weight": part.weight, "shrinkage": part.shrinkage} for part in choice.parts}
    return facts


def _content(text: object) -> bytes:
    digest = bytes.fromhex(str(text))
    if len(digest) != DIGEST:
        raise ValueError("a digest")
    return digest
