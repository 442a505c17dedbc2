"""The command line run within the tests' own process: the same proof as a process of its own, without its start."""

from __future__ import annotations

import io
from contextlib import chdir, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from yoro.cli.app import main


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    stdout: str
    stderr: str


def invoke(*words: object, cwd: Path | None = None) -> Ended:
    """Run `yoro WORDS`, in a folder if one is given."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with chdir(cwd) if cwd else nullcontext(), redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


def run(*words: object, cwd: Path | None = None, code: int = 0) -> Ended:
    """Run `yoro WORDS`, which must end with this code."""
    done = invoke(*words, cwd=cwd)
    assert done.code == code, done
    return done
