from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from dataclasses import replace

import pytest

from command_line import invoke
from research.bench.bench_cases import SMALL, counts, filled, plan_of, plausible, result, setting
from yoro.research.bench.plan import Plan, read_plan
from yoro.research.bench.results import Results
from yoro.research.bench.tables.plan_tables import bench_tables
from yoro.research.bench.tables.results_page import long_rows
from yoro.research.bench.tables.table import ResultsTable, TableCell, letter, panels, with_best
from yoro.research.bench.tables.table_writers import DASH, latex, markdown

FOUR = {
    ("yoro", "dtd"): (60, 62), ("yoro", "svhn"): (80, 80),
    ("yoro-fp", "dtd"): (61, 61), ("yoro-fp", "svhn"): (84, 88),
}  # fmt: skip
ODD = "50%_&_more|<b>"


def tables(plan: Plan, folder, make) -> list[ResultsTable]:
    return bench_tables(plan, filled(plan, folder, make)[0])


def cell(table: ResultsTable, row: str, column: str, group: str = "") -> TableCell | None:
    """The cell of a row and a column, each by its name or title."""
    found = next(r for r in table.rows if row in (r.head.name, r.head.title) and r.head.group.startswith(group))
    at = next(i for i, c in enumerate(table.columns) if column in (c.name, c.title, c.name.partition("/")[2]))
    return found.cells[at]


def refining(entry):
    """Seconds and chosen epochs of four runs of YORO-FP, beside YORO's of two seconds."""
    correct = FOUR[entry.method, entry.dataset][entry.seed]
    if entry.method == "yoro":
        return result(entry, correct)
    number = 2 * (entry.dataset == "svhn") + entry.seed
    return result(entry, correct, seconds=(20.0, 30.0, 20.0, 30.0)[number], passes=21, depth=(0, 0, 3, 5)[number])


def test_a_cell_is_the_mean_and_sample_deviation_over_seeds(tmp_path):
    (table,) = tables(plan_of(), tmp_path, counts(FOUR))
    found = cell(table, "dtd", "yoro")
    assert found.values == pytest.approx((61.0,))
    assert found.deviation == pytest.approx(2**0.5)  # of 60 and 62
    assert found.paper == ()


def test_the_average_takes_each_seed_over_the_datasets_first(tmp_path):
    (table,) = tables(plan_of(), tmp_path, counts(FOUR))
    average = cell(table, "Average", "yoro")
    assert average.values == pytest.approx((70.5,))  # of 70 and 71
    assert average.deviation == pytest.approx(0.5**0.5)
    assert table.rows[-1].summary


def test_the_best_of_a_row_is_marked_and_a_tie_twice(tmp_path):
    (table,) = tables(plan_of(), tmp_path, counts(FOUR))
    marked = {row.head.name: [c is not None and c.best for c in row.cells] for row in table.rows}
    assert marked == {"dtd": [True, True], "svhn": [False, True], "average": [False, True]}


def test_the_best_is_of_its_own_setting(tmp_path):
    plan = plan_of(settings=[setting("a"), setting("b")])

    def make(entry):
        return result(entry, (50 if entry.setting == "a" else 90) + (entry.method == "yoro"))

    (table,) = tables(plan, tmp_path, lambda e: make(e))
    # both settings share source and prompt, so that a cell of one is the cell of the other
    assert [c is not None and c.best for c in table.rows[0].cells] == [True, False, True, False]


def test_one_method_alone_is_not_called_best():
    assert with_best([TableCell("percent", (3.0,)), None, TableCell("percent")])[0] == TableCell("percent", (3.0,))
    best = with_best([TableCell("seconds", (3.0,)), TableCell("seconds", (2.0,))], least=True)
    assert [c is not None and c.best for c in best] == [False, True]


def test_settings_are_averaged_equally_over_seeds(tmp_path):
    plan = plan_of(show=["settings"], settings=[setting("a"), setting("b", prompt="watermark", datasets=["svhn"])])

    def make(entry):
        return result(entry, FOUR[entry.method, entry.dataset][entry.seed] + 10 * (entry.setting == "b"))

    (table,) = tables(plan, tmp_path, make)
    overall = cell(table, "Overall", "yoro")
    assert overall.values == pytest.approx((80.25,))  # seeds: (70 + 90) / 2 and (71 + 90) / 2
    assert overall.deviation == pytest.approx(0.5 * 0.5**0.5)


