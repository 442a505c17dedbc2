"""Methods of one pass on the bench: the paper's predictor, and those of `yoro.research.peers`."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from yoro.errors import InputError
from yoro.mappings.batches import class_codes
from yoro.model.gathered import Gathered
from yoro.model.model import Model
from yoro.model.one_pass import gather
from yoro.model.settings import SolveSettings
from yoro.model.solve import solve
from yoro.research.bench.context import Answer, Context, labels
from yoro.research.peers.discriminants import RetainedScores
from yoro.research.peers.method import Method, check_scores, make_ready


def fit_one_pass(context: Context) -> tuple[Model, float]:
    """The paper's one-pass predictor by the product's own path, and the seconds that it took after the pass."""
    validation, words = context.validation, context.words  # texts are encoded before the clock starts
    if validation is None:
        raise InputError("There are no validation images to choose the shrinkage by.")
    started = time.perf_counter()
    gathered, settings = Gathered(), SolveSettings(protocol="paper")
    with threadpool_limits(1, user_api="blas"):
        gather(gathered, context.cache.stream(context.drawn.train))
        model = solve(gathered, settings, context.pipeline.origin(), validation=validation, words=words)
    return model, time.perf_counter() - started


def run_one_pass(context: Context, _: object) -> Answer:
    """YORO: one pass, the shrinkage by validation."""
    model, seconds = fit_one_pass(context)
    held, test = context.drawn.val, context.drawn.test
    return Answer(
        context.right(model, test), context.pass_seconds + seconds, 1,
        (context.right(model, held), len(held)), shrinkage=model.choice.shrinkage,
    )  # fmt: skip


def fit_responses(method: Method, context: Context, settings: object) -> Answer:
    """A method of `yoro.research.peers` on the shared responses; one that trains goes over them once an epoch."""
    task = context.task()
    make_ready(method, task)
    with threadpool_limits(1, user_api="blas"):
        started = time.perf_counter()
        scorer = method.fit(task) if method.settings is None else method.fit(task, settings)
        seconds = time.perf_counter() - started
        test = context.drawn.test
        scores = scorer(context.cache.responses(test).astype(np.float64))
    check_scores(scores, len(test), len(task.classes))
    correct = int((scores.argmax(axis=1) == class_codes(labels(test).tolist(), task.classes)).sum())
    answer = Answer(correct, context.pass_seconds + seconds, getattr(settings, "epochs", method.passes))
    if isinstance(scorer, RetainedScores):
        return replace(answer, shrinkage=scorer.shrinkage, retained=scorer.share)
    return answer
