"""Graphs of embedded networks that are kept in the cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from yoro.discriminant.readings import Layout
from yoro.files.tensors import read_tensors
from yoro.sources import cache, open_source
from yoro.sources.embedded import BUILDERS, weight_file

NAME = "embedded:lite0?side=32&grids=yes&int8=yes"
NAMES = (NAME, *(f"embedded:{rest}?side=32" for rest in ("mobilenet-v2", "pplcnet-v2") if weight_file(rest)))
IMAGES = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
SOURCES = Path(cache.__file__).parent
OPENING = f"""
import sys
import numpy as np
from yoro.sources import open_source
images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
for name in {NAMES!r}[:int(sys.argv[1])]:
    source = open_source(name, read="all")
    print(source.layout, source.describe(), source.respond(images).tobytes().hex())
print(*sys.modules)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("YORO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "graphs"


def begin(count: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", OPENING, str(count)], stdout=subprocess.PIPE, text=True)


def responses() -> np.ndarray:
    return open_source(NAME, read="all").respond(IMAGES)


def test_the_second_time_nothing_is_built_and_the_responses_are_the_same_bit_for_bit(folder):
    *built, modules = begin(len(NAMES)).communicate()[0].splitlines()
    kept = sorted(folder.iterdir())
    *again, later = begin(len(NAMES)).communicate()[0].splitlines()
    assert len(built) == len(kept) == len(NAMES)
    assert again == built
    assert sorted(folder.iterdir()) == kept
    building = {name for name in re.findall(r"yoro\.sources\.(\w+)", modules) if imports_onnx(name)}
    assert len(building) >= 6
    assert building <= set(BUILDERS), "the key of a graph has all modules that build it"
    assert {"onnx", "scipy", *(f"yoro.sources.{name}" for name in building)}.isdisjoint(later.split())


def imports_onnx(name: str) -> bool:
    path = SOURCES / f"{name}.py"
    return path.is_file() and re.search("^import onnx", path.read_text(), re.MULTILINE) is not None


@pytest.mark.parametrize("read", ["logits", "features"])
def test_a_single_reading_and_float_pixels_are_kept_too(folder, read):
    first, again = (open_source("embedded:lite0?side=32", read=read) for _ in range(2))
    for images in (IMAGES, IMAGES.astype(np.float32) / 255):
        np.testing.assert_array_equal(first.respond(images), again.respond(images))
    assert len(list(folder.iterdir())) == 2
    assert first.onnx_model() == again.onnx_model()


@pytest.mark.parametrize("place", [-1000, 60, 0])
def test_a_damaged_graph_is_built_again(folder, place):
    expected = responses()
    (file,) = folder.iterdir()
    content, (_, said) = bytearray(file.read_bytes()), read_tensors(file, cache.GRAPH)
    content[place] ^= 1
    file.write_bytes(content)
    np.testing.assert_array_equal(responses(), expected)
    assert read_tensors(file, cache.GRAPH)[1] == said


@pytest.mark.skipif(sys.platform == "win32", reason="the cache is in the user's own profile")
@pytest.mark.parametrize("owner", ["own", "other"])
def test_what_others_may_have_written_is_not_used(folder, owner):
    expected = responses()
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == cache.PRIVATE
    open_source("embedded:lite0?side=32", read="all")
    next(path for path in folder.iterdir() if path != file).replace(file)  # whole, and with its digest
    if owner == "own":
        file.chmod(0o666)
    elif os.geteuid():
        pytest.skip("only root can give a file away")
    else:
        os.chown(file, 65534, 65534)
    np.testing.assert_array_equal(responses(), expected)
    assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (os.geteuid(), cache.PRIVATE)


def test_a_cache_that_cannot_be_written_to_is_no_error(folder):
    expected = responses()
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("no folder, for root too")
    np.testing.assert_array_equal(responses(), expected)


def test_without_a_home_nothing_is_kept_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("YORO_CACHE", "~nobody-of-this-name/cache")
    assert cache.cached_graph("key", lambda: (b"graph", Layout.of(3)))[0] == b"graph"
    assert list(tmp_path.iterdir()) == []


def test_two_processes_at_once_give_the_same_and_leave_one_file(folder):
    (one, _), (other, _) = [process.communicate() for process in [begin(1), begin(1)]]
    assert one.splitlines()[0] == other.splitlines()[0]
    assert one.splitlines()[0].endswith(responses().tobytes().hex())
    assert len(list(folder.iterdir())) == 1


def test_the_oldest_graphs_make_room(folder, monkeypatch):
    monkeypatch.setattr(cache, "MOST_GRAPHS", 2)
    for place in range(4):
        cache.cached_graph(str(place), lambda: (b"graph", Layout.of(3)))
        os.utime(folder / f"{place}.safetensors", (place, place))
    assert sorted(path.stem for path in folder.iterdir()) == ["2", "3"]
