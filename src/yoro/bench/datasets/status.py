"""What of each dataset is there, what is not, and where to get it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from yoro.bench.datasets.attribute_files import (
    BANKS,
    INDICES,
    TEMPLATES,
    bank_places,
    find_bank,
    find_index,
    index_places,
    read_templates,
    template_places,
)
from yoro.bench.datasets.bench_datasets import DATASETS
from yoro.bench.datasets.contract import BenchDataset, split_counts, unchecked
from yoro.bench.datasets.splitfiles import SplitFile
from yoro.data.examples import shown
from yoro.errors import DatasetError, InputError
from yoro.text.banks import read_sentences

__all__ = ["Item", "all_status", "find_bank", "status"]

CAUSES = ("cse_1", "cse_2", "cse_3")
SEEDS = (1, 2, 3)
STAND_INS = {
    "imagenet": "The published CLIP runs of BLM and AutoVP use ImageNet's 80 templates; 80 of ours stand in "
    "(yoro.refining.baselines.clip_texts), and the numbers may differ.",
    "carprt": "CARPRT, MPE and WPE were published with a pool of 247 templates; ours stand in (yoro.text.banks), and "
    "the numbers may differ.",
}


@dataclass(frozen=True)
class Item:
    """One thing that a dataset needs or may have."""

    dataset: str  # its name; empty for what all share
    kind: str  # images, split file, sentences des, sentences dist, sentences cse, few-shot index, templates NAME
    needed: bool  # without it the dataset's runs cannot be made
    state: str  # present, missing, partial, no split file, another split, two copies or broken
    place: str = ""
    looked: tuple[str, ...] = ()
    found: Mapping[str, int] = field(default_factory=dict)
    expected: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    where: str = ""

    @property
    def present(self) -> bool:
        """Whether it is there, whole."""
        return self.state == "present"


def all_status(roots: Sequence[Path], datasets: Iterable[BenchDataset] | None = None) -> list[Item]:
    """Items of the datasets given, by default of all; and the template lists, if any of them is for image-text runs."""
    chosen = list(DATASETS.values() if datasets is None else datasets)
    shared = _templates(roots) if any(dataset.bank is not None for dataset in chosen) else []
    return [*(item for dataset in chosen for item in status(dataset, roots)), *shared]


def status(dataset: BenchDataset, roots: Sequence[Path]) -> list[Item]:
    """Items of one dataset: images, split file, sentences, few-shot indices; those that it can have."""
    items = [_images(dataset, roots)]
    if dataset.split_file is not None:
        items.append(_split_file(dataset, roots))
    if dataset.bank is not None:
        items += [_sentences(dataset, roots, "des", needed=True), _sentences(dataset, roots, "dist", needed=False)]
        items += [_causes(dataset, roots), _indices(dataset, roots)]
    return items


def _images(dataset: BenchDataset, roots: Sequence[Path]) -> Item:
    expected = {**dataset.counts, **({"classes": dataset.classes} if dataset.classes else {})}
    try:
        found = dataset.find(roots)
    except InputError as error:
        known = error if isinstance(error, DatasetError) else DatasetError(str(error))
        looked, counts, where = known.looked, known.found, dataset.where
        return Item(dataset.name, "images", True, known.state, "", looked, counts, expected, str(error), where)
    counts = {**split_counts(found.dataset), "classes": len(found.dataset.classes)}
    return Item(
        dataset.name, "images", True, "present", found.place, (found.place,), counts, expected, " ".join(found.notes)
    )


def _split_file(dataset: BenchDataset, roots: Sequence[Path]) -> Item:
    look = unchecked(dataset)
    places = look.places(roots) if isinstance(look, SplitFile) else []
    present = [shown(place) for place in places if place.is_file()]
    looked = tuple(shown(place) for place in places)
    if present:
        return Item(dataset.name, "split file", True, "present", present[0], looked)
    problem = f"'{dataset.split_file}' is not there."
    return Item(dataset.name, "split file", True, "missing", "", looked, problem=problem, where=dataset.where)


def _sentences(dataset: BenchDataset, roots: Sequence[Path], kind: str, *, needed: bool) -> Item:
    name, expected = f"sentences {kind}", {"classes": dataset.classes}
    looked = tuple(shown(place) for place in bank_places(dataset, roots, kind))
    try:
        place = find_bank(dataset, roots, kind)
        found = {"classes": len(read_sentences(place))}
    except InputError as error:
        state = error.state if isinstance(error, DatasetError) else "broken"
        return Item(dataset.name, name, needed, state, "", looked, {}, expected, str(error), BANKS)
    if found != expected:
        problem = f"'{shown(place)}' describes {found['classes']} classes; expected {dataset.classes}."
        return Item(dataset.name, name, needed, "partial", shown(place), looked, found, expected, problem, BANKS)
    return Item(dataset.name, name, needed, "present", shown(place), looked, found, expected)


def _causes(dataset: BenchDataset, roots: Sequence[Path]) -> Item:
    """The three files of causes as one item; they are used together or not at all."""
    items = [_sentences(dataset, roots, kind, needed=False) for kind in CAUSES]
    wrong = [item for item in items if not item.present]
    worst = wrong[0] if wrong else items[0]
    found, expected = {"files": len(items) - len(wrong)}, {"files": len(items)}
    state = "partial" if wrong and found["files"] and worst.state == "missing" else worst.state
    looked = tuple(place for item in items for place in item.looked)
    return Item(
        dataset.name, "sentences cse", False, state, items[0].place, looked, found, expected, worst.problem, worst.where
    )


def _indices(dataset: BenchDataset, roots: Sequence[Path]) -> Item:
    present = [place for seed in SEEDS if (place := find_index(dataset, roots, seed)) is not None]
    looked = tuple(shown(place) for seed in SEEDS for place in index_places(dataset, roots, seed))
    state = "present" if len(present) == len(SEEDS) else "partial" if present else "missing"
    found, expected = {"files": len(present)}, {"files": len(SEEDS)}
    folder = shown(present[0].parent) if present else ""
    where = "" if state == "present" else INDICES
    return Item(dataset.name, "few-shot index", False, state, folder, looked, found, expected, where=where)


def _templates(roots: Sequence[Path]) -> list[Item]:
    items = []
    for name, count in TEMPLATES.items():
        places = template_places(roots, name)
        place = next((place for place in places if place.is_file()), None)
        looked, kind = tuple(map(shown, places)), f"templates {name}"
        if place is None:
            where = f"Put the {count} into 'templates/{name}.txt' under a data root, one a line, '{{}}' for the class."
            items.append(Item("", kind, False, "missing", "", looked, {}, {"lines": count}, STAND_INS[name], where))
            continue
        try:
            found = {"lines": len(read_templates(place))}
            state = "present" if found["lines"] == count else "partial"
            items.append(Item("", kind, False, state, shown(place), looked, found, {"lines": count}))
        except InputError as error:
            items.append(Item("", kind, False, "broken", shown(place), looked, {}, {"lines": count}, str(error)))
    return items
