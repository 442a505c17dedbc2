"""`yoro.fit`: one pass over labelled data, and a classifier at its end.

What it needs is imported when it is called, so that `import yoro` stays quick.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from yoro.errors import LabelWarning
from yoro.model.settings import FitSettings, Tell
from yoro.text.settings import Attributes

if TYPE_CHECKING:
    from yoro import api
    from yoro.data.examples import Example
    from yoro.data.python_data import Data
    from yoro.model.one_pass import Engine
    from yoro.model.open_model import OpenModel


class FitOptions(TypedDict, total=False):
    """The options of `fit`; what each means, and its default, stands in the groups of `yoro.model.settings`."""

    preset: str
    source: str
    read: str
    views: int
    prompt: str
    frame: str | float
    image_side: int | None
    device: str
    budget: int | None
    shrinkage: str | float
    prior: str | Mapping[str, float]
    protocol: str
    reservoir: int
    seed: int
    attributes: Attributes
    sentences: int
    classes: Sequence[str]
    zero_shot: bool
    batch_size: int
    workers: int | None
    strict: bool
    shots: int | None
    refine: int
    checkpoint: Path | None
    resume: bool
    progress: bool
    tell: Tell
    ledger: bool
    ray: str | None
    ray_actors: int | None
    ray_threads: int
    ray_block: int
    ray_storage: str | None


@dataclass(frozen=True)
class FitOutcome:
    """The classifier, and what there is to know besides."""

    classifier: OpenModel
    notes: list[str] = field(default_factory=list)  # sentences on what was found and done
    doubts: list[str] = field(default_factory=list)  # sentences on labels that a user must see
    skipped: list[tuple[str, str]] = field(default_factory=list)  # images that could not be read, and why
    examples: list[Example] = field(default_factory=list)  # that were fitted, in the order of the ledger


def fit(
    data: Data | None = None, labels: object = None, *, val: object | None = None, **options: Unpack[FitOptions]
) -> api.classifier.Classifier:
    """Fit a classifier in one forward-only pass.

    Parameters
    ----------
    data, labels, val
        A folder of images, a list file, images and labels, pairs (image, label), a table with a column of
        each, a dataset of torch or Hugging Face, or responses: a response file or (responses, labels).
        Labels may stand in the data, or come beside them. Validation data serve the rule "validation"
        alone; every other rule fits them too, because it needs no data held out. A test split is never
        fitted.
    preset
        "fast", "best", or "default" between them.
    source, read, views, prompt, frame, image_side, device, budget
        Which frozen model reads the images, at its "logits", "features" or at "all" that one pass gives,
        with the mirror image (views=2) or without, and behind which prompt. The budget is for a source on
        the network: calls that it may be sent.
    shrinkage, prior, protocol, reservoir, seed
        What decides the mapping once the responses are known; "paper" is the paper and nothing else.
    attributes, sentences, classes, zero_shot
        For an image-text source: the bank of sentences, how many are drawn a class, classes besides
        those of the data, and whether the sentences take part in the answer.
    shots, refine
        Images a class to fit, drawn by the seed (0 answers by sentences alone), and epochs of prompt
        training after the pass.
    batch_size, workers, strict
        Images read together, processes that decode them (None: one for each core; a library starts
        none by itself), and whether an image that cannot be read is an error.
    checkpoint, resume, progress, tell
        A folder to go on from after a kill, whether to, whether bars are shown, and who is told each
        sentence on what was found and done; without, they go to the logger `yoro`. Labels to be doubted, such as
        one image under two, are a LabelWarning.
    ledger
        Whether a digest of each image is kept. Without, the model can neither forget nor tell what it was fitted on.
    ray, ray_actors, ray_threads, ray_block, ray_storage
        Where the pass runs: None for this process, "local" for a Ray of this machine, or the address of one; with how
        many copies of the source of how many threads, in blocks of how many images, and the place that all machines
        can write to.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.array(["cat", "dog"] * 50)
    >>> responses = rng.normal(size=(100, 8)) + 2.0 * (labels == "dog")[:, None]
    >>> fit((responses, labels)).predict(responses[:2])
    ['cat', 'dog']
    """
    from yoro.api.classifier import Classifier, warn_skipped

    settings = FitSettings.of(**{"tell": logging.getLogger("yoro").info, **options})
    outcome = run_fit(_taken(data, labels), val, settings)
    for doubt in outcome.doubts:
        warnings.warn(doubt, LabelWarning, stacklevel=2)
    if outcome.skipped:
        warn_skipped(outcome.skipped)
    return Classifier.of(outcome.classifier)


def _taken(given: object, labels: object) -> object:
    """Data as a pass takes them: paths and responses as they are, all else as a Dataset, which knows its labels."""
    from yoro.data.python_data import accept, joined
    from yoro.data.response_streams import is_response_data

    data = joined(given, labels)
    return data if data is None or isinstance(data, str | os.PathLike) or is_response_data(data) else accept(data)


def run_fit(data: object, val: object | None, settings: FitSettings) -> FitOutcome:
    """`fit` with its options in groups, and with all that came of it."""
    from yoro.model.one_pass import fit_model
    from yoro.model.open_model import OpenModel

    if settings.refine:
        from yoro.refining.settings import check_torch

        check_torch()
    fitted = fit_model(data, val, settings, _engine(settings))
    classifier, notes = OpenModel(fitted.model, pipeline=fitted.pipeline), fitted.notes
    if settings.refine:
        from yoro.refining.few_pass import refine
        from yoro.refining.settings import RefineRun, RefineSettings

        chosen = RefineSettings(epochs=settings.refine, protocol=settings.solve.protocol, seed=settings.solve.seed)
        run = RefineRun(device=settings.pipeline.device, progress=settings.progress, tell=settings.tell)
        classifier, refinement = refine(classifier, fitted.examples, fitted.held, chosen, run)
        notes = [*notes, refinement.why]
    return FitOutcome(classifier, notes, fitted.doubts, fitted.skipped, fitted.examples)


def _engine(settings: FitSettings) -> Engine:
    """Where the pass runs: in this process, or on Ray."""
    from yoro.model.one_pass import ThisProcess

    if settings.cluster.ray is None:
        return ThisProcess()
    from yoro.cluster.engine import RayEngine

    return RayEngine(settings)
