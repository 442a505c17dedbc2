"""The command line run within the tests' own process: the same proof as a process of its own, without its start."""

from __future__ import annotations

import importlib
import io
import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from yoro.cli.app import main


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    stdout: str
    stderr: str


def invoke(*words: object, cwd: Path | None = None) -> Ended:
    """Run `yoro WORDS`, in a folder if one is given; images are decoded here, unless --workers says otherwise.

    The processes that decode, and the fence they are, have tests of their own: starting them takes longer than most
    commands.
    """
    out, err = io.StringIO(), io.StringIO()
    code = 0
    here = patch("yoro.data.loading.default_workers", return_value=0)
    with here, _within(cwd) if cwd else nullcontext(), redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


@contextmanager
def _within(folder: Path) -> Iterator[None]:
    """Work in a folder; what is imported from there is forgotten afterwards, as a process forgets when it ends."""
    paths = list(sys.path)
    try:
        with chdir(folder):
            yield
    finally:
        sys.path[:] = paths
        for name, module in list(sys.modules.items()):
            if Path(getattr(module, "__file__", None) or "/").is_relative_to(folder):
                del sys.modules[name]
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        importlib.invalidate_caches()


def run(*words: object, cwd: Path | None = None, code: int = 0) -> Ended:
    """Run `yoro WORDS`, which must end with this code."""
    done = invoke(*words, cwd=cwd)
    assert done.code == code, done
    return done
