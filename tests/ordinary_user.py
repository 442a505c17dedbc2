"""Commands run without root's power to write and read everything, so that permissions mean something in tests."""

from __future__ import annotations

import os
import shutil

import pytest


def ordinary(*command: object) -> list[str]:
    """The command as a user runs it for whom permissions hold; skips where that cannot be had."""
    words = [str(word) for word in command]
    if os.geteuid():
        return words
    if shutil.which("setpriv") is None:
        pytest.skip("root may do everything, and there is no setpriv to take that away")
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *words]
