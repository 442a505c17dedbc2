"""What the methods that train a prompt share: images as the loop takes them, and a run of it that can be resumed."""

from __future__ import annotations

from collections.abc import Sequence

from yoro.bench.context import Answer, Ground
from yoro.bench.methods.published import best_test_epoch
from yoro.bench.results import Epoch
from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.refining.checkpoint import EpochRecord, TrainingCheckpoint
from yoro.refining.images import LabelledImages
from yoro.refining.loop import Choose, Training, first_best


def images(ground: Ground, examples: Sequence[Example], geometry: Geometry) -> LabelledImages:
    """Images of the cell."""
    return LabelledImages(examples, ground.classes, geometry)


def chooser(select: str) -> Choose:
    """The rule that chooses an epoch: the paper's, or that of the published baselines, which reads the test set."""
    return best_test_epoch if select == "test" else first_best


def run_training(
    ground: Ground, training: Training, train: LabelledImages, select: str, notes: Sequence[str] = ()
) -> Answer:
    """Train, choose and test; after a kill it goes on from the last whole epoch."""
    geometry = train.geometry
    test = images(ground, ground.drawn.test, geometry)
    held = test if select == "test" else images(ground, ground.drawn.val, geometry)
    checkpoint = TrainingCheckpoint(ground.scratch, ground.cell.name)
    outcome = training.run(train, held, checkpoint=checkpoint, resume=True, tell=lambda *_: None)
    if outcome.interrupted:
        raise KeyboardInterrupt
    best = outcome.records[outcome.chosen]
    correct = best.correct if select == "test" else training.correct(test)
    recipe = training.recipe
    return Answer(
        correct,
        sum(record.seconds for record in outcome.records),
        recipe.epochs * (2 if recipe.mapping_pass else 1) + 1,
        None if select == "test" else (best.correct, best.total),
        selected_on="test" if select == "test" else "validation",
        epochs=epochs(outcome.records),
        notes=tuple(notes),
    )


def epochs(records: Sequence[EpochRecord]) -> tuple[Epoch, ...]:
    """The records of a training as a result keeps them."""
    return tuple(Epoch(r.epoch, r.loss, r.correct, r.total, r.seconds) for r in records)
