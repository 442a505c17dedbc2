"""Zero-shot heads from many templates, which differ in how templates are weighed. No label is read.

MPE takes the plain mean over a class's texts. WPE gives each template one weight by unlabelled images,

    s_p = mean over images of max_c (z_pc - mean over images of z_pc),   w = softmax over templates of s

and CARPRT a weight for each class,

    c*(p, n) = argmax_c z_pcn          the answer of template p to image n
    m_pc     = mean of z_pcn over the images with c*(p, n) = c, 0 if there are none
    w_pc     = softmax over p of m_pc / 1;   head_c = sum_p w_pc t_pc

z are scaled cosines. No public code of WPE was found, so that is our definition, after zero-shot prompt ensembling
(Allingham et al. 2023) without its pre-training images. The published settings read the unlabelled *test* images, as
`images="test"` does where a bench gives them; by default training images are read, without their labels, so that no
method sees a test image before it answers. No mean is brought back to unit length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from yoro.errors import InputError
from yoro.mappings.batches import Array
from yoro.option import check_choice
from yoro.research.peers.method import FitTask, LinearScores, Method, Scorer

TEMPERATURE = 1.0


@dataclass(frozen=True)
class EnsembleSettings:
    """Which images weigh the templates."""

    images: str = "train"  # "test" as published

    def __post_init__(self) -> None:
        check_choice("images", self.images, ("train", "test"))

    def of(self, task: FitTask) -> Array:
        """Their vectors, at unit length."""
        task = task.normalised()
        if self.images == "train":
            return task.responses
        if task.tested is None:
            raise InputError("it needs the test images to weigh templates by, which only a bench gives")
        return task.tested


USUAL = EnsembleSettings()


def fit_mpe(task: FitTask) -> Scorer:
    """Equal weights."""
    texts = task.needed_texts()
    return _head(np.stack([vectors.mean(axis=0) for vectors in texts.by_class]), texts.scale)


def fit_wpe(task: FitTask, settings: EnsembleSettings = USUAL) -> Scorer:
    """A weight for each template."""
    texts = task.needed_texts()
    weights = softmax(template_scores(settings.of(task), texts.templates, texts.scale))
    return _head(np.einsum("p,pcd->cd", weights, texts.templates), texts.scale)


def fit_carprt(task: FitTask, settings: EnsembleSettings = USUAL) -> Scorer:
    """A weight for each template and class."""
    texts = task.needed_texts()
    weights = softmax(mean_answers(settings.of(task), texts.templates, texts.scale) / TEMPERATURE, axis=0)
    return _head(np.einsum("pc,pcd->cd", weights, texts.templates), texts.scale)


def template_scores(vectors: Array, templates: Array, scale: float) -> Array:
    """s_p of each template, (templates,)."""
    scores = []
    for heads in templates:  # one template at a time: images x templates x classes would not fit
        z = scale * vectors @ heads.T
        scores.append(float((z - z.mean(axis=0)).max(axis=1).mean()))
    return np.array(scores)


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


def _head(heads: Array, scale: float) -> LinearScores:
    return LinearScores(scale * heads.T, np.zeros(len(heads)), normalise=True)


_NEEDS = ("features", "texts")
PROMPT_ENSEMBLES = (
    Method("mpe", fit_mpe, _NEEDS, 0, about="zero-shot, mean over texts"),
    Method(
        "wpe", fit_wpe, _NEEDS, 2, about="zero-shot, templates weighed by unlabelled images", settings=EnsembleSettings
    ),
    Method(
        "carprt", fit_carprt, _NEEDS, 2, about="zero-shot, class-aware weights of templates", settings=EnsembleSettings
    ),
)
