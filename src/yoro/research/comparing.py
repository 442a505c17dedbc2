"""`yoro.compare`: fit and test every method on the same responses, read once, in one table."""

from __future__ import annotations

import logging
import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from yoro.data.python_data import Data, joined
from yoro.errors import InputError, did_you_mean
from yoro.files.rows import data_frame
from yoro.mappings.batches import Codes, class_codes
from yoro.model.settings import PipelineSettings
from yoro.research.peers.method import Array, FitTask, Method, check_scores, correct, failure, make_ready, make_task
from yoro.research.peers.methods import find_methods
from yoro.research.peers.shared_responses import SharedResponses, read_responses

if TYPE_CHECKING:
    from pandas import DataFrame

SEEDS = 3
LONGEST_REASON = 200  # characters
OURS = "bdm"  # the default of this package, drawn in colour


class CompareOptions(TypedDict, total=False):
    """The options of `compare`."""

    val: object
    test: object
    methods: Sequence[str]
    seeds: int
    shots: int


def compare(
    data: Data,
    labels: object = None,
    *,
    source: str = PipelineSettings.source,
    read: str = PipelineSettings.read,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Fit and test label mappings, ablations and training-free peers on the same responses.

    Parameters
    ----------
    data, labels
        As in `fit`.
    source, read
        The frozen backbone, and the layer to read.
    val, test
        Validation and test data; by default three tenths of each class are held out for testing, by each seed.
    methods, seeds, shots
        Names of the methods (default: all); repetitions, each with its own draws; training images per class.
    """
    known = CompareOptions.__annotations__
    for name in options:
        if name not in known:
            raise InputError(f"Unknown option {name!r}. {did_you_mean(name, known)}")
    methods, seeds, shots = options.get("methods"), options.get("seeds", SEEDS), options.get("shots")
    find_methods(methods)  # fail on an unknown name before the images are read
    if seeds < 1 or (shots is not None and shots < 1):
        raise InputError(f"seeds is {seeds} and shots is {shots}; both must be at least 1.")
    log = logging.getLogger("yoro")
    shared = read_responses(
        joined(data, labels),
        val=options.get("val"),
        test=options.get("test"),
        pipeline=PipelineSettings(source=source, read=read),
    )
    for note in shared.notes:
        log.info(note)
    return compare_methods(shared, methods=methods, seeds=seeds, shots=shots, tell=log.info)


@dataclass(frozen=True)
class ComparisonRow:
    """One method's figures over the seeds, or the reason why it could not run."""

    method: str
    accuracy: float | None = None
    deviation: float | None = None  # sample deviation over the seeds; None for a single seed
    accuracies: tuple[float, ...] = ()  # one per seed
    fit_seconds: float | None = None  # median over the seeds, without the shared pass over the images
    predict_rate: float | None = None  # responses per second
    memory_mb: float | None = None  # peak memory of the fit, without the responses themselves
    passes: int = 0  # over the responses, at most
    needs: tuple[str, ...] = ()
    reason: str | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Comparison:
    """The table, best method first and those that could not run last, and facts about the data."""

    rows: tuple[ComparisonRow, ...]
    facts: dict[str, str]

    @property
    def ran(self) -> tuple[ComparisonRow, ...]:
        """The rows of methods that ran."""
        return tuple(row for row in self.rows if row.accuracy is not None)

    def to_frame(self) -> DataFrame:
        """The rows as a pandas DataFrame."""
        return data_frame([row.to_json() for row in self.rows])


@dataclass(frozen=True)
class _Trial:
    """One method at one seed."""

    accuracy: float
    fit_seconds: float
    predict_rate: float
    memory_mb: float
    notes: tuple[str, ...]


def compare_methods(
    shared: SharedResponses,
    *,
    methods: Sequence[str] | None = None,
    seeds: int = SEEDS,
    shots: int | None = None,
    texts: Mapping[str, ArrayLike] | None = None,
    scale: float | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Fit and test every method at every seed.

    Parameters
    ----------
    shared
        The responses, from `read_responses`.
    methods
        Names; None is all of them.
    seeds
        Repetitions, with the seeds 0, 1, ...: each has its own hold-out, few-shot draw and random numbers.
    shots
        Training images per class; None is all.
    texts, scale
        Text vectors (m, width) of each class and the scale of their cosines (default 100), where the responses are
        image vectors of an image-text model; by default those of `shared`. Methods that need texts fail without.
    tell
        Called with the seed and the name of each method before it runs.

    Accuracies depend on the data and the seeds alone. Methods run one after the other with one
    thread for linear algebra, so that their seconds can be compared.
    """
    chosen = find_methods(methods)
    if seeds < 1:
        raise InputError(f"seeds is {seeds}; expected at least 1.")
    if texts is None and shared.words is not None:
        texts, scale = shared.words.by_class(), shared.words.scale if scale is None else scale
    facts: dict[str, str] = {}
    trials: dict[str, list[_Trial]] = {method.name: [] for method in chosen}
    reasons: dict[str, str] = {}
    with threadpool_limits(1):
        for seed in range(seeds):  # one draw in memory at a time
            task, test = _draw(shared, seed, shots, texts, 100.0 if scale is None else scale)
            facts = facts or _facts(shared, task, len(test[1]), shots, seeds)
            for method in (one for one in chosen if one.name not in reasons):
                tell(f"seed {seed}, {method.name}")
                try:
                    trials[method.name].append(_try(method, task, *test))
                except Exception as error:  # the failure of one method must not stop the others
                    reasons[method.name] = _shortened(failure(error))
    rows = [_row(method, trials[method.name], reasons.get(method.name)) for method in chosen]
    rows.sort(key=lambda row: (row.accuracy is None, -(row.accuracy or 0.0)))  # ties stay in the registry's order
    return Comparison(tuple(rows), facts)


def _draw(
    shared: SharedResponses, seed: int, shots: int | None, texts: Mapping[str, ArrayLike] | None, scale: float
) -> tuple[FitTask, tuple[Array, Codes]]:
    """The task of one seed, and the test responses with their classes."""
    train, test = shared.draw(seed, shots)
    held = None if shared.val is None else (shared.val.responses, shared.val.labels)
    groups = train.groups if any(train.groups) else None
    task = make_task(train.responses, train.labels, validation=held, texts=texts, scale=scale, groups=groups, seed=seed)
    return task, (test.responses.astype(np.float64), class_codes(test.labels.tolist(), task.classes))


def _row(method: Method, trials: Sequence[_Trial], reason: str | None) -> ComparisonRow:
    if reason is not None:
        return ComparisonRow(method.name, passes=method.passes, needs=method.needs, reason=reason)
    accuracies = tuple(trial.accuracy for trial in trials)
    return ComparisonRow(
        method.name,
        statistics.fmean(accuracies),
        statistics.stdev(accuracies) if len(accuracies) > 1 else None,
        accuracies,
        fit_seconds=statistics.median(trial.fit_seconds for trial in trials),
        predict_rate=statistics.median(trial.predict_rate for trial in trials),
        memory_mb=trials[0].memory_mb,
        passes=method.passes,
        needs=method.needs,
        notes=tuple(dict.fromkeys(note for trial in trials for note in trial.notes)),
    )


def _try(method: Method, task: FitTask, responses: Array, truth: Codes) -> _Trial:
    """Fit and test once.

    Memory, as far as Python and numpy report it, is traced at the first seed only, because tracing is slow, and not if
    somebody else is tracing already.
    """
    make_ready(method, task)
    tracing = task.seed == 0 and not tracemalloc.is_tracing()
    peak = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if tracing:
            tracemalloc.start()
        try:
            started = time.perf_counter()
            scorer = method.fit(task)
            fitted = time.perf_counter()
        finally:
            if tracing:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
        before = time.perf_counter()
        scores = scorer(responses)
        after = time.perf_counter()
    check_scores(scores, len(truth), len(task.classes))
    accuracy = correct(scores, truth) / len(truth)
    notes = tuple(_shortened(str(w.message)) for w in caught if issubclass(w.category, UserWarning))
    return _Trial(accuracy, fitted - started, len(scores) / max(after - before, 1e-9), peak / 2**20, notes)


def _shortened(message: str) -> str:
    """The first line of a message, at most 200 characters."""
    line = (message.strip().splitlines() or [""])[0].rstrip(".")
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


def _facts(shared: SharedResponses, task: FitTask, tested: int, shots: int | None, seeds: int) -> dict[str, str]:
    texts = task.texts and f"{len(task.texts.flat):,}"
    if texts and shared.words:
        texts += f" ({shared.words.bank.origin})"
    return {
        "Source": shared.source,
        "Response width": f"{shared.width:,}",
        "Classes": f"{len(task.classes):,}",
        **({"Sentences": texts} if texts else {}),
        "Training images": f"{len(task.truth):,}" + (f" ({shots} per class)" if shots else ""),
        "Validation images": f"{len(shared.val):,}" if shared.val else "held out by methods that need them",
        "Test images": f"{tested:,}" + ("" if shared.test else " (held out by each seed)"),
        "Seeds": str(seeds),
        "Shared pass": f"{shared.images:,} images in {shared.seconds:.1f} s, once for all methods",
    }


def comparison_html(comparison: Comparison, title: str = "Comparison of methods") -> str:
    """A self-contained HTML page: accuracy against cost, and the table."""
    from yoro.reports.page import render
    from yoro.reports.svg import Point, cost_plot

    points = [
        Point(row.method, row.fit_seconds or 0.0, row.accuracy or 0.0, row.deviation or 0.0, ours=row.method == OURS)
        for row in comparison.ran
    ]
    return render(
        "comparison.html",
        title=title,
        facts=comparison.facts,
        plot=cost_plot(points) if points else "",
        ran=comparison.ran,
        refused=[row for row in comparison.rows if row.accuracy is None],
    )
