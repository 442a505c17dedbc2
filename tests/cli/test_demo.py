from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from yoro.cli.demo import activation


def test_what_to_type_so_that_the_shell_knows_yoro(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    if not (Path(sys.prefix) / "bin" / "activate").is_file():
        pytest.skip("not in a virtual environment")
    (line,) = activation()
    command = line.partition("(")[0].strip()
    found = subprocess.run(["/bin/bash", "-c", f"{command}; command -v yoro"], capture_output=True, text=True)
    assert found.stdout.strip() == str(Path(sys.prefix) / "bin" / "yoro")
    monkeypatch.setenv("PATH", str(Path(sys.prefix) / "bin"))
    assert activation() == []
