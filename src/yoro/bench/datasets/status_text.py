"""The status of datasets as text for people, and as values for machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from yoro.bench.datasets.status import Item

HEADER = ("dataset", "what", "state", "found / expected")
SHARED = "(all)"


def status_table(items: Sequence[Item]) -> str:
    """One line an item, aligned; the name of a dataset stands at its first."""
    rows = [HEADER]
    last = None
    for item in items:
        state = item.state if item.present or item.needed else f"{item.state} (optional)"
        rows.append(("" if item.dataset == last else item.dataset or SHARED, item.kind, state, _counts(item)))
        last = item.dataset
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def status_advice(items: Sequence[Item]) -> list[str]:
    """What is to be done about what is not there: a paragraph an item; files beside the images one a kind."""
    broken = {item.dataset for item in items if item.kind == "images" and not item.present}
    paragraphs = []
    beside: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        if item.present or (item.kind == "split file" and item.dataset in broken):  # the images' problem tells of it
            continue
        if item.kind in ("images", "split file") or (item.problem and item.state != "missing"):
            paragraphs.append(f"{item.dataset or SHARED}, {item.kind}: {_sentence(item)}")
        else:
            beside.setdefault((item.kind, item.where), []).append(item)
    return [*paragraphs, *(_joint(kind, where, missing) for (kind, where), missing in beside.items())]


def status_values(items: Sequence[Item]) -> list[dict[str, object]]:
    """Items as JSON-able values."""
    return [{**asdict(item), "looked": list(item.looked), "present": item.present} for item in items]


def _counts(item: Item) -> str:
    keys = item.expected or item.found
    if not keys:
        return ""
    if not item.found:
        return f"- / {_joined(item.expected.values())}" + _units(keys)
    if not item.expected:
        return _joined(item.found.values()) + _units(keys)
    found = ", ".join(
        "-" if key == "classes" and key not in item.found else f"{item.found.get(key, 0):,}" for key in keys
    )
    return f"{found} / {_joined(item.expected.values())}" + _units(keys)


def _joined(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)


def _units(keys: Iterable[str]) -> str:
    return f"  ({', '.join(keys)})"


def _joint(kind: str, where: str, missing: Sequence[Item]) -> str:
    """One paragraph on what several datasets lack."""
    names = ", ".join(item.dataset for item in missing if item.dataset)
    places = f"Looked for '{missing[0].looked[0]}' and others." if missing[0].looked else ""
    told = " ".join(filter(None, ["" if names else missing[0].problem, where, places]))
    return f"{kind} ({names}): {told}" if names else f"{kind}: {told}"


def _sentence(item: Item) -> str:
    told = item.problem
    return told if not item.where or item.where in told else f"{told} {item.where}"
