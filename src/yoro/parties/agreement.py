"""What parties agree on before any of them reads an image: who takes part, which classes, which numbers, how exact."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.discriminant.readings import Layout
from yoro.errors import InputError, StoreError, one_line
from yoro.files.atomic import write_file
from yoro.files.reading import read_json
from yoro.model.model import Json, Origin
from yoro.model.store import checked_origin, origin_table
from yoro.parties.differential_privacy import Noise
from yoro.parties.fixed_point import BITS, check_bits
from yoro.parties.moments import length

Array = NDArray[np.float64]

KIND = "yoro-agreement"
FORMAT = 1
FILE = "agreement.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")  # of a party; files are called after it
FEW = 2  # parties: each of two can take its own sums from the total, and has the other's


@dataclass(frozen=True)
class Agreement:
    """The same file in everybody's hands; its digest is in every message."""

    parties: tuple[str, ...]
    classes: tuple[str, ...]
    origin: Origin
    layout: Layout
    shift: tuple[float, ...] = ()  # the point that sums are about; none is zero
    bits: int = BITS  # behind the point of a fixed-point number
    least: int = FEW  # parties that must remain
    noise: Noise | None = None  # that parties add to their sums, and how far responses are clipped
    session: str = field(default_factory=lambda: secrets.token_hex(16))

    def __post_init__(self) -> None:
        for name, values, fewest in (("parties", self.parties, FEW), ("classes", self.classes, 2)):
            if len(values) < fewest or tuple(sorted(set(values))) != values:
                raise InputError(f"The {name} are {values!r:.80}; expected at least {fewest}, sorted, each once.")
        if len(self.parties) > limits.PARTIES or len(self.classes) > limits.MODEL_CLASSES:
            raise InputError(f"{len(self.parties):,} parties came; expected at most {limits.PARTIES:,}.")
        if odd := next((name for name in self.parties if not NAME.fullmatch(name)), None):
            raise InputError(f"A party is called {odd!r:.60}; expected up to 40 letters, digits, - and _.")
        if not all(name and isinstance(name, str) for name in self.classes):
            raise InputError("A class has no name.")
        check_bits(self.bits)
        if not FEW <= self.least <= len(self.parties):
            raise InputError(f"At least {self.least} parties must remain; expected {FEW} to {len(self.parties)}.")
        if self.noise and self.noise.makers > self.least:
            raise InputError(
                f"The noise is that of {self.noise.makers} parties, but {self.least} may remain; their noise would be "
                "too little. Agree on more that must remain, or on fewer that make up the noise."
            )
        if self.shift and (len(self.shift) != self.layout.width or not np.isfinite(self.shift).all()):
            raise InputError(f"The shift has {len(self.shift)} numbers; expected {self.layout.width}, all finite.")

    @property
    def length(self) -> int:
        """Numbers of a message."""
        return length(len(self.classes), self.layout)

    @property
    def about(self) -> Array:
        """The shift as an array (width,)."""
        return np.array(self.shift) if self.shift else np.zeros(self.layout.width)

    def to_json(self) -> Json:
        """The agreement as plain values."""
        return {
            "kind": KIND,
            "format": FORMAT,
            "session": self.session,
            "parties": list(self.parties),
            "classes": list(self.classes),
            "origin": origin_table(self.origin),
            "readings": self.layout.config(),
            "shift": list(self.shift),
            "bits": self.bits,
            "least": self.least,
            "noise": None if self.noise is None else self.noise.to_json(),
        }

    @property
    def digest(self) -> str:
        """Of all that was agreed on."""
        return digest_of(self.to_json())


def agreement_of(
    parties: Sequence[str], classes: Sequence[str], origin: Origin, layout: Layout, **more: object
) -> Agreement:
    """An agreement of names in any order; `more` are further fields of `Agreement`."""
    for what, names in (("party", parties), ("class", classes)):
        if twice := sorted({name for name in names if list(names).count(name) > 1}):
            raise InputError(f"The {what} {twice[0]!r} is named twice.")
    return Agreement(tuple(sorted(parties)), tuple(sorted(classes)), origin, layout, **more)  # type: ignore[arg-type]


def write_agreement(agreement: Agreement, folder: Path) -> None:
    """Write the file into a folder, which is made if there is none."""
    folder.mkdir(exist_ok=True)
    write_file(folder / FILE, json.dumps(agreement.to_json(), indent=1, ensure_ascii=False).encode())


def read_agreement(folder: Path) -> Agreement:
    """The agreement in a folder, checked as if a stranger had written it."""
    file = folder / FILE
    if not file.is_file():
        raise StoreError(f"{folder} has no {FILE}. `yoro parties agree FOLDER` writes one.")
    table = read_table(file, KIND, FORMAT, limits.AGREEMENT_BYTES)
    try:
        shift = tuple(float(cast(float, number)) for number in cast("list[object]", table["shift"]))
        return Agreement(
            _names(table["parties"]), _names(table["classes"]), checked_origin(cast(Json, table["origin"]), {}),
            Layout.from_config(table["readings"]), shift, int(cast(int, table["bits"])), int(cast(int, table["least"])),
            None if table["noise"] is None else Noise.from_json(table["noise"]), _session(table["session"]),
        )  # fmt: skip
    except MemoryError:
        raise
    except Exception as error:  # a hostile file may hold anything in place of anything
        raise StoreError(f"{file} is damaged: {one_line(error)}") from error


def read_table(file: Path, kind: str, form: int, most: int) -> Json:
    """A JSON table of one kind and format; anything else is a StoreError."""
    try:
        table = read_json(file, most)
    except ValueError as error:
        raise StoreError(f"{file} is damaged: {error}.") from None
    if not isinstance(table, dict) or table.get("kind") != kind:
        raise StoreError(f"{file} is no {kind}.")
    if table.get("format") != form:
        raise StoreError(f"{file} has format {table.get('format')!r:.20}; this version of yoro reads {form}.")
    return cast(Json, table)


def digest_of(table: object) -> str:
    """One digest of plain values."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InputError("names are expected")
    return tuple(value)


def _session(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{32}", value):
        raise InputError("a session is 32 hex digits")
    return value
