"""Figures of a plan as SVG: curves over the epochs, shares of runs that keep epoch 0, accuracy against cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from yoro.reports import svg
from yoro.reports.page import render
from yoro.reports.svg import CostPoint, cost_plot
from yoro.research.bench.plan import Setting
from yoro.research.bench.results import CellResult
from yoro.research.bench.tables.paper import PaperNumbers
from yoro.research.bench.tables.run_grid import RunGrid, comparable, dataset_title, groups, setting_title
from yoro.research.bench.tables.summary import kept_share, mean, sample_deviation

MOST_CURVES = 12  # pairs of panels; more are counted, not drawn
COLOURS = 8  # distinct ones, styled in bench.css; then they come again, dashed
DOTS = 25  # epochs on an axis up to which each is a dot
PANEL, PANEL_SIZE = svg.Frame(50, 390, 40, 250), (520, 300)  # names stand on the right
GAP = 16  # between two names
BAR, STEP = 16, 26  # thickness of a bar, from one to the next
LEFT, RIGHT, BARS_WIDTH = 190, 560, 720  # where bars stand, of the width of their drawing


@dataclass(frozen=True)
class Line:
    """A curve under its title: (epoch, value) in order; `colour` counts the methods of a plan."""

    title: str
    colour: int
    points: tuple[tuple[int, float], ...]


def curves(grid: RunGrid) -> Markup:
    """Training loss and validation accuracy over the epochs, for every dataset of every setting that has them."""
    pairs = [(setting, dataset) for setting in grid.plan.settings for dataset in setting.datasets]
    trained = [pair for pair in pairs if _trained(grid, *pair)]
    drawn = [
        (dataset_title(dataset), setting_title(grid.plan, setting), _panels(grid, setting, dataset))
        for setting, dataset in trained[:MOST_CURVES]
    ]
    return Markup(render("bench_curves.html", drawn=drawn, more=len(trained) - len(drawn)))


def epoch_means(runs: Sequence[CellResult], *, loss: bool) -> tuple[tuple[int, float], ...]:
    """The mean over runs of each epoch that all of them have: the loss, or the accuracy in percent."""
    found: dict[int, list[float]] = {}
    for run in runs:
        for epoch in run.epochs:
            value = epoch.loss if loss else 100 * epoch.correct / epoch.total if epoch.total else None
            if value is not None and math.isfinite(value):
                found.setdefault(epoch.epoch, []).append(value)
    return tuple((epoch, mean(values)) for epoch, values in sorted(found.items()) if len(values) == len(runs))


def line_panel(lines: Sequence[Line], label: str, level: tuple[str, float] | None = None) -> Markup:
    """Curves as SVG, named at their ends; `level` is a horizontal line with its name. Empty without values."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return Markup("")
    epochs = [epoch for line in drawn for epoch, _ in line.points]
    values = [value for line in drawn for _, value in line.points] + ([level[1]] if level else [])
    chart = svg.Chart(PANEL, svg.epoch_axis(epochs), svg.linear_axis(values))
    ends = chart.places(line.points[-1] for line in drawn) + ([(PANEL.right, chart.y(level[1]))] if level else [])
    heights = svg.spread([y for _, y in ends], GAP, PANEL.head - 10, PANEL.foot + 10)
    parts = [chart.ground("epoch", label)]
    if level:
        parts.append(svg.line("level", (PANEL.left, ends[-1][1]), ends[-1]))
        parts += _named(level[0], "name", "lead", ends[-1], heights[-1])
    for line, end, height in zip(drawn, ends, heights, strict=False):
        places = chart.places(line.points)
        route = svg.polyline("path dashed" if line.colour >= COLOURS else "path", places)
        dots = [svg.dot("dot", place, 2.5) for place in places] if max(epochs) - min(epochs) <= DOTS else []
        tied = _named(line.title, "mine", "tie", end, height)
        parts.append(svg.element("g", *tied, route, *dots, class_=f"k{line.colour % COLOURS}"))
    about = f"{label} over the epochs of {len(drawn)} methods: {', '.join(line.title for line in drawn)}."
    return svg.drawing("plot", PANEL_SIZE, parts, about)


def _named(title: str, kind: str, tie: str, end: svg.Place, height: float) -> list[Markup]:
    """A name at a height beside the panel, and a way to it from the end of its line."""
    return [
        svg.polyline(tie, [end, (PANEL.right - 6, end[1]), (PANEL.right + 6, height)]),
        svg.label(svg.shortened(title), (PANEL.right + 10, height + 4), kind=kind),
    ]


def shares(grid: RunGrid) -> Markup:
    """Bars of the share of runs that keep epoch 0, by setting and by settings together; the paper's share as a tick."""
    beside, rows = PaperNumbers(grid.plan), []
    for group, settings in groups(grid.plan):
        lines = []
        for method in grid.plan.uses:
            if not comparable(settings, method) or not _refines(grid, settings, method):
                continue
            runs = grid.all_runs(settings, method)
            share = None if runs is None else kept_share([run.depth for run in runs if run.depth is not None])
            paper = beside.average(settings, method, "kept_epoch_0")
            lines.append((grid.title(method), share, None if paper is None else paper.value / 100))
        if lines:
            rows.append((group, lines))
    beside_paper = any(paper is not None for _, lines in rows for *_, paper in lines)
    return Markup(render("bench_shares.html", bars=share_bars(rows) if rows else "", beside_paper=beside_paper))


