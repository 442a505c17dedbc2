"""`yoro.compare`: fit and test every method on the same responses, read once, in one table."""

from __future__ import annotations

import logging
import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from yoro.data.python_data import Data, joined
from yoro.errors import percent_text
from yoro.files.result_view import Result, Table
from yoro.files.rows import Row, data_frame
from yoro.mappings.batches import Array, Codes, class_codes
from yoro.model.metrics import NORMAL_95, wilson_interval
from yoro.model.settings import PipelineSettings
from yoro.option import check_choice, check_range
from yoro.research.peers.method import FitTask, Method, check_scores, failure, make_ready, make_task
from yoro.research.peers.methods import METHODS, find_methods
from yoro.research.peers.shared_responses import Reader, SharedResponses
from yoro.research.presets import PRESETS, Preset, draw_task, image_names, read_with_presets

if TYPE_CHECKING:
    from pandas import DataFrame

SEEDS = 3
MOST_SEEDS = 1_000
LONGEST_REASON = 200  # characters
SIX = ("logistic", "ridge", "knn", "ncm", "bdm", "blm+")  # compared unless more are asked for
SIX_WITH_TEXTS = ("zero-shot", "tip-adapter", "gda", "lp++", "logistic", "bdm")  # the same on an image-text source
WITHIN_NOISE = "within noise of the best"


class CompareOptions(TypedDict, total=False):
    """The options of `compare`."""

    val: object
    test: object
    methods: Sequence[str]
    all: bool
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
    """Our own fits, and other methods on the same images: who answers best?

    Parameters
    ----------
    data, labels
        As in `fit`.
    source, read
        The frozen backbone, and the layer to read.
    val, test
        Validation and test data; by default three tenths of each class are held out for testing, by each seed.
    methods, all
        Names of the methods; by default what `fit` gives ("yoro", "yoro-fast", "yoro-best") and six others, or all.
    seeds, shots
        Repetitions, each with its own draws; training images per class.
    """
    for name in options:
        check_choice("option", name, CompareOptions.__annotations__)
    methods, seeds, shots = options.get("methods"), options.get("seeds", SEEDS), options.get("shots")
    check_methods(methods)  # fail on an unknown name before the images are read
    check_repetitions(seeds, shots)
    log = logging.getLogger("yoro")
    reader = Reader(options.get("val"), options.get("test"), PipelineSettings(source=source, read=read))
    shared = read_with_presets(PRESETS if methods is None else methods, joined(data, labels), reader)
    for note in shared.notes:
        log.info(note)
    chosen = default_methods(shared, every=options.get("all", False)) if methods is None else methods
    return compare_methods(shared, methods=chosen, seeds=seeds, shots=shots, tell=log.info)


def check_methods(names: Sequence[str] | None) -> list[Method]:
    """The methods of these names but for our own fits, or all; a name that is neither's is an error."""
    others = None if names is None else [name for name in names if name not in PRESETS]
    return find_methods(others) if others or not names else []


def check_repetitions(seeds: int, shots: int | None) -> None:
    """Raise unless both numbers are in range."""
    check_range("seeds", seeds, 1, MOST_SEEDS)
    check_range("shots", shots, 1)


