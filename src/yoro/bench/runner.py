"""Runs a plan: every cell once, whatever happened before, and whatever happens to the others."""

from __future__ import annotations

import datetime
import hashlib
import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from yoro.bench.cells import Cell, digest_of
from yoro.bench.ground import Answer, Ground
from yoro.bench.methods import find_method
from yoro.bench.plan import Plan
from yoro.bench.results import Entry, Result, Results
from yoro.bench.sentences import Origin, choose_sentences
from yoro.bench.shelf import Shelf
from yoro.data.datasets.attribute_files import find_index
from yoro.data.datasets.contract import BenchDataset, Found
from yoro.data.datasets.drawing import Drawn, draw, draw_published
from yoro.data.datasets.pointing import find_at
from yoro.data.datasets.registry import find_bench_dataset
from yoro.data.examples import Example, listed
from yoro.data.manifest import Manifest, take_manifest
from yoro.errors import InputError, YoroError
from yoro.importing import import_here
from yoro.machine import cores
from yoro.pipeline import Pipeline, Reading, make_pipeline
from yoro.sources.contract import is_dual
from yoro.version import __version__

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Means:
    """With what a plan is run: settings that change the time it takes and never the numbers."""

    roots: Sequence[Path] = ()
    device: str = "auto"
    workers: int | None = 0  # decoding processes
    batch_size: int = 32
    progress: bool = False
    tell: Tell = lambda _: None


@dataclass
class Tally:
    """How a run went."""

    total: int
    found: int = 0  # finished before
    computed: int = 0
    failed: int = 0
    errors: dict[str, int] = field(default_factory=dict)  # how many cells failed for each reason

    @property
    def dealt_with(self) -> int:
        """Cells that need no more thought in this run."""
        return self.found + self.computed + self.failed

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.total} cells: {self.found} were finished before, {self.computed} computed{failed}"


@dataclass(frozen=True)
class Opened:
    """A dataset as it lies here."""

    dataset: BenchDataset
    found: Found
    digest: str


def run_plan(plan: Plan, results: Results, means: Means) -> Tally:
    """Compute every cell that has no result yet; each is written as soon as it is known."""
    run = _Run(plan, results, means)
    for mine in _grouped(plan.entries(), lambda entry: entry.cell.dataset).values():
        run.dataset(mine)
    return run.tally


