"""The review page of `yoro issues --fix`: decisions survive, and are applied to files and model, with undo."""

from __future__ import annotations

import csv
import io
import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

import yoro
from browser import browser
from child import BOUND, start, wait_until
from photos import write_folder
from yoro.desk.review import Review
from yoro.errors import InputError

API = "/review/api"
AXE = Path(__file__).parents[1] / "web" / "node_modules" / "axe-core" / "axe.min.js"
COLUMNS = ("path", "label", "issue", "proposed", "score", "probability", "like", "digest", "action")
ROWS = (
    ("photos/rocket/wrong.jpg", "rocket", "label", "cat", "5", "0.996", "", "", ""),
    ("photos/cat/001.jpg", "cat", "hard photo", "rocket", "0.1", "0.52", "", "", ""),
    ("photos/rocket/wrong.jpg", "rocket", "outlier", "cat", "9", "0.996", "", "", ""),
    ("photos/cat/003.jpg", "cat", "near duplicate", "cat", "0.99", "0.9", "photos/cat/002.jpg", "", ""),
)


@pytest.fixture(scope="module")
def mixed_up(tmp_path_factory):
    """Photographs of which one of a cat lies among the rockets, their model, and a list of issues."""
    root = tmp_path_factory.mktemp("review")
    write_folder(root / "photos", 6, names=("cat", "rocket"))
    (root / "photos" / "cat" / "000.jpg").rename(root / "photos" / "rocket" / "wrong.jpg")
    yoro.fit(root / "photos", read="logits").save(root / "m.yoro")
    with (root / "issues.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *ROWS])
    return root


@pytest.fixture
def work(mixed_up, tmp_path):
    shutil.copytree(mixed_up, tmp_path, dirs_exist_ok=True)
    return tmp_path


def actions(work):
    return [row["action"] for row in csv.DictReader(io.StringIO((work / "issues.csv").read_text()))]


@contextmanager
def reviewing(work, *words):
    """`yoro issues --fix` on a free port, going on with the list that is there; killed at the end."""
    log = work / "log"
    with log.open("w") as sink:
        process = start("-m", "yoro", "issues", "photos", "--fix", "--port", "0", *words, stderr=sink, cwd=work)
    try:
        wait_until(lambda: "The review is at" in log.read_text(), process)
        address = re.search(r"http://127.0.0.1:\d+", log.read_text())[0]
        with httpx.Client(base_url=address, timeout=BOUND, trust_env=False) as client:
            yield client
    finally:
        process.kill()
        process.wait()


def test_a_decision_is_in_the_list_before_the_next_one_and_covers_all_rows_of_its_photo(work):
    review = Review(work / "issues.csv")
    review.decide(0, "relabel")
    assert actions(work) == ["relabel", "", "relabel", ""]
    review.decide(1, "keep")
    review.decide(3, "remove")
    review.decide(0, "")
    assert actions(work) == ["", "keep", "", "remove"]
    review.decide(0, "relabel", "-lion")  # another class than was proposed; spreadsheets do not compute it
    again = Review(work / "issues.csv")
    assert [row["proposed"] for row in again.rows] == ["-lion", "rocket", "-lion", "cat"]
    for at, action, proposed in (
        (9, "keep", ""),
        (0, "delete", ""),
        (0, "relabel", "rocket"),
        (0, "relabel", "x" * 999),
    ):
        with pytest.raises(InputError):
            review.decide(at, action, proposed)


def test_killed_in_the_middle_the_decisions_survive_and_done_moves_files_and_mends_the_model(work):
    before = yoro.load(work / "m.yoro").model.mapping.weights
    with reviewing(work, "--model", "m.yoro") as client:
        assert client.get(f"{API}/picture/0").headers["content-type"] == "image/jpeg"
        assert client.get(f"{API}/picture/3", params={"like": True}).status_code == 200
        assert client.post(f"{API}/decide", json={"row": 0, "action": "relabel"}).status_code == 200
        other = client.post(f"{API}/apply", headers={"origin": "http://elsewhere.example"})
        assert other.status_code == 403
    with reviewing(work, "--model", "m.yoro") as client:
        state = client.get(f"{API}/state").json()
        assert (state["rows"][0]["action"], state["applied"]) == ("relabel", False)
        assert "1 file moved" in client.post(f"{API}/apply").json()["told"]
        assert (work / "photos" / "cat" / "wrong.jpg").is_file()
        mended = yoro.load(work / "m.yoro").model.mapping.weights
        again = yoro.fit(work / "photos", read="logits").model.mapping.weights
        np.testing.assert_allclose(mended, again, atol=1e-7)
        assert client.post(f"{API}/decide", json={"row": 1, "action": "keep"}).status_code == 422
        assert "moved back" in client.post(f"{API}/undo").json()["told"]
    assert (work / "photos" / "rocket" / "wrong.jpg").is_file()
    np.testing.assert_allclose(yoro.load(work / "m.yoro").model.mapping.weights, before, atol=1e-7)
    assert actions(work)[0] == "relabel"


@pytest.mark.long
def test_a_person_reviews_by_keys_and_buttons(work):
    with browser() as page, reviewing(work) as client:
        page.open(f"{client.base_url}/review/")
        page.until("return document.getElementById('told').innerText === 'now rocket, rather cat, 99.6\\u00a0%'")
        assert page.run("return document.getElementById('title').innerText") == "About 1 wrong label"
        page.run(AXE.read_text())
        found = page.run("return axe.run().then((result) => result.violations.map((one) => one.id))")
        assert found == []
        page.click("#next")
        page.until("return document.getElementById('file').innerText === 'photos/cat/001.jpg'")
        page.keys("k")
        page.until("return document.getElementById('score').innerText === '1 of 4'")
        assert actions(work) == ["", "keep", "", ""]
        page.click("#kinds button")
        page.click("#accept")
        page.until("return document.getElementById('score').innerText === '3 of 4'")
        page.click("#apply")
        page.until("return !document.getElementById('undo').hidden")
        assert (work / "photos" / "cat" / "wrong.jpg").is_file()
        page.click("#undo")
        page.until("return document.getElementById('undo').hidden")
        assert (work / "photos" / "rocket" / "wrong.jpg").is_file()
