"""What came of the cells, one JSON file each, in a folder that runs can be resumed from and plans share."""

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
from yoro.research.bench.cells import EDITION, Cell, digest_of
from yoro.research.bench.datasets.drawing import Drawn

if TYPE_CHECKING:
    from yoro.research.bench.plan import Plan


@dataclass(frozen=True)
class Epoch:
    """One epoch of a training; epoch 0 is the predictor before it, and has no loss."""

    epoch: int
    loss: float | None
    correct: int  # of the images that the epoch was judged on
    total: int
    seconds: float


@dataclass(frozen=True)
class Result:
    """The figures of one cell, and what they depend on besides it."""

    cell: Cell
    depends: Mapping[str, str]  # digests of the data, of the source's weights, of the sentences
    correct: int  # test images answered rightly
    tested: int
    seconds: float  # to fit or train; validation and test are not counted
    passes: int  # traversals of the training images
    fitted: int  # training images
    validation: tuple[int, int] | None = None  # right answers and images, of the chosen predictor
    depth: int | None = None  # chosen epoch of a refinement, 0 for the predictor before it; None where nothing refines
    shrinkage: float | None = None
    retained: float | None = None  # share of the coordinates of a response that is kept, where some may be left out
    selected_on: Literal["validation", "test"] | None = None  # what chose the epoch
    epochs: tuple[Epoch, ...] = ()
    draw: str = ""  # which images these were: `draws/DRAW.json`
    image_seconds: float = 0.0  # to decode one image and ask the source, as measured
    notes: tuple[str, ...] = ()
    machine: Mapping[str, str] = field(default_factory=dict)
    finished: str = ""  # ISO 8601, UTC

    @property
    def accuracy(self) -> float:
        """Share of the test images answered rightly."""
        return self.correct / self.tested

    def to_json(self) -> dict[str, object]:
        """Plain values, as they are written."""
        return asdict(self) | {"cell": self.cell.key(), "edition": EDITION, "accuracy": self.accuracy}

    @classmethod
    def from_json(cls, value: object) -> Result:
        """The result of such values; an error if they are something else."""
        try:
            given = {f.name: value[f.name] for f in fields(cls) if f.name in value}  # type: ignore[index,operator]
            given["cell"] = Cell.from_key(given["cell"])
            given["epochs"] = tuple(Epoch(**epoch) for epoch in given.get("epochs", ()))
            given["notes"] = tuple(given.get("notes", ()))
            given["validation"] = given["validation"] and (int(given["validation"][0]), int(given["validation"][1]))
            result = cls(**given)
            if not 0 <= result.correct <= result.tested or result.tested < 1:
                raise ValueError(f"{result.correct} of {result.tested} right answers")
        except (KeyError, TypeError, ValueError, IndexError, InputError) as error:
            raise StoreError(f"no result of the bench: {error}") from None
        return result


@dataclass(frozen=True)
class PlanEntry:
    """A cell in its place in a plan, and what came of it so far."""

    setting: str
    method: str  # by its name in the plan
    dataset: str
    seed: int
    cell: Cell
    result: Result | None = None
    error: str | None = None  # why it failed, if it did


class Results:
    """A folder of results: `cells`, `failures` and `draws`, and beside them what is shared (`responses` ...)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.odd: list[str] = []  # sentences on files that could not be used
        self._found: dict[str, list[Result]] | None = None

    def of(self, cell: Cell) -> list[Result]:
        """All that came of a cell, the newest first: more than one if what it depends on has changed since."""
        if self._found is None:
            self._found = self._read()
        return self._found.get(cell.name, [])

    def finished(self, cell: Cell, depends: Mapping[str, str]) -> Result | None:
        """What came of a cell when everything it depends on was as it is now."""
        return next((result for result in self.of(cell) if dict(result.depends) == dict(depends)), None)

    def write(self, result: Result) -> None:
        """Keep a result; a failure of the same cell is forgotten."""
        name = digest_of({"cell": result.cell.key(), "depends": dict(result.depends), "edition": EDITION})
        content = json.dumps(result.to_json(), indent=1, allow_nan=False).encode() + b"\n"
        _write(self.folder / "cells" / f"{name}.json", content)
        self._failure(result.cell).unlink(missing_ok=True)
        if self._found is not None:
            others = [old for old in self.of(result.cell) if dict(old.depends) != dict(result.depends)]
            self._found[result.cell.name] = [result, *others]

    def fail(self, cell: Cell, error: str) -> None:
        """Record that a cell could not be computed, and why."""
        _write(self._failure(cell), json.dumps({"cell": cell.key(), "error": error}, indent=1).encode() + b"\n")

    def error(self, cell: Cell) -> str | None:
        """Why a cell failed last time; None if it did not."""
        try:
            return str(json.loads(self._failure(cell).read_bytes())["error"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, OSError):
            return "it failed, and the record of it is damaged"

    def keep_draw(self, drawn: Drawn) -> str:
        """Write the images of a draw as a split file {split: [[name, number, class], ...]}, as CoOp's are; its name."""
        numbers = {name: i for i, name in enumerate(sorted({example.label or "" for example in drawn.train}))}
        rows = {
            split: [[example.name, numbers.get(example.label or "", -1), example.label] for example in examples]
            for split, examples in vars(drawn).items()
        }
        name = digest_of(rows)
        path = self.folder / "draws" / f"{name}.json"
        if not path.is_file():
            _write(path, json.dumps(rows, ensure_ascii=False).encode())
        return name

    def _failure(self, cell: Cell) -> Path:
        return self.folder / "failures" / f"{cell.name}.json"

    def _read(self) -> dict[str, list[Result]]:
        found: dict[str, list[Result]] = {}
        for path in sorted((self.folder / "cells").glob("*.json")):
            try:
                value = read_json(path, limits.RESULT_BYTES)
                if not isinstance(value, dict) or value.get("edition") != EDITION:
                    raise StoreError("it was computed by another edition of this code, and is computed again")
                result = Result.from_json(value)
            except (StoreError, ValueError) as error:
                self.odd.append(f"{path.name} is not used: {error}.")
                continue
            found.setdefault(result.cell.name, []).append(result)
        for results in found.values():
            results.sort(key=lambda result: result.finished, reverse=True)
        return found


def entries(plan: Plan, results: Results) -> tuple[list[PlanEntry], list[str]]:
    """Every cell of a plan with its newest result, and sentences on what does not belong together."""
    listed = []
    for entry in plan.entries():
        known = results.of(entry.cell)
        now = replace(entry, result=known[0]) if known else replace(entry, error=results.error(entry.cell))
        listed.append(now)
    return listed, [*results.odd, *_mixed(listed, results)]


def _mixed(listed: Sequence[PlanEntry], results: Results) -> list[str]:
    """Sentences on datasets and sources whose results come from different copies."""
    said = []
    for what in ("data", "source"):
        copies: dict[str, set[str]] = {}
        for entry in listed:
            if entry.result is not None:
                name = entry.cell.dataset if what == "data" else entry.cell.source
                copies.setdefault(name, set()).add(entry.result.depends.get(what, ""))
        said += [
            f"{name!r}: the results come from {len(found)} different copies of the {what}; they must not be compared. "
            "Run the plan again with one of them."
            for name, found in copies.items()
            if len(found) > 1
        ]
    old = sum(len(results.of(entry.cell)) > 1 for entry in listed)
    if old:
        said.append(f"{old} cells have older results of other data or weights too; the newest are shown.")
    return said


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content)
