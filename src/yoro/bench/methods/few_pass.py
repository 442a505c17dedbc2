"""YORO-FP on the bench."""

from __future__ import annotations

import numpy as np

from yoro.bench.context import Answer, Ground, fit_one_pass
from yoro.bench.methods.options import FewPassOptions
from yoro.bench.methods.training import epochs
from yoro.model.classifier import Classifier
from yoro.model.pipeline import Reading
from yoro.refining.few_pass import refine
from yoro.refining.settings import Settings


def run(ground: Ground, options: FewPassOptions) -> Answer:
    """The one-pass predictor, refined for a few epochs and kept only if validation says so."""
    model, seconds = fit_one_pass(ground)
    settings = Settings(
        epochs=options.epochs,
        mapping=options.mapping,
        beta=options.beta,
        protocol=options.protocol,
        learning_rate=options.learning_rate,
        batch_size=options.batch_size,
        augment=options.augment,
        flip=ground.dataset.flip,
        epoch_zero=options.epoch_zero,
        seed=ground.cell.seed,
    )
    drawn = ground.drawn
    classifier, refinement = refine(
        Classifier(model, pipeline=ground.pipeline), list(drawn.train), list(drawn.val),
        settings=settings, device=ground.device, checkpoint=ground.scratch, resume=True, progress=ground.progress,
    )  # fmt: skip
    if refinement.interrupted:
        raise KeyboardInterrupt
    correct = _right(ground, classifier) if refinement.kept else ground.right(model, drawn.test)
    depth = refinement.epoch if refinement.kept else 0
    best = refinement.records[depth].correct if refinement.kept else refinement.given
    return Answer(
        correct,
        ground.pass_seconds + seconds + sum(record.seconds for record in refinement.records),
        options.epochs + 1,
        (best, len(drawn.val)),
        depth=depth,
        shrinkage=model.choice.shrinkage,
        selected_on="validation",
        epochs=epochs(refinement.records),
    )


def _right(ground: Ground, classifier: Classifier) -> int:
    """Test images that the refined classifier answers rightly, through its trained prompt."""
    stream = classifier.pipeline.stream(ground.drawn.test, Reading(workers=0, strict=True))
    mapping = classifier.model.mapping
    return sum(int((mapping.predict(part.responses) == np.array(part.labels)).sum()) for part in stream)
