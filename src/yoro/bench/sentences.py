"""Which sentences a method reads on an image-text source: published banks, lists of templates, or ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from yoro.bench.cells import Cell
from yoro.bench.datasets.attribute_files import find_bank, read_templates, template_places
from yoro.bench.datasets.contract import BenchDataset
from yoro.bench.methods.bench_methods import find_method
from yoro.sources.contract import DualEncoder
from yoro.text.banks import BUILT_IN, Bank, fill_template
from yoro.text.encoded_bank import Wording, encode_bank, make_wording

Origin = str | Path  # "templates", "names", a bank {class: [sentences]} in JSON, or templates in a text file
SEED = 0  # of the draw of sentences: a plan has the same bank for every seed
PUBLISHED = "des"  # the reading that leaves the choice to the method


def choose_sentences(cell: Cell, dataset: BenchDataset, roots: Sequence[Path]) -> tuple[Origin, ...]:
    """What the method reads: its published kinds, or what the setting says instead."""
    kinds, said = find_method(cell.method).banks, cell.reading.attributes
    if kinds and said != PUBLISHED:
        return (said if said in BUILT_IN else Path(said),)
    return tuple(_published(kind, dataset, roots) for kind in kinds)


def _published(kind: str, dataset: BenchDataset, roots: Sequence[Path]) -> Origin:
    """A bank by its kind; a list of templates that is not there is replaced by ours."""
    word, _, name = kind.partition(" ")
    if word != "templates":
        return find_bank(dataset, roots, kind)
    return next((place for place in template_places(roots, name) if place.is_file()), "templates")


def is_list(origin: Origin) -> bool:
    """Whether this is a file of templates."""
    return isinstance(origin, Path) and origin.suffix.lower() == ".txt"


def make_sentences(source: DualEncoder, classes: Iterable[str], origin: Origin, each: int, progress: bool) -> Wording:
    """Sentences of the classes with their vectors; of a file of templates all are taken, in its order."""
    if not is_list(origin):
        return make_wording(source, classes, origin, each=each, seed=SEED, votes=False, progress=progress)[0]
    templates = read_templates(Path(origin))
    filled = {name: tuple(fill_template(template, name) for template in templates) for name in sorted(classes)}
    bank = Bank(filled, Path(origin).name, len(templates), SEED)
    return Wording(bank, encode_bank(source, bank, progress=progress), source.logit_scale, votes=False)
