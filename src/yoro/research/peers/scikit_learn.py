"""Scikit-learn's own: logistic regression on standardised responses, and its linear discriminant.

The discriminant is not BDM under another name: each class's covariance is standardised, shrunk by Ledoit and Wolf's
formula and scaled back by itself, and these are averaged with the priors as weights.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from yoro.errors import InputError
from yoro.mappings.batches import Array
from yoro.research.peers.method import FitTask, LinearScores, Method, Scorer

if TYPE_CHECKING:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression

ITERATIONS = 1000


def fit_logistic(task: FitTask) -> Scorer:
    """Scikit-learn's defaults (an L2 penalty with C = 1) but for more iterations; two classes get two columns."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler  # here, so that the list of methods loads quickly

    steps = make_pipeline(StandardScaler(), LogisticRegression(max_iter=ITERATIONS))
    steps.fit(task.responses, task.truth)
    scaler, model = steps[0], steps[-1]
    rows, bias = _both_columns(model)
    weights = rows / scaler.scale_
    return LinearScores(weights.T, bias - weights @ scaler.mean_)


def fit_discriminant(task: FitTask) -> Scorer:
    """`LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")`."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    if not (task.counts > 1).any():
        raise InputError("one image per class gives no covariance")
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(task.responses, task.truth)
    weights, bias = _both_columns(model)
    return LinearScores(weights.T, bias)


def _both_columns(model: LogisticRegression | LinearDiscriminantAnalysis) -> tuple[Array, Array]:
    """Weights (classes, width) and bias (classes,); scikit-learn keeps one row for two classes."""
    rows, bias = np.asarray(model.coef_), np.asarray(model.intercept_)
    if len(rows) > 1:
        return rows, bias
    return np.concatenate([-rows, rows]) / 2, np.concatenate([-bias, bias]) / 2


LOGISTIC = Method(
    "logistic", fit_logistic, ("stored data",), ITERATIONS,
    about="scikit-learn's logistic regression", prepare=partial(import_module, "sklearn.linear_model"),
)  # fmt: skip
SKLEARN_LDA = Method(
    "sklearn-lda", fit_discriminant, ("stored data",),
    about="scikit-learn's discriminant, shrinkage='auto'",
    prepare=partial(import_module, "sklearn.discriminant_analysis"),
)  # fmt: skip
