"""What the parties of a secure aggregation agree on first: who takes part, classes, source, precision, noise."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np

from yoro import limits
from yoro.data.examples import listed
from yoro.discriminant.readings import Layout
from yoro.errors import InputError, StoreError
from yoro.files.atomic import write_file
from yoro.files.reading import json_digest, read_table, refuse_damaged
from yoro.mappings.batches import Array
from yoro.model.model import Json, Origin
from yoro.model.store import checked_origin, origin_table
from yoro.parties.differential_privacy import Noise
from yoro.parties.fixed_point import BITS, check_bits
from yoro.parties.moments import length

KIND = "yoro-agreement"
FORMAT = 1
FILE = "agreement.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")  # of a party, and of its files
FEW = 2  # parties: with two, each can subtract its own sums from the total and learns the other's


@dataclass(frozen=True)
class Agreement:
    """A file that all parties hold; every message carries its digest."""

    parties: tuple[str, ...]
    classes: tuple[str, ...]
    origin: Origin
    layout: Layout
    shift: tuple[float, ...] = ()  # the origin of the sums; empty is zero
    bits: int = BITS  # fractional bits of a fixed-point number
    least: int = FEW  # parties that must not drop out
    noise: Noise | None = None  # for differential privacy: added to the sums of clipped responses
    session: str = field(default_factory=lambda: secrets.token_hex(16))

    def __post_init__(self) -> None:
        for name, values, fewest in (("parties", self.parties, FEW), ("classes", self.classes, 2)):
            if len(values) < fewest:
                raise InputError(f"The {name} are {listed(values) or 'none'}; expected at least {fewest}.")
            if tuple(sorted(set(values))) != values:
                raise InputError(f"The {name} are {listed(values)}; expected sorted, without repeats.")
        if len(self.parties) > limits.PARTIES or len(self.classes) > limits.MODEL_CLASSES:
            raise InputError(
                f"{len(self.parties):,} parties and {len(self.classes):,} classes; at most {limits.PARTIES:,} and "
                f"{limits.MODEL_CLASSES:,} are supported."
            )
        if odd := next((name for name in self.parties if not NAME.fullmatch(name)), None):
            raise InputError(f"Party name {odd!r:.60}; use up to 40 letters, digits, - and _.")
        if not all(name and isinstance(name, str) for name in self.classes):
            raise InputError("A class has no name.")
        check_bits(self.bits)
        if not FEW <= self.least <= len(self.parties):
            raise InputError(
                f"The least number of remaining parties is {self.least}; expected {FEW} to {len(self.parties)}."
            )
        if self.noise and self.noise.makers > self.least:
            raise InputError(
                f"The noise is shared by {self.noise.makers} parties, but {self.least} may remain, whose noise is "
                "too little. Require more parties to remain, or let fewer make up the noise."
            )
        if self.shift and (len(self.shift) != self.layout.width or not np.isfinite(self.shift).all()):
            raise InputError(f"The shift has {len(self.shift)} numbers; expected {self.layout.width}, all finite.")

    @property
    def length(self) -> int:
        return length(len(self.classes), self.layout)

    @property
    def about(self) -> Array:
        return np.array(self.shift) if self.shift else np.zeros(self.layout.width)

    def to_json(self) -> Json:
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
        return json_digest(self.to_json())


def agreement_of(
    parties: Sequence[str], classes: Sequence[str], origin: Origin, layout: Layout, **more: object
) -> Agreement:
    """An agreement from names in any order; `more` are further fields of `Agreement`."""
    for what, names in (("party", parties), ("class", classes)):
        if twice := sorted({name for name in names if list(names).count(name) > 1}):
            raise InputError(f"The {what} {twice[0]!r} is given twice.")
    return Agreement(tuple(sorted(parties)), tuple(sorted(classes)), origin, layout, **more)  # type: ignore[arg-type]


def write_agreement(agreement: Agreement, folder: Path) -> None:
    """Write the file into a folder, which is created if needed."""
    folder.mkdir(exist_ok=True)
    write_file(folder / FILE, json.dumps(agreement.to_json(), indent=1, ensure_ascii=False).encode())


def read_agreement(folder: Path) -> Agreement:
    """The agreement in a folder, checked, not trusted."""
    file = folder / FILE
    if not file.is_file():
        raise StoreError(f"{folder} has no {FILE}. `yoro parties agree FOLDER` writes one.")
    table = read_table(file, KIND, FORMAT, limits.AGREEMENT_BYTES)
    with refuse_damaged(file):
        shift = tuple(float(cast(float, number)) for number in cast("list[object]", table["shift"]))
        return Agreement(
            _names(table["parties"]), _names(table["classes"]), checked_origin(cast(Json, table["origin"]), {}),
            Layout.from_config(table["readings"]), shift, int(cast(int, table["bits"])), int(cast(int, table["least"])),
            None if table["noise"] is None else Noise.from_json(table["noise"]), _session(table["session"]),
        )  # fmt: skip


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InputError("expected a list of names")
    return tuple(value)


def _session(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{32}", value):
        raise InputError("expected a session of 32 hex digits")
    return value
