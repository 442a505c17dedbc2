"""The classifier as people hold it in Python: how it shows itself, what it can draw, and how it is copied."""

from __future__ import annotations

import copy
import logging
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import yoro
from api.test_inputs import NAMES, SOURCE
from yoro.errors import ImageError, InputError, SkippedWarning, StoreError

COLOURS = dict(zip(NAMES, [(190, 190, 190), (60, 60, 60), (190, 60, 60)], strict=True))


def pictures(seed: int, each: int = 10, spread: float = 60.0) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    images = [rng.normal(colour, spread, (40, 30, 3)) for colour in COLOURS.values() for _ in range(each)]
    return np.clip(images, 0, 255).astype(np.uint8), [name for name in NAMES for _ in range(each)]


@pytest.fixture(scope="module")
def fitted():
    return yoro.fit(*pictures(0), source=SOURCE)


@pytest.fixture
def new():
    return pictures(1)


def test_it_shows_what_it_is(fitted):
    assert repr(fitted).startswith("<yoro.Classifier: 3 classes from 30 examples of onnx:")
    page = fitted._repr_html_()
    for words in ("bright", "10 examples", "leave-one-out on 30", "Backbone"):
        assert words in page
    accuracy = f"{100 * fitted.left_out().accuracy:.1f}"
    assert accuracy in page
    assert f"leave-one-out accuracy {accuracy}%" in repr(fitted)


def test_a_look_at_a_loaded_model_solves_nothing(fitted, tmp_path):
    fitted.save(tmp_path / "m.yoro")
    loaded = yoro.load(tmp_path / "m.yoro", source=SOURCE)
    assert repr(loaded) == repr(fitted)
    assert "leave-one-out on 30" in loaded._repr_html_()
    assert loaded.model.found_left_out is None
    assert loaded.relabel({"bright": "light"}) is not None
    assert "leave-one-out accuracy" in repr(loaded)
    del loaded.model.history[-1]["leave_one_out"]  # as in a model that was saved before the accuracy was recorded
    assert "shrinkage" in repr(loaded)
    assert "call left_out()" in loaded._repr_html_()


def test_a_strangers_class_name_does_no_harm_in_a_notebook():
    images, labels = pictures(0)
    page = yoro.fit(images, [f"<script>{label}" for label in labels], source=SOURCE)._repr_html_()
    assert "<script>" not in page


def test_of_many_classes_the_smallest_are_named():
    rng = np.random.default_rng(0)
    labels = [f"c{i:03}" for i in range(100) for _ in range(3)] + ["big"] * 9
    page = yoro.fit(rng.normal(size=(len(labels), 4)), labels)._repr_html_()
    assert "c000" in page
    assert "big" not in page
    assert "and 71 classes with more examples" in page


@pytest.mark.parametrize("again", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))], ids=["deepcopy", "pickle"])
def test_it_can_be_copied_also_after_a_prediction(fitted, new, again):
    before = fitted.predict_proba(new[0])
    other = again(fitted)
    np.testing.assert_array_equal(other.predict_proba(new[0]), before)
    other.update(*new)
    assert fitted.model.statistics.total == 30


def test_notes_go_to_the_log_and_broken_files_are_warned_of(fitted, new, tmp_path, caplog):
    classifier = copy.deepcopy(fitted)
    classifier.update(*new)
    with caplog.at_level(logging.WARNING, "yoro"):
        classifier.update(*new)
    assert "30 examples already in the model, now counted twice." in caplog.messages
    (tmp_path / "bad.png").write_text("no image")
    pairs = [(tmp_path / "bad.png", "dark"), (new[0][0], "bright")]
    with pytest.warns(SkippedWarning, match=r"1 image could not be read and was left out: '.*bad\.png'") as said:
        classifier.update(pairs)
    assert said[0].filename == __file__
    with pytest.warns(SkippedWarning) as said:
        classifier.evaluate(pairs)
    assert said[0].filename == __file__


def test_reports_are_pages_that_can_be_looked_at_and_saved(fitted, new, tmp_path):
    about = fitted.report()
    assert about.evaluation == fitted.left_out()
    assert "leave-one-out" in about.html
    report = fitted.report(*new)
    assert report.evaluation.n == 30
    assert report.save(tmp_path / "page.html").read_text() == report.html
    with pytest.raises(StoreError, match="exists already"):
        report.save(tmp_path / "page.html")
    assert "srcdoc" in report._repr_html_()
    assert "<script" not in report._repr_html_()
    assert "30" in repr(report)
    bare = copy.deepcopy(fitted)
    bare.drop_reservoir()
    with pytest.raises(InputError, match="Give labelled data"):
        bare.report()


