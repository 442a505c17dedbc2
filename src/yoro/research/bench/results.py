"""Results of cells, one JSON file each, in a folder that plans share and runs resume from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from yoro import limits
from yoro.errors import InputError, StoreError
from yoro.files.atomic import write_file
from yoro.files.reading import read_json
from yoro.refining.recipe import EpochRecord
from yoro.research.bench.cells import EDITION, BenchCell, digest_of
from yoro.research.bench.datasets.drawing import Drawn

if TYPE_CHECKING:
    from yoro.research.bench.plan import Plan


@dataclass(frozen=True)
class CellFigures:
    """The numbers that a method computes for a cell."""

    correct: int  # test images classified correctly
    fitted: int  # training images
    seconds: float  # to fit or train; validation and test are not counted
    passes: int  # over the training images, as the paper counts them
    validation: tuple[int, int] | None = None  # correct answers and images, of the chosen predictor
    depth: int | None = None  # chosen epoch of a refinement, 0 for the predictor before it; None without refinement
    shrinkage: float | None = None
    retained: float | None = None  # share of the coordinates of a response that is kept, where some may be left out
    traversals: int | None = None  # of the training images as they were, where that is not the number of passes
    widths: tuple[int, int] | None = None  # of the second moment that is held, and of the whole response
    selected_on: Literal["validation", "test"] | None = None  # the images that chose the epoch
    epochs: tuple[EpochRecord, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CellResult(CellFigures):
    """The figures of one cell, and what they depend on."""

    cell: BenchCell
    depends: Mapping[str, str]  # digests of the data, of the source's weights, of the sentences
    tested: int
    draw: str = ""  # the images used: `draws/DRAW.json`
    transform: Mapping[str, object] = field(default_factory=dict)  # how images became pixels, as a geometry's config
    image_seconds: float = 0.0  # to decode one image and run the source, as measured
    machine: Mapping[str, str] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)  # peak bytes of the process, and of a graphics card
    finished: str = ""  # ISO 8601, UTC

    @property
    def accuracy(self) -> float:
        return self.correct / self.tested

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"cell": self.cell.key(), "edition": EDITION, "accuracy": self.accuracy}

    @classmethod
    def from_json(cls, value: object) -> CellResult:
        """The result of values that `to_json` gave; an error for anything else."""
        try:
            given = {f.name: value[f.name] for f in fields(cls) if f.name in value}  # type: ignore[index,operator]
            given["cell"] = BenchCell.from_key(given["cell"])
            given["epochs"] = tuple(EpochRecord(**epoch) for epoch in given.get("epochs", ()))
            given["widths"] = given.get("widths") and tuple(map(int, given["widths"]))
            given["notes"] = tuple(given.get("notes", ()))
            given["validation"] = given["validation"] and (int(given["validation"][0]), int(given["validation"][1]))
            result = cls(**given)
            if not 0 <= result.correct <= result.tested or result.tested < 1:
                raise ValueError(f"{result.correct} of {result.tested} correct")
        except (KeyError, TypeError, ValueError, IndexError, InputError) as error:
            raise StoreError(f"not a bench result: {error}") from None
        return result


@dataclass(frozen=True)
class PlanEntry:
    """A cell in its place in a plan, with its result or error so far."""

    setting: str
    method: str  # by its name in the plan
    dataset: str
    seed: int
    cell: BenchCell
    result: CellResult | None = None
    error: str | None = None  # why it failed, if it did


class Results:
    """A folder of results: `cells`, `failures` and `draws`, and beside them what is shared (`responses` ...)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.odd: list[str] = []  # messages on files that were ignored
        self._found: dict[str, list[CellResult]] | None = None

    def of(self, cell: BenchCell) -> list[CellResult]:
        """All results of a cell, newest first: more than one if the data or weights have changed since."""
        if self._found is None:
            self._found = self._read()
        return self._found.get(cell.name, [])

    def finished(self, cell: BenchCell, depends: Mapping[str, str]) -> CellResult | None:
        """The result of a cell with exactly these dependencies, if there is one, perhaps by another worker just now."""
        known = next((result for result in self.of(cell) if dict(result.depends) == dict(depends)), None)
        path = self.folder / "cells" / f"{name_of(cell, depends)}.json"
        if known is None and path.is_file() and (fresh := self._read_file(path)) is not None:
            assert self._found is not None
            self._found.setdefault(cell.name, []).insert(0, fresh)
            return fresh
        return known

    def write(self, result: CellResult) -> None:
        """Save a result, and remove the record of an earlier failure."""
        name = name_of(result.cell, result.depends)
        content = json.dumps(result.to_json(), indent=1, allow_nan=False).encode() + b"\n"
        _write(self.folder / "cells" / f"{name}.json", content)
        self._failure(result.cell).unlink(missing_ok=True)
        if self._found is not None:
            others = [old for old in self.of(result.cell) if dict(old.depends) != dict(result.depends)]
            self._found[result.cell.name] = [result, *others]

    def fail(self, cell: BenchCell, error: str) -> None:
        """Record that a cell could not be computed, and why."""
        _write(self._failure(cell), json.dumps({"cell": cell.key(), "error": error}, indent=1).encode() + b"\n")

    def error(self, cell: BenchCell, since: float = 0.0) -> str | None:
        """Why a cell failed last time, or None; `since` is the earliest time of the record that counts."""
        try:
            if self._failure(cell).stat().st_mtime < since:
                return None
            return str(json.loads(self._failure(cell).read_bytes())["error"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, OSError):
            return "it failed, and its record is damaged"

    def keep_draw(self, drawn: Drawn) -> str:
        """Write the images of a draw as a split file {split: [[name, number, class], ...]}, like CoOp's; its name."""
        numbers = {name: i for i, name in enumerate(sorted({example.label or "" for example in drawn.train}))}
        rows = {
            split: [[example.name, numbers.get(example.label or "", -1), example.label] for example in examples]
            for split, examples in vars(drawn).items()
            if examples or split != "pile"
        }
        name = digest_of(rows)
        path = self.folder / "draws" / f"{name}.json"
        if not path.is_file():
            _write(path, json.dumps(rows, ensure_ascii=False).encode())
        return name

    def _failure(self, cell: BenchCell) -> Path:
        return self.folder / "failures" / f"{cell.name}.json"

    def _read(self) -> dict[str, list[CellResult]]:
        found: dict[str, list[CellResult]] = {}
        for path in sorted((self.folder / "cells").glob("*.json")):
            result = self._read_file(path)
            if result is not None:
                found.setdefault(result.cell.name, []).append(result)
        for results in found.values():
            results.sort(key=lambda result: result.finished, reverse=True)
        return found

    def _read_file(self, path: Path) -> CellResult | None:
        """The result in a file; None, and a message, if it is damaged or of another edition."""
        try:
            value = read_json(path, limits.RESULT_BYTES)
            if not isinstance(value, dict) or value.get("edition") != EDITION:
                raise StoreError("it was computed by another edition of this code and will be recomputed")
            return CellResult.from_json(value)
        except (StoreError, ValueError) as error:
            told = f"{path.name} is ignored: {error}."
            if told not in self.odd:
                self.odd.append(told)
            return None


def name_of(cell: BenchCell, depends: Mapping[str, str]) -> str:
    """The digest that the result of a cell is stored under."""
    return digest_of({"cell": cell.key(), "depends": dict(depends), "edition": EDITION})


def entries(plan: Plan, results: Results) -> tuple[list[PlanEntry], list[str]]:
    """Every cell of a plan with its newest result, and warnings about results that must not be compared."""
    listed = []
    for entry in plan.entries():
        known = results.of(entry.cell)
        now = replace(entry, result=known[0]) if known else replace(entry, error=results.error(entry.cell))
        listed.append(now)
    return listed, [*results.odd, *_mixed(listed, results)]


def _mixed(listed: Sequence[PlanEntry], results: Results) -> list[str]:
    """Warnings about datasets and sources whose results come from different copies."""
    said = []
    for what in ("data", "source"):
        copies: dict[str, set[str]] = {}
        for entry in listed:
            if entry.result is not None:
                name = entry.cell.dataset if what == "data" else entry.cell.source
                copies.setdefault(name, set()).add(entry.result.depends.get(what, ""))
        said += [
            f"{name!r}: the results come from {len(found)} different copies of the {what} and must not be compared. "
            "Run the plan again with one of them."
            for name, found in copies.items()
            if len(found) > 1
        ]
    old = sum(len(results.of(entry.cell)) > 1 for entry in listed)
    if old:
        said.append(f"{old} cells also have older results, of other data or weights; the newest are shown.")
    return said


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content)
