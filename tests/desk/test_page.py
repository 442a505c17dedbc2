"""The desk's page in a real Chromium, as a person uses it."""

from __future__ import annotations

import shutil

import pytest

from browser import browser
from desks import desk_at
from photos import write_folder

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
