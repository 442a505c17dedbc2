"""Dry runs: which cells of a plan would run, and about how long that takes, by earlier results or a measurement."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from yoro.data.examples import Example
from yoro.data.splits import HOLD_OUT, MOST_VALIDATION
from yoro.errors import InputError, counted, one_line
from yoro.model.partial_pass import WHOLE, DataShare
from yoro.research.baselines.published import ITERATIVE
from yoro.research.bench.cell_loading import choose_sentences, find_data, manifest_file, published_index, stage_of
from yoro.research.bench.cells import BenchCell
from yoro.research.bench.datasets.bench_datasets import find_bench_dataset
from yoro.research.bench.datasets.dataset import BenchDataset, split_counts, take_manifest
from yoro.research.bench.methods.bench_methods import find_method
from yoro.research.bench.plan import Plan
from yoro.research.bench.results import PlanEntry, Results
from yoro.research.bench.runner import cells_of, duration_text
from yoro.research.bench.speed_probe import Speed
from yoro.sources.names import network_name
from yoro.sources.open import why_unavailable

State = Literal["finished", "to run", "data changed", "no data", "no source"]
STATES: tuple[State, ...] = get_args(State)

BACKWARD = 2.0  # what a backward pass costs, in forward passes
RATES = {  # images a second through a network, forward, on two CPU cores: measured, or by its operations beside those
    "lite0": 160.0, "lite1": 110.0, "lite2": 80.0, "conse": 110.0, "mobilenet-v2": 160.0, "pplcnet-v2": 120.0,
    "resnet18": 50.0, "resnext101_32x8d": 5.5, "RN50": 15.0, "RN101": 9.0, "ViT-B-32": 17.0, "ViT-B-16": 5.0,
}  # fmt: skip
UNKNOWN = 10.0  # images a second through any other network
IMAGE_TEXT = ("open_clip:", "embedded:conse")  # how the names of sources that read sentences begin
USUAL, LEAST = 224, 0.04  # the side that the rates are for, and the share of its time that the smallest canvas takes


class Counted(NamedTuple):
    """Images of a cell by split."""

    train: int
    val: int
    test: int


@dataclass(frozen=True)
class CellForecast:
    """A cell, whether it would run, and about how many seconds that takes (shared responses count once)."""

    entry: PlanEntry
    state: State
    seconds: float = 0.0
    why: str = ""  # why it cannot run, or failed before


Measure = Callable[[BenchCell, BenchDataset, Sequence[Example], bool], Speed]  # the last: whether to measure training
Speeds = Mapping[str, Speed]  # by source


def forecast(
    plan: Plan,
    results: Results,
    roots: Sequence[Path],
    measure: Measure | None = None,
    *,
    usual: Callable[[str], Speed] = lambda source: Speed(1.0 / guessed_rate(source)),
    anew: bool = False,
    share: DataShare = WHOLE,
) -> list[CellForecast]:
    """Every cell of a share of the plan; sources without earlier results are measured, or have their usual speed.

    `anew` counts every cell, whatever is finished or missing here.
    """
    speeds: Speeds = {} if anew else measured_speeds(plan, results)
    data = {name: _look(name, plan, results, roots) for name in plan.datasets}
    lacks = cache(why_unavailable)  # hundreds of cells share a source
    checked: list[tuple[PlanEntry, State, str]] = [
        (entry, "to run", "") if anew else (entry, *_state(entry, data[entry.dataset], results, roots, lacks))
        for entry in cells_of(plan, share)
    ]
    if measure is not None:
        runs = [entry.cell for entry, state, _ in checked if state in ("to run", "data changed")]
        speeds = _measured_now(runs, data, speeds, measure)
    read: set[object] = set()  # stages whose responses are in the estimate already
    listed = []
    for entry, state, why in checked:
        seconds, seen = 0.0, data[entry.dataset].dataset
        if state != "finished" and seen is not None and seen.counts:
            source = entry.cell.source
            counted, speed = count_images(entry.cell, seen), speeds.get(source) or usual(source)
            seconds = training_cost(entry.cell, counted, speed) + speed.solving
            if entry.cell.inputs.timed and not find_method(entry.cell.method).trains:
                seconds += counted.train * speed.forward
            key = entry.dataset, *stage_of(entry.cell), entry.seed if entry.cell.inputs.shots else None
            if key not in read:
                seconds += sum(counted) * speed.forward
                read.add(key)
        listed.append(CellForecast(entry, state, seconds, why))
    return listed


def _state(
    entry: PlanEntry, seen: _Seen, results: Results, roots: Sequence[Path], lacks: Callable[[str, bool], str]
) -> tuple[State, str]:
    """Whether a cell would run, and why it cannot or failed before."""
    known = results.of(entry.cell)
    if known and (seen.digest is None or any(result.depends.get("data") == seen.digest for result in known)):
        return "finished", ""
    absent = seen.problem or _missing_files(entry.cell, seen, roots)
    source = lacks(entry.cell.source, find_method(entry.cell.method).trains)
    if absent or source:
        return "no data" if absent else "no source", " ".join(filter(None, (absent, source)))
    return "data changed" if known else "to run", results.error(entry.cell) or ""


def _missing_files(cell: BenchCell, seen: _Seen, roots: Sequence[Path]) -> str:
    """What a cell reads beside the images and is missing: a published draw, or sentences."""
    if seen.dataset is None:
        return ""
    try:
        published_index(cell, seen.dataset, roots)
        if cell.source.startswith(IMAGE_TEXT):
            choose_sentences(cell, seen.dataset, roots)
    except InputError as error:
        return one_line(error)
    return ""


def _measured_now(
    cells: Sequence[BenchCell], data: Mapping[str, _Seen], known: Speeds, measure: Measure
) -> dict[str, Speed]:
    """The speeds with those of new sources, each measured once on images of one of its datasets."""
    speeds = dict(known)
    trained = {cell.source for cell in cells if find_method(cell.method).trains}
    for cell in cells:
        seen, old = data[cell.dataset], speeds.get(cell.source)
        needed = cell.source in trained and (old is None or old.training is None)
        if seen.dataset is None or (old and not needed):
            continue
        new = measure(cell, seen.dataset, seen.examples, needed)
        speeds[cell.source] = replace(new, forward=old.forward, training=old.training or new.training) if old else new
    return speeds


def count_images(cell: BenchCell, dataset: BenchDataset) -> Counted:
    """Images of a cell, from the counts of the dataset."""
    inputs, share = cell.inputs, 2 if cell.inputs.half else 1
    train, val, test = (dataset.counts.get(split, 0) // share for split in ("train", "val", "test"))
    classes = -(-dataset.classes // share)
    if not val:
        val = round(HOLD_OUT * train)
        train -= val
    whole = train
    if inputs.shots:
        train = min(train, inputs.shots * classes)
        val = min(val, min(inputs.shots, MOST_VALIDATION) * classes)
    limits = {split: limit * classes for split, limit in inputs.limits().items()}
    train, val, test = (min(n, limits.get(part, n)) for part, n in (("train", train), ("val", val), ("test", test)))
    if inputs.examples:
        train, val = min(train, inputs.examples - inputs.examples // 5), min(val, inputs.examples // 5)
    return Counted(min(whole, train + (inputs.pile or 0) * classes), val, test)  # a pile is read like training images


def training_cost(cell: BenchCell, counted: Counted, speed: Speed) -> float:
    """Seconds of training: epochs with validation, for every prompt and crop, and the test; 0 without training."""
    method = find_method(cell.method)
    options = method.make_options(dict(cell.options), cell.dataset)
    epochs = options.epochs if method.trains else 0
    if not epochs:
        return 0.0
    looks = options.prompts if cell.method == "dvp-cls" else 1
    if cell.method == "dga":
        looks += options.scales * options.crops + options.levels
    forward, both = speed.forward, speed.training or (1.0 + BACKWARD) * speed.forward
    gathering = forward if cell.method in ITERATIVE and options.mapping_pass else 0.0
    an_epoch = counted.train * (both + gathering) + counted.val * forward
    return looks * (epochs * an_epoch + (counted.test + counted.train) * forward)


def measured_speeds(plan: Plan, results: Results) -> dict[str, Speed]:
    """Median speeds of the sources in this folder of results."""
    forward: dict[str, list[float]] = {}
    training: dict[str, list[float]] = {}
    for entry in plan.entries():
        for result in results.of(entry.cell)[:1]:
            forward.setdefault(entry.cell.source, []).append(result.image_seconds)
            training.setdefault(entry.cell.source, []).extend(
                epoch.seconds / result.fitted for epoch in result.epochs if epoch.epoch > 0
            )
    median = statistics.median
    return {s: Speed(median(times), median(training[s]) if training[s] else None) for s, times in forward.items()}


def guessed_rate(source: str) -> float:
    """Images per second of a source that was not measured; scaled by the area of the canvas.

    >>> guessed_rate("timm:resnext101_32x8d.fb_wsl_ig1b_ft_in1k"), guessed_rate("onnx:mine.onnx")
    (5.5, 10.0)
    >>> guessed_rate("embedded:lite0?side=112")
    640.0
    """
    options, network = source.partition("?")[2], network_name(source)
    side = dict(pair.partition("=")[::2] for pair in options.split("&")).get("side", "")
    share = max((int(side) / USUAL) ** 2, LEAST) if side.isdecimal() else 1.0
    return RATES.get(network, UNKNOWN) / share


def forecast_values(listed: Sequence[CellForecast]) -> list[dict[str, object]]:
    """JSON values, one object per cell."""
    return [
        one.entry.cell.key() | {
            "setting": one.entry.setting, "column": one.entry.method, "state": one.state,
            "seconds": round(one.seconds, 1), "why": one.why,
        }
        for one in listed
    ]  # fmt: skip


def forecast_lines(listed: Sequence[CellForecast]) -> list[str]:
    """A line per setting, dataset and method; then the number of cells, the time, and what is missing.

    Lines name the prompt where the methods of a setting have different ones.
    """
    prompts = {(one.entry.setting, one.entry.cell.prompt) for one in listed}
    several = len(prompts) > len({setting for setting, _ in prompts})
    rows: dict[tuple[str, ...], list[CellForecast]] = {}
    for one in listed:
        prompt = (one.entry.cell.prompt,) if several else ()
        rows.setdefault((one.entry.setting, one.entry.dataset, one.entry.method, *prompt), []).append(one)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for names, mine in rows.items():
        place = "  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True))
        seeds = " ".join(str(one.entry.seed) for one in mine)
        states = ", ".join(dict.fromkeys(one.state for one in mine))
        seconds = sum(one.seconds for one in mine)
        about = f", about {duration_text(seconds)}" if seconds >= 1 else ""
        lines.append(f"{place}  seeds {seeds}  {states}{about}")
    problems = Counter(one.why for one in listed if one.why)
    return [*lines, *_totals(listed), *(f"{n} cells: {reason}" for reason, n in problems.items())]


def _totals(listed: Sequence[CellForecast]) -> list[str]:
    counts = Counter(one.state for one in listed)
    now = duration_text(sum(one.seconds for one in listed if one.state in ("to run", "data changed")))
    later = duration_text(sum(one.seconds for one in listed if one.state in ("no data", "no source")))
    absent = counts["no data"] + counts["no source"]
    beside = f", plus {later} for cells whose data or source is missing" if absent else ""
    states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    return [
        f"{counted(len(listed), 'cell')}: {states}.",
        f"About {now} to run{beside}, estimated from earlier results, this measurement, or typical CPU rates.",
    ]


@dataclass(frozen=True)
class _Seen:
    """A dataset as found now: its counts, its digest if results need it, or the problem."""

    dataset: BenchDataset | None = None
    digest: str | None = None
    problem: str = ""
    examples: tuple[Example, ...] = ()


def _look(name: str, plan: Plan, results: Results, roots: Sequence[Path]) -> _Seen:
    try:
        dataset = find_bench_dataset(name)
    except InputError as error:
        return _Seen(problem=str(error))
    try:
        found = find_data(name, plan, roots)[1].dataset
        used = any(results.of(entry.cell) for entry in plan.entries() if entry.cell.dataset == name)
        digest = take_manifest(found, manifest_file(results, name), write=False).digest if used else None
    except (InputError, OSError) as error:
        return _Seen(dataset, problem=one_line(error))
    counts = {split: n for split, n in split_counts(found).items() if split in ("train", "val", "test")}
    return _Seen(replace(dataset, counts=counts, classes=len(found.classes)), digest, examples=found.examples)