def share_bars(rows: Sequence[tuple[str, Sequence[tuple[str, float | None, float | None]]]]) -> Markup:
    """Stacked bars as SVG from (group, [(title, share, the paper's share)]); a share of None is an empty bar."""
    parts, y = [], 8.0
    for group, lines in rows:
        parts.append(svg.label(svg.shortened(group, 90), (4, y + 14), kind="group"))
        y += STEP
        for title, share, paper in lines:
            parts += _share_bar(title, share, paper, y)
            y += STEP
        y += 6
    about = f"Share of runs that keep epoch 0, {sum(len(lines) for _, lines in rows)} bars."
    return svg.drawing("plot shares", (BARS_WIDTH, y), parts, about)


def _share_bar(title: str, share: float | None, paper: float | None, y: float) -> list[Markup]:
    """A bar between its title and its numbers, with the paper's share as an upright line."""
    parts = [svg.label(svg.shortened(title, 26), (LEFT - 10, y + BAR / 2 + 4), "end")]
    length = RIGHT - LEFT
    if share is None:
        parts.append(svg.element("rect", class_="unknown", x=LEFT, y=y, width=length, height=BAR))
        shown = "\u2013 runs missing"
    else:
        for kind, start, end in (("kept", 0.0, share), ("refined", share, 1.0)):
            width = (end - start) * length
            parts.append(svg.element("rect", class_=kind, x=LEFT + start * length, y=y, width=width, height=BAR))
        shown = f"{100 * share:.1f} %"
    if paper is not None:
        x = LEFT + paper * length
        parts.append(svg.line("paper", (x, y - 3), (x, y + BAR + 3)))
        shown += f" (paper {100 * paper:.1f})"
    return [*parts, svg.label(shown, (RIGHT + 10, y + BAR / 2 + 4), kind="name")]


def cost(grid: RunGrid) -> Markup:
    """Accuracy against seconds, a plot for each setting; methods with missing runs are named below."""
    drawn = []
    for setting in grid.plan.settings:
        points, lacking = [], []
        for method in setting.methods:
            averages, runs = grid.averages(setting, method), grid.all_runs([setting], method)
            if averages is None or runs is None:
                lacking.append(grid.title(method))
                continue
            shares_of = [value / 100 for value in averages.values()]
            seconds = mean([run.seconds for run in runs])
            around = sample_deviation(shares_of) or 0.0
            ours = method == grid.plan.baseline
            points.append(CostPoint(grid.title(method), seconds, mean(shares_of), around, ours=ours))
        plot = cost_plot(points, "seconds to fit or train, mean over the datasets") if points else ""
        drawn.append((setting_title(grid.plan, setting), plot, lacking))
    return Markup(render("bench_cost.html", drawn=drawn))


def _panels(grid: RunGrid, setting: Setting, dataset: str) -> list[Markup]:
    """The loss and the accuracy of every trained method."""
    colours = {name: i for i, name in enumerate(n for n in grid.plan.uses if n != grid.plan.baseline)}
    losses, judged = (
        [
            Line(grid.title(method), colours.get(method, 0), epoch_means(runs, loss=loss))
            for method, runs in _trained(grid, setting, dataset).items()
        ]
        for loss in (True, False)
    )
    level = _level(grid, setting, dataset)
    return [line_panel(losses, "training loss"), line_panel(judged, "validation accuracy, %", level)]


def _trained(grid: RunGrid, setting: Setting, dataset: str) -> dict[str, list[CellResult]]:
    """All runs of each method with epochs, if none is missing."""
    found = {method: grid.runs(setting, method, dataset) for method in setting.methods}
    return {name: list(runs.values()) for name, runs in found.items() if runs and all(r.epochs for r in runs.values())}


def _level(grid: RunGrid, setting: Setting, dataset: str) -> tuple[str, float] | None:
    base = grid.plan.baseline
    runs = grid.runs(setting, base, dataset) if base in setting.methods else None
    judged = [run.validation for run in (runs or {}).values()]
    shares_of = [100 * right / total for right, total in (pair for pair in judged if pair) if total]
    return (grid.title(base), mean(shares_of)) if runs and len(shares_of) == len(judged) else None


def _refines(grid: RunGrid, settings: Sequence[Setting], method: str) -> bool:
    """Whether any run that is there says which epoch it chose."""
    places = [(setting, dataset) for setting in settings for dataset in setting.datasets]
    found = [entry.result for setting, dataset in places for entry in grid.at(setting, method, dataset)]
    return any(result is not None and result.depth is not None for result in found)


# Each as a section of HTML.
FIGURES: dict[str, Callable[[RunGrid], Markup]] = {"curves": curves, "shares": shares, "cost": cost}
