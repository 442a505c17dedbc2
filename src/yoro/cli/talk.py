"""What the verbs share: options of the same name, and the way they talk."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[str, typer.Argument(metavar="DATA", help="A response file (.npz).", show_default=False)]
ModelPath = Annotated[Path, typer.Argument(metavar="M.yoro", help="A saved model.", show_default=False)]
Out = Annotated[Path | None, typer.Option(metavar="N.yoro", help="Write the changed model here, not in place.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]


def say(sentence: str, quiet: bool = False) -> None:
    """One sentence to the person, on stderr."""
    if not quiet:
        typer.echo(sentence, err=True)


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    json.dump(value, sys.stdout, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


@contextmanager
def spoken_warnings(quiet: bool) -> Iterator[None]:
    """Warnings as plain sentences on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            say(f"Note: {warning.message}", quiet)


def parse_shrinkage(text: str) -> str | float:
    """A rule's name or a number from 0 to 1."""
    from yoro.selection import RULES

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


def change_model(path: Path, out: Path | None, force: bool, quiet: bool, change: object) -> None:
    """Load a model, change it, and write it back in place or elsewhere; then say what was done."""
    from yoro.classifier import load
    from yoro.store import refuse_existing

    if out is not None:
        refuse_existing(out, force=force)
    classifier = load(path)
    before = classifier.model.statistics.total
    with spoken_warnings(quiet):
        change(classifier)  # type: ignore[operator]
    classifier.save(out or path, force=force or out is None)
    for note in classifier.notes:
        say(note, quiet)
    after = classifier.model.statistics.total
    say(f"{out or path}: {before:,.0f} -> {after:,.0f} examples, {len(classifier.classes)} classes.", quiet)
