from __future__ import annotations

import base64
import io
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import yoro
from browser import browser
from command_line import run
from yoro.data.thumbnails import thumbnail
from yoro.discriminant.selection import Choice
from yoro.errors import InputError
from yoro.model.metrics import Evaluation, Tally
from yoro.reports.evaluation import MOST_MISTAKES, PhotoAnswer, fit_report, report_html, shrinkage_curve
from yoro.reports.page import text
from yoro.reports.svg import element

VOID = {"meta", "br", "img", "wbr", "link", "hr", "input"}
AXE = Path(__file__).parents[1] / "web" / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = ["<script>alert(1)</script>", "\"><img src=x onerror='alert(1)'>", "a&b;</td>", "' onload='x", "http://evil/"]


class Page(HTMLParser):
    """Tags that balance, their attributes, and the text without markup."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == [], "tags left open"

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        assert len(dict(attributes)) == len(attributes), f"an attribute of {tag} is given twice"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def count(self, wanted: str) -> int:
        return sum(tag == wanted for tag, _ in self.tags)


def evaluation(names: list[str], n: int = 600, seed: int = 0, empty: tuple[int, ...] = ()) -> Evaluation:
    rng = np.random.default_rng(seed)
    present = [i for i in range(len(names)) if i not in empty]
    truth = rng.choice(present, n)
    scores = rng.normal(size=(n, len(names))) + 3.0 * (truth[:, None] == np.arange(len(names)))
    scores[:, list(empty)] = -30.0
    log_probabilities = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    tally = Tally(tuple(names))
    tally.update(log_probabilities, [names[i] for i in truth])
    return tally.result()


def mistakes(count: int, truth: str = "cat", answer: str = "dog", file: str = "cat/{}.jpg") -> list[PhotoAnswer]:
    small = thumbnail(np.full((20, 30, 3), 90, dtype=np.uint8))
    return [PhotoAnswer(file.format(i), truth, answer, i / max(count, 1), small) for i in range(count)]


def page(names: list[str], choice: Choice | None = None, wrong=(), facts=None, **options) -> str:
    return report_html("pets", evaluation(names, **options), choice, wrong, facts or {}, basis="600 held-out images")


def assert_self_contained(html: str) -> None:
    parsed = Page(html)
    for tag, attributes in parsed.tags:
        assert tag not in {"script", "link", "iframe", "object", "base", "form"}
        assert (attributes.get("href") or "#").startswith("#")
        assert not [key for key in attributes if key.startswith("on")]
        assert (attributes.get("src") or "data:image/").startswith("data:image/")
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "http:" not in style


@pytest.mark.parametrize("classes", [2, 3, 37, 40, 41, 397])
def test_every_class_is_named_on_a_well_formed_page(classes):
    names = [f"class-{i:03d}_of" for i in range(classes)]
    html = page(names, Choice("loo", 0.1, 1.0, (0.01, 0.1, 1.0), (0.5, 0.4, 0.6)), mistakes(3), {"Source": "pixels"})
    parsed = Page(html)
    assert all(name in parsed.text for name in names)
    assert_self_contained(html)
    assert parsed.count("svg") == 2 + (40 < classes <= 250)  # reliability, shrinkage, and a matrix of many
    assert parsed.count("figure") == 3


def test_headline_tells_the_figures_and_what_they_were_measured_on():
    figures = evaluation(["cat", "dog", "fox"])
    shown = Page(report_html("pets", figures, None, [], {"Source": "embedded:lite0"}, basis="600 images")).text
    shown = shown.replace("\u00a0", " ")
    low, high = figures.interval
    for wanted in (
        f"{100 * figures.accuracy:.1f} %",
        f"{100 * low:.1f} to {100 * high:.1f} %",
        f"{100 * figures.balanced_accuracy:.1f} %",
        f"{100 * figures.macro_f1:.1f} %",
        f"{figures.log_loss:.3f}",
        f"{100 * figures.calibration_error:.1f} %",
        "600 images",
        "embedded:lite0",
    ):
        assert wanted in shown


def test_hostile_names_stay_text():
    names = sorted(HOSTILE)
    wrong = [mistake for name in HOSTILE for mistake in mistakes(1, name, name, name.replace("{", "") + "{}")]
    facts = {name: name for name in HOSTILE}
    title = HOSTILE[0]
    html = report_html(title, evaluation(names), Choice(title, 0.1, 1.0, (0.1,), (1.0,)), wrong, facts, basis=title)
    assert_self_contained(html)
    parsed = Page(html)
    assert all(name in parsed.text for name in HOSTILE)
    assert {attributes["src"][:11] for tag, attributes in parsed.tags if tag == "img"} == {"data:image/"}
    assert "<script" not in html.lower()


def test_names_that_are_no_text_or_far_too_long_are_tamed():
    assert text("a\x00b\udcffc\x1b") == "a\ufffdb\ufffdc\ufffd"
    assert len(text("x" * 100_000)) < 200
    html = page(["a\udcff", "b\u202egnp.exe", "c" * 5000])
    html.encode("utf-8")
    assert "<bdi>" in html
    assert len(html) < 60_000


def test_what_a_template_prints_is_tamed_without_asking():
    rule = "<u>\x00" + "r" * 100_000
    html = page(["cat", "dog"], Choice(rule, 0.1, 1.0, (0.1,), (1.0,)))
    assert f"All candidates, by &lt;u&gt;\ufffd{'r' * 56}…{'r' * 60};" in html
    for template in resources.files("yoro.reports").joinpath("templates").iterdir():
        assert not re.search(r"\|\s*safe|autoescape", template.read_text()), template.name


def test_words_of_a_drawing_stay_words():
    drawing = element("text", "<b>\x1b", "&", class_='" onload="x', x=1.25, text_anchor=None)
    assert drawing == '<text class="&#34; onload=&#34;x" x="1.2">&lt;b&gt;\ufffd&amp;</text>'
    assert element("g", element("line")) == "<g><line/></g>"


@pytest.mark.parametrize("names", [["cat", "dog", "fox"], [f"class {i}" for i in range(397)]])
def test_report_without_choice_mistakes_and_facts_leaves_them_out(names):
    for choice in (None, Choice("oas", 0.07)):
        parsed = Page(page(names, choice))
        assert (parsed.count("svg"), parsed.count("figure")) == (1, 0)  # the reliability is always drawn
        assert "shrinkage" not in parsed.text
        assert "Worst mistakes" not in parsed.text
        assert "Facts" not in parsed.text


def test_class_without_images_comes_last_and_has_no_figures():
    shown = page(["ant", "bee", "cow"], empty=(0,))
    rows = re.findall(r"<tr><th scope=\"row\"><bdi>(\w+)</bdi></th><td class=\"number\">(\d+)</td>(.*?)</tr>", shown)
    assert [name for name, _, _ in rows][-1] == "ant"
    assert rows[-1][1:] == ("0", '<td class="number">&ndash;</td>' * 3)


def test_the_f1_that_are_shown_are_those_whose_mean_is_told():
    """A class that was answered but is true of no example counts, one of which nothing is seen does not."""
    tally = Tally(("seen", "answered", "neither"))
    tally.update(np.log(np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])), ["seen", "seen"])
    found = tally.result()
    assert [one.used for one in found.per_class] == [True, True, False]
    assert found.macro_f1 == pytest.approx((2 / 3 + 0) / 2)
    rows = re.findall(
        r"<bdi>(\w+)</bdi></th><td class=\"number\">\d+</td>(.*?)</tr>",
        report_html("pets", found, None, (), {}, basis=""),
    )
    assert {name: cells.count("&ndash;") for name, cells in rows} == {"seen": 0, "answered": 1, "neither": 3}


def test_worst_class_comes_first():
    tally = Tally(("a", "b", "c"))
    tally.update(np.log(np.array([[0.8, 0.1, 0.1]] * 5 + [[0.1, 0.1, 0.8]])), ["a", "a", "a", "b", "b", "c"])
    html = report_html("t", tally.result(), None, [], {}, basis="six images")
    assert re.findall(r"<bdi>(\w)</bdi></th><td class=\"number\">\d", html) == ["b", "a", "c"]


def test_perfect_answers_have_no_confusions():
    tally = Tally(("a", "b"))
    tally.update(np.log(np.array([[0.9, 0.1], [0.1, 0.9]])), ["a", "b"])
    assert "No confusions" in report_html("t", tally.result(), None, [], {}, basis="two images")


def test_many_classes_make_a_picture_and_not_a_page_of_cells():
    parsed = Page(page([f"class {i}" for i in range(397)], n=4000))
    assert parsed.count("td") < 5 * 397 + 100
    assert [a["class"] for t, a in parsed.tags if t == "img"] == ["picture"]
    assert "Most frequent confusions" in parsed.text


def test_a_thousand_classes_and_many_mistakes_stay_small():
    names = [f"n{i:08d} some long name of a class, and a synonym {i}" for i in range(1000)]
    html = page(names, None, mistakes(500), n=20_000)
    assert len(html.encode("utf-8")) < 2_000_000
    assert Page(html).count("figure") == MOST_MISTAKES


def test_picture_is_bounded_and_says_when_classes_share_a_pixel():
    parsed = Page(page([f"class {i}" for i in range(1001)]))
    source = next(attributes["src"] for tag, attributes in parsed.tags if tag == "img")
    assert Image.open(io.BytesIO(base64.b64decode(source.split(",")[1]))).size == (501, 501)
    assert "2 neighbouring classes share a pixel" in parsed.text


def test_most_certain_mistakes_are_shown_first():
    shown = re.findall(r"\((\d+)\u00a0%\)", page(["cat", "dog"], None, mistakes(50)))
    assert shown == [str(2 * i) for i in range(49, 49 - MOST_MISTAKES, -1)]


def test_thumbnails_must_be_small_pictures():
    with pytest.raises(InputError, match="neither a JPEG nor a PNG"):
        page(["cat", "dog"], None, [PhotoAnswer("a.svg", "cat", "dog", 0.5, b"<svg onload='x'>")])
    with pytest.raises(InputError, match="100,003 bytes"):
        page(["cat", "dog"], None, [PhotoAnswer("a.jpg", "cat", "dog", 0.5, b"\xff\xd8\xff" + bytes(100_000))])


@pytest.mark.parametrize(
    ("rule", "label"),
    [("validation", "correct answers"), ("loo", "negative log-likelihood"), ("k-fold", "negative log-likelihood")],
)
def test_axis_of_the_curve_is_labelled_by_the_rule(rule, label):
    drawing = shrinkage_curve(Choice(rule, 0.1, 1.0, (0.01, 0.1, 0.8), (3.0, 5.0, 4.0)))
    assert f">{label}</text>" in drawing
    assert ">chosen: 0.1</text>" in drawing
    assert drawing.count('class="point"') == 3


@pytest.mark.parametrize(
    ("candidates", "scores"),
    [
        ((0.1,), (5.0,)),
        ((0.1, 0.2), (5.0, 5.0)),
        ((0.0, 0.1, 1.0), (0.0, 0.0, 0.0)),
        ((0.0,), (1.0,)),
        ((0.1, 0.11), (1e-9, 2e-9)),
        ((0.01, 0.1, 1.0), (np.inf, 1.0, 2.0)),
        ((0.001, 1.0), (-3.0, 1e6)),
    ],
)
def test_curve_of_odd_candidates_stays_within_its_frame(candidates, scores):
    drawing = shrinkage_curve(Choice("loo", candidates[-1], 1.0, candidates, scores))
    Page(drawing)
    places = [float(x) for x in re.findall(r" (?:x|y|cx|cy|x1|x2|y1|y2)=\"([^\"]+)\"", drawing)]
    assert min(places) >= 0
    assert max(places) <= 480
    assert "nan" not in drawing
    assert "inf" not in drawing


def test_whole_answers_are_counted_in_whole_ticks():
    drawing = shrinkage_curve(Choice("validation", 0.1, 1.0, (0.01, 0.1), (7.0, 8.0)))
    ticks = re.findall(r"text-anchor=\"end\">([^<]+)</text>", drawing)
    assert {"7", "8"} <= set(ticks)
    assert not [tick for tick in ticks if "." in tick and "chosen" not in tick]


def test_thumbnail_is_a_small_jpeg_of_the_same_shape():
    image = np.random.default_rng(0).integers(0, 256, (300, 600, 3), dtype=np.uint8)
    picture = Image.open(io.BytesIO(thumbnail(image)))
    assert (picture.format, picture.size) == ("JPEG", (112, 56))
    assert Image.open(io.BytesIO(thumbnail(image[:8, :8]))).size == (8, 8)
    assert Image.open(io.BytesIO(thumbnail(image, side=40))).size == (40, 20)


@pytest.mark.parametrize("image", [np.zeros((4, 4)), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), dtype=np.uint8)])
def test_thumbnail_refuses_what_is_no_image(image):
    with pytest.raises(InputError, match="expected"):
        thumbnail(image)


def test_report_on_real_answers(digits):
    responses, labels = digits
    classifier = yoro.fit((responses[:1200], labels[:1200]))
    figures = classifier.evaluate((responses[1200:], labels[1200:]))
    html = report_html("digits", figures, classifier.model.choice, [], {"Passes": "1"}, basis="597 held-out images")
    assert_self_contained(html)
    assert f"chosen: {classifier.model.choice.shrinkage:g}" in html


def test_the_last_change_of_a_model_is_its_last_not_its_first(digits):
    responses, labels = digits
    classifier = yoro.fit((responses[:1200], labels[:1200]))
    first = Page(fit_report(classifier, [], "digits")).text
    assert re.search(r"Last change\s*fit, 1200 images, [\d.]+\u00a0s, peak memory [\d.]+\u00a0MB\n", first)
    classifier.update((responses[1200:1500], labels[1200:1500]))
    classifier.forget((responses[:10], labels[:10]))
    later = Page(fit_report(classifier, [], "digits")).text
    assert re.search(
        r"Last change\s*forget, 10 images, [\d.]+\u00a0s, peak memory [\d.]+\u00a0MB; 3 changes so far\n", later
    )


def test_all_is_never_claimed_where_a_mistake_was_made():
    names = ["cat", "dog"]
    tally = Tally(tuple(names))
    sure = np.log([[0.9999, 0.0001]])
    tally.update(np.repeat(sure, 3000, axis=0), ["cat"] * 2999 + ["dog"])
    shown = report_html("pets", tally.result(), None, [], {}, basis="3,000 images")
    words = Page(shown).text
    assert "99.9\u00a0%" in words
    precision, recall = tally.result().per_class[0].precision, tally.result().per_class[0].recall
    assert (precision < 1.0, recall) == (True, 1.0)
    assert words.count("100.0\u00a0%") == 2  # the recall of the cats, and of the confused dog its share


def test_confidence_is_drawn_against_what_was_right():
    measured = evaluation(["a", "b", "c"])
    drawn = page(["a", "b", "c"])
    assert 'class="curve reliability"' in drawn
    assert drawn.count("sure on average") == len(measured.reliability)


def test_a_hundred_classes_have_names_and_hints_at_the_matrix():
    names = [f"a breed with a name that is far too long {i}" for i in range(120)]
    drawn = page(names, n=2000)
    parsed = Page(drawn)
    assert "large_picture" not in drawn
    assert sum("mistaken for" in word for word in parsed.words) == sum(
        count > 0 for i, row in enumerate(evaluation(names, n=2000).confusion) for j, count in enumerate(row) if i != j
    )
    for name in names:
        assert parsed.words.count(name) >= 2  # the whole name at both sides, where the pointer rests


def test_what_was_skipped_and_what_is_there_twice_is_on_the_page(tmp_path):
    rng = np.random.default_rng(0)
    source = f"onnx:{Path(__file__).parents[1] / 'models' / 'tiny.onnx'}?mean=0,0,0&std=1,1,1"
    for name, colour in (("dark", 60), ("light", 190)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for i in range(6):
            noise = np.clip(rng.normal(colour, 40, (20, 20, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(noise).save(tmp_path / "data" / name / f"{i}.png")
    shutil.copy(tmp_path / "data/dark/0.png", tmp_path / "data/light/copy.png")
    shutil.copy(tmp_path / "data/dark/1.png", tmp_path / "data/dark/again.png")
    (tmp_path / "data/dark/bad.png").write_text("no image")
    done = run("fit", "data", "--out", "m.yoro", "--html", "fit.html", "--source", source, cwd=tmp_path, code=1)
    assert "Report written to fit.html" in done.stderr
    words = Page((tmp_path / "fit.html").read_text()).text
    assert "'dark/bad.png' cannot be read as an image" in words
    assert "Same image, different labels (1)" in words
    assert "'dark/0.png' and 'light/copy.png' are the same image, once labelled 'dark' and once 'light'." in words
    assert "Duplicates (1)" in words
    assert "true: light" in words
    assert "light/copy.png" in words.split("Worst mistakes")[1].split("Classes")[0]
    run("evaluate", "m.yoro", "data", "--html", "eval.html", "--source", source, cwd=tmp_path, code=1)
    words = Page((tmp_path / "eval.html").read_text()).text
    assert "'dark/bad.png' cannot be read as an image" in words
    assert "'dark/0.png' and 'light/copy.png' are the same image, once labelled 'dark' and once 'light'." in words
    assert "Duplicates (1)" in words
    assert "14 images" in words
    assert "Accuracy, fitted" in words
    done = run("inspect", "m.yoro", "--prompt", "prompt.png", cwd=tmp_path, code=1)
    assert "never trained" in done.stderr
    assert not (tmp_path / "prompt.png").exists()
    done = run(
        "compare",
        "data",
        "--methods",
        "bdm",
        "--seeds",
        "1",
        "--html",
        "c.html",
        "--source",
        source,
        cwd=tmp_path,
        code=1,
    )
    assert "Report written to c.html" in done.stderr


def test_cells_of_the_matrix_open_their_photos_and_nothing_else_does():
    names = ["1", "2", "10"]
    measured = evaluation(names, n=300)
    small = thumbnail(np.full((20, 30, 3), 90, dtype=np.uint8))
    seen = [PhotoAnswer(f"{i}.jpg", "2", "10", 0.9, small) for i in range(9)]
    seen += [PhotoAnswer("right.jpg", "1", "1", 0.4, small), PhotoAnswer("elsewhere.jpg", "gone", "1", 0.4, small)]
    html = report_html("t", measured, None, seen, {}, basis="b")
    assert_self_contained(html)
    parsed = Page(html)
    links = [a["href"] for tag, a in parsed.tags if tag == "a" and a["href"] != "#matrix"]
    opened = [a["id"] for tag, a in parsed.tags if (a.get("class") or "") == "cell"]
    assert links == ["#cell-0-0", "#cell-1-2"]  # 1, 2, 10: in the order in which people count
    assert [f"#{place}" for place in opened] == links
    assert "2 mistaken for 10: 6 of" in parsed.text


def test_a_hundred_classes_show_their_worst_part_first():
    names = [f"class {i}" for i in range(102)]
    measured = evaluation(names, n=2000)
    parsed = Page(page(names, n=2000))
    heads = [a["title"] for tag, a in parsed.tags if tag == "th" and a.get("scope") == "col"]
    assert 2 <= len(heads) <= 12
    assert {measured.mistakes[0].truth, measured.mistakes[0].answer} <= set(heads)
    assert heads == sorted(heads, key=lambda name: int(name.split()[1]))
    assert [a["class"] for tag, a in parsed.tags if tag == "input"] == ["x1", "x2", "x4"]


def test_a_hundred_per_cent_on_fitted_photos_is_grey_and_says_why():
    names = ["a", "b"]
    tally = Tally(tuple(names))
    tally.update(np.log(np.array([[0.9, 0.1], [0.1, 0.9]])), names)
    grey = [report_html("t", replace(tally.result(), fitted=n), None, [], {}, basis="b") for n in (0, 2)]
    assert 'class="card grey"' not in grey[0]
    assert 'class="card grey"><span>Accuracy, fitted</span><b>100.0' in grey[1]
    assert "not what to expect of new ones" in grey[1]


def test_thresholds_tell_what_is_refused_and_how_much_of_the_rest_is_right():
    confidence, right = np.array([0.55, 0.65, 0.92, 0.97]), np.array([False, True, True, True])
    tally = Tally(("a", "b"))
    tally.update(np.log(np.stack([confidence, 1 - confidence], axis=1)), ["a" if good else "b" for good in right])
    found = {one.confidence: one for one in tally.result().thresholds}
    for at, one in found.items():
        given = confidence >= at
        assert one.refused == 1 - given.mean()
        assert one.recall == (given & right).sum() / 4
        assert one.precision == ((given & right).sum() / given.sum() if given.any() else None)
    assert found[0.6].refused == 0.25
    assert found[0.99].precision is None


@pytest.mark.long
@pytest.mark.parametrize("classes", [6, 102])
def test_axe_finds_no_fault_and_a_click_on_a_cell_shows_its_photos(tmp_path, classes):
    names = [f"class {i}" for i in range(classes)]
    measured, small = evaluation(names, n=20 * classes), thumbnail(np.full((20, 30, 3), 90, dtype=np.uint8))
    seen = [PhotoAnswer(f"{pair.truth}.jpg", pair.truth, pair.answer, 0.9, small) for pair in measured.mistakes[:30]]
    (tmp_path / "report.html").write_text(report_html("t", measured, None, seen, {}, basis="b"))
    with browser() as page:
        for dark in (False, True):
            page.resize(1280, 900, dark=dark)
            page.open((tmp_path / "report.html").as_uri())
            page.run(AXE.read_text())
            assert page.run("return axe.run().then((result) => result.violations.map((one) => one.id))") == []
        assert page.run("return [...document.querySelectorAll('.cell')].every((cell) => !cell.offsetHeight)")
        page.click(".matrix td.w a")
        page.until("return document.querySelector('.cell:target')?.offsetHeight > 50")
