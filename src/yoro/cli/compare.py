"""`yoro compare`: every method that does the same job, on the same responses, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.options import (
    Data,
    LoadingOptions,
    Reads,
    ReportOptions,
    Reports,
    SentenceOptions,
    SourceOptions,
    Sources,
    Speaks,
    UsageError,
    parse_names,
)
from yoro.cli.output import print_json, print_text, say, tell_skipped, write_page

if TYPE_CHECKING:
    from yoro.peers.compare import Comparison, Row


@dataclass(frozen=True)
class CompareOptions:
    """What is compared, and on what."""

    val: Annotated[str | None, Parameter(metavar="DATA", help="Data to choose settings on; never fitted.")] = None
    test: Annotated[
        str | None, Parameter(metavar="DATA", help="Data to test on; else three tenths are held out, by each seed.")
    ] = None
    methods: Annotated[str | None, Parameter(metavar="A,B", help="Only these, by name, with commas between.")] = None
    seeds: Annotated[int, Parameter(help="Repetitions, each with its own draws.")] = 3
    shots: Annotated[int | None, Parameter(help="Training images a class; by default all.")] = None


def compare(
    data: Data,
    /,
    *,
    comparing: Annotated[CompareOptions, Parameter(name="*")] = CompareOptions(),
    source: Sources = SourceOptions(),
    sentences: Speaks = SentenceOptions(),
    loading: Reads = LoadingOptions(),
    output: Reports = ReportOptions(),
) -> None:
    """Fit and test label mappings, ablations and training-free peers on responses that are read once."""
    from yoro.errors import InputError
    from yoro.model.store import check_output
    from yoro.peers.compare import compare
    from yoro.peers.methods import find_methods
    from yoro.peers.responses import read_responses

    quiet, chosen = output.quiet, None if comparing.methods is None else parse_names(comparing.methods)
    try:
        find_methods(chosen)  # a misspelt name is told before the images are read
    except InputError as error:
        raise UsageError(str(error)) from None
    if comparing.seeds < 1 or (comparing.shots is not None and comparing.shots < 1):
        raise UsageError("--seeds and --shots must be at least 1.")
    if output.html is not None:
        check_output(output.html, force=output.force)
    shared = read_responses(
        data, val=comparing.val, test=comparing.test, pipeline=source, sentences=sentences, loading=loading,
        progress=not quiet,
    )  # fmt: skip
    for note in shared.notes:
        say(note, quiet)
    found = compare(
        shared, methods=chosen, seeds=comparing.seeds, shots=comparing.shots,
        tell=lambda name: say(f"Comparing: {name}", quiet),
    )  # fmt: skip
    if output.html is not None:
        from yoro.reports.comparison import comparison_html

        write_page(output.html, comparison_html(found), quiet)
    if output.as_json:
        print_json([row.to_json() for row in found.rows])
    else:
        print_text(table(found))
    tell_skipped(shared.skipped)
    if not found.ran:
        say("No method could run; the table has the reasons.")
        raise SystemExit(1)


def table(comparison: Comparison) -> str:
    """What was compared on, then a line for each method; those that could not run come last, with the reason."""
    facts = [f"{key + ':':<22}{value}" for key, value in comparison.facts.items()]
    width = max(len(row.method) for row in comparison.rows)
    head = (
        f"{'method':<{width}}  {'accuracy':>8}  {'±':>5}  {'fit s':>8}  {'responses/s':>11}  {'memory MB':>9}"
        f"  {'passes':>6}  needs"
    )
    lines = [_line(row, width) for row in comparison.rows]
    told: dict[str, list[str]] = {}
    for row in comparison.rows:
        for note in row.notes:
            told.setdefault(note, []).append(row.method)
    notes = [f"{', '.join(names)}: {note}." for note, names in told.items()]
    return "\n".join([*facts, "", head, *lines, *([""] if notes else []), *notes])


def _line(row: Row, width: int) -> str:
    from yoro.model.metrics import percent_text

    if row.accuracy is None:
        return f"{row.method:<{width}}  cannot run: {row.reason}"
    deviation = "-" if row.deviation is None else f"{100 * row.deviation:.1f}"
    return (
        f"{row.method:<{width}}  {percent_text(row.accuracy):>8}  {deviation:>5}  {row.fit_seconds:>8.2g}"
        f"  {row.predict_rate:>11,.0f}  {row.memory_mb:>9,.1f}  {row.passes:>6}  {', '.join(row.needs) or '-'}"
    )
