"""What a refinement did: the numbers, the verdict, and how both are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from yoro.model.metrics import percent_text
from yoro.refining.checkpoint import EpochRecord
from yoro.refining.loop import Outcome
from yoro.refining.recipe import Recipe


@dataclass(frozen=True)
class Refinement:
    """What a refinement did, and why it was kept or not."""

    kept: bool
    why: str
    epoch: int  # the chosen one; 0 is the predictor before any training
    records: list[EpochRecord]
    given: int  # validation images that the model as it came answers rightly
    recipe: Recipe
    interrupted: bool = False
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Plain values for a machine to read; accuracies are shares of the validation images."""
        return {
            "kept": self.kept,
            "why": self.why,
            "epoch": self.epoch,
            "validation": [record.accuracy for record in self.records],
            "correct": [record.correct for record in self.records],
            "n": self.records[0].total,
            "given": self.given / self.records[0].total,
            "loss": [record.loss for record in self.records],
            "seconds": [record.seconds for record in self.records],
            "learning_rate": self.recipe.learning_rate,
            "batch_size": self.recipe.batch_size,
            "temperature": self.recipe.temperature,
            "interrupted": self.interrupted,
            "skipped": [name for name, _ in self.skipped],
        }


def judged(
    outcome: Outcome, given: int, recipe: Recipe, skipped: list[tuple[str, str]], *, always: bool = False
) -> Refinement:
    """The verdict: an epoch of training must beat epoch 0, and the model as it came, unless one is `always` kept."""
    best, first = outcome.records[outcome.chosen], outcome.records[0]
    kept = outcome.chosen > 0 and (always or best.correct > given)
    stopped = f"Stopped after epoch {outcome.records[-1].epoch}. " if outcome.interrupted else ""
    if kept:
        why = (
            f"{stopped}Refinement is kept: epoch {best.epoch} answers {_share(best)} rightly, "
            f"{_points(best.correct - first.correct, first.total)} against epoch 0 and "
            f"{_points(best.correct - given, first.total)} against the model as it came."
        )
    elif outcome.chosen > 0:
        why = (
            f"{stopped}Refinement is not kept: epoch {best.epoch} answers {_share(best)} rightly, the model as it came "
            f"{given:,}. The model is returned unchanged."
        )
    else:
        why = (
            f"{stopped}Refinement is not kept: no epoch answers more validation images rightly than epoch 0 with "
            f"{_share(first)}. The model is returned unchanged."
        )
    return Refinement(kept, why, outcome.chosen, outcome.records, given, recipe, outcome.interrupted, skipped)


def epoch_sentence(records: Sequence[EpochRecord], chosen: int, epochs: int) -> str:
    """What the last epoch gained."""
    last, first = records[-1], records[0]
    if last.loss is None:
        return f"Epoch 0, before training: {_share(last)} validation images right."
    best = "the best so far" if chosen == last.epoch else f"best so far: epoch {chosen}"
    return (
        f"Epoch {last.epoch} of {epochs}: loss {last.loss:.3g}, {_share(last)} right, "
        f"{_points(last.correct - first.correct, last.total)} against epoch 0; {best}. {last.seconds:.1f} s."
    )


def _share(record: EpochRecord) -> str:
    return f"{record.correct:,} of {record.total:,} ({percent_text(record.accuracy, unit=' %')})"


def _points(more: int, total: int) -> str:
    return f"{100 * more / total:+.1f} points"
