"""Runs a plan: every cell once, whatever happened before, and whatever happens to the others."""

from __future__ import annotations

import datetime
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yoro.bench.cell_inputs import (
    Opened,
    altered,
    digests,
    draw_images,
    open_data,
    open_pipeline,
    published_index,
    stage_of,
)
from yoro.bench.cells import Cell, digest_of
from yoro.bench.cells import Reading as CellReading
from yoro.bench.context import Answer, Ground
from yoro.bench.datasets.drawing import Drawn
from yoro.bench.methods.bench_methods import find_method
from yoro.bench.plan import Plan
from yoro.bench.progress import Tally, spell
from yoro.bench.response_cache import Shelf
from yoro.bench.results import Entry, Result, Results
from yoro.bench.sentences import Origin, choose_sentences
from yoro.data.examples import Example
from yoro.errors import YoroError, one_line
from yoro.machine import cores
from yoro.model.pipeline import Pipeline, Reading
from yoro.refining.settings import check_torch
from yoro.sources.contract import is_dual
from yoro.version import __version__


@dataclass(frozen=True)
class Means:
    """With what a plan is run: settings that change the time it takes and never the numbers."""

    roots: Sequence[Path] = ()
    device: str = "auto"
    workers: int | None = 0  # decoding processes
    batch_size: int = 32
    progress: bool = False
    tell: Callable[[str], None] = lambda _: None


def run_plan(plan: Plan, results: Results, means: Means) -> Tally:
    """Compute every cell that has no result yet; each is written as soon as it is known."""
    unique = list({entry.cell.name: entry for entry in plan.entries()}.values())  # two columns may be one cell
    run = _Run(plan, results, means, Tally(len(unique)))
    for mine in _grouped(unique, lambda entry: entry.cell.dataset):
        run.dataset(mine)
    return run.tally


@dataclass(frozen=True)
class _Job:
    """A cell to compute: its images, its sentences, and digests of all that it depends on."""

    entry: Entry
    drawn: Drawn
    draw: str  # its name among the results
    sentences: tuple[Origin, ...]
    depends: Mapping[str, str]

    @property
    def images(self) -> list[Example]:
        """All images of the cell."""
        return [*self.drawn.train, *self.drawn.val, *self.drawn.test]


