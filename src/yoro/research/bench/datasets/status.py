"""`yoro bench datasets`: which files of each dataset are present or missing, and where to get them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from yoro.data.examples import shown
from yoro.errors import DatasetError, InputError
from yoro.research.bench.datasets import attribute_files
from yoro.research.bench.datasets.bench_datasets import DATASETS
from yoro.research.bench.datasets.dataset import BenchDataset, split_counts, unchecked
from yoro.research.bench.datasets.finding import SplitFileFinder
from yoro.text.banks import read_sentences

CAUSES = ("cse_1", "cse_2", "cse_3")
HEADER = ("dataset", "what", "state", "found / expected")
SHARED = "(all)"


@dataclass(frozen=True)
class StatusItem:
    """One thing that a dataset needs or may have."""

    dataset: str  # its name; empty for what all share
    kind: str  # images, split file, sentences des, sentences dist, sentences cse, few-shot index, templates NAME
    needed: bool  # without it the dataset's runs cannot be made
    state: str = "present"  # or missing, partial, no split file, another split, two copies or broken
    place: str = ""
    looked: tuple[str, ...] = ()
    found: Mapping[str, int] = field(default_factory=dict)
    expected: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    where: str = ""

    @property
    def present(self) -> bool:
        return self.state == "present"


def all_status(roots: Sequence[Path], datasets: Iterable[BenchDataset] | None = None) -> list[StatusItem]:
    """Items of the datasets given, by default of all; and the template lists, if any of them is for image-text runs."""
    chosen = list(DATASETS.values() if datasets is None else datasets)
    items = [item for dataset in chosen for item in status(dataset, roots)]
    if any(dataset.bank is not None for dataset in chosen):
        items += [_templates(name, known, roots) for name, known in attribute_files.PUBLISHED["templates"].items()]
    return items


def status(dataset: BenchDataset, roots: Sequence[Path]) -> list[StatusItem]:
    """Items of one dataset: images, split file, sentences, few-shot indices; those that it can have."""
    items = [_images(dataset, roots)]
    if dataset.split_file is not None:
        items.append(_split_file(dataset, roots))
    if dataset.bank is not None:
        items += [_sentences(dataset, roots, "des", needed=True), _sentences(dataset, roots, "dist", needed=False)]
        items += [_causes(dataset, roots), _indices(dataset, roots)]
    return items


def _images(dataset: BenchDataset, roots: Sequence[Path]) -> StatusItem:
    expected = {**dataset.counts, **({"classes": dataset.classes} if dataset.classes else {})}
    item = StatusItem(dataset.name, "images", True, expected=expected)
    try:
        found = dataset.find(roots)
    except DatasetError as error:
        item = replace(item, problem=str(error), where=dataset.where)
        return replace(item, state=error.state, looked=error.looked, found=error.found)
    counts = {**split_counts(found.dataset), "classes": len(found.dataset.classes)}
    return replace(item, place=found.place, looked=(found.place,), found=counts, problem=" ".join(found.notes))


def _split_file(dataset: BenchDataset, roots: Sequence[Path]) -> StatusItem:
    finder = unchecked(dataset)
    places = finder.places(roots) if isinstance(finder, SplitFileFinder) else []
    item = _looked(StatusItem(dataset.name, "split file", True), places)
    return item if item.present else replace(item, problem=f"'{dataset.split_file}' is missing.", where=dataset.where)


def _sentences(dataset: BenchDataset, roots: Sequence[Path], kind: str, *, needed: bool) -> StatusItem:
    item = StatusItem(dataset.name, f"sentences {kind}", needed, expected={"classes": dataset.classes})
    item, where = _looked(item, attribute_files.bank_places(dataset, roots, kind)), attribute_files.BANKS[kind]["where"]
    try:
        place = attribute_files.find_bank(dataset, roots, kind)
        found = {"classes": len(read_sentences(place))}
    except InputError as error:
        state = error.state if isinstance(error, DatasetError) else "broken"
        return replace(item, state=state, place="", problem=str(error), where=where)
    if found == item.expected:
        return replace(item, found=found)
    problem = f"'{item.place}' describes {found['classes']} classes; expected {dataset.classes}."
    return replace(item, state="partial", found=found, problem=problem, where=where)


def _causes(dataset: BenchDataset, roots: Sequence[Path]) -> StatusItem:
    """The three files of causes as one item; they are used together or not at all."""
    items = [_sentences(dataset, roots, kind, needed=False) for kind in CAUSES]
    wrong = [item for item in items if not item.present]
    worst, right = (wrong or items)[0], len(items) - len(wrong)
    state = "partial" if wrong and right and worst.state == "missing" else worst.state
    looked = tuple(place for item in items for place in item.looked)
    return replace(
        worst, kind="sentences cse", state=state, place=items[0].place, looked=looked, found={"files": right},
        expected={"files": len(items)},
    )  # fmt: skip


def _indices(dataset: BenchDataset, roots: Sequence[Path]) -> StatusItem:
    known = attribute_files.PUBLISHED["indices"]
    of_seed = [list(attribute_files.index_places(dataset, roots, seed)) for seed in known["seeds"]]
    present = [place for places in of_seed for place in places if place.is_file()]
    count = sum(any(place.is_file() for place in places) for places in of_seed)
    item = _looked(StatusItem(dataset.name, "few-shot index", False), [place for places in of_seed for place in places])
    item = replace(item, found={"files": count}, expected={"files": len(of_seed)})
    if count == len(of_seed):
        return replace(item, place=shown(present[0].parent))
    state, folder = ("partial", shown(present[0].parent)) if present else ("missing", "")
    return replace(item, state=state, place=folder, where=known["where"])


def _templates(name: str, known: Mapping[str, Any], roots: Sequence[Path]) -> StatusItem:
    places, count = attribute_files.template_places(roots, name), known["lines"]
    item = _looked(StatusItem("", f"templates {name}", False, expected={"lines": count}), places)
    if not item.present:
        where = f"Put the {count} into 'templates/{name}.txt' under a data root, one per line, '{{}}' for the class."
        return replace(item, problem=known["stand_in"], where=where)
    try:
        lines = len(attribute_files.read_templates(next(place for place in places if place.is_file())))
    except InputError as error:
        return replace(item, state="broken", problem=str(error))
    return replace(item, state="present" if lines == count else "partial", found={"lines": lines})


def _looked(item: StatusItem, places: Sequence[Path]) -> StatusItem:
    """An item with the places where it was looked for; present in the first that is a file, or missing."""
    there = next((shown(place) for place in places if place.is_file()), None)
    state = "missing" if there is None else "present"
    return replace(item, state=state, place=there or "", looked=tuple(map(shown, places)))


def status_table(items: Sequence[StatusItem]) -> str:
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


def status_advice(items: Sequence[StatusItem]) -> list[str]:
    """How to get what is missing: a paragraph per item, one per kind for files beside the images."""
    broken = {item.dataset for item in items if item.kind == "images" and not item.present}
    paragraphs = []
    beside: dict[tuple[str, str], list[StatusItem]] = {}
    for item in items:
        if item.present or (item.kind == "split file" and item.dataset in broken):  # the images' problem tells of it
            continue
        if item.kind in ("images", "split file") or (item.problem and item.state != "missing"):
            where = "" if item.where in item.problem else f" {item.where}"
            paragraphs.append(f"{item.dataset or SHARED}, {item.kind}: {item.problem}{where}")
        else:
            beside.setdefault((item.kind, item.where), []).append(item)
    return [*paragraphs, *(_joint(kind, where, missing) for (kind, where), missing in beside.items())]


def status_values(items: Sequence[StatusItem]) -> list[dict[str, object]]:
    """StatusItems as JSON-able values."""
    return [{**asdict(item), "looked": list(item.looked), "present": item.present} for item in items]


def _counts(item: StatusItem) -> str:
    keys = item.expected or item.found
    if not keys:
        return ""
    counted = {} if "classes" in item.found or not item.found else {"classes": "-"}
    counted |= {key: f"{count:,}" for key, count in item.found.items()}
    found = ", ".join(counted.get(key, "0") for key in keys) if item.found else "-"
    expected = ", ".join(f"{count:,}" for count in item.expected.values())
    return f"{found} / {expected}  ({', '.join(keys)})" if expected else f"{found}  ({', '.join(keys)})"


def _joint(kind: str, where: str, missing: Sequence[StatusItem]) -> str:
    """One paragraph on what several datasets are missing."""
    names = ", ".join(item.dataset for item in missing if item.dataset)
    places = f"Looked for '{missing[0].looked[0]}' and others." if missing[0].looked else ""
    told = " ".join(filter(None, ["" if names else missing[0].problem, where, places]))
    return f"{kind} ({names}): {told}" if names else f"{kind}: {told}"
