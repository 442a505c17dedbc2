"""`yoro compare` and what it is made of: one pass, one table, and a row for every method whatever happens."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import command_line
from photos import write_folder
from yoro.data.response_streams import Collected
from yoro.errors import InputError, SourceError, WidthError
from yoro.model.settings import PipelineSettings
from yoro.research.comparing import SIX, Comparison, ComparisonRow, compare_methods, comparison_html
from yoro.research.peers import shared_responses as shared
from yoro.research.peers.method import Method, unit
from yoro.research.peers.methods import METHODS
from yoro.research.peers.shared_responses import Reader, read_responses
from yoro.research.presets import read_with_presets
from yoro.text.settings import SentenceSettings

QUICK = "bdm,bdm-validation,bdm-oas,bdm-empirical,flm,blm,blm+,rlm,ncm,knn,ridge,logistic,sklearn-lda,gda,deep-slda"
BANK = {
    "astronaut": ["a person in an orange space suit", "the portrait of an astronaut", "an astronaut before a flag"],
    "cat": ["the face of a cat with whiskers", "an orange cat with green eyes", "soft striped fur"],
    "coffee": ["a cup of coffee on a wooden table", "a white cup on a saucer with a spoon", "black coffee in a cup"],
    "rocket": ["a rocket on its launch pad at night", "a tall white rocket with boosters", "the tower of a rocket"],
}
TIMED = ("fit_seconds", "predict_rate", "memory_mb", "tied")  # and what depends on the others


def run(*words, cwd, code=0):
    return command_line.run("compare", *words, cwd=cwd, code=code)


@pytest.fixture(scope="module")
def files(tmp_path_factory, digits):
    folder = tmp_path_factory.mktemp("responses")
    responses, labels = digits
    for name, start, stop in (("train", 0, 300), ("val", 300, 400), ("test", 400, 700)):
        np.savez(folder / f"{name}.npz", responses=responses[start:stop].astype("f4"), labels=labels[start:stop])
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("photos") / "crops", count=10)


@pytest.fixture(scope="module")
def on_photos(photos, tmp_path_factory):
    """Real photographs through the embedded network: the quick methods, and one that needs texts."""
    work = tmp_path_factory.mktemp("work")
    done = run(photos, "--methods", f"{QUICK},tip-adapter", "--seeds", 2, "--json", "--html", "p.html", cwd=work)
    return json.loads(done.stdout), done, (work / "p.html").read_text()


def test_a_folder_of_photos_gives_one_row_a_method(on_photos):
    rows, _, _ = on_photos
    assert {row["method"] for row in rows} == {*QUICK.split(","), "tip-adapter"}
    ran = {row["method"]: row for row in rows if row["reason"] is None}
    assert ran["bdm"]["accuracy"] > 0.8
    assert ran["rlm"]["accuracy"] < ran["flm"]["accuracy"]
    assert len(ran["bdm"]["accuracies"]) == 2
    assert ran["bdm"]["accuracy"] == pytest.approx(np.mean(ran["bdm"]["accuracies"]))
    assert ran["bdm"]["deviation"] == pytest.approx(np.std(ran["bdm"]["accuracies"], ddof=1))
    assert all(row["fit_seconds"] > 0 and row["predict_rate"] > 0 and row["memory_mb"] > 0 for row in ran.values())
    assert [row["accuracy"] for row in rows[: len(ran)]] == sorted((r["accuracy"] for r in ran.values()), reverse=True)


def test_a_method_that_needs_texts_has_its_reason(on_photos):
    rows, _, page = on_photos
    row = next(row for row in rows if row["method"] == "tip-adapter")
    assert (row["reason"], row["accuracy"]) == ("it needs texts of an image-text model", None)
    assert row["needs"] == ["features", "texts", "stored data", "validation"]
    assert rows[-1] == row
    assert "could not run" in page
    assert "needs texts" in page


def test_the_page_needs_nothing_besides_itself(on_photos):
    page = on_photos[2]
    assert "Accuracy against cost" in page
    assert page.count("<circle") + page.count("<path") == 2 * len(QUICK.split(","))  # on a desk and on a phone
    assert "<script" not in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)


def test_the_same_seeds_give_the_same_accuracies(photos, on_photos, tmp_path):
    some = ["bdm", "bdm-validation", "deep-slda", "knn", "rlm", "tip-adapter"]
    again = run(photos, "--methods", ",".join(some), "--seeds", 2, "--json", "--workers", 0, cwd=tmp_path)
    one, two = (
        {row["method"]: {key: value for key, value in row.items() if key not in TIMED} for row in rows}
        for rows in (on_photos[0], json.loads(again.stdout))
    )
    assert two == {name: one[name] for name in some}  # nor does it matter which others run


def test_every_image_is_read_once(photos, monkeypatch):
    read = []
    make = shared.make_pipeline

    class Counting:
        def __init__(self, source):
            self._source = source

        def __getattr__(self, name):
            return getattr(self._source, name)

        def respond(self, images):
            read.append(len(images))
            return self._source.respond(images)

    def counting(*words, **options):
        made = make(*words, **options)
        return replace(made, source=Counting(made.source))

    monkeypatch.setattr(shared, "make_pipeline", counting)
    found = read_responses(photos)
    compare_methods(found, methods=["bdm", "flm", "ncm"], seeds=3)
    assert sum(read) == found.images == 40


def test_all_methods_on_responses(files):
    done = run("train.npz", "--val", "val.npz", "--test", "test.npz", "--seeds", 1, "--all", cwd=files)
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    (folded,) = [line for line in done.stdout.splitlines() if line.startswith("Not run: ")]
    unable, reason = folded.removeprefix("Not run: ").split(" (", 1)
    assert reason.startswith("it needs texts")
    assert set(unable.split(", ")) == {name for name, method in METHODS.items() if "texts" in method.needs}
    assert {name for name, method in METHODS.items() if "texts" not in method.needs} <= set(lines)
    assert "yoro" in lines
    assert "within noise of the best" in done.stdout
    assert "±" not in done.stdout
    assert "Comparing" not in done.stderr
    assert "Validation images:    100" in done.stdout
    assert "Test images:          300" in done.stdout


def test_one_image_a_class_leaves_rows_with_reasons(files):
    rows = json.loads(run("train.npz", "--shots", 1, "--seeds", 2, "--all", "--json", cwd=files).stdout)
    reasons = {row["method"]: row["reason"] for row in rows}
    assert set(reasons) == {"yoro", *METHODS}
    assert reasons["gda"] == "one image per class gives no covariance"
    assert "too few images" in reasons["ranpac"]
    assert reasons["ncm"] is None
    bdm = next(row for row in rows if row["method"] == "bdm")
    assert bdm["accuracy"] == next(row for row in rows if row["method"] == "ncm")["accuracy"]
    assert "nearest class mean" in bdm["notes"][0]


def test_whatever_a_method_runs_into_is_its_own_row(files, monkeypatch):
    def broken(task):
        raise ZeroDivisionError("by nought\nand more")

    monkeypatch.setitem(METHODS, "broken", Method("broken", broken))
    monkeypatch.setitem(METHODS, "silent", Method("silent", lambda task: lambda z: np.full((len(z), 10), np.nan)))
    rows = compare_methods(read_responses(files / "train.npz"), methods=["broken", "silent", "ncm"], seeds=1).rows
    assert [row.method for row in rows] == ["ncm", "broken", "silent"]
    assert rows[1].reason == "ZeroDivisionError: by nought and more"
    assert "NaN" in rows[2].reason


def test_where_nothing_runs_the_table_is_shown_and_the_exit_is_1(files):
    done = run("train.npz", "--methods", "mpe,wpe", cwd=files, code=1)
    assert "Not run: mpe, wpe (it needs texts" in done.stdout
    assert "No method could run" in done.stderr


def test_a_misspelt_method_is_told_before_anything_is_read(tmp_path):
    done = run("nowhere/", "--methods", "bdm,blm++", cwd=tmp_path, code=2)
    assert "'blm++'. Did you mean 'blm+'?" in " ".join(done.stderr.split())
    assert "No method was given" in run("nowhere/", "--methods", ",", cwd=tmp_path, code=2).stderr


def test_missing_data_and_an_existing_page_are_failures(files, tmp_path):
    assert "does not exist" in run("nowhere/", cwd=tmp_path, code=1).stderr
    (tmp_path / "p.html").write_text("mine")
    done = run(files / "train.npz", "--methods", "ncm", "--html", "p.html", cwd=tmp_path, code=1)
    assert "--force" in done.stderr
    assert (tmp_path / "p.html").read_text() == "mine"


def test_a_broken_photo_is_named_and_the_rest_compared(tmp_path):
    folder = write_folder(tmp_path / "crops", count=4, names=("cat", "coffee"))
    (folder / "cat" / "broken.jpg").write_bytes(b"no image")
    done = run("crops", "--methods", "ncm", "--seeds", 1, "--workers", 0, cwd=tmp_path, code=1)
    assert "broken.jpg" in done.stderr
    assert "ncm" in done.stdout


def test_splits_of_a_folder_serve_their_purpose(tmp_path):
    for seed, (split, count) in enumerate((("train", 5), ("val", 2), ("test", 3))):
        write_folder(tmp_path / "data" / split, count=count, seed=seed, names=("cat", "coffee", "rocket"))
    found = read_responses(tmp_path / "data")
    assert [len(part) for part in (found.train, found.val, found.test)] == [15, 6, 9]
    other = read_responses(tmp_path / "data", test=tmp_path / "data" / "val")
    assert [len(part) for part in (other.train, other.val, other.test)] == [15, 6, 6]
    rows = compare_methods(found, methods=["bdm-validation"], seeds=1).rows
    assert rows[0].accuracy > 0.8


def test_texts_let_every_method_run(digits):
    torch_there = importlib.util.find_spec("torch") is not None
    vectors, labels = unit(digits[0][:400]), digits[1][:400]
    rng = np.random.default_rng(0)
    texts = {name: vectors[labels == name].mean(axis=0) + 0.02 * rng.normal(size=(4, 64)) for name in np.unique(labels)}
    found = compare_methods(read_responses((vectors, labels)), seeds=1, shots=8, texts=texts, scale=50.0)
    failed = {row.method: row.reason for row in found.rows if row.accuracy is None}
    assert set(failed) <= (set() if torch_there else {"tip-adapter-f"})
    accuracy = {row.method: row.accuracy for row in found.ran}
    assert accuracy["tip-adapter"] > 0.8
    assert accuracy["mpe"] > 0.7


@pytest.fixture(scope="module")
def spoken(photos):
    """Real photographs through the image-text source that comes with the package, and a bank of sentences."""
    return read_responses(
        photos, pipeline=PipelineSettings("embedded:conse"), sentences=SentenceSettings(BANK, sentences=2)
    )


def test_an_image_text_source_lets_every_method_run(spoken):
    found = compare_methods(spoken, seeds=1, shots=4)
    failed = {row.method: row.reason for row in found.rows if row.accuracy is None}
    assert set(failed) <= {"tip-adapter-f"}  # where torch is not installed
    accuracy = {row.method: row.accuracy for row in found.ran}
    assert accuracy["zero-shot"] > 0.5
    assert accuracy["bdm"] >= accuracy["zero-shot"]
    spoken_to = [name for name in accuracy if "texts" in METHODS[name].needs]
    assert len(spoken_to) >= 12
    assert min(accuracy[name] for name in spoken_to) > 0.5
    assert found.facts["Sentences"] == "8 (given)"


def test_the_sources_sentences_are_what_compare_is_given(spoken):
    words = spoken.words
    own = compare_methods(spoken, methods=["bdm", "tip-adapter"], seeds=1, shots=4)
    given = compare_methods(
        replace(spoken, words=None), methods=["bdm", "tip-adapter"], seeds=1, shots=4,
        texts=words.by_class(), scale=words.scale,
    )  # fmt: skip
    assert [row.accuracies for row in own.rows] == [row.accuracies for row in given.rows]
    assert words.scale > 1.0
    assert {name: vectors.shape for name, vectors in words.by_class().items()} == dict.fromkeys(BANK, (2, 384))


def test_compare_speaks_of_sentences(photos, tmp_path):
    (tmp_path / "bank.json").write_text(json.dumps(BANK))
    words = (photos, "--source", "embedded:conse", "--methods", "bdm,zero-shot,mpe", "--seeds", 1, "--shots", 1)
    done = run(*words, "--attributes", "bank.json", cwd=tmp_path)
    assert "No class has 20 sentences; 3 per class are used." in done.stderr
    assert "Sentences:            12 (bank.json)" in done.stdout
    assert "Not run" not in done.stdout
    assert "Sentences:            80 (templates)" in run(*words, cwd=tmp_path).stdout
    assert "Sentences:            4 (names)" in run(*words, "--attributes", "names", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"attributes": "templates"}, SourceError, "no text tower, which --attributes needs"),
        ({"source": "embedded:conse", "attributes": {"cat": ["a cat"]}}, InputError, "no sentences for 'astronaut'"),
        ({"source": "embedded:conse", "attributes": "no.json"}, InputError, "There is no file 'no.json'"),
        ({"source": "embedded:conse", "attributes": "names", "read": "features"}, InputError, "remove --attributes or"),
    ],
)
def test_sentences_that_cannot_be_used_are_told_before_a_photo_is_read(photos, monkeypatch, options, error, message):
    monkeypatch.setattr(shared, "_read", lambda *_: pytest.fail("a photo was read"))
    sentences = SentenceSettings(options["attributes"])
    pipeline = PipelineSettings(**{key: value for key, value in options.items() if key != "attributes"})
    with pytest.raises(error, match=message):
        read_responses(photos, pipeline=pipeline, sentences=sentences)


def test_responses_have_no_sentences(files):
    with pytest.raises(InputError, match="--attributes applies to images"):
        read_responses(files / "train.npz", sentences=SentenceSettings("templates"))


def test_an_image_text_source_read_at_features_has_no_sentences(photos):
    found = read_responses(photos, pipeline=PipelineSettings("embedded:conse", "features"))
    rows = compare_methods(found, methods=["bdm", "zero-shot"], seeds=1).rows
    assert found.words is None
    assert (rows[0].reason, rows[1].reason) == (None, "it needs texts of an image-text model")


def test_groups_are_never_split_between_training_and_test(digits):
    responses, labels = digits[0][:200], digits[1][:200]
    groups = tuple(f"g{i // 5}" for i in range(200))
    part = Collected(responses, labels, groups, tuple(map(str, range(200))), (b"",) * 200)
    for seed in range(3):
        train, test = shared.SharedResponses(part).draw(seed)
        assert not set(train.groups) & set(test.groups)
        assert len(test) > 30


def test_seeds_draw_anew_and_shots_are_kept(digits):
    found = read_responses((digits[0][:500], digits[1][:500]))
    one, two = found.draw(0, 7), found.draw(1, 7)
    assert one[1].names != two[1].names
    assert np.unique(one[0].labels, return_counts=True)[1].tolist() == [7] * 10
    assert not set(one[0].names) & set(one[1].names)


def test_classes_too_small_to_test_on_are_an_error(digits):
    rows = [int(np.flatnonzero(digits[1] == str(c))[0]) for c in range(10)]
    with pytest.raises(InputError, match=r"Too few images.*--test"):
        compare_methods(read_responses((digits[0][rows], digits[1][rows])))


def test_test_data_of_another_width_or_class_are_refused(digits):
    responses, labels = digits[0][:100], digits[1][:100]
    with pytest.raises(WidthError, match=r"test responses have width 63.*64"):
        read_responses((responses, labels), test=(responses[:, 1:], labels))
    found = read_responses((responses, labels), test=(responses, np.full(100, "x")))
    with pytest.raises(InputError, match="Class 'x' has no training example"):
        compare_methods(found)
    with pytest.raises(InputError, match="seeds is 0; expected 1 to 1,000"):
        compare_methods(read_responses((responses, labels)), seeds=0)


def test_without_names_our_own_fit_comes_first_and_six_others(files):
    rows = json.loads(run("train.npz", "--test", "test.npz", "--seeds", 1, "--json", cwd=files).stdout)
    assert rows[0]["method"] == "yoro"  # of responses neither --fast nor --best can be told
    assert {row["method"] for row in rows} == {"yoro", *SIX}
    assert all(row["about"] for row in rows)
    import yoro

    fitted = yoro.fit(files / "train.npz").evaluate(files / "test.npz")
    assert rows[0]["accuracy"] == fitted.accuracy
    assert tuple(rows[0]["interval"]) == pytest.approx(fitted.interval)


def test_our_own_fits_are_those_of_fit_on_the_same_split(photos):
    import yoro

    found = read_with_presets(("yoro", "yoro-fast", "ncm"), photos, Reader(pipeline=PipelineSettings(read="logits")))
    assert found.width == 1000
    rows = {row.method: row for row in compare_methods(found, methods=["yoro", "yoro-fast", "ncm"], seeds=1).rows}
    assert list(rows) == ["yoro", "yoro-fast", "ncm"]
    train, test = ([photos / name for name in part.names] for part in found.draw(0))
    for name, preset in (("yoro", "default"), ("yoro-fast", "fast")):
        classifier = yoro.fit([(path, path.parent.name) for path in train], preset=preset)
        answers = classifier.predict(test)
        assert rows[name].accuracy == np.mean([a == path.parent.name for a, path in zip(answers, test, strict=True)])
    assert rows["yoro"].pass_seconds is None
    assert rows["yoro-fast"].pass_seconds > 0


@pytest.mark.long
def test_the_best_preset_chooses_its_views(photos):
    found = read_with_presets(("yoro-best",), photos, Reader(pipeline=PipelineSettings(read="logits")))
    (row,) = compare_methods(found, methods=["yoro-best"], seeds=1).rows
    assert row.reason is None
    assert row.accuracy > 0.8


def test_equal_methods_are_tied_and_a_random_one_is_not(files):
    found = compare_methods(read_responses(files / "train.npz"), methods=["bdm", "ridge", "rlm"], seeds=2)
    tied = {row.method: row.tied for row in found.rows}
    assert tied[found.best.method]
    assert not tied["rlm"]
    assert found.verdict(found.best) == "best"
    low, high = found.best.interval
    assert low < found.best.accuracy < high


def test_names_of_strangers_are_escaped_on_the_page():
    row = ComparisonRow("<b>", 0.5, None, (0.5,), 0.1, 10.0, 1.0, 1, (), None, ("<i>careful</i>",))
    page = comparison_html(Comparison((row, replace(row, accuracy=None, reason="<u>")), {"Source": "<s>"}))
    assert not any(tag in page for tag in ("<b>", "<i>", "<u>", "<s>"))
    assert "Accuracy against cost" not in comparison_html(Comparison((), {}))