def test_plots_are_figures_of_matplotlib(fitted, new):
    from matplotlib.figure import Figure

    figures = [
        fitted.plot.confusion(),
        fitted.plot.confusion(*new),
        fitted.plot.reliability(*new),
        fitted.plot.mistakes(*new),
        fitted.plot.mistakes(new[0], new[1][::-1], most=3),
    ]
    assert all(isinstance(figure, Figure) for figure in figures)
    drawn = figures[1].axes[0].images[0].get_array()
    counts = np.array(fitted.evaluate(*new).confusion)
    np.testing.assert_allclose(drawn, counts / counts.sum(axis=1, keepdims=True))
    assert len(figures[4].axes) == 3
    assert figures[2]._repr_png_().startswith(b"\x89PNG")


def test_reliability_adds_up_to_the_accuracy_and_the_calibration_error(fitted, new):
    measured = fitted.evaluate(*new)
    parts = measured.reliability
    assert sum(part.n for part in parts) == measured.n
    assert sum(part.n * part.accuracy for part in parts) / measured.n == pytest.approx(measured.accuracy)
    error = sum(part.n * abs(part.accuracy - part.confidence) for part in parts) / measured.n
    assert error == pytest.approx(measured.calibration_error)
    assert [part.confidence for part in parts] == sorted(part.confidence for part in parts)


def test_figures_and_predictions_are_tables_of_pandas(fitted, new):
    frame = fitted.evaluate(*new).to_frame()
    assert list(frame["name"]) == sorted(NAMES)
    assert frame["n"].sum() == 30
    answers = fitted.to_frame(new[0], top=2)
    assert list(answers["label"]) == fitted.predict(new[0])
    assert (answers["probability"] >= answers["probability_2"]).all()
    with pytest.raises(InputError, match="expected 1 or more"):
        fitted.to_frame(new[0], top=0)


def test_methods_are_compared_on_the_same_images(fitted, new):
    table = fitted.compare(*new, methods=["bdm", "ncm"], seeds=2).to_frame()
    assert set(table["method"]) == {"bdm", "ncm"}
    assert (table["accuracy"] > 0.6).all()
    for options, message in (
        ({"methods": ["bmd"]}, "Did you mean"),
        ({"seed": 1}, "option 'seed'"),
        ({"seeds": 0}, "expected 1 to"),
    ):
        with pytest.raises(InputError, match=message):
            yoro.compare(*new, source=SOURCE, **options)


def test_a_classifier_is_exported(fitted, tmp_path):
    import onnx

    path = fitted.export(tmp_path / "m.onnx")
    assert {output.name for output in onnx.load(path).graph.output} == {"probabilities", "label"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shrinkage": "lou"}, "loo"),
        ({"prior": "equal"}, "Unknown prior"),
        ({"prior": {"bright": 1.0}}, "differ at 'dark'"),
        ({"prompt": "frame"}, "Unknown prompt"),
        ({"read": "pixels"}, "'features' or 'all'"),
        ({"device": "gpu"}, "gpu"),
        ({"shots": -1}, "0 or more"),
        ({"shots": "3"}, "shots"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"reservoir": -1}, "expected 0"),
        ({"shots": 2, "classes": ["blue"]}, "--classes"),
        ({"surce": "x"}, "Did you mean 'source'"),
    ],
    ids=str,
)
def test_wrong_options_are_refused_before_an_image_is_read(options, message):
    read = []

    class Watched:
        classes, targets = NAMES, [0, 1, 2] * 4

        def __len__(self):
            return 12

        def __getitem__(self, number):
            read.append(number)
            return np.zeros((8, 8, 3), np.uint8), self.targets[number]

    with pytest.raises((InputError, yoro.errors.YoroError), match=message):
        yoro.fit(Watched(), **{"source": SOURCE, **options})
    assert read == []


def test_any_estimator_can_follow_the_responses(new):
    images, labels = pictures(0)
    chain = make_pipeline(yoro.Responses(SOURCE), LogisticRegression(max_iter=1000)).fit(images, labels)
    assert chain.score(*new) > 0.6
    responses = chain[0].transform(images)
    logits = yoro.fit(images, labels, source=SOURCE, read="logits")
    np.testing.assert_allclose(
        yoro.fit(responses, labels).predict_proba(responses), logits.predict_proba(images), atol=1e-6
    )
    again = pickle.loads(pickle.dumps(chain))
    assert again.predict(images).tolist() == chain.predict(images).tolist()
    assert clone(chain[0]).get_params() == chain[0].get_params()
    assert len(chain[0].get_feature_names_out()) == responses.shape[1] == chain[0].width_
    assert chain[0].transform([]).shape == (0, responses.shape[1])
    with pytest.raises(ImageError, match="nowhere"):
        chain.predict(["nowhere.jpg"])
