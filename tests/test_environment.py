from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from yoro.environment import has_dot_products, install


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


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc/cpuinfo")
def test_instructions_for_products_of_bytes_are_found_where_numpy_finds_them() -> None:
    numpy_s = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    if numpy_s.get("AVX512VNNI") or numpy_s.get("ASIMDDP"):
        assert has_dot_products()
    if not numpy_s.get("AVX2") and not numpy_s.get("ASIMDDP"):
        assert not has_dot_products()
