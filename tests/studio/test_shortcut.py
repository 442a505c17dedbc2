from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from browser import lacking
from command_line import run
from yoro.errors import StoreError
from yoro.studio.shortcut import MARK, NAMES, launcher, put_shortcut, remove_shortcut

ODD = 'a b$c`d"e%f\\g'  # a folder's name with all that shells and launchers treat in a special way


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_a_launcher_is_put_replaced_and_removed(tmp_path, system):
    path = put_shortcut(tmp_path / "one", tmp_path, system)
    assert path == put_shortcut(tmp_path / "two", tmp_path, system)
    content = path.read_text()
    assert str(tmp_path / "two") in content
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert system == "win32" or path.stat().st_mode & 0o111
    assert remove_shortcut(tmp_path, system) == path
    assert remove_shortcut(tmp_path, system) is None


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_a_file_of_somebody_else_is_left_alone(tmp_path, system):
    other = tmp_path / NAMES.get(system, "yoro-studio.desktop")
    other.write_text("mine")
    for change in (lambda: put_shortcut(tmp_path, tmp_path, system), lambda: remove_shortcut(tmp_path, system)):
        with pytest.raises(StoreError, match="is left alone"):
            change()
    assert other.read_text() == "mine"
    other.unlink()
    other.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is left alone"):
        put_shortcut(tmp_path, tmp_path, system)
    assert not (tmp_path / "elsewhere").exists()


def test_the_linux_launcher_is_valid(tmp_path):
    if shutil.which("desktop-file-validate") is None:
        lacking("desktop-file-validate is not installed: apt-get install desktop-file-utils")
    path = put_shortcut(tmp_path / ODD / "work", tmp_path, "linux")
    done = subprocess.run(["desktop-file-validate", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_linux_launcher_starts_python_with_the_folder_as_it_is_called(tmp_path):
    """Its words are read back as the specification says: values first, then quotes."""
    line = next(line for line in launcher(tmp_path / ODD, "linux").splitlines() if line.startswith("Exec="))
    value = line.removeprefix("Exec=").replace("\\\\", "\\")
    words, word, inside, escaped = [], "", False, False
    for letter in value:
        if escaped:
            word, escaped = word + letter, False
        elif inside and letter == "\\":
            escaped = True
        elif letter == '"':
            inside = not inside
        elif letter == " " and not inside:
            words, word = [*words, word], ""
        else:
            word += letter
    words.append(word)
    assert [one.replace("%%", "%") for one in words] == [
        sys.executable, "-m", "yoro", "studio", "--work", str(tmp_path / ODD),
    ]  # fmt: skip


def test_the_mac_launcher_runs_what_it_says(tmp_path):
    (tmp_path / ODD).mkdir()
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\npwd\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    path = tmp_path / "YORO studio.command"
    path.write_text(launcher(tmp_path / ODD / "work", "darwin", str(python)))
    path.chmod(0o755)
    said = subprocess.run([path], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [str(tmp_path / ODD), "-m", "yoro", "studio", "--work", str(tmp_path / ODD / "work")]


def test_the_windows_launcher_has_its_line_ends_and_no_bare_percent(tmp_path):
    content = launcher(tmp_path / "100% mine", "win32", r"C:\Program Files\python.exe")
    assert content.startswith(f"@echo off\r\nrem {MARK}\r\n")
    assert "\n" not in content.replace("\r\n", "")
    assert '"C:\\Program Files\\python.exe" "-m" "yoro" "studio" "--work"' in content
    assert "100%% mine" in content


def test_the_command_puts_it_on_the_desktop_and_says_how_to_remove_it(tmp_path, monkeypatch):
    desktop = tmp_path / "Desktop"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    missing = run("studio", "--shortcut", code=1, cwd=tmp_path)
    assert f"There is no desktop folder: {desktop}" in missing.stderr
    desktop.mkdir()
    done = run("studio", "--shortcut", cwd=tmp_path)
    (path,) = desktop.iterdir()
    assert "`yoro studio --no-shortcut` removes it" in done.stderr
    assert str(Path(tmp_path, "studio.yoro-work")) in path.read_text()
    assert "--shortcut opens the work folder" in run("studio", "photos", "--shortcut", code=2, cwd=tmp_path).stderr
    run("studio", "--no-shortcut", cwd=tmp_path)
    assert list(desktop.iterdir()) == []
