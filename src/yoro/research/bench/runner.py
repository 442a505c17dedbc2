"""Runs a plan: computes every cell without a result; a cell that fails does not stop the others.

Any number of workers may run one plan on one folder of results: each cell, and each reading of responses, is claimed.
"""

from __future__ import annotations

import datetime
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from yoro.data.examples import Example
from yoro.errors import InputError, YoroError, counted, percent_text
from yoro.model.partial_pass import WHOLE, DataShare
from yoro.model.pipeline import Pipeline
from yoro.model.settings import STRICT, Loading
from yoro.refining.settings import check_torch
from yoro.research.bench import cell_loading
from yoro.research.bench.cells import BenchCell, CellInputs, digest_of
from yoro.research.bench.claims import Claim, Claims
from yoro.research.bench.context import Context, Origin
from yoro.research.bench.datasets.drawing import Drawn
from yoro.research.bench.machine import forget_peak, machine_facts, peak_memory
from yoro.research.bench.methods.bench_methods import find_method
from yoro.research.bench.plan import Plan
from yoro.research.bench.response_cache import ResponseCache
from yoro.research.bench.results import CellFigures, CellResult, PlanEntry, Results, name_of
from yoro.research.peers.method import failure
from yoro.sources.protocol import is_dual

LOOK = 1.0  # seconds between two looks at what other workers have


@dataclass(frozen=True)
class RunSettings:
    """How a plan is run: settings that change the time it takes, not the numbers."""

    roots: Sequence[Path] = ()
    device: str = "auto"
    loading: Loading = STRICT  # an image that cannot be read fails its cells
    progress: bool = False
    tell: Callable[[str], None] = lambda _: None
    tell_done: Callable[[str], None] = lambda _: None  # for finished cells, which may be many
    deterministic: bool = False  # the same bits every time on a graphics card, if more slowly; recorded
    share: DataShare = WHOLE  # of the cells: every N-th, so that slow methods are spread


@dataclass
class Progress:
    """Progress of a run: cells by state."""

    total: int
    found: int = 0  # finished before
    computed: int = 0
    elsewhere: int = 0  # computed by other workers meanwhile
    failed: int = 0
    errors: dict[str, int] = field(default_factory=dict)  # how many cells failed for each reason
    _started: float = field(default_factory=time.perf_counter, repr=False)

    @property
    def dealt_with(self) -> int:
        return self.found + self.computed + self.elsewhere + self.failed

    def line(self, entry: PlanEntry, what: str) -> str:
        """The state of a cell, the progress of the run, and about how long is left."""
        rest = ""
        if self.computed and self.dealt_with < self.total:
            each = (time.perf_counter() - self._started) / self.computed
            rest = f"; about {duration_text(each * (self.total - self.dealt_with))} left"
        place = f"{entry.setting}, {entry.dataset}, {entry.method}, seed {entry.seed}"
        return f"[{self.dealt_with} of {self.total}] {place}: {what}{rest}"

    def to_json(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __str__(self) -> str:
        others = f", {self.elsewhere} by other workers" if self.elsewhere else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.total} cells: {self.found} finished before, {self.computed} computed{others}{failed}"


def run_plan(plan: Plan, results: Results, settings: RunSettings) -> Progress:
    """Compute every cell that has no result yet; each result is saved at once."""
    todo = cells_of(plan, settings.share)
    run = _Run(plan, results, settings, Progress(len(todo)))
    while todo:
        for mine in _grouped(todo, lambda entry: entry.cell.dataset):
            run.dataset(mine)
        if len(run.busy) == len(todo):  # all that is left is in the hands of other workers
            time.sleep(LOOK)
        todo, run.busy, run.again = run.busy, [], True
    run.claims.clear()
    return run.progress


def cells_of(plan: Plan, share: DataShare) -> list[PlanEntry]:
    """The cells of a share of a plan, each once, whatever columns show it."""
    return list({entry.cell.name: entry for entry in plan.entries()}.values())[share.index - 1 :: share.of]


