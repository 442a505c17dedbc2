"""Whether a browser is opened, seen by a program that stands for one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from child import finish, start, wait_until

OPEN = """
import threading
from yoro.http.server import open_browser
open_browser("http://127.0.0.1:1/studio/")
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
"""
SCREENS = ("CI", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION")


def environment(folder: Path, **more: str) -> dict[str, str]:
    """An environment whose browser writes down what it is to show."""
    program = folder / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> "{folder / "shown"}"\n')
    program.chmod(0o755)
    plain = {name: value for name, value in os.environ.items() if name not in SCREENS}
    return plain | {"BROWSER": f"{program} %s"} | more


@pytest.mark.parametrize(
    ("more", "opens"),
    [
        ({"DISPLAY": ":9"}, True),
        ({"WAYLAND_DISPLAY": "w"}, True),
        ({}, False),
        ({"DISPLAY": ":9", "CI": "true"}, False),
    ],
)
def test_a_page_is_opened_where_there_is_a_screen(tmp_path, more, opens):
    done = finish("-c", OPEN, env=environment(tmp_path, **more))
    assert done.returncode == 0, done.stderr
    shown = tmp_path / "shown"
    assert (shown.read_text() if shown.exists() else "") == ("http://127.0.0.1:1/studio/\n" if opens else "")


@pytest.mark.long
@pytest.mark.parametrize("words", [(), ("--no-browser",)])
def test_the_studio_opens_its_page_unless_told_not_to(tmp_path, words):
    log = tmp_path / "log"
    with log.open("w") as sink:
        options = ["--work", tmp_path / "work", "--port", "0", "--read", "logits", *words]
        process = start("-m", "yoro", "studio", *options, stderr=sink, env=environment(tmp_path, DISPLAY=":9"))
    try:
        wait_until(lambda: "The studio is at" in log.read_text(), process)
        if not words:
            wait_until((tmp_path / "shown").exists)
            wait_until(lambda: (tmp_path / "shown").read_text() in log.read_text().replace(" and saves", "\n"))
    finally:
        process.terminate()
        process.wait()
    assert (tmp_path / "shown").exists() is not bool(words)
