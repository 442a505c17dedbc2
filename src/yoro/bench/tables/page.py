"""A plan and its results as one HTML page that needs nothing besides itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from yoro.bench.plan import Plan
from yoro.bench.results import PlanEntry
from yoro.bench.tables.figures import STYLE as FIGURE_STYLE
from yoro.bench.tables.figures import figure_sections
from yoro.bench.tables.plan_tables import bench_tables
from yoro.bench.tables.run_grid import RunGrid, dataset_title, setting_title
from yoro.bench.tables.table import Head, Table, TableRow, panels
from yoro.bench.tables.table_writers import Markup, cell_text, paper_text
from yoro.reports.charts import text
from yoro.reports.report import facts_list, page

MOST = 200  # failures and notes of runs listed one by one
LONG = 600  # characters of a note
HTML = Markup(lambda shown: f"<b>{shown}</b>", text, "\u2009±\u2009", percent="\u2009%")
STYLE = """
h3 { margin: 1.5rem 0 .4rem; font-size: 1rem; font-weight: 600; overflow-wrap: anywhere; }
.bench { width: auto; }
.bench tbody td, .bench tbody th { vertical-align: baseline; }
.bench td, .bench th[scope=col] { text-align: right; white-space: nowrap; }
.bench th[scope=col] { position: static; vertical-align: bottom; white-space: normal; min-width: 4.2rem; }
.bench th[scope=row] { position: sticky; left: 0; background: var(--page); min-width: 7rem; max-width: 18rem; }
.bench th[scope=colgroup] { text-align: center; border-left: 1px solid var(--line); }
.bench .first { border-left: 1px solid var(--line); }
.bench b { font-weight: 700; }
.bench sup { font-size: .7em; line-height: 0; }
.bench small { display: block; color: var(--quiet); font-size: .72rem; line-height: 1.3; }
.bench .summary td, .bench .summary th { border-top: 2px solid var(--line); }
.bench .group th { font-weight: 600; padding-top: .9rem; white-space: normal; }
.notes { color: var(--quiet); font-size: .84rem; padding-left: 1.1rem; max-width: 52rem; overflow-wrap: anywhere; }
.notes li { margin: .15rem 0; }
"""


def bench_html(plan: Plan, entries: Sequence[PlanEntry], sentences: Sequence[str]) -> str:
    """The whole page, to be written as UTF-8. `sentences` are those of `yoro.bench.results.entries`."""
    board, tables = RunGrid(plan, entries), bench_tables(plan, entries)
    sections = [
        f"<header><h1>{text(plan.title, LONG)}</h1>\n"
        + (f'<p class="quiet">{text(plan.about, 4 * LONG)}</p>' if plan.about else "")
        + "</header>",
        _warnings(sentences),
        facts_list(_facts(board)),
        *(_table(table) for table in tables),
        _listed("How the paper's numbers were made", _marks(tables)),
        *figure_sections(board),
        _listed("Runs that failed", board.absent(entry for entry in entries if entry.error is not None)),
        _listed("Runs that are missing", board.absent(e for e in entries if e.result is None and e.error is None)),
        _listed("Notes of runs", _run_notes(board)),
        _listed("Digests of the data and the weights", [*_digests(board, "data"), *_digests(board, "source")]),
    ]
    return page(plan.title, sections, FIGURE_STYLE + STYLE)


def _facts(board: RunGrid) -> dict[str, str]:
    plan, entries = board.plan, board.entries
    results = [entry.result for entry in entries if entry.result is not None]
    failed = sum(entry.error is not None for entry in entries)
    finished = sorted(result.finished for result in results if result.finished)
    machines = dict.fromkeys(", ".join(f"{k} {v}" for k, v in result.machine.items()) for result in results)
    seeds = dict.fromkeys(str(seed) for setting in plan.settings for seed in setting.seeds)
    facts = {
        "Datasets": ", ".join(dataset_title(name) for name in plan.datasets),
        "Settings": "; ".join(setting_title(plan, setting) for setting in plan.settings),
        "Sources": ", ".join(dict.fromkeys(setting.source for setting in plan.settings)),
        "Images": "; ".join(
            dict.fromkeys(_images(setting.inputs.shots, setting.inputs.limit) for setting in plan.settings)
        ),
        "Seeds": ", ".join(seeds),
        "Runs": f"{len(results):,} of {len(entries):,} finished, {failed:,} failed, "
        f"{len(entries) - len(results) - failed:,} missing",
        "Machine": "; ".join(name for name in machines if name),
        "Finished": "" if not finished else " to ".join(dict.fromkeys((finished[0][:10], finished[-1][:10]))),
        "Tables of the paper": ", ".join(plan.paper),
    }
    return {key: value for key, value in facts.items() if value}


def _images(shots: int | None, limit: str) -> str:
    some = "all" if shots is None else f"{shots} a class to fit"
    return f"{some}; at most {limit.replace(',', ', ').replace('=', ' ')} a class" if limit else some


def _digests(board: RunGrid, kind: str) -> list[str]:
    """The first digits of the digests that results depend on, by dataset or source."""
    found: dict[str, dict[str, None]] = {}
    for entry in board.entries:
        if entry.result is not None and entry.result.depends.get(kind):
            name = dataset_title(entry.dataset) if kind == "data" else entry.cell.source
            found.setdefault(name, {})[entry.result.depends[kind][:8]] = None
    return [f"{name}: {', '.join(digests)}" for name, digests in found.items()]


def _table(table: Table) -> str:
    parts = []
    for part in panels(table):
        groups = list(dict.fromkeys(column.group for column in part.columns))
        alone = groups[0] if len(groups) == 1 else ""
        heading = f"<h3>{text(alone)}</h3>\n" if alone else ""
        parts.append(
            f'{heading}<div class="scroll"><table class="list bench"><thead>{_heads(part, grouped=len(groups) > 1)}'
            f"</thead>\n<tbody>\n{_rows(part)}\n</tbody></table></div>"
        )
    told = (
        "Below each number the paper's, and in brackets what ours is above it in points." if table.beside_paper else ""
    )
    below = f'<p class="quiet">{told}</p>\n' if told else ""
    said = [*table.notes, *(["Runs are missing; they are listed below."] if table.gaps else [])]
    notes = "\n".join(f"<li>{text(note, LONG)}</li>" for note in said)
    body = "\n".join(parts)
    return f'<section><h2>{text(table.title)}</h2>\n{below}{body}\n<ul class="notes">\n{notes}\n</ul></section>'


def _heads(table: Table, *, grouped: bool) -> str:
    first = _firsts(table)
    columns = "".join(
        f'<th scope="col"{_class(first[i])}>{_titled(column)}</th>' for i, column in enumerate(table.columns)
    )
    names = f"<tr><th>{text(table.corner)}</th>{columns}</tr>"
    if not grouped:
        return names
    sizes = Counter(column.group for column in table.columns)
    above = "".join(f'<th scope="colgroup" colspan="{size}">{text(group)}</th>' for group, size in sizes.items())
    return f"<tr><td></td>{above}</tr>{names}"


def _rows(table: Table) -> str:
    lines, group, first = [], "", _firsts(table)
    for row in table.rows:
        if row.head.group != group:
            group = row.head.group
            wide = len(table.columns) + 1
            lines.append(f'<tr class="group"><th scope="rowgroup" colspan="{wide}">{text(group)}</th></tr>')
        lines.append(_line(row, first))
    return "\n".join(lines)


def _line(row: TableRow, first: Sequence[bool]) -> str:
    cells = []
    for cell, begins in zip(row.cells, first, strict=True):
        paper = paper_text(cell, HTML)
        below = f"<small>{paper}</small>" if paper else ""
        cells.append(f"<td{_class(begins)}>{cell_text(cell, HTML)}{below}</td>")
    kind = ' class="summary"' if row.summary else ""
    return f'<tr{kind}><th scope="row">{_titled(row.head)}</th>{"".join(cells)}</tr>'


def _firsts(table: Table) -> list[bool]:
    """Which columns begin a group after the first."""
    names = [column.group for column in table.columns]
    return [i > 0 and names[i] != names[i - 1] for i in range(len(names))]


def _class(first: bool) -> str:
    return ' class="first"' if first else ""


def _titled(head: Head) -> str:
    mark = f"<sup>{text(','.join(head.mark))}</sup>" if head.mark else ""
    return f"<bdi>{text(head.title)}</bdi>{mark}"


def _marks(tables: Sequence[Table]) -> list[str]:
    return [f"({mark}) {sentence}" for mark, sentence in dict(pair for table in tables for pair in table.marks).items()]


def _run_notes(board: RunGrid) -> list[str]:
    """What runs said of themselves, each once, with how many said it."""
    said = Counter(note for entry in board.entries if entry.result is not None for note in entry.result.notes)
    return [note if count == 1 else f"{note} ({count:,} runs)" for note, count in said.items()]


def _warnings(sentences: Sequence[str]) -> str:
    return _listed("Mind", sentences)


def _listed(title: str, sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    shown = [f"<li>{text(sentence, LONG)}</li>" for sentence in sentences[:MOST]]
    if len(sentences) > MOST:
        shown.append(f"<li>and {len(sentences) - MOST:,} more.</li>")
    items = "\n".join(shown)
    return f'<section><h2>{title}</h2>\n<ul class="notes">\n{items}\n</ul></section>'
