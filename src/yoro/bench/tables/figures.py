"""Figures of a plan as SVG: curves over the epochs, shares of runs that keep epoch 0, accuracy against cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from yoro.bench.plan import Setting
from yoro.bench.results import Result
from yoro.bench.tables.diagnostics import groups
from yoro.bench.tables.paper import PaperNumbers
from yoro.bench.tables.run_grid import RunGrid, dataset_title, setting_title
from yoro.bench.tables.summary import kept_share, mean, sample_deviation
from yoro.reports.axes import Frame, spread
from yoro.reports.charts import text
from yoro.reports.cost_plot import PLOT_STYLE, Point, cost_plot, fitted

MOST_CURVES = 12  # pairs of panels; more are counted, not drawn
COLOURS = 8  # distinct ones; then they come again, dashed
DOTS = 25  # epochs on an axis up to which each is a dot
PANEL = Frame(50, 390, 40, 250)  # within 520 x 300; names stand on the right
PANEL_WIDTH, PANEL_HEIGHT, GAP = 520, 300, 16
BAR, STEP, BARS = 16, 26, Frame(190, 560, 30, 0)  # thickness of a bar, from one to the next, where bars stand

# Okabe and Ito's colours, which colour-blind readers tell apart, darker on white and lighter on black.
LIGHT = ("#0072b2", "#c04e00", "#00805e", "#a8437f", "#7d6400", "#2f8fc4", "#6b3fa0", "#555b63")
DARK = ("#4aa8e8", "#ff8f4a", "#2fc79a", "#e58fc0", "#e2c23c", "#9bd4f5", "#b99af0", "#b4bac2")
STYLE = (
    PLOT_STYLE
    + ":root { " + " ".join(f"--c{i}: {c};" for i, c in enumerate(LIGHT)) + " }\n"
    + "@media (prefers-color-scheme: dark) { :root { "
    + " ".join(f"--c{i}: {c};" for i, c in enumerate(DARK)) + " } }\n"
    + "".join(f".k{i} {{ --mine: var(--c{i}); }}\n" for i in range(COLOURS))
    + """
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: .5rem 1rem; }
.panels .plot, .shares { max-width: 44rem; }
.plot .path { fill: none; stroke: var(--mine); stroke-width: 2; stroke-linejoin: round; }
.plot .dashed { stroke-dasharray: 6 3; }
.plot .dot { fill: var(--mine); }
.plot .tie { stroke: var(--mine); stroke-dasharray: 1 3; fill: none; }
.plot text.mine { fill: var(--mine); font-weight: 600; }
.plot .level { stroke: var(--ink); stroke-width: 1.5; }
.plot .kept { fill: rgb(var(--right)); }
.plot .refined { fill: rgb(var(--wrong) / .55); }
.key.refined { background: rgb(var(--wrong) / .55); }
.plot .unknown { fill: none; stroke: var(--line); }
.plot .paper { stroke: var(--ink); stroke-width: 2.5; }
.plot .group { fill: var(--ink); font-weight: 600; }
"""
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A curve under its title: (epoch, value) in order; `colour` counts the methods of a plan."""

    title: str
    colour: int
    points: tuple[tuple[int, float], ...]


def figure_sections(board: RunGrid) -> list[str]:
    """The figures that a plan shows, each as a section of HTML, in its order."""
    return [FIGURES[word](board) for word in board.plan.show if word in FIGURES]


def curves(board: RunGrid) -> str:
    """Training loss and validation accuracy over the epochs, for every dataset of every setting that has them."""
    drawn: list[str] = []
    more = 0
    for setting in board.plan.settings:
        for dataset in setting.datasets:
            if not _trained(board, setting, dataset):
                continue
            if len(drawn) == MOST_CURVES:
                more += 1
                continue
            drawn.append(f"<h3>{text(dataset_title(dataset))}, {text(setting_title(board.plan, setting))}</h3>\n"
                         f'<div class="panels">{_pair(board, setting, dataset)}</div>')  # fmt: skip
    told = (
        "Means over the seeds. The level line is the validation accuracy of the one pass, without any training; dots "
        "only lead to a name."
    )
    rest = [f'<p class="quiet">{more} more are not drawn.</p>'] if more else []
    return _section("Over the epochs", told, "\n".join([*drawn, *rest]), "No finished run was trained over epochs.")


def epoch_means(runs: Sequence[Result], *, loss: bool) -> tuple[tuple[int, float], ...]:
    """The mean over runs of each epoch that all of them have: the loss, or the accuracy in percent."""
    found: dict[int, list[float]] = {}
    for run in runs:
        for epoch in run.epochs:
            value = epoch.loss if loss else 100 * epoch.correct / epoch.total if epoch.total else None
            if value is not None and math.isfinite(value):
                found.setdefault(epoch.epoch, []).append(value)
    return tuple((epoch, mean(values)) for epoch, values in sorted(found.items()) if len(values) == len(runs))