def test_methods_stand_in_rows_and_the_best_in_each_column(tmp_path):
    (table,) = tables(plan_of(show=["methods"]), tmp_path, counts(FOUR))
    assert [column.title for column in table.columns] == ["DTD", "SVHN", "Avg."]
    assert [[c is not None and c.best for c in row.cells] for row in table.rows] == [
        [True, False, False],
        [True, True, True],
    ]


def test_gain_interval_wins_and_depth(tmp_path):
    (table,) = tables(plan_of(show=["diagnostics"]), tmp_path, refining)
    (row,) = table.rows
    assert row.head.title == "YORO-FP"
    accuracy, delta, interval, counted, depth, median, kept = row.cells
    assert accuracy.values == pytest.approx((73.5,))
    assert delta.values == pytest.approx((3.0,))
    assert interval.values == pytest.approx((0.0, 6.0))  # means of two draws: 0, 3 or 6
    assert counted.values == (1, 1, 0)
    assert depth.values == (2.0,)
    assert depth.deviation == pytest.approx(6**0.5)
    assert median.values == (1.5,)
    assert kept.values == (50.0,)


def test_a_tie_is_one_of_exact_means(tmp_path):
    def make(entry):  # 1/3 of 300 and of 600 images; 201 of 600 is a win that one decimal shows as none
        if entry.method == "yoro":
            return result(entry, 10001, 30000)
        return result(entry, 10001, 30000) if entry.dataset == "dtd" else result(entry, 10002, 30000)

    (table,) = tables(plan_of(show=["diagnostics"]), tmp_path, make)
    found = cell(table, "yoro-fp", "W/T/L")
    assert found.values == (1, 1, 0)


def test_settings_of_one_kind_are_also_summed_up_together(tmp_path):
    plan = plan_of(
        show=["diagnostics"],
        settings=[setting("full"), setting("few1", shots=16), setting("few2", shots=16, prompt="watermark")],
    )
    (table,) = tables(plan, tmp_path, refining)
    assert [row.head.group for row in table.rows] == ["FULL", "FEW1", "FEW2", "Few-shot, both settings"]
    together = table.rows[-1].cells[3]
    assert together.values == (2, 2, 0)


def test_time_is_relative_to_the_baseline_of_the_same_run(tmp_path):
    (table,) = tables(plan_of(show=["efficiency"]), tmp_path, refining)
    ours = cell(table, "yoro-fp", "Relative time")
    assert ours.values == pytest.approx((12.5,))  # 10, 15, 10 and 15
    base = cell(table, "yoro", "Relative time")
    assert base.values == (1.0,)
    assert cell(table, "yoro", "Δ, points") is None
    passes = cell(table, "yoro-fp", "Passes")
    assert passes.values == (21.0,)


def test_seconds_deviate_over_the_seeds_not_over_the_datasets(tmp_path):
    (table,) = tables(plan_of(show=["timing"]), tmp_path, refining)
    seconds = cell(table, "yoro-fp", "Seconds")
    assert seconds.values == (25.0,)
    assert seconds.deviation == pytest.approx(50**0.5)
    base = cell(table, "yoro", "Seconds")
    assert base.best


def test_missing_and_failed_runs_stay_in_the_table_and_are_named(tmp_path):
    def make(entry):
        if entry.method == "yoro-fp" and entry.dataset == "svhn":
            return "no memory\nleft" if entry.seed == 0 else None
        return result(entry, 70)

    (table,) = tables(plan_of(), tmp_path, make)
    missing, average = cell(table, "svhn", "yoro-fp"), cell(table, "Average", "yoro-fp")
    assert missing.values == ()
    assert average.values == ()
    assert "The average of YORO-FP in ResNet-18 needs all 2 datasets; 1 is missing: SVHN." in table.notes
    assert table.gaps == (
        "1 run failed: YORO-FP on SVHN, seed 0: no memory left.",
        "1 run is missing: YORO-FP on SVHN, seed 1.",
    )
    text = markdown([table])
    assert DASH in next(line for line in text.splitlines() if line.startswith("| SVHN"))
    assert "no memory left" in text
    assert "no memory left" in latex([table])


def test_many_missing_runs_are_counted(tmp_path):
    names = [f"set{i}" for i in range(9)]
    (table,) = tables(plan_of(datasets=names), tmp_path, lambda entry: None)
    assert table.gaps[0].startswith("36 runs are missing: YORO on set0, seeds 0, 1; ")
    assert table.gaps[0].endswith("and 15 more.")
    assert "9 are missing: set0, set1, set2, set3, set4, set5 and 3 more." in table.notes[1]


