"""The command line run within the tests' own process."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from yoro.cli.app import main


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    stdout: str
    stderr: str


def invoke(*words: object) -> Ended:
    """Run `yoro WORDS`."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())
