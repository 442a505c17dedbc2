"""Cells: one number of a table each, with everything it depends on, and the digest it is stored under."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from yoro.errors import InputError
from yoro.text.settings import EACH

Scalar = bool | int | float | str
Options = tuple[tuple[str, Scalar], ...]  # sorted by name

EDITION = 3  # raise it when the code computes another number for the same cell


@dataclass(frozen=True)
class CellInputs:
    """How the images of a cell are chosen and read, the same for all methods of a setting. None is the default."""

    frame: str = "grey"
    image_side: int | None = None
    read: str = "logits"
    shots: int | None = None  # training images per class; None takes the whole training split
    draws: str = "ours"  # drawn by the seed; "published": from the index file of the seed
    limit: str = ""  # images per class by split, "train=32,val=8,test=40"
    grouped: bool = False  # whether a hold-out keeps groups whole
    half: str = ""  # of the classes by name: "base" or "new"; all without
    examples: int | None = None  # in all, for training and validation, whatever their classes
    validation: str = "shots"  # as many as the shots allow; "split": all validation images of the dataset
    pile: int | None = None  # further training images per class, without their labels
    timed: bool = False  # the pass is made for this cell alone and timed, whatever was read before
    # Sentences of an image-text source: those that the method was published with ("des"), a file, the dataset's one
    # template ("sentence"), "templates" or "names".
    attributes: str = "des"
    sentences: int = EACH

    def limits(self) -> dict[str, int]:
        return {part.split("=")[0]: int(part.split("=")[1]) for part in self.limit.split(",") if part}


@dataclass(frozen=True)
class BenchCell:
    """A dataset, a source behind a prompt, a method and a seed.

    Defaults are not part of the name, so that options added later do not rename old results.
    """

    dataset: str
    source: str
    prompt: str
    method: str  # by its name in the registry of methods
    seed: int
    options: Options = ()  # that are not at their default
    inputs: CellInputs = CellInputs()

    def key(self) -> dict[str, object]:
        """The cell as JSON values, without defaults.

        Stored results depend on these keys: the inputs are called "reading" there.
        """
        usual = asdict(CellInputs())
        reading = {name: value for name, value in asdict(self.inputs).items() if value != usual[name]}
        made = asdict(self) | {"options": dict(self.options)}
        del made["inputs"]
        return made | {"reading": reading}

    @property
    def name(self) -> str:
        """Digest of the key; plans share cells by it."""
        return digest_of(self.key())

    @classmethod
    def from_key(cls, key: Mapping[str, Any]) -> BenchCell:
        try:
            fields = dict(key)
            options, reading = dict(fields.pop("options")), fields.pop("reading")
            return cls(**fields, options=tuple(sorted(options.items())), inputs=CellInputs(**reading))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"Not a cell of a plan: {error}.") from None


def digest_of(value: object) -> str:
    """Digest of JSON values, the same on every machine."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]
