from __future__ import annotations

import os
import pty
import subprocess
import sys

from child import finish

TALK = "from yoro.cli.output import passing\nfor name in ('first\\n', 'second', ''):\n    passing(name)"


def test_what_passes_is_one_line_on_a_terminal_and_nothing_in_a_log():
    leader, follower = pty.openpty()
    subprocess.run([sys.executable, "-c", TALK], stderr=follower, check=True)
    shown = os.read(leader, 10_000).decode()
    os.close(leader)
    os.close(follower)
    assert "second" in shown
    assert "\n" not in shown
    assert finish("-c", TALK).stderr == ""