def line_panel(lines: Sequence[Line], label: str, level: tuple[str, float] | None = None) -> str:
    """Curves as SVG, named at their ends; `level` is a horizontal line with its name. Empty without values."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    values = [value for line in drawn for _, value in line.points] + ([level[1]] if level else [])
    up, ticks = PANEL.linear(values)
    first = min(line.points[0][0] for line in drawn)
    last = max(line.points[-1][0] for line in drawn)
    across, epochs = PANEL.epochs(first, last)
    parts = [
        PANEL.grid_up(up, ticks),
        PANEL.grid_across(across, epochs),
        f'<text x="4" y="16">{text(label)}</text>',
        f'<text x="{(PANEL.left + PANEL.right) / 2:.1f}" y="{PANEL.foot + 40}" text-anchor="middle">epoch</text>',
    ]
    ends = [(across(line.points[-1][0]), up(line.points[-1][1])) for line in drawn]
    ends += [(PANEL.right, up(level[1]))] if level else []
    places = spread([y for _, y in ends], GAP, PANEL.head - 10, PANEL.foot + 10)
    if level:
        parts.append(f'<path class="level" d="M{PANEL.left} {ends[-1][1]:.1f}H{PANEL.right}"/>')
        parts.append(_name(fitted(level[0]), "name", places[-1]))
        parts.append(f'<path class="lead" fill="none" d="{_tie(ends[-1], places[-1])}"/>')
    for line, end, place in zip(drawn, ends, places, strict=False):
        route = " ".join(f"{across(epoch):.1f},{up(value):.1f}" for epoch, value in line.points)
        dashed = " dashed" if line.colour >= COLOURS else ""
        dots = "".join(
            f'<circle class="dot" cx="{across(epoch):.1f}" cy="{up(value):.1f}" r="2.5"/>'
            for epoch, value in (line.points if last - first <= DOTS else ())
        )
        parts.append(
            f'<g class="k{line.colour % COLOURS}"><path class="tie" d="{_tie(end, place)}"/>'
            f'<polyline class="path{dashed}" points="{route}"/>{dots}{_name(fitted(line.title), "mine", place)}</g>'
        )
    about = f"{text(label)} over the epochs of {len(drawn)} methods: {', '.join(text(line.title) for line in drawn)}."
    size = f"0 0 {PANEL_WIDTH} {PANEL_HEIGHT}"
    return f'<svg class="plot" viewBox="{size}" role="img" aria-label="{about}">{"".join(parts)}</svg>'


def shares(board: RunGrid) -> str:
    """Bars of the share of runs that keep epoch 0, by setting and by settings together; the paper's share as a tick."""
    beside, rows = PaperNumbers(board.plan), []
    for group in groups(board.plan):
        lines = []
        for method in board.plan.uses:
            if not group.runs_method(method) or not _refines(board, group.settings, method):
                continue
            runs = board.all_runs(group.settings, method)
            share = None if runs is None else kept_share([run.depth for run in runs if run.depth is not None])
            paper = beside.average(group.settings, method, "kept_epoch_0")
            lines.append((board.title(method), share, None if paper is None else paper.value / 100))
        if lines:
            rows.append((group.title, lines))
    told = (
        '<span class="keys"><span class="key right"></span>epoch 0 kept,</span> '
        '<span class="keys"><span class="key refined"></span>a later epoch chosen.</span> '
        "The number is the share that keeps epoch 0."
    )
    marked = any(paper is not None for _, lines in rows for *_, paper in lines)
    told += " An upright line is the share in the paper." if marked else ""
    drawing = share_bars(rows) if rows else ""
    return _section("Runs that keep epoch 0", told, drawing, "No finished run of this plan refines anything.")


def share_bars(rows: Sequence[tuple[str, Sequence[tuple[str, float | None, float | None]]]]) -> str:
    """Stacked bars as SVG from (group, [(title, share, the paper's share)]); a share of None is an empty bar."""
    parts, y = [], 8.0
    length = BARS.right - BARS.left
    for group, lines in rows:
        parts.append(f'<text class="group" x="4" y="{y + 14:.1f}">{fitted(group, 90)}</text>')
        y += STEP
        for title, share, paper in lines:
            middle = y + BAR / 2
            parts.append(
                f'<text x="{BARS.left - 10}" y="{middle + 4:.1f}" text-anchor="end">{fitted(title, 26)}</text>'
            )
            if share is None:
                parts.append(f'<rect class="unknown" x="{BARS.left}" y="{y}" width="{length}" height="{BAR}"/>')
                shown = "\u2013 runs are missing"
            else:
                kept = share * length
                parts.append(f'<rect class="kept" x="{BARS.left}" y="{y}" width="{kept:.1f}" height="{BAR}"/>')
                rest = f'x="{BARS.left + kept:.1f}" y="{y}" width="{length - kept:.1f}" height="{BAR}"'
                parts.append(f'<rect class="refined" {rest}/>')
                shown = f"{100 * share:.1f} %"
            if paper is not None:
                parts.append(f'<path class="paper" d="M{BARS.left + paper * length:.1f} {y - 3}v{BAR + 6}"/>')
                shown += f" (paper {100 * paper:.1f})"
            parts.append(f'<text class="name" x="{BARS.right + 10}" y="{middle + 4:.1f}">{shown}</text>')
            y += STEP
        y += 6
    about = f"Share of runs that keep epoch 0, {sum(len(lines) for _, lines in rows)} bars."
    size = f"0 0 720 {y:.0f}"
    return f'<svg class="plot shares" viewBox="{size}" role="img" aria-label="{about}">{"".join(parts)}</svg>'


