"""Plans of the bench, and results for them that are made up rather than computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from yoro.refining.recipe import EpochRecord
from yoro.research.bench.plan import Plan, make_plan
from yoro.research.bench.results import CellResult, PlanEntry, Results, entries

SMALL = Path(__file__).parents[3] / "configs" / "small.toml"
Maker = Callable[
    [PlanEntry], CellResult | str | None
]  # a result, the error of a failure, or None if the run is missing


def plan_of(**changes: object) -> Plan:
    """Two datasets, one setting, YORO and YORO-FP, two seeds."""
    content: dict[str, object] = {
        "title": "A plan", "datasets": ["dtd", "svhn"], "methods": ["yoro", "yoro-fp"], "seeds": [0, 1],
        "settings": [{"name": "rn18-padding", "title": "ResNet-18", "source": "embedded:lite0", "prompt": "padding"}],
        "method": {"yoro": {"title": "YORO"}, "yoro-fp": {"title": "YORO-FP"}},
    }  # fmt: skip
    content.update(changes)
    used = {name for setting in content["settings"] for name in setting.get("methods", content["methods"])}
    content["method"] = {name: given for name, given in content["method"].items() if name in used}
    return make_plan(content)


def setting(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "title": name.upper(), "source": "embedded:lite0", "prompt": "padding", **more}


def result(entry: PlanEntry, correct: int, tested: int = 100, **more: object) -> CellResult:
    """A result of an entry's cell with this many right answers."""
    given: dict[str, object] = {"seconds": 2.0, "passes": 1, "fitted": 400} | more
    depends = {"data": f"{entry.dataset}-0123456789", "source": "weights"}
    made = CellResult(cell=entry.cell, depends=depends, correct=correct, tested=tested, **given)
    return replace(made, machine={"device": "cpu", "threads": "2"}, finished="2026-07-01T00:00:00Z")


def filled(plan: Plan, folder: Path, make: Maker) -> tuple[list[PlanEntry], list[str]]:
    """The entries of a plan after its runs were written to a folder and read back."""
    results = Results(folder)
    for entry in plan.entries():
        made = make(entry)
        if isinstance(made, CellResult):
            results.write(made)
        elif made is not None:
            results.fail(entry.cell, made)
    return entries(plan, Results(folder))


def counts(table: dict[tuple[str, str], tuple[int, ...]]) -> Maker:
    """Right answers of 100 by method and dataset, one for each seed; -1 is a missing run."""

    def make(entry: PlanEntry) -> CellResult | None:
        correct = table[entry.method, entry.dataset][entry.seed]
        return None if correct < 0 else result(entry, correct)

    return make


def epochs_of(n: int, *, best: int, loss: float | None = 1.0) -> tuple[EpochRecord, ...]:
    """Epochs 0 to n whose validation is best at one of them."""
    return tuple(
        EpochRecord(i, None if i == 0 or loss is None else loss / i, 60 - abs(i - best), 100, 1.0) for i in range(n + 1)
    )


def plausible(entry: PlanEntry) -> CellResult:
    """A result as a bench might give it, from the place alone."""
    number = int(entry.cell.name[:8], 16)
    base = 30 + 45 * (sum(map(ord, entry.dataset)) % 97) / 97
    gain = {"yoro": 20, "yoro-fp": 20.6, "frozen": 20.1, "refresh": 20.2, "momentum": 20.6, "deep": 12}.get(
        entry.method, 5
    )
    gain += 5 * (sum(map(ord, entry.setting)) % 7) / 7
    correct = min(1990, round(20 * (base + gain) + number % 17 - 8 + (sum(map(ord, entry.method)) % 60)))
    use = entry.method
    trained = use in ("yoro-fp", "flm", "ilm", "blm", "blm+", "deep", "rlm", "frozen", "refresh", "momentum")
    refines = use in ("yoro-fp", "frozen", "refresh", "momentum")
    n = 20 if refines else 200 if trained else 0
    depth = number % (n + 1) if refines and number % 5 > 2 else 0 if refines else None
    epochs = tuple(
        EpochRecord(
            i, None if i == 0 else 0.4 + (2.0 + number % 3) / (i + 1) ** 0.7,
            900 + (3 * (number % 7) - i if refines else int(60 - 400 / (i + 1) ** (0.3 + 0.2 * (number % 3)))),
            1500, 1.0,
        )
        for i in range(n + 1)
    )  # fmt: skip
    seconds = (1.7 + number % 10 / 10) * (1 + n) if trained else 1.5 + number % 10 / 20
    return result(
        entry, correct, 2000, seconds=seconds, passes=n + 1, depth=depth, epochs=epochs if trained else (),
        validation=(950 + number % 5, 1500), selected_on="validation" if trained else None,
    )  # fmt: skip
