"""Scikit-learn's linear discriminant analysis with its automatic shrinkage.

It is not BDM under another name: each class's covariance is standardised, shrunk by Ledoit and
Wolf's formula and scaled back by itself, and these are averaged with the priors as weights.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module

import numpy as np

from yoro.errors import InputError
from yoro.peers.contract import LinearScores, Method, Scorer, Task, both_columns


def fit(task: Task) -> Scorer:
    """`LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")`."""
    from sklearn.discriminant_analysis import (
        LinearDiscriminantAnalysis,  # here, so that the list of methods loads quickly
    )

    if not (task.counts > 1).any():
        raise InputError("one image a class leaves no covariance")
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(task.responses, task.truth)
    weights, bias = both_columns(np.asarray(model.coef_), np.asarray(model.intercept_))
    return LinearScores(weights.T, bias)


SKLEARN_LDA = Method(
    "sklearn-lda",
    fit,
    ("stored data",),
    about="scikit-learn's discriminant, shrinkage='auto'",
    prepare=partial(import_module, "sklearn.discriminant_analysis"),
)
