"""`yoro compare`: every method that does the same job, on the same responses, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yoro.cli.talk import (
    AsJson,
    BatchSize,
    Data,
    Device,
    Force,
    Quiet,
    Strict,
    Workers,
    make_reading,
    parse_names,
    print_json,
    say,
    tell_skipped,
)

if TYPE_CHECKING:
    from yoro.peers.compare import Comparison, Row


def run(
    data: Data,
    val: Annotated[str | None, typer.Option(metavar="DATA", help="Data to choose settings on; never fitted.")] = None,
    test: Annotated[
        str | None, typer.Option(metavar="DATA", help="Data to test on; else three tenths are held out, by each seed.")
    ] = None,
    source: Annotated[
        str, typer.Option(metavar="S", help="The frozen model; `yoro models` lists them.")
    ] = "embedded:lite0",
    read: Annotated[str, typer.Option(metavar="logits|features", help="Where the source is read.")] = "logits",
    attributes: Annotated[
        str | None,
        typer.Option(metavar="BANK", help="Sentences for an image-text source: a JSON file, templates or names."),
    ] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Sentences drawn a class.")] = 20,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these, by name, with commas between.", show_default=False)
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, each with its own draws.")] = 3,
    shots: Annotated[int | None, typer.Option(min=1, help="Training images a class; by default all.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="PAGE", help="Also write a web page with a plot.")] = None,
    device: Device = "auto",
    batch_size: BatchSize = 32,
    workers: Workers = None,
    strict: Strict = False,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit and test label mappings, ablations and training-free peers on responses that are read once."""
    from yoro.errors import InputError
    from yoro.model.store import refuse_existing
    from yoro.peers.compare import compare
    from yoro.peers.methods import find_methods
    from yoro.peers.responses import read_material

    chosen = None if methods is None else parse_names(methods)
    try:
        find_methods(chosen)  # a misspelt name is told before the images are read
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="--methods") from None
    if html is not None:
        refuse_existing(html, force=force)
    material = read_material(
        data, val=val, test=test, source=source, read=read, attributes=attributes, sentences=sentences, device=device,
        reading=make_reading(batch_size, workers, strict), progress=not quiet,
    )  # fmt: skip
    for note in material.notes:
        say(note, quiet)
    found = compare(
        material, methods=chosen, seeds=seeds, shots=shots, tell=lambda name: say(f"Comparing: {name}", quiet)
    )
    if html is not None:
        from yoro.files.atomic import write_file
        from yoro.reports.comparison import comparison_html

        write_file(html, comparison_html(found).encode())
    if as_json:
        print_json([row.to_json() for row in found.rows])
    else:
        typer.echo(table(found))
    tell_skipped(material.skipped)
    if not found.ran:
        say("No method could run; the table has the reasons.")
        raise typer.Exit(1)


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
    if row.accuracy is None:
        return f"{row.method:<{width}}  cannot run: {row.reason}"
    deviation = "-" if row.deviation is None else f"{100 * row.deviation:.1f}"
    return (
        f"{row.method:<{width}}  {row.accuracy:>8.1%}  {deviation:>5}  {row.fit_seconds:>8.2g}"
        f"  {row.predict_rate:>11,.0f}  {row.memory_mb:>9,.1f}  {row.passes:>6}  {', '.join(row.needs) or '-'}"
    )
