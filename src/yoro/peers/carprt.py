"""CARPRT: class-aware weights of templates from unlabelled images.

    c*(p, n) = argmax_c z_pcn          the answer of template p to image n
    m_pc     = mean of z_pcn over the images with c*(p, n) = c, 0 if there are none
    w_pc     = softmax over p of m_pc / 1;   head_c = sum_p w_pc t_pc

The published code reads the unlabelled *test* images; here training images are read, without
their labels, so that no method sees a test image before it answers.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from yoro.peers.contract import Array, LinearScores, Method, Scorer, Task

TEMPERATURE = 1.0


def fit(task: Task) -> Scorer:
    """The head of the weighted templates."""
    texts, task = task.needed_texts(), task.normalised()
    weights = softmax(mean_answers(task.responses, texts.templates, texts.scale) / TEMPERATURE, axis=0)
    heads = np.einsum("pc,pcd->cd", weights, texts.templates)
    return LinearScores(texts.scale * heads.T, np.zeros(len(heads)), normalise=True)


def mean_answers(vectors: Array, templates: Array, scale: float) -> Array:
    """m_pc, (templates, classes)."""
    rows = []
    for heads in templates:
        z = scale * vectors @ heads.T
        answer = z.argmax(axis=1)
        sums = np.bincount(answer, z[np.arange(len(z)), answer], len(heads))
        counts = np.bincount(answer, minlength=len(heads))
        rows.append(np.divide(sums, counts, out=np.zeros(len(heads)), where=counts > 0))
    return np.stack(rows)


CARPRT = Method("carprt", fit, ("features", "texts"), 2, about="zero-shot, class-aware weights of templates")