@dataclass(frozen=True)
class _CellJob:
    """A cell to compute: its images, its sentences, and digests of all that it depends on."""

    entry: PlanEntry
    drawn: Drawn
    draw: str  # its name among the results
    sentences: tuple[Origin, ...]
    depends: Mapping[str, str]

    @property
    def name(self) -> str:
        return name_of(self.entry.cell, self.depends)

    @property
    def images(self) -> list[Example]:
        return [*self.drawn.train, *self.drawn.val, *self.drawn.test, *self.drawn.pile]


class _Run:
    def __init__(self, plan: Plan, results: Results, settings: RunSettings, progress: Progress) -> None:
        self._plan, self._results, self._settings = plan, results, settings
        self._draws: dict[tuple[int, CellInputs], tuple[Drawn, str]] = {}  # of one dataset: methods share them
        self._pipelines: dict[object, Pipeline] = {}  # open ones, which datasets share
        self._closed: dict[str, Exception] = {}  # sources that could not be opened, and are not tried again
        self.claims = Claims(results.folder / "claims")
        self._started = time.time()
        self.busy: list[PlanEntry] = []  # what other workers have claimed
        self.again = False  # whether this is not the first look: what is finished now was computed elsewhere
        self.progress = progress

    def dataset(self, mine: Sequence[PlanEntry]) -> None:
        name = mine[0].cell.dataset
        self._draws = {}
        try:
            roots, progress = self._settings.roots, self._settings.progress
            opened = cell_loading.open_data(name, self._plan, self._results, roots, progress=progress)
        except (YoroError, OSError) as error:
            self._cannot_open(mine, error)
            return
        for note in opened.found.notes if not self.again else ():
            self._settings.tell(f"{name}: {note}")
        known = [self._results.of(entry.cell) for entry in mine]
        digest = opened.manifest.digest
        old = sum(bool(found) and all(one.depends.get("data") != digest for one in found) for found in known)
        if old:
            told = f"{name}: {cell_loading.altered(opened.manifest)} {old} finished cells were computed on other data"
            self._settings.tell(f"{told} and will be recomputed.")
        for group in _grouped(mine, lambda entry: cell_loading.stage_of(entry.cell)):
            self._stage(opened, group)

    def _stage(self, opened: cell_loading.OpenedDataset, group: Sequence[PlanEntry]) -> None:
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
            cache = self._read(folder, [image for job in waiting for image in job.images], pipeline)
        except (YoroError, OSError) as error:
            self._fail([job.entry for job in waiting], error)
            return
        if cache is None:
            self.busy += [job.entry for job in waiting]
            return
        for job in waiting:
            claim = self.claims.take(job.name)
            if claim is None:
                self.busy.append(job.entry)
                continue
            with claim:
                if self._results.finished(job.entry.cell, job.depends) is not None:
                    self.progress.elsewhere += 1
                else:
                    self._compute(job, opened, pipeline, cache, claim)

    def _read(self, folder: str, images: Sequence[Example], pipeline: Pipeline) -> ResponseCache | None:
        """The responses to the images, read now unless they are cached; None while another worker reads some."""
        place = self._results.folder / "responses" / folder
        cache = ResponseCache(place)
        if not cache.missing(images):
            return cache
        claim = self.claims.take(f"responses-{folder}")
        if claim is None:
            return None
        with claim:
            cache = ResponseCache(place)  # again: another worker may have written in between
            cache.read(images, pipeline, self._settings.loading, progress=self._settings.progress)
        return cache

    def _pipeline(self, cell: BenchCell, opened: cell_loading.OpenedDataset) -> Pipeline:
        if cell.source in self._closed:
            raise self._closed[cell.source]
        key = *cell_loading.stage_of(cell), opened.about.legacy_side if cell.prompt == "legacy-padding" else None
        if key not in self._pipelines:
            self._pipelines[key] = cell_loading.open_pipeline(cell, opened.about, self._settings.device)
        return self._pipelines[key]

    def _wanted(self, entry: PlanEntry, opened: cell_loading.OpenedDataset, pipeline: Pipeline) -> list[_CellJob]:
        """The cell as a job, unless it is finished or cannot be one."""
        cell, roots = entry.cell, self._settings.roots
        try:
            sentences = cell_loading.choose_sentences(cell, opened.about, roots) if is_dual(pipeline.source) else ()
            index = cell_loading.published_index(cell, opened.about, roots)
            depends = cell_loading.digests(cell, opened, pipeline, sentences, index)
            if self._results.finished(cell, depends) is not None:
                self.progress.found += not self.again
                self.progress.elsewhere += self.again
                return []
            if self.again and (reason := self._results.error(cell, self._started)) is not None:
                raise InputError(reason)  # another worker tried it meanwhile
            key = cell.seed, cell.inputs
            if key not in self._draws:
                drawn = cell_loading.draw_images(cell, opened, index)
                self._draws[key] = drawn, self._results.keep_draw(drawn)
        except (YoroError, OSError) as error:
            self._fail([entry], error)
            return []
        return [_CellJob(entry, *self._draws[key], sentences, depends)]

    def _compute(
        self, job: _CellJob, opened: cell_loading.OpenedDataset, pipeline: Pipeline, cache: ResponseCache, claim: Claim
    ) -> None:
        cell, drawn, settings = job.entry.cell, job.drawn, self._settings
        scratch = self._results.folder / "trainings" / job.name
        scratch.parent.mkdir(parents=True, exist_ok=True)
        context = Context(
            cell, opened.about, drawn, pipeline, cache, job.sentences, scratch, settings.device, settings.progress
        )
        method = find_method(cell.method)
        forget_peak()
        try:
            if method.trains:
                check_torch(f"The method {cell.method!r}")
            if method.trains and settings.deterministic:
                import_module("yoro.sources.torch.network").make_deterministic()
            figures: CellFigures = method.run(context, method.make_options(dict(cell.options), cell.dataset))
        except Exception as error:  # the failure of one method must not stop the others
            if _was_interrupted(error):
                raise KeyboardInterrupt from error
            shutil.rmtree(scratch, ignore_errors=True)
            self._fail([job.entry], error)
            return
        result = CellResult(
            **vars(figures), cell=cell, depends=job.depends, tested=len(drawn.test), draw=job.draw,
            transform=pipeline.geometry.config(), image_seconds=cache.seconds_an_image,
            machine=machine_facts(settings.device), memory=peak_memory(),
            finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
        )  # fmt: skip
        if not claim.holds():  # this worker gave no sign for so long that another one took over
            self.busy.append(job.entry)
            return
        self._results.write(result)
        shutil.rmtree(scratch, ignore_errors=True)
        self.progress.computed += 1
        what = f"{percent_text(result.accuracy, unit=' %')} of {result.tested:,}, {duration_text(result.seconds)}"
        settings.tell_done(self.progress.line(job.entry, what))

    def _cannot_open(self, entries: Sequence[PlanEntry], error: Exception) -> None:
        """Data or a source is missing: cells with a result keep it unchecked, the others fail."""
        known = [entry for entry in entries if self._results.of(entry.cell)]
        self.progress.found += len(known)
        if known:
            told = f"Kept unchecked: {counted(len(known), 'finished cell')} of {known[0].dataset}"
            self._settings.tell(f"{told}: {failure(error)}")
        self._fail([entry for entry in entries if not self._results.of(entry.cell)], error)

    def _fail(self, entries: Sequence[PlanEntry], error: Exception) -> None:
        """Record why cells failed; many with one reason are reported together."""
        reason, progress = failure(error), self.progress
        for entry in entries:
            self._results.fail(entry.cell, reason)
        progress.failed += len(entries)
        if entries:
            progress.errors[reason] = progress.errors.get(reason, 0) + len(entries)
        if len(entries) == 1:
            self._settings.tell(progress.line(entries[0], f"failed: {reason}"))
        elif entries:
            self._settings.tell(f"{len(entries)} cells of {entries[0].dataset} failed: {reason}")


def _grouped(entries: Sequence[PlanEntry], key: Callable[[PlanEntry], object]) -> list[list[PlanEntry]]:
    groups: dict[object, list[PlanEntry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return list(groups.values())


def duration_text(seconds: float) -> str:
    """A duration in words.

    >>> [duration_text(seconds) for seconds in (0.04, 75, 7300)]
    ['0.04 s', '1.2 min', '2.0 h']
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _was_interrupted(error: BaseException) -> bool:
    """Whether an error was caused by Ctrl-C inside a library."""
    cause = error.__cause__ or error.__context__
    return cause is not None and (isinstance(cause, KeyboardInterrupt) or _was_interrupted(cause))