class _Run:
    def __init__(self, plan: Plan, results: Results, means: Means, tally: Tally) -> None:
        self._plan, self._results, self._means = plan, results, means
        self._draws: dict[tuple[int, CellReading], tuple[Drawn, str]] = {}  # of one dataset: methods share them
        self._pipelines: dict[object, Pipeline] = {}  # open ones, which datasets share
        self._closed: dict[str, Exception] = {}  # sources that could not be opened: they are not asked again
        self.tally = tally

    def dataset(self, mine: Sequence[Entry]) -> None:
        """All cells of one dataset."""
        name = mine[0].cell.dataset
        self._draws = {}
        try:
            roots, progress = self._means.roots, self._means.progress
            opened = open_data(name, self._plan, self._results, roots, progress=progress)
        except (YoroError, OSError) as error:
            self._cannot_open(mine, error)
            return
        for note in opened.found.notes:
            self._means.tell(f"{name}: {note}")
        old = sum(self._aged(entry, opened.manifest.digest) for entry in mine)
        if old:
            told = f"{name}: {altered(opened.manifest)} {old} finished cells were computed on other data"
            self._means.tell(f"{told} and are computed again.")
        for group in _grouped(mine, lambda entry: stage_of(entry.cell)):
            self._stage(opened, group)

    def _aged(self, entry: Entry, digest: str) -> bool:
        """Whether a cell has results, but none on these data."""
        known = self._results.of(entry.cell)
        return bool(known) and all(result.depends.get("data") != digest for result in known)

    def _stage(self, opened: Opened, group: Sequence[Entry]) -> None:
        """All cells of one dataset, source and prompt: the responses they share are read once."""
        try:
            pipeline = self._pipeline(group[0].cell, opened)
        except Exception as error:  # sources fail in as many ways as there are libraries
            self._closed[group[0].cell.source] = error
            self._cannot_open(group, error)
            return
        waiting = [job for entry in group for job in self._wanted(entry, opened, pipeline)]
        if not waiting:
            return
        folder = digest_of({"data": opened.manifest.digest, **pipeline.describe()})
        try:
            shelf = Shelf(self._results.folder / "responses" / folder)
            reading = Reading(self._means.batch_size, self._means.workers, strict=True)
            needed = [image for job in waiting for image in job.images]
            shelf.read(needed, pipeline, reading, progress=self._means.progress)
        except (YoroError, OSError) as error:
            self._fail([job.entry for job in waiting], error)
            return
        for job in waiting:
            self._compute(job, self._ground(job, opened, pipeline, shelf))

    def _pipeline(self, cell: Cell, opened: Opened) -> Pipeline:
        if cell.source in self._closed:
            raise self._closed[cell.source]
        key = *stage_of(cell), opened.about.legacy_side if cell.prompt == "legacy-padding" else None
        if key not in self._pipelines:
            self._pipelines[key] = open_pipeline(cell, opened.about, self._means.device)
        return self._pipelines[key]

    def _wanted(self, entry: Entry, opened: Opened, pipeline: Pipeline) -> list[_Job]:
        """The cell as a job, unless it is finished or cannot be one."""
        cell, roots = entry.cell, self._means.roots
        try:
            sentences = choose_sentences(cell, opened.about, roots) if is_dual(pipeline.source) else ()
            index = published_index(cell, opened.about, roots)
            depends = digests(cell, opened, pipeline, sentences, index)
            if self._results.finished(cell, depends) is not None:
                self.tally.found += 1
                return []
            key = cell.seed, cell.reading
            if key not in self._draws:
                drawn = draw_images(cell, opened, index)
                self._draws[key] = drawn, self._results.keep_draw(drawn)
        except (YoroError, OSError) as error:
            self._fail([entry], error)
            return []
        return [_Job(entry, *self._draws[key], sentences, depends)]

    def _ground(self, job: _Job, opened: Opened, pipeline: Pipeline, shelf: Shelf) -> Ground:
        cell, means = job.entry.cell, self._means
        scratch = self._results.folder / "trainings" / digest_of({"cell": cell.key(), "depends": dict(job.depends)})
        scratch.parent.mkdir(parents=True, exist_ok=True)
        return Ground(
            cell, opened.about, job.drawn, pipeline, shelf, job.sentences, scratch, means.device, means.progress
        )

    def _compute(self, job: _Job, ground: Ground) -> None:
        cell, drawn = job.entry.cell, job.drawn
        method = find_method(cell.method)
        try:
            if method.trains:
                check_torch(f"The method {cell.method!r}")
            answer: Answer = method.run(ground, method.make_options(dict(cell.options)))
        except Exception as error:  # whatever one method runs into is no other's concern
            shutil.rmtree(ground.scratch, ignore_errors=True)
            self._fail([job.entry], error)
            return
        result = Result(
            cell, job.depends, tested=len(drawn.test), fitted=len(drawn.train), draw=job.draw,
            image_seconds=ground.shelf.seconds_an_image, machine=_machine(self._means.device),
            finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"), **vars(answer),
        )  # fmt: skip
        self._results.write(result)
        shutil.rmtree(ground.scratch, ignore_errors=True)
        self.tally.computed += 1
        what = f"{100 * result.accuracy:.1f} % of {result.tested:,}, {spell(result.seconds)}"
        self._means.tell(self.tally.line(job.entry, what))

    def _cannot_open(self, entries: Sequence[Entry], error: Exception) -> None:
        """Data or a source that is not there: cells that were computed before stay as they are, the others fail."""
        known = [entry for entry in entries if self._results.of(entry.cell)]
        self.tally.found += len(known)
        if known:
            told = f"{len(known)} finished cells of {known[0].dataset} are kept, but could not be checked"
            self._means.tell(f"{told}: {_reason(error)}")
        self._fail([entry for entry in entries if not self._results.of(entry.cell)], error)

    def _fail(self, entries: Sequence[Entry], error: Exception) -> None:
        """Record why cells could not be computed; many of one reason are told as one."""
        reason, tally = _reason(error), self.tally
        for entry in entries:
            self._results.fail(entry.cell, reason)
        tally.failed += len(entries)
        if entries:
            tally.errors[reason] = tally.errors.get(reason, 0) + len(entries)
        if len(entries) == 1:
            self._means.tell(tally.line(entries[0], f"failed: {reason}"))
        elif entries:
            self._means.tell(f"{len(entries)} cells of {entries[0].dataset} failed: {reason}")


def _reason(error: Exception) -> str:
    """An error in one line, with its kind where it is none of ours."""
    text, kind = one_line(error), type(error).__name__
    return text if isinstance(error, YoroError) or text == kind else f"{kind}: {text}"


def _grouped(entries: Sequence[Entry], key: Callable[[Entry], object]) -> list[list[Entry]]:
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return list(groups.values())


def _machine(device: str) -> dict[str, str]:
    return {
        "yoro": __version__, "python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}",
        "cores": str(cores()), "device": device,
    }  # fmt: skip