def test_a_table_of_nothing_has_all_its_rows_in_every_layout(tmp_path):
    words = ["datasets", "settings", "methods", "diagnostics", "efficiency", "timing"]
    for table in tables(plan_of(show=words), tmp_path, lambda entry: None):
        assert all(c is None or not c.values for row in table.rows for c in row.cells)
        assert table.rows
        assert table.gaps
        assert DASH in markdown([table])
        assert "--" in latex([table])


def test_without_the_baseline_the_reason_is_given(tmp_path):
    (table,) = tables(plan_of(methods=["yoro-fp"], show=["diagnostics"]), tmp_path, refining)
    delta = cell(table, "yoro-fp", "Δ, points")
    assert delta is not None
    assert not delta.values
    assert any("the baseline 'yoro' is not run there" in note for note in table.notes)


def test_a_choice_on_the_test_images_is_told(tmp_path):
    plan = plan_of(methods=["yoro", "yoro-fp"])
    (table,) = tables(plan, tmp_path, lambda e: result(e, 70, selected_on="test" if e.method == "yoro-fp" else None))
    assert any(note.startswith("YORO-FP: the epoch was chosen on the test images") for note in table.notes)


def test_the_paper_stands_beside_only_where_a_plan_asks(tmp_path):
    (table,) = tables(plan_of(paper=["padding-detailed"]), tmp_path, counts(FOUR))
    found = cell(table, "dtd", "yoro")
    assert found.paper == (59.0,)
    assert found.paper_deviation == 0.0
    assert found.differences == pytest.approx((2.0,))
    assert table.columns[0].mark
    assert {mark for column in table.columns for mark in column.mark} == {mark for mark, _ in table.marks}
    assert "| paper" in markdown([table])
    assert "59.0 ± 0.0 (+2.0)" in markdown([table])
    (plain,) = tables(plan_of(), tmp_path, counts(FOUR))
    assert not plain.beside_paper
    assert not plain.marks


def test_an_average_of_other_datasets_is_not_compared(tmp_path):
    (table,) = tables(plan_of(paper=["padding-detailed"]), tmp_path, counts(FOUR))
    average = cell(table, "Average", "yoro")
    assert average.paper == ()
    assert any("averages cover other datasets" in note for note in table.notes)


def test_the_average_of_the_same_datasets_is_compared(tmp_path):
    names = [
        "flowers102", "dtd", "ucf101", "food101", "gtsrb", "eurosat", "oxfordpets", "stanfordcars", "sun397",
        "cifar10", "cifar100", "svhn",
    ]  # fmt: skip
    plan = plan_of(paper=["padding-detailed"], datasets=names)
    (table,) = tables(plan, tmp_path, lambda entry: result(entry, 70))
    average = cell(table, "Average", "yoro")
    assert average.paper == (68.6,)
    assert average.differences == pytest.approx((1.4,))


def test_few_shot_settings_together_meet_the_paper_s(tmp_path):
    names = [
        "fgvc-aircraft", "caltech101", "stanfordcars", "dtd", "eurosat", "flowers102", "food101", "oxfordpets",
        "sun397", "ucf101", "resisc45",
    ]  # fmt: skip
    clip = ["clip-rn50", "clip-rn101", "clip-vit-b32", "clip-vit-b16"]
    plan = plan_of(
        paper=["yoro-mapping-diagnostics"], show=["diagnostics"], datasets=names, methods=["yoro", "momentum"],
        settings=[setting(name, shots=16) for name in clip],
        method={"yoro": {"title": "YORO"}, "momentum": {"use": "yoro-fp", "title": "Momentum"}},
    )  # fmt: skip
    (table,) = tables(plan, tmp_path, lambda e: result(e, 70, depth=None if e.method == "yoro" else 0))
    together = table.rows[-1]
    assert together.head.group == "Few-shot, all 4 settings"
    assert [c.paper for c in together.cells if c is not None] == [
        (77.0,), (-0.2,), (-0.4, 0.0), (8.0, 8.0, 28.0), (4.2,), (), (58.3,),
    ]  # fmt: skip
    assert all(c is None or not c.paper for row in table.rows[:-1] for c in row.cells)


