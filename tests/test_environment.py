from __future__ import annotations

from pathlib import Path

import pytest

from yoro.environment import install


@pytest.mark.parametrize(
    ("left", "command"),
    [
        ("pyvenv.cfg", "pip install '.[heif]'"),
        ("uv-receipt.toml", "uv tool install --force '.[heif]'"),
        ("pipx_metadata.json", "pipx install --force '.[heif]'"),
    ],
)
def test_an_extra_is_installed_by_what_installed_the_rest(tmp_path: Path, left: str, command: str) -> None:
    (tmp_path / left).touch()
    assert install("heif", str(tmp_path)).startswith(command)
