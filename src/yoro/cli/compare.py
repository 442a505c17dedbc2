"""`yoro compare`: methods compared on the same responses, in one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from yoro.cli.arguments import Images, given, given_for, parse_names
from yoro.cli.options import LABEL_FROM, LoadingOptions, ReportOptions, SentenceOptions, SourceOptions, shown
from yoro.cli.output import UsageError, passing, say, tell_skipped
from yoro.errors import percent_text
from yoro.option import option

if TYPE_CHECKING:
    from yoro.research.comparing import Comparison, ComparisonRow

NOISE = 24  # characters of the column that says whether a method is within noise of the best


@shown()
class CompareVerbOptions:
    """What is compared, and on which data."""

    val: str | None = option(None, "Data to choose hyperparameters on; never fitted.", metavar="DATA")
    test: str | None = option(None, "Test data (default: a random 30 % for each seed).", metavar="DATA")
    methods: str | None = option(None, "Only these methods, separated by commas.", metavar="A,B")
    every: bool = option(False, "Run all methods, not just six.", flags=("--all",))
    seeds: int = option(3, "Number of repetitions.")
    shots: int | None = option(None, "Training images per class (default: all).")
    label_from: str | None = LABEL_FROM.field(None)


def compare(
    *data: Images,
    comparing: CompareVerbOptions = CompareVerbOptions(),
    source: SourceOptions = SourceOptions(),
    sentences: SentenceOptions = SentenceOptions(),
    loading: LoadingOptions = LoadingOptions(),
    output: ReportOptions = ReportOptions(),
) -> None:
    """Compare yoro fit with other methods on your images.

    First what `yoro fit` gives, with --fast and --best, then other methods on one layer of the same images.
    """
    from yoro.errors import InputError
    from yoro.research.comparing import (
        check_methods,
        check_repetitions,
        compare_methods,
        comparison_html,
        default_methods,
    )
    from yoro.research.peers.shared_responses import Reader
    from yoro.research.presets import PRESETS, read_with_presets

    quiet, chosen = output.quiet, None if comparing.methods is None else parse_names(comparing.methods)
    try:
        check_methods(chosen)  # before the images are read
        check_repetitions(comparing.seeds, comparing.shots)
    except InputError as error:
        raise UsageError(str(error)) from None
    output.check(output.html)
    val, test = (given_for(path, comparing.label_from) for path in (comparing.val, comparing.test))
    reader = Reader(val, test, source, sentences, loading, not quiet)
    shared = read_with_presets(PRESETS if chosen is None else chosen, given(data, comparing.label_from), reader)
    output.tell(*shared.notes)
    found = compare_methods(
        shared, methods=default_methods(shared, every=comparing.every) if chosen is None else chosen,
        seeds=comparing.seeds, shots=comparing.shots, tell=lambda name: passing(f"Comparing: {name}", quiet),
    )  # fmt: skip
    passing("", quiet)
    if output.html is not None:
        output.write_page(output.html, comparison_html(found))
    output.show([row.to_json() for row in found.rows], table(found))
    tell_skipped(shared.skipped)
    if not found.ran:
        say("No method could run; see the table for the reasons.")
        raise SystemExit(1)


def table(comparison: Comparison) -> str:
    """The data, a line for each method, and one line on those that could not run."""
    facts = [f"{key + ':':<22}{value}" for key, value in comparison.facts.items()]
    width = max(len(row.method) for row in comparison.rows)
    head = f"{'method':<{width}}  {'accuracy':>8}  {'95 % interval':<16}  {'fit s':>7}  {'':<{NOISE}}  what it is"
    lines = [_line(row, width, comparison.verdict(row)) for row in comparison.ran]
    told: dict[str, list[str]] = {}
    for row in comparison.rows:
        for note in row.notes:
            told.setdefault(note, []).append(row.method)
    notes = [f"{', '.join(names)}: {note}." for note, names in told.items()]
    notes += _not_run(comparison.rows)
    return "\n".join([*facts, "", head, *lines, *([""] if notes else []), *notes])


def _not_run(rows: Iterable[ComparisonRow]) -> list[str]:
    """One line on the methods that could not run, by reason; nothing if all did."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.accuracy is None:
            reasons.setdefault(str(row.reason).rstrip("."), []).append(row.method)
    told = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    return [f"Not run: {told}."] if told else []


def _line(row: ComparisonRow, width: int, verdict: str) -> str:
    low, high = row.interval or (0.0, 0.0)
    between = f"{percent_text(low, unit='')} to {percent_text(high, unit='')}"
    return (
        f"{row.method:<{width}}  {percent_text(row.accuracy or 0.0):>8}  {between:<16}  {row.fit_seconds:>7.2g}"
        f"  {verdict:<{NOISE}}  {row.about}"
    ).rstrip()
