"""`yoro bench`: the tables and figures of the paper, and of plans of your own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from yoro.cli.arguments import parse_names
from yoro.cli.options import SHARED, JsonOption, JsonOptions, LoadingOptions, ReportOptions, shown, verb_group
from yoro.cli.output import passing, print_json, print_text, say
from yoro.errors import InputError
from yoro.model.settings import PipelineSettings
from yoro.option import Option, option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yoro.data.examples import Example
    from yoro.research.bench.cells import BenchCell
    from yoro.research.bench.datasets.dataset import BenchDataset
    from yoro.research.bench.plan import Plan
    from yoro.research.bench.results import PlanEntry
    from yoro.research.bench.run_forecast import Measure
    from yoro.research.bench.speed_probe import Speed

app = verb_group("bench")

RESULTS = Path("results")
PlanPath = Annotated[Path, Parameter(name="PLAN.toml", help="A plan.")]
ResultsFolder = Annotated[Path, Parameter(name="--results", metavar="DIR", help="Folder of results.")]
ROOTS = Option("Folder of datasets; repeatable (default: YORO_DATA, or data).", flags=("--data",), metavar="ROOT")


@shown()
class RootOption:
    """Where the datasets are."""

    data: tuple[str, ...] = ROOTS.field(())


@shown()
class VariantOptions:
    """Which cells a plan has."""

    variant: Literal["protocol", "published"] = option(
        "protocol", "'protocol': one for all methods; 'published': each paper's own.", flags=("--as",)
    )
    all_methods: bool = option(False, "Also run methods that the paper does not report.", flags=("--all",))

    def read(self, file: Path, *parts: str | None) -> Plan:
        """The plan, or its parts by settings, datasets and methods; those named are there whatever their kind."""
        from yoro.research.bench.plan import read_plan

        plan = read_plan(file, self.variant).only(*map(parse_names, parts))
        return plan if self.all_methods or any(parts[2:]) else plan.of_counterparts("own", "cited")


@shown("strict")
class RunOptions(LoadingOptions, RootOption, VariantOptions):
    """Which part of a plan is run, and how; an image that cannot be read fails its cells."""

    settings: str | None = option(None, "Run only these settings of the plan.", metavar="A,B")
    datasets: str | None = option(None, "Only these datasets.", metavar="A,B")
    methods: str | None = option(None, "Only these methods.", metavar="A,B")
    shard: str | None = option(None, "Run only part I of N of the cells, as job I of N.", metavar="I/N")
    dry_run: bool = option(False, "List what would run, with an estimate of the time.")
    device: str = SHARED["device"].field(PipelineSettings.device)
    deterministic: bool = option(False, "Train with deterministic operations only.")
    strict: bool = True


@app.command
def run(
    plan: PlanPath,
    /,
    *,
    results: ResultsFolder = RESULTS,
    options: RunOptions = RunOptions(),
    output: JsonOptions = JsonOptions(),
) -> None:
    """Compute every cell of a plan that has no result yet. After an interruption, repeat the command to resume."""
    from yoro.model.partial_pass import WHOLE, DataShare
    from yoro.research.bench.datasets import data_roots
    from yoro.research.bench.results import Results

    quiet = output.quiet
    chosen = options.read(plan, options.settings, options.datasets, options.methods)
    kept, roots = Results(results), data_roots(list(options.data))
    share = WHOLE if options.shard is None else DataShare.parse(options.shard)
    if options.dry_run:
        from yoro.research.bench.run_forecast import forecast, forecast_lines, forecast_values

        listed = forecast(chosen, kept, roots, _measured(options.device, quiet), share=share)
        output.show(forecast_values(listed), "\n".join(forecast_lines(listed)))
        return
    from yoro.research.bench.runner import RunSettings, run_plan

    told = _noted(quiet), _done(quiet)
    settings = RunSettings(roots, options.device, options, not quiet, *told, options.deterministic, share)
    try:
        with output.spoken_warnings():
            progress = run_plan(chosen, kept, settings)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted. Finished cells are kept; repeat the command to resume.") from None
    finally:
        passing("", quiet)
    output.tell(*kept.odd)
    if output.as_json:
        print_json(progress.to_json())
    where = "" if results == RESULTS else f" --results {results}"
    output.tell(f"{progress}. Show them with `yoro bench table {plan}{where}`.")
    if progress.failed:
        raise SystemExit(1)


def _noted(quiet: bool) -> Callable[[str], None]:
    """Print messages on lines of their own, instead of the status line."""

    def note(sentence: str) -> None:
        passing("", quiet)
        say(sentence, quiet)

    return note


def _done(quiet: bool) -> Callable[[str], None]:
    """Report finished cells: on a terminal in one status line, in a log in a line each."""
    return lambda line: (passing if sys.stderr.isatty() else say)(line, quiet)


def _measured(device: str, quiet: bool) -> Measure:
    """A short speed measurement of a backbone, announced."""
    from yoro.research.bench.speed_probe import measure

    def of(cell: BenchCell, about: BenchDataset, images: Sequence[Example], trains: bool) -> Speed:
        say(f"Measuring the speed of {cell.source} for a few seconds.", quiet)
        return measure(cell, about, images, trains=trains, device=device)

    return of


@app.command
def table(
    plan: PlanPath,
    /,
    *,
    results: ResultsFolder = RESULTS,
    form: Annotated[
        Literal["markdown", "latex", "csv"], Parameter(name="--format", help="Format of the tables.")
    ] = "markdown",
    out: Annotated[Path | None, Parameter(metavar="FILE", help="Write to a file instead of stdout.")] = None,
    cells: VariantOptions = VariantOptions(),
    output: ReportOptions = ReportOptions(),
) -> None:
    """Make the tables of a plan from the results so far; missing ones are marked.

    CSV and JSON are in long form: one row per setting, dataset and method, unrounded.
    """
    from yoro.files.atomic import write_file
    from yoro.files.rows import write_rows
    from yoro.research.bench.results import Results, entries
    from yoro.research.bench.tables.plan_tables import bench_tables
    from yoro.research.bench.tables.results_page import bench_html, long_rows
    from yoro.research.bench.tables.table_writers import latex, markdown

    output.check(out, output.html)
    made = cells.read(plan)
    found, sentences = entries(made, Results(results))
    if output.html is not None:
        output.write_page(output.html, bench_html(made, found, sentences))
    if output.as_json and out is None:
        print_json(long_rows(made, found))
    elif output.as_json or form == "csv":
        write_rows(iter(long_rows(made, found)), "json" if output.as_json else "csv", out)
    else:
        shown = {"markdown": markdown, "latex": latex}[form](bench_tables(made, found))
        if out is None:
            print_text(shown.rstrip("\n"))
        else:
            write_file(out, shown.encode())
    output.tell(*sentences, *_counts(found))


@app.command(usage="Usage: yoro bench cost PLAN.toml... [OPTIONS]")
def cost(
    *plans: Annotated[Path, Parameter(name="PLANS", help="Plans, such as configs/*.toml.")],
    on: Annotated[str, Parameter(metavar="DEVICE", help="a100, h100, v100, rtx4090 or t4.")] = "a100",
    price: Annotated[float | None, Parameter(help="Dollars per hour, instead of a typical price.")] = None,
    rates: Annotated[Path | None, Parameter(metavar="FILE", help="Rates that `yoro bench measure` wrote.")] = None,
    variant: Annotated[Literal["protocol", "published"], Parameter(name="--as", help="As in `run`.")] = "published",
    output: JsonOption = JsonOption(),
) -> None:
    """Estimate hours and money for the paper: all of it, and the tables in the text only."""
    from dataclasses import asdict

    from yoro.research.bench.cost import cost_lines, cost_parts, device_speed, find_device
    from yoro.research.bench.plan import read_plan
    from yoro.research.bench.speed_probe import read_rates

    device = find_device(on)
    speed = device_speed(device, {} if rates is None else read_rates(rates))
    parts = cost_parts([read_plan(plan, variant, fall_back=True) for plan in plans], speed)
    output.show([asdict(part) for part in parts], "\n".join(cost_lines(parts, device, price)))


@app.command(usage="Usage: yoro bench measure PLAN.toml... [OPTIONS]")
def measure(
    *plans: Annotated[Path, Parameter(name="PLANS", help="Plans whose backbones are measured.")],
    out: Annotated[Path, Parameter(metavar="FILE", help="Where to write the rates.")] = Path("rates.json"),
    device: Annotated[str, Parameter(help="auto, cpu, cuda or mps.")] = PipelineSettings.device,
    output: JsonOptions = JsonOptions(),
) -> None:
    """Measure how fast this machine runs the backbones of plans, for `yoro bench cost --rates`."""
    from yoro.files.atomic import write_file
    from yoro.research.bench.plan import read_plan
    from yoro.research.bench.speed_probe import measure_sources, rates_json

    cells = {entry.cell.source: entry.cell for plan in plans for entry in read_plan(plan).entries()}
    found, missing = measure_sources(cells.values(), device)
    write_file(out, rates_json(found, device))
    for name, speed in found.items():
        trained = f"{1 / (speed.training or 1):,.0f} trained"
        print_text(f"{name}: {1 / speed.forward:,.0f} images per second forward, {trained}")
    output.tell(*(f"{name} was not measured: {why}" for name, why in missing.items()))
    output.tell(f"{out}: the rates of {len(found)} of {len(cells)} backbones.")


@app.command(usage="Usage: yoro bench datasets [NAMES...] [OPTIONS]")
def datasets(
    *names: Annotated[str, Parameter(name="NAMES", help="Only these datasets.")],
    get: Annotated[bool, Parameter(help="Download them, or 'templates', into the first data root.")] = False,
    roots: RootOption = RootOption(),
    output: JsonOption = JsonOption(),
) -> None:
    """List the datasets that were found, with expected and actual counts; nothing is downloaded without --get."""
    from yoro.research.bench.datasets import data_roots, find_bench_dataset
    from yoro.research.bench.datasets.status import all_status, status_advice, status_table, status_values

    if get:
        from yoro.research.bench.datasets.fetching import fetch

        if not names:
            raise InputError("Name the datasets to download, such as: yoro bench datasets --get cifar10 templates")
        root = Path(roots.data[0]) if roots.data else data_roots([])[0]
        told = []
        for line in (line for name in names for line in fetch(name, root)):
            told.append(line)
            if not output.as_json:
                print_text(line)
        if output.as_json:
            print_json(told)
        if any("was not fetched" in line or "not complete" in line for line in told):
            raise SystemExit(1)
        return
    chosen = [find_bench_dataset(name) for name in names] if names else None
    items = all_status(data_roots(list(roots.data)), chosen)
    output.show(status_values(items), "\n\n".join([status_table(items), *status_advice(items)]))


def _counts(entries: Sequence[PlanEntry]) -> list[str]:
    """A sentence on runs without a result; none if all have one."""
    absent = [entry for entry in entries if entry.result is None]
    if not absent:
        return []
    failed = sum(entry.error is not None for entry in absent)
    told = f"{failed:,} failed, {len(absent) - failed:,} missing"
    return [f"{len(absent):,} of {len(entries):,} runs have no result: {told}."]
