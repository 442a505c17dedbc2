"""What verbs print: messages on stderr, results on stdout, and unreadable files at the end."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from yoro.errors import UnreachableError, counted, plain

if TYPE_CHECKING:
    from yoro.cli.options import MovedOptions, WriteOptions
    from yoro.model.open_model import Change, OpenModel

MOST_ON_SCREEN = 15  # lines of a list on a terminal
MOST_SKIPPED = 20  # broken files named one by one


class UsageError(Exception):
    """The command line makes no sense; the exit code is 2."""


def say(sentence: str, quiet: bool = False) -> None:
    """Print a message on stderr."""
    if not quiet:
        print(plain(sentence), file=sys.stderr)


def passing(what: str, quiet: bool = False) -> None:
    """Show the current step on a line that the next one replaces; nothing unless stderr is a terminal."""
    if not quiet and sys.stderr.isatty():
        print(f"\r\x1b[K{plain(what)[: shutil.get_terminal_size().columns - 1]}", end="", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A duration with the digits that matter.

    >>> duration(0.8391), duration(12.305), duration(200)
    ('0.84 s', '12.3 s', '3 min 20 s')
    """
    if seconds >= 120:
        return f"{seconds // 60:,.0f} min {seconds % 60:.0f} s"
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2g} s"


def print_text(text: str) -> None:
    """Print text on stdout."""
    print(plain(text, keep="\n"))


def print_json(value: object) -> None:
    """Print one JSON document on stdout."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))


class Closed(io.TextIOBase):
    """Replaces a standard output that was closed before we started: writing is an error, not a crash."""

    def write(self, _: str) -> int:
        raise OSError(errno.EBADF, "standard output is closed")


def prepare_streams() -> None:
    """Make stdout and stderr accept any text, and exist even if they were closed."""
    if sys.stdout is None:
        sys.stdout = Closed()
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  # as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def abandon_stdout() -> None:
    """Discard what is left in the buffer: the reader is gone, or the disk is full."""
    with suppress(OSError, ValueError), Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def tell_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """List what could not be read, and exit with 1 if there was anything; call it last."""
    if skipped:
        name_skipped(skipped)
        sys.exit(1)


def tell_calls(classifier: OpenModel, quiet: bool) -> None:
    """Report the API calls of the backbone, if it made any."""
    for sentence in classifier.opened.asked_of() if classifier.opened is not None else ():
        say(sentence, quiet)


def name_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """List what could not be read."""
    if not skipped:
        return
    for _, reason in skipped[:MOST_SKIPPED]:
        say(f"Skipped: {reason}")
    if len(skipped) > MOST_SKIPPED:
        say(f"... and {len(skipped) - MOST_SKIPPED:,} more.")
    say(f"{counted(len(skipped), 'image')} could not be read.")


def change_model(
    path: Path,
    out: Path | None,
    change: Callable[[OpenModel], Change],
    moved: MovedOptions,
    output: WriteOptions,
    *,
    saved: Callable[[Change], None] | None = None,
) -> None:
    """Change a model, save it in place or elsewhere, and report what was done.

    `saved` is called with the change once the model is written.
    In place, the model is read, changed and written under a lock, so that no concurrent change is lost.
    """
    from yoro.cli.fit_summary import closing_lines
    from yoro.files.atomic import locked
    from yoro.model.answers import left_out_evaluation
    from yoro.model.store import check_target

    target, kept = out or path, f"{path} is unchanged." if out is None else "Nothing was written."
    check_target(target, force=output.force or out is None)
    with locked(path, output.tell) if out is None else nullcontext():
        with output.spoken_warnings(), interruptible(kept):
            classifier = moved.load(path)
            before = classifier.model.statistics.total
            changed = change(classifier)
        classifier.save(target, force=output.force or out is None)
        if saved is not None:
            saved(changed)
    output.tell(*changed.notes)
    tell_calls(classifier, output.quiet)
    after = classifier.model.statistics.total
    classes = counted(len(classifier.names), "class")
    output.tell(f"{target}: {before:,.0f} -> {counted(after, 'example')}, {classes}.")
    if classifier.model.found_left_out is not None:  # a renaming changes no answer
        output.tell(*closing_lines(classifier.model, left_out_evaluation(classifier.model)))
    tell_skipped(changed.skipped)


def has_browser() -> bool:
    """Whether a person is at a terminal of a machine that can show a page."""
    import webbrowser

    if not sys.stderr.isatty() or (sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def say_tracebacks(line: str) -> None:
    """Log errors only: a page polls its server all the time."""
    if line.startswith("Traceback"):
        say(line)


@contextmanager
def interruptible(kept: str) -> Iterator[None]:
    """On Ctrl-C, say what was kept, unless the error already says so (calls to an endpoint, sorted files)."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        told = str(interrupt)
        whole = told if told.startswith("interrupted") else f"interrupted. {told or kept}"
        raise KeyboardInterrupt(whole) from None


@contextmanager
def resumable(unfinished: Path) -> Iterator[None]:
    """On Ctrl-C, and when storage does not answer, report whether the run can be resumed."""
    try:
        yield
    except UnreachableError as error:
        kept = " What is finished is kept: resume with --resume." if unfinished.exists() else ""
        raise UnreachableError(f"{error}{kept}") from error
    except KeyboardInterrupt as interrupt:  # a source on the network says which answers are kept
        kept = "Resume with --resume." if unfinished.exists() else str(interrupt) or "Nothing was written."
        raise KeyboardInterrupt(f"interrupted. {kept}") from None
