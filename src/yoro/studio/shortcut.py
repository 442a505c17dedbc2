"""A launcher on the desktop: a file that starts the studio when it is opened, without a terminal to type in."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from platformdirs import user_desktop_path

from yoro.errors import StoreError
from yoro.files.atomic import drafted_file

MARK = "made by `yoro studio --shortcut`"  # in every launcher, so that other files of its name are left alone
NAMES = {"win32": "YORO studio.bat", "darwin": "YORO studio.command"}
MOST_BYTES = 1 << 16  # of a launcher
TITLE, SAID = "YORO studio", "Build an image classifier from your own photos"


def put_shortcut(work: Path, folder: Path | None = None, system: str = sys.platform) -> Path:
    """Write the launcher that opens a work folder; a file that is not a launcher of ours is an error."""
    path = _place(folder, system)
    _check_ours(path)
    with drafted_file(path) as draft:
        draft.write_bytes(launcher(work.absolute(), system).encode())
        if system != "win32":
            draft.chmod(0o755)
    return path


def remove_shortcut(folder: Path | None = None, system: str = sys.platform) -> Path | None:
    """Remove the launcher; None if there was none."""
    path = _place(folder, system)
    if not path.exists():
        return None
    _check_ours(path)
    path.unlink()
    return path


def launcher(work: Path, system: str, python: str = sys.executable) -> str:
    """The content of a launcher. Each shows a window, which stops the studio when it is closed."""
    words = [python, "-m", "yoro", "studio", "--work", str(work)]
    if any(ord(letter) < 32 for word in words for letter in word):
        raise StoreError(f"{str(work)!r} has control characters, which no launcher can hold; choose another --work.")
    if system == "win32":
        said = " ".join(f'"{word.replace("%", "%%")}"' for word in words)
        folder = str(work.parent).replace("%", "%%")
        lines = ["@echo off", f"rem {MARK}", "chcp 65001 >nul", f'cd /d "{folder}"', said, "if errorlevel 1 pause", ""]
        return "\r\n".join(lines)
    if system == "darwin":
        return f"#!/bin/sh\n# {MARK}\ncd {shlex.quote(str(work.parent))} && exec {shlex.join(words)}\n"
    lines = [
        "[Desktop Entry]", f"# {MARK}", "Type=Application", f"Name={TITLE}", f"Comment={SAID}",
        f"Exec={' '.join(_exec_word(word) for word in words)}", f"Path={_value(str(work.parent))}",
        f"Icon={_value(str(Path(__file__).parent / 'page' / 'icon.svg'))}", "Terminal=true",
        "Categories=Science;", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _exec_word(word: str) -> str:
    """A word of a command in a .desktop file: quoted, then escaped as every value is."""
    for special in ("\\", '"', "`", "$"):
        word = word.replace(special, f"\\{special}")
    return _value(f'"{word.replace("%", "%%")}"')


def _value(text: str) -> str:
    return text.replace("\\", "\\\\")


def _place(folder: Path | None, system: str) -> Path:
    desktop = user_desktop_path() if folder is None else folder
    if not desktop.is_dir():
        raise StoreError(f"There is no desktop folder: {desktop} does not exist. Make it first.")
    return desktop / NAMES.get(system, "yoro-studio.desktop")


def _check_ours(path: Path) -> None:
    if not path.exists() and not path.is_symlink():
        return
    if path.is_file() and not path.is_symlink():
        with path.open("rb") as file:
            if MARK.encode() in file.read(MOST_BYTES):
                return
    raise StoreError(f"{path} was not {MARK}; it is left alone. Move it away first.")
