"""Every result that a user gets shows itself: in a few lines, in HTML that escapes, and as a table of pandas."""

from __future__ import annotations

import importlib
import pkgutil
from html.parser import HTMLParser

import numpy as np
import pytest

import yoro
from yoro.files.result_view import Result, ResultList, Table
from yoro.fit import run_fit
from yoro.model.settings import FitSettings

HOSTILE = '<script>alert("x")</script>'
SCREEN = 2_000  # characters: about twenty lines
VOID = ("img", "br", "wbr", "meta")


def responses(seed: int, each: int = 12) -> tuple[np.ndarray, list[str]]:
    labels = [name for name in (f"{HOSTILE}{c}" for c in "abc") for _ in range(each)]
    rng = np.random.default_rng(seed)
    centres = {label: rng.normal(size=6) * 2 for label in sorted(set(labels))}
    rng = np.random.default_rng(seed + 1)
    return np.array([centres[label] + rng.normal(size=6) for label in labels]), labels


@pytest.fixture(scope="module")
def results() -> dict[str, object]:
    """One of each, from the public functions where these give it."""
    data, labels = responses(0)
    classifier = yoro.fit((data, np.array(labels)))
    issues = classifier.issues((data, np.array(labels)))
    explained = classifier.explain(data[:2])
    change = classifier.update((data[:3] + 9, np.array(labels[:3])))
    forgotten = classifier.forget((data[:3] + 9, np.array(labels[:3])))
    found: dict[str, object] = {
        "classifier": classifier,
        "report": classifier.report(),
        "evaluation": classifier.evaluate((data, np.array(labels))),
        "issues": issues,
        "explanations": explained,
        "explanation": explained[0],
        "part": explained[0].parts[0],
        "classes": classifier.explain_classes(),
        "class": classifier.explain_classes()[0],
        "advice": classifier.advice(),
        "next": classifier.choose_next(data + 0.1, 3),
        "predictions": classifier.predict(np.tile(data, (40, 1))),
        "sets": classifier.predict_sets(data),
        "change": change,
        "forgotten": forgotten,
        "receipt": forgotten.receipt,
        "verification": classifier.verify(forgotten.receipt),
        "comparison": yoro.compare(data, np.array(labels), methods=["yoro", "ncm", "mpe"], seeds=1),
        "outcome": run_fit((data, np.array(labels)), None, FitSettings()),
    }
    from yoro.model.answers import ImageAnswer

    found["answer"] = ImageAnswer("a.jpg", ((HOSTILE, 0.9), ("b", 0.1)))
    return found


def refinement() -> Result:
    from yoro.refining.outcome import Refinement
    from yoro.refining.recipe import EpochRecord, Recipe

    records = [EpochRecord(0, None, 3, 4, 0.0), EpochRecord(1, 0.5, 2, 4, 1.0)]
    return Refinement(False, f"Not kept: {HOSTILE}", 0, records, 3, Recipe(epochs=1))


class Balanced(HTMLParser):
    """Fails where tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def subclasses(of: type) -> set[type]:
    return {one for sub in of.__subclasses__() for one in {sub, *subclasses(sub)}}


def shown(value: object) -> None:
    assert len(repr(value)) <= SCREEN
    page = value._repr_html_()
    parser = Balanced()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert "script" not in parser.seen
    assert "<script" not in page


def test_every_kind_of_result_is_short_and_escapes(results: dict[str, object]) -> None:
    pytest.importorskip("pandas")
    for value in results.values():
        shown(value)
        if not isinstance(value, yoro.Classifier):
            assert len(value.to_frame().columns) >= (0 if type(value).__name__ == "Change" else 1)


def test_no_kind_of_result_is_left_out(results: dict[str, object]) -> None:
    made = {type(value) for value in results.values()}
    for module in pkgutil.walk_packages(yoro.__path__, "yoro."):
        if module.name.split(".")[1] in ("trust", "model", "api", "fit") or module.name == "yoro.research.comparing":
            importlib.import_module(module.name)
    mine = {kind for kind in subclasses(Result) if kind.__module__.startswith("yoro.")}
    assert {kind.__name__ for kind in mine - made} <= {"Refinement"}  # that one needs torch, and has its own test


@pytest.mark.torch
def test_a_refinement_shows_itself() -> None:
    pytest.importorskip("torch")
    shown(refinement())


def test_predictions_are_a_list_that_shows_itself(results: dict[str, object]) -> None:
    predictions = results["predictions"]
    assert isinstance(predictions, list)
    assert "more; to_frame() gives all" in repr(predictions)
    few = ResultList(["cat", "dog"], "2 images", Table([{"label": "cat"}, {"label": "dog"}]))
    assert repr(few) == "['cat', 'dog']"
    assert few == ["cat", "dog"]


def test_issues_of_photos_have_thumbnails(tmp_path) -> None:
    from photos import write_folder

    folder = write_folder(tmp_path / "photos", count=4, names=("cat", "coffee"))
    page = yoro.fit(folder, source="embedded:lite0?side=64", read="logits").issues(folder)._repr_html_()
    assert "data:image/jpeg;base64," in page
    assert "http" not in page


def test_a_change_says_how_many_examples_there_are_and_which_classes_are_new():
    data, labels = np.eye(6), np.array(["a", "a", "b", "b", "a", "b"])
    change = yoro.fit((data, labels)).update((data[:2] + 9, np.array(["c", "c"])))
    assert "6 -> 8 examples, 3 classes, 'c' new." in repr(change)
