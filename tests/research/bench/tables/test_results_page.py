from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from research.bench.bench_cases import SMALL, epochs_of, filled, plan_of, plausible, result
from yoro.refining.recipe import EpochRecord as Epoch
from yoro.research.bench.plan import read_plan
from yoro.research.bench.tables.figures import Line, cost, curves, epoch_means, line_panel, share_bars, shares
from yoro.research.bench.tables.results_page import bench_html
from yoro.research.bench.tables.run_grid import RunGrid

BAD = '<script>alert("x")</script>'
ALL = ["datasets", "settings", "methods", "diagnostics", "efficiency", "timing", "curves", "shares", "cost"]
VOID = {"meta", "br", "img", "wbr"}


class Checker(HTMLParser):
    """Every element is closed in turn; addresses and scripts are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.outside += [f"{key}={value}" for key, value in attrs if key in ("src", "href", "xlink:href", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert checker.outside == []
    assert "script" not in checker.seen
    assert "url(" not in page
    assert "@import" not in page
    for drawing in re.findall(r"<svg.*?</svg>", page, re.S):
        assert "nan" not in drawing
        assert ElementTree.fromstring(drawing).get("aria-label")
    return checker


def trained(entry):
    """YORO with its validation, YORO-FP with four epochs."""
    if entry.method == "yoro":
        return result(entry, 70, validation=(55, 100))
    return result(entry, 75, seconds=9.0, depth=entry.seed, epochs=epochs_of(4, best=2))


def test_the_page_of_a_plan_needs_nothing_besides_itself(tmp_path):
    plan = read_plan(SMALL)
    page = bench_html(plan, *filled(plan, tmp_path, plausible))
    assert checked(page).seen.count("svg") == 1 + 2 * 6 + 2 * 2  # shares; six pairs of panels; cost plots, twice
    assert "108 of 108 finished, 0 failed, 0 missing" in page
    assert "digits-0" in page


def test_a_stranger_s_words_are_shown_not_run(tmp_path):
    plan = plan_of(
        title=BAD, about=BAD, show=ALL, datasets=["dtd", BAD],
        method={"yoro": {"title": BAD}, "yoro-fp": {"title": BAD}},
        settings=[{"name": BAD, "title": BAD, "source": BAD, "prompt": "padding"}],
    )  # fmt: skip

    def make(entry):
        if entry.dataset == BAD and entry.seed:
            return BAD
        return result(entry, 70, notes=(BAD,), depth=0, epochs=epochs_of(3, best=1))

    page = bench_html(plan, filled(plan, tmp_path, make)[0], [BAD])
    checked(page)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 20


def test_what_failed_is_listed_with_its_error(tmp_path):
    plan = plan_of(show=ALL)
    page = bench_html(plan, *filled(plan, tmp_path, lambda e: "the disk is full" if e.seed else trained(e)))
    checked(page)
    assert "Failed runs" in page
    assert "YORO-FP on SVHN, seed 1: the disk is full" in page
    assert "4 of 8 finished, 4 failed, 0 missing" in page
    assert "runs are missing: YORO, YORO-FP." in page


def test_a_page_of_nothing_is_still_a_page(tmp_path):
    plan = plan_of(show=ALL)
    page = bench_html(plan, *filled(plan, tmp_path, lambda entry: None))
    checked(page)
    assert "No finished run has training epochs." in page


def test_the_paper_s_numbers_and_their_protocol_are_on_the_page(tmp_path):
    plan = plan_of(paper=["padding-detailed"])
    page = bench_html(plan, *filled(plan, tmp_path, trained))
    assert "How the paper&#x27;s numbers were made" in page or "How the paper's numbers were made" in page
    assert "(a) " in page
    assert "<small>59.0\u2009±\u20090.0 (+11.0)</small>" in page


def test_epochs_are_averaged_where_every_seed_has_them(tmp_path):
    entry = plan_of().entries()[0]
    first = result(
        entry,
        1,
        epochs=(
            Epoch(0, None, 50, 100, 1.0),
            Epoch(1, 2.0, 60, 100, 1.0),
            Epoch(2, 1.0, 70, 100, 1.0),
        ),
    )
    second = result(
        entry,
        1,
        epochs=(
            Epoch(0, None, 30, 100, 1.0),
            Epoch(1, 4.0, 40, 100, 1.0),
            Epoch(2, float("nan"), 50, 100, 1.0),
        ),
    )
    assert epoch_means([first, second], loss=True) == ((1, 3.0),)
    assert epoch_means([first, second], loss=False) == ((0, 40.0), (1, 50.0), (2, 60.0))


@pytest.mark.parametrize("n", [1, 2, 20, 200])
def test_curves_of_any_length_keep_their_names_apart(n):
    lines = [Line(f"method {i}", i, tuple((e, 50.0) for e in range(n + 1))) for i in range(12)]
    drawing = line_panel(lines, "accuracy", ("YORO", 50.0))
    root = ElementTree.fromstring(drawing)
    places = sorted(float(e.get("y")) for e in root.iter("text") if e.get("class") in ("mine", "name"))
    assert len(places) == 13
    assert all(after - before >= 15.9 for before, after in pairwise(places))
    assert places[0] > 0
    assert places[-1] < 300
    ticks = [e.text for e in root.iter("text") if e.get("text-anchor") == "middle"]
    assert len(ticks) <= 12


def test_curves_without_a_finite_loss_show_the_accuracy_alone(tmp_path):
    plan = plan_of(datasets=["dtd"], seeds=[0], methods=["yoro-fp"])
    entries, _ = filled(plan, tmp_path, lambda e: result(e, 70, depth=0, epochs=epochs_of(4, best=2, loss=None)))
    drawn = curves(RunGrid(plan, entries))
    assert drawn.count("<svg") == 1
    assert "training loss" not in drawn
    assert 'class="level"' not in drawn  # the plan has no one-pass baseline


def test_the_level_of_the_one_pass_is_its_validation(tmp_path):
    plan = plan_of(datasets=["dtd"])
    drawn = curves(RunGrid(plan, filled(plan, tmp_path, trained)[0]))
    assert drawn.count('class="level"') == 1


def test_many_curves_are_counted_rather_than_drawn(tmp_path):
    plan = plan_of(datasets=[f"set{i}" for i in range(15)])
    drawn = curves(RunGrid(plan, filled(plan, tmp_path, trained)[0]))
    assert drawn.count("<svg") == 24
    assert "3 more are not shown." in drawn


def test_bars_show_the_share_of_runs_that_keep_epoch_0(tmp_path):
    plan = plan_of()
    drawn = shares(RunGrid(plan, filled(plan, tmp_path, trained)[0]))
    assert "50.0 %" in drawn  # seed 0 keeps it, seed 1 does not
    bars = ElementTree.fromstring(re.search(r"<svg.*?</svg>", drawn, re.S)[0])
    widths = {e.get("class"): float(e.get("width")) for e in bars.iter("rect")}
    assert widths["kept"] == widths["refined"]
    assert "YORO-FP" in drawn


def test_the_paper_s_share_is_a_tick_and_a_missing_share_an_empty_bar():
    drawn = share_bars([("A", [("x", 0.25, 0.5), ("y", None, None)])])
    assert 'class="paper"' in drawn
    assert "25.0 % (paper 50.0)" in drawn
    assert 'class="unknown"' in drawn


@pytest.mark.parametrize("correct", [0, 70, 100])
def test_a_cost_plot_of_one_method_and_equal_values(tmp_path, correct):
    plan = plan_of(methods=["yoro"], seeds=[0])
    drawn = cost(RunGrid(plan, filled(plan, tmp_path, lambda e: result(e, correct, seconds=0.0))[0]))
    assert f"{correct:.1f} YORO" in drawn
    assert "nan" not in drawn


def test_a_long_title_is_cut_in_the_figure_and_whole_in_its_hint(tmp_path):
    title = "A method with a very long title indeed"
    plan = plan_of(methods=["yoro"], method={"yoro": {"title": title}})
    drawn = cost(RunGrid(plan, filled(plan, tmp_path, lambda e: result(e, 70))[0]))
    assert f"<title>{title}</title>" in drawn
    assert "A method with a…" in drawn
