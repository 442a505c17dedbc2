from __future__ import annotations

import re

import numpy as np
import pytest

import yoro
from photos import write_folder
from yoro.model.settings import USUAL
from yoro.reports.gallery import ImagesPage, bars, cells, classes_html
from yoro.trust.explanations import ExplanationRequest, ExplanationStream

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """Images of a class with a hostile name, with maps, and similar images of the same folder."""
    place = tmp_path_factory.mktemp("pages")
    write_folder(place / "photos", 4, names=("cat", "rocket"))
    pairs = [(path, {"cat": HOSTILE}.get(path.parent.name, "rocket")) for path in sorted(place.rglob("*.jpg"))]
    classifier = yoro.fit(pairs, source="embedded:lite0?side=64")
    stream = ExplanationStream(classifier, [pairs[0][0], pairs[-1][0]], ExplanationRequest(2, pairs, 3), loading=USUAL)
    return classifier, stream, list(stream)


def test_the_page_of_images_shows_the_sums_the_map_and_what_is_alike_and_nothing_of_a_stranger_runs(explained):
    classifier, stream, found = explained
    made = ImagesPage(classifier, stream, 3)
    for one in found:
        made.add(one)
    page = made.html()
    assert "<script" not in page.lower()
    assert "&lt;script&gt;" in page
    assert page.count("<rect") == 2 * 9
    assert page.count("data:image/jpeg") == 2 * (2 + 2)  # each picture, the one under the map, and two alike
    assert "10 forward passes" in page
    for one in found:
        for part in one.parts:
            assert f"{part.value:+.3f}" in page


def test_the_words_of_the_field_are_under_details(explained):
    classifier, stream, found = explained
    made = ImagesPage(classifier, stream, 3)
    made.add(found[0])
    for page in (made.html(), classes_html(classifier.explain_classes(), "a source", 3)):
        face = re.sub(r"(?s)<details.*?</details>|<style.*?</style>", "", page)
        for word in ("log odds", "layer-", "logits", "forward pass"):
            assert word not in face.lower()


def test_the_page_of_classes_names_what_speaks_for_each(explained):
    classifier = explained[0]
    reasons = classifier.explain_classes()
    page = classes_html(reasons, "a source", 3)
    assert "<script" not in page.lower()
    assert all(name.split()[0] in page for one in reasons for name, _ in one.speaking_for(3))


def test_a_bar_is_as_long_as_its_number_and_a_cell_as_strong():
    assert [bar.length for bar in bars([("a", 2.0), ("b", -1.0)], 2.0)] == [1.0, -0.5]
    assert bars([("a", 0.0)], 0.0)[0].length == 0
    drawn = cells(np.array([[1.0, -0.5], [0.0, 0.25]]))
    assert [(cell.x, cell.y, cell.supports) for cell in drawn][:2] == [(0, 0, True), (1, 0, False)]
    assert drawn[0].strength == 2 * drawn[1].strength == 4 * drawn[3].strength
    assert all(cell.strength == 0 for cell in cells(np.zeros((2, 2))))