def test_a_wide_table_is_written_setting_by_setting(tmp_path):
    plan = read_plan(SMALL)
    found = tables(plan, tmp_path, plausible)
    parts = panels(found[0])
    assert [len(part.columns) for part in parts] == [9, 9]
    assert markdown(found[:1]).count("### EfficientNet-Lite") == 2
    assert r"\resizebox" in latex(found[:1])


def test_markdown_columns_are_aligned(tmp_path):
    plan = plan_of(datasets=["dtd", "書|道"], paper=["padding-detailed"])
    (table,) = tables(plan, tmp_path, lambda entry: result(entry, 70))
    lines = [line for line in markdown([table]).splitlines() if line.startswith("|")]
    assert len({len(line) + line.count("書") + line.count("道") for line in lines}) == 1
    assert any("書\\|道" in line for line in lines)


def test_special_characters_are_escaped(tmp_path):
    plan = plan_of(datasets=[ODD, "x"], method={"yoro": {"title": r"\a{b}$#~^"}, "yoro-fp": {"title": "*_x_*"}})
    (table,) = tables(plan, tmp_path, lambda entry: result(entry, 70))
    tex = latex([table])
    assert r"50\%\_\&\_more\textbar{}\textless{}b\textgreater{}" in tex
    assert r"\textbackslash{}a\{b\}\$\#\textasciitilde{}\textasciicircum{}" in tex
    marked = markdown([table])
    assert r"50%\_&\_more\|\<b>" in marked
    assert r"\*\_x\_\*" in marked
    assert r"70.0} $\pm$ 0.0" in tex


def test_a_title_is_no_option_of_the_line_break_before_it(tmp_path):
    (table,) = tables(plan_of(datasets=["[x]", "*"]), tmp_path, lambda entry: result(entry, 70))
    assert not [line for line in latex([table]).splitlines() if line.startswith(("[", "*"))]
    assert "{[}x{]} & " in latex([table])


def test_numbers_are_written_as_a_person_would(tmp_path):
    (table,) = tables(plan_of(show=["diagnostics"]), tmp_path, refining)
    line = next(line for line in markdown([table]).splitlines() if line.startswith("| YORO-FP"))
    shown = ["YORO-FP", "73.5 ± 1.4", "+3.0", "[0.0, +6.0]", "1/1/0", "2.0 ± 2.4", "1.5", "50.0 %"]
    assert [part.strip() for part in line.strip("|").split("|")] == shown
    assert "[0.0, +6.0] & 1/1/0 & 2.0 $\\pm$ 2.4" in latex([table])


def test_csv_has_what_the_runs_gave_unrounded(tmp_path):
    plan = plan_of(paper=["padding-detailed"])
    found = filled(plan, tmp_path, lambda e: result(e, 1, 3) if e.dataset == "dtd" else 'broken, "twice"')[0]
    rows = long_rows(plan, found)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    back = list(csv.DictReader(io.StringIO(stream.getvalue())))
    assert len(back) == 4
    assert float(back[0]["accuracy"]) == pytest.approx(100 / 3, rel=1e-15)
    assert float(back[0]["difference"]) == pytest.approx(100 / 3 - 59.0)
    assert (back[0]["seeds"], back[0]["finished"]) == ("2", "2")
    assert back[-1]["accuracy"] == ""
    assert back[-1]["error"] == 'broken, "twice"'


def test_one_seed_has_no_deviation(tmp_path):
    plan = plan_of(seeds=[0])
    (table,) = tables(plan, tmp_path, counts(FOUR))
    found = cell(table, "dtd", "yoro")
    assert found.deviation is None
    assert "±" not in "\n".join(line for line in markdown([table]).splitlines() if line.startswith("|"))


def test_settings_with_one_title_are_told_apart(tmp_path):
    plan = plan_of(settings=[setting("a", title="Same"), setting("b", title="Same")])
    (table,) = tables(plan, tmp_path, counts(FOUR))
    assert {column.group for column in table.columns} == {"Same (a)", "Same (b)"}


def test_letters_go_on_after_z():
    assert [letter(i) for i in (0, 25, 26, 27, 52)] == ["a", "z", "aa", "ab", "ba"]


def write_plan(path, plan_text: str = ""):
    path.write_text(
        'title = "T"\ndatasets = ["dtd"]\nmethods = ["yoro"]\nseeds = [0, 1]\n' + plan_text
        + '[[settings]]\nname = "s"\nsource = "embedded:lite0"\nprompt = "padding"\n'
    )  # fmt: skip
    return read_plan(path)


