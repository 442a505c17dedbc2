from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from command_line import invoke
from yoro.http.settings import ServeSettings

ROOT = Path(__file__).parents[2]
UNIT, RECIPE = ROOT / "deploy" / "yoro.service", ROOT / "deploy" / "Containerfile"


def test_options_in_the_recipes_are_options_of_the_verb():
    shown = invoke("serve", "--help").stdout
    command = re.search(r"^ExecStart=.*/yoro serve (.*)$", UNIT.read_text(), re.MULTILINE)[1]
    command += re.search(r"^CMD \[(.*)\]$", RECIPE.read_text(), re.MULTILINE)[1]
    named = set(re.findall(r"--[a-z-]+", command))
    assert named == {"--token-file", "--host"}
    for option in named:
        assert f"  {option} " in shown
    assert RECIPE.read_text().count(str(ServeSettings.port)) == 4


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit(tmp_path):
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/yoro/bin/yoro", "/bin/true"))  # the program must be there
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_page_names_every_limit_with_its_default():
    page = (ROOT / "docs" / "service.md").read_text()
    rows = dict(re.findall(r"^\| `--([a-z-]+)` \| ([\d,]+)", page, re.MULTILINE))
    limits = {f.name.replace("_", "-"): f.default for f in fields(ServeSettings)[3:]}
    assert {name: float(number) for name, number in rows.items()} == limits
