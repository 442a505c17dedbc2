"""Opens what a cell names: its dataset, pipeline, draw and sentences; and digests of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from yoro.data.examples import listed
from yoro.errors import InputError
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.settings import PipelineSettings
from yoro.research.baselines.published import ClipOptions
from yoro.research.bench.cells import BenchCell, digest_of
from yoro.research.bench.context import Origin
from yoro.research.bench.datasets.attribute_files import find_bank, find_index, template_places
from yoro.research.bench.datasets.bench_datasets import find_at, find_bench_dataset
from yoro.research.bench.datasets.dataset import BenchDataset, Found, Manifest, take_manifest
from yoro.research.bench.datasets.drawing import (
    Drawn,
    draw,
    draw_published,
    few_in_all,
    half_of,
    with_pile,
    with_whole_validation,
)
from yoro.research.bench.methods.bench_methods import find_method
from yoro.research.bench.plan import Plan
from yoro.research.bench.results import Results
from yoro.text.banks import BUILT_IN
from yoro.user_code import import_here

PUBLISHED = "des"  # in a plan: the sentences that the method was published with
SENTENCE = "sentence"  # ... the one template of the dataset


@dataclass(frozen=True)
class OpenedDataset:
    """A dataset as found on this machine, and what has changed since it was last used."""

    about: BenchDataset
    found: Found
    manifest: Manifest


def open_data(
    name: str, plan: Plan, results: Results, roots: Sequence[Path], *, progress: bool = False
) -> OpenedDataset:
    """A dataset of a plan with the digest of its contents, which is cached beside the results."""
    about, found = find_data(name, plan, roots)
    if len({example.name for example in found.dataset}) < len(found.dataset):
        raise InputError(f"Two images of {name!r} have the same name; names must be unique.")
    file = manifest_file(results, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    with tqdm(total=len(found.dataset), desc=f"checking {name}", unit="img", disable=None if progress else True,
              leave=False) as bar:  # fmt: skip
        return OpenedDataset(about, found, take_manifest(found.dataset, file, lambda _: bar.update()))


def find_data(name: str, plan: Plan, roots: Sequence[Path]) -> tuple[BenchDataset, Found]:
    """A dataset of a plan, where the plan says it is, or under the roots."""
    about, place = find_bench_dataset(name), plan.data.get(name)
    return about, find_at(about, Path(place)) if place else about.find(roots)


def manifest_file(results: Results, name: str) -> Path:
    """Where the digests of a dataset's files are kept."""
    return results.folder / "manifests" / f"{digest_of(name)}.json"


def altered(manifest: Manifest) -> str:
    """One sentence on what has changed since the last run."""
    names = [*manifest.changed, *manifest.added, *manifest.removed]
    if not names:
        return "This is another copy than before."
    counts = f"{len(manifest.changed)} files changed, {len(manifest.added)} are new, {len(manifest.removed)} are gone"
    return f"{counts}, e.g. {listed(names[:1])}."


def stage_of(cell: BenchCell) -> tuple[object, ...]:
    """What cells must have in common to share responses."""
    return cell.source, cell.prompt, cell.inputs.read, cell.inputs.frame, cell.inputs.image_side


def open_pipeline(cell: BenchCell, dataset: BenchDataset, device: str) -> Pipeline:
    """The source of a cell behind its prompt, on pixels as published; legacy padding has the dataset's image side."""
    inputs = cell.inputs
    side = inputs.image_side or (dataset.legacy_side if cell.prompt == "legacy-padding" else None)
    frame = PipelineSettings.frame if cell.prompt == "watermark" else inputs.frame
    return make_pipeline(PipelineSettings(cell.source, inputs.read, cell.prompt, frame, side, device, published=True))


def draw_images(cell: BenchCell, opened: OpenedDataset, index: Path | None) -> Drawn:
    """The images of a cell, by its seed or by the published index."""
    drawn = _drawn(cell, opened, index)
    if cell.inputs.validation == "split":
        return with_whole_validation(drawn, half_of(opened.found.dataset, cell.inputs.half))
    return drawn


def _drawn(cell: BenchCell, opened: OpenedDataset, index: Path | None) -> Drawn:
    if index is not None:
        return draw_published(opened.found.dataset, index)
    inputs = cell.inputs
    dataset = half_of(opened.found.dataset, inputs.half)
    drawn = draw(dataset, seed=cell.seed, shots=inputs.shots, limit=inputs.limits(), grouped=inputs.grouped)
    if inputs.examples is not None:
        drawn = few_in_all(drawn, inputs.examples, cell.seed)
    return drawn if inputs.pile is None else with_pile(drawn, dataset, inputs.pile, cell.seed)


def published_index(cell: BenchCell, dataset: BenchDataset, roots: Sequence[Path]) -> Path | None:
    """The published draw of a cell's seed, where the plan asks for it."""
    inputs = cell.inputs
    if inputs.draws != "published":
        return None
    index = find_index(dataset, roots, cell.seed, inputs.shots or 0)
    if index is None:
        raise InputError(
            f"{dataset.title}: the published draw of {inputs.shots} images per class for seed {cell.seed} was not "
            'found. `yoro bench datasets` lists where to put it; or set draws = "ours" in the plan.'
        )
    return index


def choose_sentences(cell: BenchCell, dataset: BenchDataset, roots: Sequence[Path]) -> tuple[Origin, ...]:
    """The sentences of a method on an image-text source: those published with it, unless the plan names others.

    None where image vectors alone are read, but for methods that train a prompt by texts.
    """
    method, said = find_method(cell.method), cell.inputs.attributes
    kinds = () if cell.inputs.read == "features" and method.options is not ClipOptions else method.banks
    if kinds and said == SENTENCE:
        return (dataset.template,)
    if kinds and said != PUBLISHED:
        return (said if said in BUILT_IN else Path(said),)
    return tuple(_published_sentences(kind, dataset, roots) for kind in kinds)


def _published_sentences(kind: str, dataset: BenchDataset, roots: Sequence[Path]) -> Origin:
    """A bank by its kind; our templates replace a missing list of templates."""
    if kind == SENTENCE:
        return dataset.template
    word, _, name = kind.partition(" ")
    if word != "templates":
        return find_bank(dataset, roots, kind)
    return next((place for place in template_places(roots, name) if place.is_file()), "templates")


def digests(
    cell: BenchCell, opened: OpenedDataset, pipeline: Pipeline, sentences: Sequence[Origin], index: Path | None
) -> dict[str, str]:
    """Digests of everything that a cell depends on beside its key."""
    found = {"data": opened.manifest.digest, "source": str(pipeline.source.describe()["digest"])}
    if sentences:
        found["sentences"] = digest_of([_content(origin) for origin in sentences])
    if index is not None:
        found["draw"] = _content(index)
    edition = find_method(cell.method).edition
    if edition > 1:
        found["edition"] = str(edition)
    if ":" in cell.method:
        module = import_here(cell.method.partition(":")[0], cell.method, InputError)
        found["method"] = _content(Path(str(module.__file__)))
    return found


def _content(origin: Origin) -> str:
    return hashlib.sha256(origin.read_bytes()).hexdigest() if isinstance(origin, Path) else origin