def test_the_verb_shows_tables_and_counts_what_is_missing(tmp_path):
    plan = write_plan(tmp_path / "p.toml")
    first, second = plan.entries()
    results = Results(tmp_path / "r")
    results.write(result(first, 3, 4))
    results.fail(second.cell, "it broke")
    where = [tmp_path / "p.toml", "--results", tmp_path / "r"]
    shown = invoke("bench", "table", *where)
    assert shown.code == 0
    assert shown.stdout.startswith("## Accuracy by dataset")
    assert "1 of 2 runs have no result: 1 failed, 0 missing." in shown.stderr
    rows = json.loads(invoke("bench", "table", *where, "--json").stdout)
    assert rows[0]["finished"] == 1
    assert rows[0]["accuracy"] is None
    results.write(replace(result(second, 4, 4), finished="2026-08-01T00:00:00Z"))
    table = invoke("bench", "table", *where, "--format", "csv")
    assert float(next(csv.DictReader(io.StringIO(table.stdout)))["accuracy"]) == 87.5
    assert table.stderr == ""


def test_the_verb_writes_files_and_replaces_none_unasked(tmp_path):
    write_plan(tmp_path / "p.toml")
    out, page = tmp_path / "t.tex", tmp_path / "t.html"
    words = ["bench", "table", str(tmp_path / "p.toml"), "--results", str(tmp_path), "--format", "latex"]
    words += ["--out", str(out), "--html", str(page), "--quiet"]
    first = invoke(*words)
    assert (first.code, first.stdout, first.stderr) == (0, "", "")
    assert r"\toprule" in out.read_text()
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert invoke(*words).code == 1
    assert invoke(*words, "--force").code == 0


def test_a_table_too_wide_for_a_page_is_a_tabular_for_each_setting(tmp_path):
    text = latex(tables(read_plan(SMALL), tmp_path, plausible))
    first = text[: text.index(r"\end{table}")]
    assert first.count(r"\begin{tabular}") == 2
    assert first.count(r"\caption") == 1


def test_latex_takes_the_tables(tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    plan = replace(read_plan(SMALL), title="50%_&_more", show=("datasets", "settings", "diagnostics", "timing"))
    text = latex(tables(plan, tmp_path / "results", plausible))
    (tmp_path / "page.tex").write_text(
        "\\documentclass{article}\n\\usepackage{booktabs,graphicx}\n\\begin{document}\n" + text + "\\end{document}\n"
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"], cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-600:]


@pytest.mark.parametrize("word", ["datasets", "settings"])
def test_the_share_of_coordinates_that_is_kept_stands_below_the_accuracies(tmp_path, word):
    plan = plan_of(methods=["yoro", "bdm-adaptive"], show=[word])
    shares = {("dtd", 0): 1.0, ("dtd", 1): 0.9, ("svhn", 0): 1.0, ("svhn", 1): 0.8}

    def make(entry):
        return result(entry, 70, retained=None if entry.method == "yoro" else shares[entry.dataset, entry.seed])

    (table,) = tables(plan, tmp_path, make)
    assert table.rows[-1].head.title == "Coordinates kept"
    assert cell(table, "retained", "bdm-adaptive").values == pytest.approx((92.5,))
    assert cell(table, "retained", "yoro") is None
    assert "92.5" in markdown([table])
    assert {row["method"]: row["retained"] for row in long_rows(plan, filled(plan, tmp_path, make)[0])} == {
        "yoro": None, "bdm-adaptive": pytest.approx(90.0),
    }  # fmt: skip
    (plain,) = tables(plan_of(show=[word]), tmp_path, counts(FOUR))
    assert not any(row.head.name == "retained" for row in plain.rows)


def test_the_papers_share_of_kept_coordinates_stands_in_its_ablation(tmp_path):
    plan = read_plan(SMALL.parent / "covariance.toml")
    (table,) = tables(
        plan, tmp_path, lambda entry: result(entry, 70, retained=0.95 if "tional" in entry.method else None)
    )
    kept = cell(table, "retained", "conditional")
    assert (kept.values, kept.paper) == (pytest.approx((95.0,)), (95.0,))
    (empty,) = tables(plan, tmp_path / "nothing", lambda entry: None)
    assert cell(empty, "retained", "adaptive").paper == (97.3,)
    assert cell(empty, "retained", "bdm") is None
