"""One number of a table before it is known: what it is made of, and the name it is kept under."""

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

EDITION = 2  # of what the code computes: raise it when the same cell, or one at its defaults, would come out otherwise


@dataclass(frozen=True)
class CellInputs:
    """How the images of a cell are chosen and read, the same for all methods of a setting. None is the usual.

    shots : images a class to fit; None takes the whole training split.
    draws : who draws them: "ours", by the seed, or "published", the index file of the seed.
    limit : images a class by split, "train=32,val=8,test=40"; "" is no limit.
    grouped : whether a hold-out keeps groups whole.
    attributes : sentences of an image-text source: those that the method was published with ("des"), a file, the
        dataset's one template ("sentence"), "templates" or "names".
    """

    frame: str = "grey"
    image_side: int | None = None
    read: str = "logits"
    shots: int | None = None
    draws: str = "ours"
    limit: str = ""
    grouped: bool = False
    attributes: str = "des"
    sentences: int = EACH

    def limits(self) -> dict[str, int]:
        """The limit by split."""
        return {part.split("=")[0]: int(part.split("=")[1]) for part in self.limit.split(",") if part}


@dataclass(frozen=True)
class Cell:
    """A dataset, a source behind a prompt, a method and a seed.

    What is at its default has no part in the name, so that an option that comes later leaves old results their names.
    """

    dataset: str
    source: str
    prompt: str
    method: str  # by its name in the registry of methods
    seed: int
    options: Options = ()  # that are not at their default
    inputs: CellInputs = CellInputs()

    def key(self) -> dict[str, object]:
        """Everything that makes the cell, as plain values; what is at its default is left out.

        Names and results of earlier runs hang on these words: the inputs are called "reading" there.
        """
        usual = asdict(CellInputs())
        reading = {name: value for name, value in asdict(self.inputs).items() if value != usual[name]}
        made = asdict(self) | {"options": dict(self.options)}
        del made["inputs"]
        return made | {"reading": reading}

    @property
    def name(self) -> str:
        """Digest of the key: the same cell of two plans is one."""
        return digest_of(self.key())

    @classmethod
    def from_key(cls, key: Mapping[str, Any]) -> Cell:
        """The cell of a key; an error if it is not one."""
        try:
            fields = dict(key)
            options, reading = dict(fields.pop("options")), fields.pop("reading")
            return cls(**fields, options=tuple(sorted(options.items())), inputs=CellInputs(**reading))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"This is no cell of a plan: {error}.") from None


def digest_of(value: object) -> str:
    """Digest of plain values, the same on every machine."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]
