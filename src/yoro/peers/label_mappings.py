"""The label mappings of the literature, behind the contract of the peers.

They read responses as logits of source classes; where there are texts, each text is a source class.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from yoro.mappings.affine import AffineMapping
from yoro.mappings.bayesian import bayesian_mapping, plus_table
from yoro.mappings.cooccurrence import CoOccurrence
from yoro.mappings.frequency import frequency_mapping
from yoro.mappings.random import random_mapping
from yoro.peers.contract import Method, Scorer, Task, as_scorer
from yoro.peers.discriminants import folded, in_responses


def fit_random(task: Task) -> Scorer:
    """RLM: sources drawn by lot."""
    width = task.responses.shape[1] if task.texts is None else len(task.texts.flat)
    return _scorer(random_mapping(width, task.classes, task.generator(4)), task)


def fit_table(
    task: Task, table: Callable[[tuple[str, ...]], CoOccurrence], solve: Callable[[CoOccurrence], AffineMapping]
) -> Scorer:
    """A mapping of the table of which source classes answer to which target classes."""
    counted = table(task.classes)
    counted.update(in_responses(task).responses, task.labels)
    return _scorer(solve(counted), task)


def _scorer(mapping: AffineMapping, task: Task) -> Scorer:
    return as_scorer(mapping) if task.texts is None else folded(mapping, task)


LABEL_MAPPINGS = (
    Method("rlm", fit_random, passes=0, about="random label mapping"),
    Method("flm", partial(fit_table, table=CoOccurrence, solve=frequency_mapping), about="frequency label mapping"),
    Method("blm", partial(fit_table, table=CoOccurrence, solve=bayesian_mapping), about="Bayesian label mapping"),
    Method("blm+", partial(fit_table, table=plus_table, solve=bayesian_mapping), about="BLM over probabilities"),
)
