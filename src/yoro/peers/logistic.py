"""Scikit-learn's logistic regression on standardised responses: the obvious alternative."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import numpy as np

from yoro.peers.contract import LinearScores, Method, Scorer, Task, both_columns

ITERATIONS = 1000


def fit(task: Task) -> Scorer:
    """Scikit-learn's defaults (an L2 penalty with C = 1) but for more iterations; two classes get two columns."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler  # here, so that the list of methods loads quickly

    steps = make_pipeline(StandardScaler(), LogisticRegression(max_iter=ITERATIONS))
    steps.fit(task.responses, task.truth)
    scaler, model = steps[0], steps[-1]
    rows, bias = both_columns(np.asarray(model.coef_), np.asarray(model.intercept_))
    weights = rows / scaler.scale_
    return LinearScores(weights.T, bias - weights @ scaler.mean_)


LOGISTIC = Method(
    "logistic",
    fit,
    ("stored data",),
    ITERATIONS,
    about="scikit-learn's logistic regression",
    prepare=partial(import_module, "sklearn.linear_model"),
)
