"""MPE, mean prompt ensembling: the zero-shot answer of the plain mean over a class's texts. No label is read."""

from __future__ import annotations

import numpy as np

from yoro.peers.contract import LinearScores, Method, Scorer, Task


def fit(task: Task) -> Scorer:
    """Equal weights; as with CARPRT and WPE the mean is not brought back to unit length."""
    texts = task.needed_texts()
    heads = np.stack([vectors.mean(axis=0) for vectors in texts.by_class])
    return LinearScores(texts.scale * heads.T, np.zeros(len(heads)), normalise=True)


MPE = Method("mpe", fit, ("features", "texts"), 0, about="zero-shot, mean over texts")
