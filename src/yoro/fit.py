"""`yoro.fit`: one pass over labelled data, and a classifier at its end.

What it needs is imported when it is called, so that `import yoro` stays quick.
"""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yoro.errors import InputError, LabelWarning, counted
from yoro.files.result_view import Result, Table
from yoro.model.settings import FitSettings, preset_note
from yoro.option import documented

if TYPE_CHECKING:
    from yoro import api
    from yoro.data.examples import Example
    from yoro.data.python_data import Data
    from yoro.model.one_pass import Engine
    from yoro.model.open_model import OpenModel


@dataclass(frozen=True, repr=False)
class FitOutcome(Result):
    """The classifier, and notes for the user."""

    classifier: OpenModel
    notes: list[str] = field(default_factory=list)  # sentences on what was found and done
    doubts: list[str] = field(default_factory=list)  # sentences on labels that a user must see
    skipped: list[tuple[str, str]] = field(default_factory=list)  # images that could not be read, and why
    examples: list[Example] = field(default_factory=list)  # that were fitted, in the order of the ledger

    def headline(self) -> str:
        model = self.classifier.model
        skipped = f" {counted(len(self.skipped), 'image')} could not be read." if self.skipped else ""
        return " ".join([f"{model!r}.{skipped}", *self.doubts])

    def tables(self) -> list[Table]:
        """The classes, the notes, and what could not be read."""
        statistics = self.classifier.model.statistics
        counts = zip(statistics.classes, statistics.counts.tolist(), strict=True)
        return [
            Table([{"class": name, "examples": int(count)} for name, count in counts]),
            Table([{"note": note} for note in self.notes], "Notes"),
            Table([{"path": name, "reason": why} for name, why in self.skipped], "Not read"),
        ]


@documented(FitSettings)
def fit(
    data: Data | None = None,
    labels: object = None,
    *,
    val: object | None = None,
    unlabelled: object | None = None,
    **options: object,
) -> api.classifier.Classifier:
    """Fit a classifier in one forward-only pass.

    Parameters
    ----------
    data
        A folder of images, a list file, images and labels, pairs (image, label), a table with a column of
        each, a dataset of torch or Hugging Face, or responses: a response file or (responses, labels).
        A test split is never fitted.
    labels
        The labels, if they are not part of the data. A suspicious one, such as one image with two labels,
        raises a LabelWarning.
    val
        Validation data. Only the rule "validation" holds them out; every other rule fits them too.
    unlabelled
        Images or responses without labels, of the same kind. They are used as far as that raises the accuracy on
        labels held out; what is unlike every class is left out.
    {options}

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.array(["cat", "dog"] * 50)
    >>> responses = rng.normal(size=(100, 8)) + 2.0 * (labels == "dog")[:, None]
    >>> fit((responses, labels)).predict(responses[:2])
    ['cat', 'dog']
    """
    from yoro.api.classifier import Classifier, warn_skipped

    tell = options.pop("tell", None) or logging.getLogger("yoro").info
    settings = FitSettings.of(tell=tell, **options)
    outcome = run_fit(_taken(data, labels), _taken(val, None), settings, unlabelled)
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


def run_fit(data: object, val: object | None, settings: FitSettings, unlabelled: object | None = None) -> FitOutcome:
    """`fit` with its options in groups; the outcome has all notes."""
    from yoro.model.one_pass import fit_model
    from yoro.model.open_model import OpenModel

    if note := preset_note(settings):
        settings.tell(note)
    engine = _engine(settings)
    split = _to_refine(data, val, settings) if settings.refine else None
    fitted = fit_model(data, val, settings, engine, unlabelled)
    classifier, notes = OpenModel(fitted.model, pipeline=fitted.pipeline), fitted.notes
    if split is not None:
        from yoro.refining.few_pass import refine
        from yoro.refining.settings import RefineRun, RefineSettings

        broken = {name for name, _ in fitted.skipped}
        train, held = ([example for example in part if example.name not in broken] for part in split[:2])
        more = [note for note in split[2] if note not in notes]
        for note in more:
            settings.tell(note)
        chosen = RefineSettings(epochs=settings.refine, protocol=settings.solve.protocol, seed=settings.solve.seed)
        run = RefineRun(
            settings.loading, settings.pipeline.source, settings.pipeline.device,
            progress=settings.progress, tell=settings.tell,
        )  # fmt: skip
        classifier, refinement = refine(classifier, train, held, chosen, run)
        notes = [*notes, *more, refinement.why]
    return FitOutcome(classifier, notes, fitted.doubts, fitted.skipped, fitted.examples)


def _to_refine(
    data: object, val: object | None, settings: FitSettings
) -> tuple[list[Example], list[Example], list[str]]:
    """The images that a prompt is trained on, those that decide, and notes; what cannot be refined is refused."""
    from yoro.data.roles import to_refine
    from yoro.refining.settings import check_torch
    from yoro.sources.open import check_gradients

    check_torch()
    check_gradients(settings.pipeline.source)
    if data is None or settings.shots == 0:
        raise InputError("A prompt is trained on labelled images, and zero-shot uses none; remove --refine (refine).")
    return to_refine(data, val, seed=settings.solve.seed, shots=settings.shots)


def _engine(settings: FitSettings) -> Engine:
    """Where the pass runs: in this process, or on Ray."""
    from yoro.model.one_pass import ThisProcess

    if settings.cluster.ray is None:
        return ThisProcess()
    from yoro.cluster.engine import RayEngine

    return RayEngine(settings)
