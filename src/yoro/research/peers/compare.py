"""Every method on the same responses, so that one table answers which to take."""

from __future__ import annotations

import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from yoro.errors import InputError, YoroError
from yoro.files.rows import data_frame
from yoro.mappings.batches import Codes, class_codes
from yoro.research.peers.method import Array, Method, Task, check_scores, correct, make_ready, make_task
from yoro.research.peers.methods import find_methods
from yoro.research.peers.shared_responses import SharedResponses

if TYPE_CHECKING:
    from pandas import DataFrame

SEEDS = 3


@dataclass(frozen=True)
class Row:
    """One method's figures over the seeds; where it could not run, the reason instead."""

    method: str
    accuracy: float | None
    deviation: float | None  # sample deviation over the seeds; None of a single one
    accuracies: tuple[float, ...]  # one a seed
    fit_seconds: float | None  # median over the seeds, without the pass over the images, which is shared
    predict_rate: float | None  # responses a second
    memory_mb: float | None  # largest amount that the fit took at once, beyond the responses themselves
    passes: int  # over the responses, at most
    needs: tuple[str, ...]
    reason: str | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Comparison:
    """The table, best first and those that could not run last, and what it was made on."""

    rows: tuple[Row, ...]
    facts: dict[str, str]

    @property
    def ran(self) -> tuple[Row, ...]:
        """The rows of methods that ran."""
        return tuple(row for row in self.rows if row.accuracy is not None)

    def to_frame(self) -> DataFrame:
        """The rows as a table of pandas."""
        return data_frame([row.to_json() for row in self.rows])


@dataclass(frozen=True)
class _Trial:
    """What one method did at one seed."""

    accuracy: float
    fit_seconds: float
    predict_rate: float
    memory_mb: float
    notes: tuple[str, ...]


def compare(
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
        Repetitions, with the seeds 0, 1, ...: each draws its own hold-out, few-shot draw and random numbers.
    shots
        Training images a class; None takes all.
    texts, scale
        Text vectors (m, width) of each class and the scale of their cosines (100 unless told), where
        the responses are image vectors of a model with a text tower. By default those of the
        shared. Where there are none, methods that need texts say so.
    tell
        Called with the seed and the name of each method as its turn comes.

    Accuracies depend on the data and the seeds alone. Methods run one after the other with one
    thread for linear algebra, so that their seconds can be compared.
    """
    chosen = find_methods(methods)
    if seeds < 1:
        raise InputError(f"{seeds} seeds were asked for; expected at least 1.")
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
                except Exception as error:  # whatever a method runs into is its own row's news, and no other's
                    reasons[method.name] = _reason(error)
    rows = [_row(method, trials[method.name], reasons.get(method.name)) for method in chosen]
    rows.sort(key=lambda row: (row.accuracy is None, -(row.accuracy or 0.0)))  # equals stay in the registry's order
    return Comparison(tuple(rows), facts)


def _draw(
    shared: SharedResponses, seed: int, shots: int | None, texts: Mapping[str, ArrayLike] | None, scale: float
) -> tuple[Task, tuple[Array, Codes]]:
    """The task of one seed, and responses with their true classes to test on."""
    train, test = shared.draw(seed, shots)
    held = None if shared.val is None else (shared.val.responses, shared.val.labels)
    groups = train.groups if any(train.groups) else None
    task = make_task(train.responses, train.labels, validation=held, texts=texts, scale=scale, groups=groups, seed=seed)
    return task, (test.responses.astype(np.float64), class_codes(test.labels.tolist(), task.classes))


def _row(method: Method, trials: Sequence[_Trial], reason: str | None) -> Row:
    row = Row(method.name, None, None, (), None, None, None, method.passes, method.needs, reason)
    if reason is not None:
        return row
    accuracies = tuple(trial.accuracy for trial in trials)
    return replace(
        row,
        accuracy=statistics.fmean(accuracies),
        deviation=statistics.stdev(accuracies) if len(accuracies) > 1 else None,
        accuracies=accuracies,
        fit_seconds=statistics.median(trial.fit_seconds for trial in trials),
        predict_rate=statistics.median(trial.predict_rate for trial in trials),
        memory_mb=trials[0].memory_mb,
        notes=tuple(dict.fromkeys(note for trial in trials for note in trial.notes)),
    )


def _try(method: Method, task: Task, responses: Array, truth: Codes) -> _Trial:
    """Fit and answer.

    Memory, as far as Python and numpy tell, is measured at the first seed alone, because that takes time, and not at
    all where somebody is tracing already: their tracing goes on.
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
    notes = tuple(_sentence(str(w.message)) for w in caught if issubclass(w.category, UserWarning))
    return _Trial(accuracy, fitted - started, len(scores) / max(after - before, 1e-9), peak / 2**20, notes)


def _reason(error: Exception) -> str:
    message = _sentence(str(error))
    known = isinstance(error, YoroError) and message
    return message if known else f"{type(error).__name__}: {message}" if message else type(error).__name__


def _sentence(message: str, longest: int = 200) -> str:
    """The first line of a message, of bounded length."""
    line = (message.strip().splitlines() or [""])[0].rstrip(".")
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _facts(shared: SharedResponses, task: Task, tested: int, shots: int | None, seeds: int) -> dict[str, str]:
    texts = task.texts and f"{len(task.texts.flat):,}"
    if texts and shared.words:
        texts += f" ({shared.words.bank.origin})"
    return {
        "Source": shared.source,
        "Width of a response": f"{shared.width:,}",
        "Classes": f"{len(task.classes):,}",
        **({"Sentences": texts} if texts else {}),
        "Training images": f"{len(task.truth):,}" + (f" ({shots} a class)" if shots else ""),
        "Validation images": f"{len(shared.val):,}" if shared.val else "held out by the methods that need them",
        "Test images": f"{tested:,}" + ("" if shared.test else " (held out by each seed)"),
        "Seeds": str(seeds),
        "Pass over the images": f"{shared.images:,} in {shared.seconds:.1f} s, once for all methods",
    }
