"""How verbs talk: sentences on stderr, results on stdout, broken files at the end."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yoro.model.classifier import Change, Classifier

MOST_SKIPPED = 20  # broken files named one by one


def say(sentence: str, quiet: bool = False) -> None:
    """One sentence to the person, on stderr."""
    if not quiet:
        print(sentence, file=sys.stderr)


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


def tell_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Name what could not be read, and exit with 1 if there was anything; all else is done by now."""
    if not skipped:
        return
    for _, reason in skipped[:MOST_SKIPPED]:
        say(f"Skipped: {reason}")
    if len(skipped) > MOST_SKIPPED:
        say(f"... and {len(skipped) - MOST_SKIPPED:,} more.")
    say("1 image could not be read." if len(skipped) == 1 else f"{len(skipped):,} images could not be read.")
    sys.exit(1)


def write_page(path: Path, page: str, quiet: bool) -> None:
    """Write a web page, and say so."""
    from yoro.files.atomic import write_file

    write_file(path, page.encode())
    say(f"{path}: the report.", quiet)


def change_model(
    classifier: Classifier, path: Path, out: Path | None, change: Callable[[], Change], *, force: bool, quiet: bool
) -> None:
    """Change a model and write it back in place or elsewhere; then say what was done."""
    from yoro.model.store import check_target

    if out is not None:
        check_target(out, force=force)
    before = classifier.model.statistics.total
    with spoken_warnings(quiet):
        changed = change()
    classifier.save(out or path, force=force or out is None)
    for note in changed.notes:
        say(note, quiet)
    after = classifier.model.statistics.total
    say(f"{out or path}: {before:,.0f} -> {after:,.0f} examples, {len(classifier.classes)} classes.", quiet)
    tell_skipped(changed.skipped)