def default_methods(shared: SharedResponses, *, every: bool = False) -> list[str]:
    """The methods that are compared unless others are named: our own fits, and six others or all."""
    six = SIX if shared.words is None else SIX_WITH_TEXTS
    return [*PRESETS, *(METHODS if every else six)]


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
    about: str = ""
    interval: tuple[float, float] | None = None  # 95 % bounds of the accuracy, by the number of test images (Wilson)
    tied: bool = False  # whether it is the best, or within noise of the best
    pass_seconds: float | None = None  # of a pass over the images for this row alone

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """The table: our own fits, then the best method first and those that could not run last; and facts on the data."""

    rows: tuple[ComparisonRow, ...]
    facts: dict[str, str]

    @property
    def ran(self) -> tuple[ComparisonRow, ...]:
        return tuple(row for row in self.rows if row.accuracy is not None)

    @property
    def best(self) -> ComparisonRow | None:
        """The row of the highest accuracy; the first of equals."""
        return max(self.ran, key=lambda row: row.accuracy or 0.0, default=None)

    def verdict(self, row: ComparisonRow) -> str:
        """What the accuracy of a row means beside that of the best."""
        return "best" if row is self.best else WITHIN_NOISE if row.tied else ""

    def headline(self) -> str:
        if self.best is None:
            return "no method could run."
        tied = [row.method for row in self.ran if row.tied and row is not self.best]
        noise = f"; within noise of it: {', '.join(tied)}" if tied else ""
        return f"best of {len(self.ran)}: {self.best.method}, {percent_text(self.best.accuracy or 0.0)}{noise}."

    def tables(self) -> list[Table]:
        rows: list[Row] = []
        for row in self.rows:
            low, high = row.interval or (None, None)
            rows.append(
                {
                    "method": row.method, "accuracy": row.accuracy, "low": low, "high": high,
                    "verdict": row.reason or self.verdict(row), "about": row.about, "fit_seconds": row.fit_seconds,
                }
            )  # fmt: skip
        return [Table(rows, bars=("accuracy",))]

    def to_frame(self) -> DataFrame:
        """Every figure of every method."""
        return data_frame([row.to_json() for row in self.rows])


@dataclass(frozen=True)
class _Trial:
    """One method at one seed."""

    accuracy: float
    fit_seconds: float
    predict_rate: float
    memory_mb: float
    notes: tuple[str, ...]
    right: dict[str, bool]  # whether each test image, by its name, was answered rightly


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
    """Fit and test methods (all by default) at the seeds 0, 1, ..., each with its own hold-out, few-shot draw and
    random numbers; before them our own fits, on responses of their own to the same images.

    `texts` are vectors (m, width) of each class and `scale` that of their cosines (default 100), where the responses
    are image vectors of an image-text model; by default those of `shared`. Methods that need texts fail without.
    `tell` is called with the seed and the name of each method before it runs.

    Accuracies depend on the data and the seeds alone. Methods run one after the other with one
    thread for linear algebra, so that their seconds can be compared.
    """
    chosen = check_methods(methods)
    check_repetitions(seeds, shots)
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
        ours = [one for one in shared.presets if methods is None or one.name in methods]
        presets = [_try_preset(one, shared, seeds, shots, tell) for one in ours]
    rows = [_row(method, trials[method.name], reasons.get(method.name)) for method in chosen]
    rows.sort(key=lambda row: (row.accuracy is None, -(row.accuracy or 0.0)))  # ties stay in the registry's order
    trials |= {row.method: tried for row, tried in presets}
    return Comparison(_with_ties([*(row for row, _ in presets), *rows], trials), facts)


def _try_preset(
    preset: Preset, shared: SharedResponses, seeds: int, shots: int | None, tell: Callable[[str], None]
) -> tuple[ComparisonRow, list[_Trial]]:
    """One of our own fits at every seed; its responses are read here, unless all share them, and dropped after it."""
    tell(f"reading for {preset.name}")
    method, trials = Method(preset.name, lambda _: lambda z: z, about=preset.about), list[_Trial]()
    try:
        own = preset.read()
        method = preset.method(own)
        for seed in range(seeds):
            tell(f"seed {seed}, {preset.name}")
            trials.append(_try(method, *draw_task(own, seed, shots)))
    except Exception as error:  # weights that are not here, a host that does not answer
        return _row(method, trials, _shortened(failure(error))), []
    seconds = None if own.seconds == shared.seconds else own.seconds
    return replace(_row(method, trials, None), pass_seconds=seconds), trials


