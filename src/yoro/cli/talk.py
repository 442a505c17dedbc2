"""What the verbs share: options of the same name, and the way they talk."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from yoro.model.classifier import Classifier
    from yoro.model.pipeline import Reading

DATA = "A folder of images, a list (.csv, .jsonl) or responses (.npz)."
Data = Annotated[str, typer.Argument(metavar="DATA", help=DATA, show_default=False)]
ModelPath = Annotated[Path, typer.Argument(metavar="M.yoro", help="A saved model.", show_default=False)]
Out = Annotated[Path | None, typer.Option(metavar="N.yoro", help="Write the changed model here, not in place.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Moved = Annotated[
    str | None, typer.Option("--source", metavar="S", help="Where the model's source is now, if it moved or is code.")
]
Device = Annotated[str, typer.Option(metavar="D", help="auto, cpu, cuda or mps.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Images read together.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Decoding processes; by default one for each core.")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first image that cannot be read.")]

MOST_SKIPPED = 20  # broken files named one by one


def say(sentence: str, quiet: bool = False) -> None:
    """One sentence to the person, on stderr."""
    if not quiet:
        typer.echo(sentence, err=True)


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    json.dump(value, sys.stdout, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def make_reading(batch_size: int, workers: int | None, strict: bool) -> Reading:
    """The settings of reading images."""
    from yoro.model.pipeline import Reading

    return Reading(batch_size, workers, strict)


@contextmanager
def spoken_warnings(quiet: bool) -> Iterator[None]:
    """Warnings as plain sentences on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            say(f"Note: {warning.message}", quiet)


def tell_skipped(skipped: list[tuple[str, str]]) -> None:
    """Name what could not be read, and exit with 1 if there was anything; all else is done by now."""
    if not skipped:
        return
    for _, reason in skipped[:MOST_SKIPPED]:
        say(f"Skipped: {reason}")
    if len(skipped) > MOST_SKIPPED:
        say(f"... and {len(skipped) - MOST_SKIPPED:,} more.")
    say("1 image could not be read." if len(skipped) == 1 else f"{len(skipped):,} images could not be read.")
    raise typer.Exit(1)


def parse_names(text: str | None) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def parse_shrinkage(text: str) -> str | float:
    """A rule's name or a number from 0 to 1."""
    from yoro.discriminant.selection import RULES

    if text in RULES:
        return text
    try:
        rho = float(text)
    except ValueError:
        rho = -1.0
    if not 0.0 <= rho <= 1.0:
        raise typer.BadParameter(
            f"{text!r} is no shrinkage; expected one of {', '.join(RULES)}, or a number from 0 to 1.",
            param_hint="--shrinkage",
        )
    return rho


def change_model(
    classifier: Classifier, path: Path, out: Path | None, force: bool, quiet: bool, change: Callable[[], None]
) -> None:
    """Change a model and write it back in place or elsewhere; then say what was done."""
    from yoro.model.store import check_target

    if out is not None:
        check_target(out, force=force)
    before = classifier.model.statistics.total
    with spoken_warnings(quiet):
        change()
    classifier.save(out or path, force=force or out is None)
    for note in classifier.notes:
        say(note, quiet)
    after = classifier.model.statistics.total
    say(f"{out or path}: {before:,.0f} -> {after:,.0f} examples, {len(classifier.classes)} classes.", quiet)
    tell_skipped(classifier.skipped)