class _Run:
    def __init__(self, plan: Plan, results: Results, means: Means) -> None:
        self._plan, self._results, self._means = plan, results, means
        self._started = time.perf_counter()
        self._done: set[str] = set()  # names of cells dealt with: two columns may be the same cell
        self.tally = Tally(len({entry.cell.name for entry in plan.entries()}))

    def dataset(self, mine: Sequence[Entry]) -> None:
        """All cells of one dataset."""
        try:
            opened = self._open(mine[0].cell.dataset)
        except (YoroError, OSError) as error:
            self._fail(mine, error)
            return
        for group in _grouped(mine, lambda entry: stage_of(entry.cell)).values():
            self._setting(opened, group)

    def _open(self, name: str) -> Opened:
        dataset, found = find_data(name, self._plan, self._means.roots)
        for note in found.notes:
            self._means.tell(f"{name}: {note}")
        _refuse_same_names(found, name)
        file = manifest_file(self._results, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        manifest = take_manifest(found.dataset, file)
        old = {e.cell.name for e in self._plan.entries() if e.cell.dataset == name and self._aged(e, manifest.digest)}
        if old:
            self._means.tell(f"{name}: {_altered(manifest)} {len(old)} finished cells were computed on other data and "
                             "are computed again.")  # fmt: skip
        return Opened(dataset, found, manifest.digest)

    def _aged(self, entry: Entry, digest: str) -> bool:
        """Whether a cell has results, but none on these data."""
        known = self._results.of(entry.cell)
        return bool(known) and all(result.depends.get("data") != digest for result in known)

    def _setting(self, opened: Opened, group: Sequence[Entry]) -> None:
        """All cells of one dataset, source and prompt: the responses they share are read once."""
        try:
            pipeline = _pipeline(group[0].cell, opened.dataset, self._means.device)
        except Exception as error:  # sources fail in as many ways as there are libraries
            self._fail(group, error)
            return
        waiting = [job for entry in group for job in self._wanted(entry, opened, pipeline)]
        if not waiting:
            return
        try:
            shelf = Shelf(self._shelf_folder(opened, pipeline))
            needed = [example for job in waiting for part in _parts(job.drawn) for example in part]
            reading = Reading(self._means.batch_size, self._means.workers, strict=True)
            shelf.read(needed, pipeline, reading, progress=self._means.progress)
        except (YoroError, OSError) as error:
            self._fail([job.entry for job in waiting], error)
            return
        for job in waiting:
            self._compute(job, self._ground(job, opened, pipeline, shelf))

    def _wanted(self, entry: Entry, opened: Opened, pipeline: Pipeline) -> list[_Job]:
        """The cell as a job, unless it is finished, failed, or stands in another column too."""
        cell = entry.cell
        if cell.name in self._done:
            return []
        try:
            dual = is_dual(pipeline.source)
            sentences = choose_sentences(cell, opened.dataset, self._means.roots) if dual else ()
            depends = _depends(cell, opened, pipeline, sentences)
            if self._results.finished(cell, depends) is not None:
                self._done.add(cell.name)
                self.tally.found += 1
                return []
            drawn = _drawn(cell, opened, self._means.roots)
        except (YoroError, OSError) as error:
            self._fail([entry], error)
            return []
        self._done.add(cell.name)
        return [_Job(entry, drawn, sentences, depends)]

    def _compute(self, job: _Job, ground: Ground) -> None:
        cell = job.entry.cell
        method = find_method(cell.method)
        try:
            answer: Answer = method.run(ground, method.make_options(dict(cell.options)))
        except Exception as error:  # whatever one method runs into is no other's concern
            shutil.rmtree(ground.scratch, ignore_errors=True)
            self._fail([job.entry], error)
            return
        drawn = job.drawn
        result = Result(
            cell, job.depends, tested=len(drawn.test), fitted=len(drawn.train),
            image_seconds=ground.shelf.seconds_an_image, machine=_machine(self._means.device),
            finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"), **vars(answer),
        )  # fmt: skip
        self._results.write(result)
        shutil.rmtree(ground.scratch, ignore_errors=True)
        self.tally.computed += 1
        self._say(job.entry, f"{100 * result.accuracy:.1f} % of {result.tested:,}, {spell(result.seconds)}")

    def _ground(self, job: _Job, opened: Opened, pipeline: Pipeline, shelf: Shelf) -> Ground:
        cell = job.entry.cell
        scratch = self._results.folder / "trainings" / digest_of({"cell": cell.key(), "depends": dict(job.depends)})
        scratch.parent.mkdir(parents=True, exist_ok=True)
        return Ground(
            cell, opened.dataset, job.drawn, pipeline, shelf, job.sentences, scratch, self._means.device,
            self._means.progress,
        )  # fmt: skip

    def _shelf_folder(self, opened: Opened, pipeline: Pipeline) -> Path:
        return self._results.folder / "responses" / digest_of({"data": opened.digest, **pipeline.describe()})

    def _fail(self, entries: Sequence[Entry], error: Exception) -> None:
        """Record why cells could not be computed; many of one reason are told as one."""
        reason = " ".join(str(error).split()) or type(error).__name__
        if not isinstance(error, YoroError):
            reason = f"{type(error).__name__}: {reason}"
        fresh = list({entry.cell.name: entry for entry in entries}.values())
        for entry in fresh:
            self._results.fail(entry.cell, reason)
            self._done.add(entry.cell.name)
        self.tally.failed += len(fresh)
        self.tally.errors[reason] = self.tally.errors.get(reason, 0) + len(fresh)
        if len(fresh) == 1:
            self._say(fresh[0], f"failed: {reason}")
        elif fresh:
            self._means.tell(f"{len(fresh)} cells of {fresh[0].dataset} failed: {reason}")

    def _say(self, entry: Entry, what: str) -> None:
        tally = self.tally
        taken = time.perf_counter() - self._started
        left = taken / max(tally.computed, 1) * (tally.total - tally.dealt_with)
        rest = f"; about {spell(left)} left" if tally.dealt_with < tally.total and tally.computed else ""
        place = f"{entry.setting}, {entry.dataset}, {entry.method}, seed {entry.seed}"
        self._means.tell(f"[{tally.dealt_with} of {tally.total}] {place}: {what}{rest}")


@dataclass(frozen=True)
class _Job:
    """A cell to compute: its images, its sentences, and digests of all that it depends on."""

    entry: Entry
    drawn: Drawn
    sentences: tuple[Origin, ...]
    depends: Mapping[str, str]


def _drawn(cell: Cell, opened: Opened, roots: Sequence[Path]) -> Drawn:
    """The images of a cell."""
    reading, dataset = cell.reading, opened.found.dataset
    if reading.draws == "published":
        index = find_index(opened.dataset, roots, cell.seed, reading.shots or 0)
        if index is None:
            raise InputError(
                f"{opened.dataset.title}: no published draw of {reading.shots} images a class for seed {cell.seed} was "
                'found; `yoro bench datasets` says where it is looked for. Our own draws have draws = "ours".'
            )
        return draw_published(dataset, index)
    return draw(dataset, seed=cell.seed, shots=reading.shots, limit=reading.limits(), grouped=reading.grouped)


def find_data(name: str, plan: Plan, roots: Sequence[Path]) -> tuple[BenchDataset, Found]:
    """A dataset of the plan, where the plan says it is, or under the roots."""
    dataset, place = find_bench_dataset(name), plan.data.get(name)
    return dataset, find_at(dataset, Path(place)) if place else dataset.find(roots)


def manifest_file(results: Results, name: str) -> Path:
    """Where the digests of a dataset's files are kept."""
    return results.folder / "manifests" / f"{digest_of(name)}.json"


def _altered(manifest: Manifest) -> str:
    """What has changed since the last run, in a sentence."""
    altered = [*manifest.changed, *manifest.added, *manifest.removed]
    if not altered:
        return "It is another copy than before."
    return (
        f"{len(manifest.changed)} files have changed, {len(manifest.added)} are new and {len(manifest.removed)} gone "
        f"since the last run, such as {listed(altered[:1])}."
    )


def _parts(drawn: Drawn) -> tuple[Sequence[Example], ...]:
    return drawn.train, drawn.val, drawn.test


def _grouped(entries: Sequence[Entry], key: Callable[[Entry], object]) -> dict[object, list[Entry]]:
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return groups


def stage_of(cell: Cell) -> tuple[object, ...]:
    """What cells must have in common to share responses."""
    return cell.source, cell.prompt, cell.reading.read, cell.reading.frame, cell.reading.image_side


def _pipeline(cell: Cell, dataset: BenchDataset, device: str) -> Pipeline:
    reading = cell.reading
    side = reading.image_side
    if side is None and cell.prompt == "legacy-padding":
        side = dataset.legacy_side
    frame = "grey" if cell.prompt == "watermark" else _frame(reading.frame)
    return make_pipeline(
        cell.source, read=reading.read, prompt=cell.prompt, frame=frame, image_side=side, device=device
    )


def _frame(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _depends(cell: Cell, opened: Opened, pipeline: Pipeline, sentences: Sequence[Origin]) -> dict[str, str]:
    """Digests of what the plan only names."""
    depends = {"data": opened.digest, "source": str(pipeline.source.describe()["digest"])}
    if sentences:
        depends["sentences"] = digest_of([_content(origin) for origin in sentences])
    if ":" in cell.method:
        module = import_here(cell.method.partition(":")[0], cell.method, InputError)
        depends["method"] = _content(Path(str(module.__file__)))
    return depends


def _content(origin: Origin) -> str:
    return hashlib.sha256(origin.read_bytes()).hexdigest() if isinstance(origin, Path) else origin


def _refuse_same_names(found: Found, name: str) -> None:
    """Responses are kept by the names of images: each must have its own."""
    if len({example.name for example in found.dataset}) < len(found.dataset):
        raise InputError(f"Two images of {name!r} have the same name; every image needs its own.")


def _machine(device: str) -> dict[str, str]:
    return {"yoro": __version__, "python": platform.python_version(), "cores": str(cores()), "device": device}


def spell(seconds: float) -> str:
    """A time as a person says it.

    >>> [spell(seconds) for seconds in (0.04, 75, 7300)]
    ['0.04 s', '1.2 min', '2.0 h']
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