def _with_ties(rows: Sequence[ComparisonRow], trials: Mapping[str, Sequence[_Trial]]) -> tuple[ComparisonRow, ...]:
    """The rows with the best marked, and those that are within noise of it.

    Two methods are compared image by image, over the seeds in which it was tested: the difference counts if its sum
    exceeds 1.96 standard deviations.
    """
    ran = [row for row in rows if row.accuracy is not None]
    if not ran:
        return tuple(rows)
    best = _shares(trials[max(ran, key=lambda row: row.accuracy or 0.0).method])
    tied = set[str]()
    for row in ran:
        own = _shares(trials[row.method])
        apart = np.array([best[name] - own[name] for name in best.keys() & own.keys()])
        if apart.sum() <= NORMAL_95 * np.sqrt((apart**2).sum()):
            tied.add(row.method)
    return tuple(replace(row, tied=row.method in tied) for row in rows)


def _shares(trials: Sequence[_Trial]) -> dict[str, float]:
    """For each test image the share of seeds in which it was answered rightly."""
    found: dict[str, list[bool]] = {}
    for trial in trials:
        for name, right in trial.right.items():
            found.setdefault(name, []).append(right)
    return {name: statistics.fmean(answers) for name, answers in found.items()}


def _draw(
    shared: SharedResponses, seed: int, shots: int | None, texts: Mapping[str, ArrayLike] | None, scale: float
) -> tuple[FitTask, tuple[Array, Codes, Sequence[str]]]:
    """The task of one seed, and the test responses with their classes and names."""
    train, test = shared.draw(seed, shots)
    held = None if shared.val is None else (shared.val.responses, shared.val.labels)
    groups = train.groups if any(train.groups) else None
    task = make_task(train.responses, train.labels, validation=held, texts=texts, scale=scale, groups=groups, seed=seed)
    truth = class_codes(test.labels.tolist(), task.classes)
    return task, (test.responses.astype(np.float64), truth, image_names(test))


def _row(method: Method, trials: Sequence[_Trial], reason: str | None) -> ComparisonRow:
    if reason is not None:
        return ComparisonRow(method.name, passes=method.passes, needs=method.needs, reason=reason, about=method.about)
    accuracies = tuple(trial.accuracy for trial in trials)
    tested = len({name for trial in trials for name in trial.right})
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
        about=method.about,
        interval=wilson_interval(statistics.fmean(accuracies), tested),
    )


def _try(method: Method, task: FitTask, responses: Array, truth: Codes, names: Sequence[str]) -> _Trial:
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
    right = scores.argmax(axis=-1) == truth
    notes = tuple(_shortened(str(w.message)) for w in caught if issubclass(w.category, UserWarning))
    rate, answered = len(scores) / max(after - before, 1e-9), dict(zip(names, right.tolist(), strict=True))
    return _Trial(int(right.sum()) / len(truth), fitted - started, rate, peak / 2**20, notes, answered)


def _shortened(message: str) -> str:
    """The first line of a message, at most 200 characters."""
    line = (message.strip().splitlines() or [""])[0].rstrip(".")
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


def _facts(shared: SharedResponses, task: FitTask, tested: int, shots: int | None, seeds: int) -> dict[str, str]:
    texts = task.texts and f"{len(task.texts.flat):,}"
    if texts and shared.words:
        texts += f" ({shared.words.bank.origin})"
    return {
        "Backbone": shared.source,
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
    from yoro.reports.svg import CostPoint, cost_plot

    points = [
        CostPoint(row.method, row.fit_seconds or 0.0, row.accuracy or 0.0, (high - low) / 2, ours=row.method in PRESETS)
        for row in comparison.ran
        for low, high in [row.interval or (0.0, 0.0)]
    ]
    return render(
        "comparison.html",
        title=title,
        facts=comparison.facts,
        plot=cost_plot(points) if points else "",
        ran=[(row, comparison.verdict(row)) for row in comparison.ran],
        noise=WITHIN_NOISE,
        refused=[row for row in comparison.rows if row.accuracy is None],
    )
