"""WPE, weighted prompt ensembling: one weight a template from unlabelled images.

    s_p = mean over images of max_c (z_pc - mean over images of z_pc),   w = softmax over templates of s

z are scaled cosines. No public code of it was found, so this is our definition, after zero-shot
prompt ensembling (Allingham et al. 2023) without its pre-training images. The published setting
reads the unlabelled *test* images; here training images are read, without their labels.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from yoro.peers.contract import Array, LinearScores, Method, Scorer, Task


def fit(task: Task) -> Scorer:
    """The head of the weighted templates."""
    texts, task = task.needed_texts(), task.normalised()
    weights = softmax(template_scores(task.responses, texts.templates, texts.scale))
    heads = np.einsum("p,pcd->cd", weights, texts.templates)
    return LinearScores(texts.scale * heads.T, np.zeros(len(heads)), normalise=True)


def template_scores(vectors: Array, templates: Array, scale: float) -> Array:
    """s_p of each template, (templates,)."""
    scores = []
    for heads in templates:  # one template at a time: images x templates x classes would not fit
        z = scale * vectors @ heads.T
        scores.append(float((z - z.mean(axis=0)).max(axis=1).mean()))
    return np.array(scores)


WPE = Method("wpe", fit, ("features", "texts"), 2, about="zero-shot, templates weighed by unlabelled images")
