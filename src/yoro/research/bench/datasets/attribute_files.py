"""The published files beside the images: attribute sentences, template lists and few-shot indices."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from yoro.data.examples import shown
from yoro.errors import DatasetError, InputError
from yoro.files.reading import read_bounded
from yoro.option import check_choice
from yoro.research.bench.datasets.dataset import BenchDataset
from yoro.research.bench.datasets.finding import dataset_folders

LARGEST_LIST = 1 << 20  # bytes of a template list
PUBLISHED: dict[str, dict[str, Any]] = tomllib.loads((files(__package__) / "attribute_files.toml").read_text("utf-8"))
BANKS: dict[str, dict[str, Any]] = PUBLISHED["banks"]  # by kind


def bank_places(dataset: BenchDataset, roots: Sequence[Path], kind: str) -> list[Path]:
    """Every name under which the sentences of a kind are looked for."""
    check_choice("kind of attribute file", kind, BANKS)
    plain = dataset.name.replace("-", "")
    return [root / name.format(bank=dataset.bank, plain=plain) for root in roots for name in BANKS[kind]["files"]]


def find_bank(dataset: BenchDataset, roots: Sequence[Path], kind: str = "des") -> Path:
    """The file {class: [sentences]} of a dataset: "des" describing, "dist" distinguishing, "cse_1" to "cse_3" causes.

    "cupl" are those of APE and TIMO, whose files are the same.
    "des" is DVP's file and AttrVR's of GPT-3, which are the same. Files that differ are an error.
    """
    places = bank_places(dataset, roots, kind)
    if dataset.bank is None:
        raise DatasetError(f"No attribute files were published for {dataset.title}.", state="missing")
    present = [place for place in places if place.is_file()]
    looked = [shown(place) for place in places]
    if not present:
        raise DatasetError(
            f"{dataset.title}: its attribute sentences ({kind}) were not found. Looked for "
            f"{', '.join(repr(place) for place in looked)}. {BANKS[kind]['where']}",
            state="missing",
            looked=looked,
        )
    for other in present[1:]:
        if other.read_bytes() != present[0].read_bytes():
            raise DatasetError(
                f"{dataset.title}: its sentences ({kind}) in '{shown(present[0])}' and '{shown(other)}' differ. "
                "Remove one, or give one --data root.",
                state="two copies",
                looked=[shown(present[0]), shown(other)],
            )
    return present[0]


def template_places(roots: Sequence[Path], name: str) -> list[Path]:
    """Where a user's list of templates may be."""
    return [root / "templates" / f"{name}.txt" for root in roots]


def read_templates(path: Path) -> list[str]:
    """Templates of a text file, one a line, as `fill_template` takes them; "{}" stands for the class too."""
    try:
        lines = read_bounded(path, LARGEST_LIST).decode("utf-8-sig").splitlines()
    except ValueError as error:
        raise InputError(f"'{shown(path)}' is not a text file of templates, one per line: {error}.") from None
    templates = [line.strip().replace("{}", "{name}") for line in lines if line.strip()]
    odd = next((text for text in templates if "{name}" not in text and "{a}" not in text), None)
    if odd is not None or not templates:
        came = f"a line {odd[:80]!r} has no place for the class" if odd is not None else "it is empty"
        raise InputError(f"'{shown(path)}': {came}; expected templates such as 'a photo of a {{}}.', one per line.")
    return templates


def index_places(dataset: BenchDataset, roots: Sequence[Path], seed: int, shots: int = 16) -> Iterator[Path]:
    """Where the published few-shot index of a seed may be."""
    name = f"shot_{shots}-seed_{seed}.json"
    for folder in dataset_folders(roots, dataset.folders):
        yield folder / "split_fewshot" / name
    for root in roots:
        for home in (f"fewshot{shots}/{dataset.bank}", f"splits/fewshot{shots}/{dataset.bank}"):
            yield root / home / name
        yield root / "splits" / f"{dataset.bank}-{name}"


def find_index(dataset: BenchDataset, roots: Sequence[Path], seed: int, shots: int = 16) -> Path | None:
    """The published few-shot index of a seed, which `yoro.data.find` reads; None if it is not there."""
    return next((place for place in index_places(dataset, roots, seed, shots) if place.is_file()), None)
