"""The result of a refinement: its numbers, the verdict and the messages about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from yoro.errors import percent_text
from yoro.files.result_view import Result, Table
from yoro.refining.loop import TrainingOutcome
from yoro.refining.recipe import EpochRecord, Recipe


@dataclass(frozen=True, repr=False)
class Refinement(Result):
    """The result of a refinement, and why it was kept or not."""

    kept: bool
    why: str
    epoch: int  # the chosen one; 0 is the predictor before any training
    records: list[EpochRecord]
    given: int  # validation images that the original model classifies correctly
    recipe: Recipe
    interrupted: bool = False
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def headline(self) -> str:
        return self.why

    def tables(self) -> list[Table]:
        """One row per epoch."""
        return [Table([{**asdict(one), "accuracy": one.accuracy} for one in self.records], bars=("accuracy",))]

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


def judged(outcome: TrainingOutcome, given: int, recipe: Recipe, skipped: list[tuple[str, str]]) -> Refinement:
    """The verdict: a trained epoch must beat epoch 0 and the original model, unless the recipe rules epoch 0 out."""
    best, first = outcome.records[outcome.chosen], outcome.records[0]
    kept = outcome.chosen > 0 and (not recipe.epoch_zero or best.correct > given)
    if kept:
        why = (
            f"Refinement is kept: epoch {best.epoch} classifies {_share(best)} correctly, "
            f"{_points(best.correct - first.correct, first.total)} against epoch 0 and "
            f"{_points(best.correct - given, first.total)} against the original model."
        )
    elif outcome.chosen > 0:
        why = f"Refinement is not kept: epoch {best.epoch} classifies {_share(best)} correctly, the original {given:,}."
    else:
        why = (
            f"Refinement is not kept: no epoch beats epoch 0, with {_share(first)} correct; the original has {given:,}."
        )
    why = why if kept else f"{why} The model is returned unchanged."
    if outcome.interrupted:
        why = f"Stopped after epoch {outcome.records[-1].epoch}. {why}"
    return Refinement(kept, why, outcome.chosen, outcome.records, given, recipe, outcome.interrupted, skipped)


def epoch_sentence(records: Sequence[EpochRecord], chosen: int, epochs: int) -> str:
    """One line on the last epoch: loss, accuracy, and the best so far."""
    last, first = records[-1], records[0]
    if last.loss is None:
        return f"Epoch 0, before training: {_share(last)} validation images correct."
    best = "the best so far" if chosen == last.epoch else f"best so far: epoch {chosen}"
    return (
        f"Epoch {last.epoch} of {epochs}: loss {last.loss:.3g}, {_share(last)} correct, "
        f"{_points(last.correct - first.correct, last.total)} against epoch 0; {best}. {last.seconds:.1f} s."
    )


def _share(record: EpochRecord) -> str:
    return f"{record.correct:,} of {record.total:,} ({percent_text(record.accuracy, unit=' %')})"


def _points(more: int, total: int) -> str:
    return f"{100 * more / total:+.1f} points"
