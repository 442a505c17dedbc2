"""A word on a terminal, and none in a log."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios

CODE = "from yoro.model.one_pass import waiting\nwith waiting('solving', {shown}): pass\nprint('done')"


def shown_on_a_terminal(shown: bool) -> bytes:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    subprocess.run([sys.executable, "-c", CODE.format(shown=shown)], stderr=theirs, stdout=theirs, check=True)
    os.close(theirs)
    told = b""
    try:
        while part := os.read(ours, 1024):
            told += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return told


def test_a_terminal_shows_the_word_and_then_nothing_of_it():
    told = shown_on_a_terminal(True)
    assert b"solving ..." in told
    assert told.endswith(b"\rdone\r\n")
    assert b"solving" not in shown_on_a_terminal(False)


def test_a_log_stays_silent():
    words = [sys.executable, "-c", CODE.format(shown=True)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stderr == ""