def cost(board: RunGrid) -> str:
    """Accuracy against seconds, a plot for each setting; methods with missing runs are named below."""
    drawn = []
    for setting in board.plan.settings:
        points, lacking = [], []
        for method in setting.methods:
            averages, runs = board.averages(setting, method), board.all_runs([setting], method)
            if averages is None or runs is None:
                lacking.append(board.title(method))
                continue
            shares_of = [value / 100 for value in averages.values()]
            seconds = mean([run.seconds for run in runs])
            around = sample_deviation(shares_of) or 0.0
            ours = method == board.plan.baseline
            points.append(Point(board.title(method), seconds, mean(shares_of), around, ours=ours))
        drawn.append(f"<h3>{text(setting_title(board.plan, setting))}</h3>")
        drawn += [cost_plot(points, "seconds to fit or train, mean over the datasets")] if points else []
        drawn += (
            [f'<p class="quiet">Not drawn, for lack of runs: {text(", ".join(lacking), 400)}.</p>'] if lacking else []
        )
    told = (
        "Accuracy averaged over the datasets, with a bar of one deviation over the seeds, against the mean "
        "seconds of a run on a logarithmic axis; validation and test are not counted. Triangles at the foot lie lower "
        "than the axis goes."
    )
    return _section("Accuracy against cost", told, "\n".join(drawn), "")


def _pair(board: RunGrid, setting: Setting, dataset: str) -> str:
    colours = {name: i for i, name in enumerate(n for n in board.plan.uses if n != board.plan.baseline)}
    chosen = _trained(board, setting, dataset)
    losses = [Line(board.title(m), colours.get(m, 0), epoch_means(runs, loss=True)) for m, runs in chosen.items()]
    judged = [Line(board.title(m), colours.get(m, 0), epoch_means(runs, loss=False)) for m, runs in chosen.items()]
    return line_panel(losses, "training loss") + line_panel(
        judged, "validation accuracy, %", _level(board, setting, dataset)
    )


def _trained(board: RunGrid, setting: Setting, dataset: str) -> dict[str, list[Result]]:
    """All runs of each method with epochs, if none is missing."""
    found = {method: board.runs(setting, method, dataset) for method in setting.methods}
    return {name: list(runs.values()) for name, runs in found.items() if runs and all(r.epochs for r in runs.values())}


def _level(board: RunGrid, setting: Setting, dataset: str) -> tuple[str, float] | None:
    base = board.plan.baseline
    runs = board.runs(setting, base, dataset) if base in setting.methods else None
    judged = [run.validation for run in (runs or {}).values()]
    shares_of = [100 * right / total for right, total in (pair for pair in judged if pair) if total]
    return (board.title(base), mean(shares_of)) if runs and len(shares_of) == len(judged) else None


def _refines(board: RunGrid, settings: Sequence[Setting], method: str) -> bool:
    """Whether any run that is there says which epoch it chose."""
    names = {setting.name for setting in settings}
    return any(
        entry.result is not None and entry.result.depth is not None
        for entry in board.entries
        if entry.method == method and entry.setting in names
    )


def _tie(end: tuple[float, float], place: float) -> str:
    """A way from the end of a line to its name."""
    return f"M{end[0]:.1f} {end[1]:.1f}H{PANEL.right - 6:.1f}L{PANEL.right + 6:.1f} {place:.1f}"


def _name(title: str, kind: str, place: float) -> str:
    return f'<text class="{kind}" x="{PANEL.right + 10}" y="{place + 4:.1f}">{title}</text>'


def _section(title: str, told: str, drawing: str, empty: str) -> str:
    if not drawing and not empty:
        return ""
    shown = drawing or f'<p class="quiet">{empty}</p>'
    return f"<section><h2>{title}</h2>\n" + (f'<p class="quiet">{told}</p>\n' if drawing else "") + f"{shown}</section>"


FIGURES: dict[str, Callable[[RunGrid], str]] = {"curves": curves, "shares": shares, "cost": cost}
