"""The runtime of pages as the package brings it."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

from browser import lacking
from yoro.web.browser_runtime import FILES, LICENCES, find_runtime

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "src" / "yoro" / "web" / "engine"


@pytest.fixture
def built():
    if not ENGINE.is_dir():
        lacking("The package was built without npm: install it again with a network")


def test_a_runtime_comes_with_the_package_and_is_the_file_that_was_tried(built, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = find_runtime()
    wanted = dict(re.findall(r'"([\w./-]+)": "([0-9a-f]{64})"', (ROOT / "hatch_build.py").read_text()))
    assert set(found.files) == set(FILES)
    for file in found.files.values():
        assert hashlib.sha256(file.read_bytes()).hexdigest() == wanted[f"dist/{file.name}"]
    assert f"onnxruntime-web@{found.version}" in (ROOT / "hatch_build.py").read_text()
    for package, name in LICENCES.values():
        assert "icrosoft" in (files(package) / name).read_text(errors="replace")


@pytest.mark.long
def test_the_wheel_holds_the_runtime(built, tmp_path):
    pytest.importorskip("hatchling")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"yoro/web/engine/dist/{name}" for name in FILES.values()} < set(names)
