from __future__ import annotations

import hashlib
import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutations import BOMBS, mutations
from yoro.errors import SourceError
from yoro.files.unpickle import read_plain_pickle
from yoro.sources.embedded import weight_file
from yoro.sources.torch_file import MAGIC_NUMBER, parse_torch_file, read_torch_file

REAL = weight_file("lite0").read_bytes()
HEADER = 47_176  # where the storages of lite0 begin


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def whole(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def row(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(whole, values)) + b"t"


def weight_bytes(
    *,
    shape=(2, 3),
    strides=(1, 2),
    offset=0,
    size=6,
    count=None,
    storage="torch\nFloatStorage",
    rebuild="torch._utils\n_rebuild_tensor_v2",
    state=None,
    only_state=False,
    tail=b"",
) -> bytes:
    """A file of one tensor in torch's old format, written without torch."""
    start = b"".join(pickle.dumps(value, 2) for value in (MAGIC_NUMBER, 1001, {"little_endian": True}))
    identity = b"(" + text("storage") + f"c{storage}\n".encode() + text("7") + text("cpu") + whole(size) + b"Nt"
    empty = b"ccollections\nOrderedDict\n)R"
    arguments = b"(" + identity + b"Q" + whole(offset) + row(shape) + row(strides) + b"\x89" + empty + b"t"
    tensor = f"c{rebuild}\n".encode() + arguments + b"R"
    if state is None:
        state = b"\x80\x02" + empty + text("weight") + tensor + b"s."
    if only_state:
        return state
    elements = np.arange(6, dtype="<f4").tobytes()
    count = 6 if count is None else count
    return start + state + pickle.dumps(["7"], 2) + struct.pack("<q", count) + elements + tail


def test_a_strided_tensor_is_read_in_its_own_order():
    weights = parse_torch_file(weight_bytes(), "file")
    np.testing.assert_array_equal(weights["weight"], [[0, 2, 4], [1, 3, 5]])
    assert weights["weight"].flags.c_contiguous


def test_the_real_file_has_every_tensor():
    weights, digest = read_torch_file(weight_file("lite0"))
    assert weights["_conv_stem.weight"].shape == (32, 3, 3, 3)
    assert weights["_fc.weight"].shape == (1000, 1280)
    assert len(digest) == 64


@pytest.mark.parametrize(
    ("variant", "tensors", "digest"),
    [
        ("lite0", 296, "5cd1277bb2fa700432e06715d2cd971cdb459ad8db4dad7c2da41bec008d9700"),
        ("lite1", 386, "73ae7c028fd6aa0c45e2a758e7c5f6d7c811eb1c6e34c400d7cb1321c6decd0e"),
        ("lite2", 386, "c3abcdd059479014e01df75ccb72b08ef1c4cca3ad2bf82e62747fcb97bc9fdc"),
    ],
)
def test_the_weights_are_bit_for_bit_what_they_always_were(variant, tensors, digest):
    """Names, types, shapes and bytes of every array, in the order of the file."""
    weights, of_file = read_torch_file(weight_file(variant))
    found = hashlib.sha256()
    for name, array in weights.items():
        found.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    assert (len(weights), found.hexdigest()) == (tensors, digest)
    assert of_file == hashlib.sha256(weight_file(variant).read_bytes()).hexdigest()


@pytest.mark.torch
@pytest.mark.parametrize("variant", ["lite0", "lite1", "lite2", "mobilenet-v2"])
def test_reads_what_torch_reads(variant):
    import torch

    ours, _ = read_torch_file(weight_file(variant))
    theirs = torch.load(weight_file(variant), weights_only=True)
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        np.testing.assert_array_equal(ours[name], tensor.numpy())


@pytest.mark.parametrize(
    "hostile",
    [
        {"shape": (3, 3)},  # outside its storage
        {"offset": 1},
        {"offset": -1},
        {"strides": (-1, 2)},
        {"strides": (1, 1_000_000_000)},
        {"shape": (1_000_000, 1000), "strides": (0, 0)},  # a bomb: gigabytes out of one number
        {"shape": (0, 3)},
        {"shape": (2,)},
        {"shape": (1,) * 9, "strides": (1,) * 9},
        {"size": 7},
        {"count": 7},
        {"count": -1},
        {"count": 2**62},
        {"tail": b"more"},
        {"storage": "torch\nDoubleStorage"},
        {"storage": "builtins\neval"},
        {"rebuild": "os\nsystem"},
        {"rebuild": "collections\nOrderedDict"},
        {"state": b"cos\nsystem\n(" + text("true") + b"tR."},
        {"state": b"\x80\x04\x8c\x02os\x8c\x06system\x93."},  # the same in a newer protocol
        {"state": b"}r\xff\xff\xff\xff."},  # a memo of four thousand million places: fine, but no tensors
        {"state": b"})q\x00" + b"h\x00\x86q\x00" * 60 + b"Ns."},  # a key that would take ages to hash
        {"state": b"X\xff\xff\xff\xff."},
        {"state": b"t."},
        {"state": b"."},
        {"state": b"h\x05."},
        {"state": pickle.dumps([1], 2)},
        {"state": pickle.dumps({"weight": 1}, 2)},
    ],
)
def test_a_hostile_file_is_refused(hostile):
    with pytest.raises(SourceError, match="not a usable torch weight file"):
        parse_torch_file(weight_bytes(**hostile), "file")


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused(bomb):
    with pytest.raises(SourceError, match="not a usable torch weight file"):
        parse_torch_file(weight_bytes(state=bomb), "file")


def test_bombs_take_no_more_memory_than_files_of_their_size():
    """In a process of its own, whose address space ends before a bomb could have what it asks for."""
    program = """if True:
        import io, resource
        from pathlib import Path
        from mutations import BOMBS
        from yoro.files.unpickle import PickleRefused, read_plain_pickle

        resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
        most = lambda: int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
        before = most()
        for bomb in BOMBS.values():
            try:
                read_plain_pickle(io.BytesIO(bomb), {"collections OrderedDict"})
            except PickleRefused:
                pass
        print((most() - before) // 1024)
    """
    tests = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], cwd=tests, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100  # megabytes; a million instructions take about 40


def test_a_pickle_cannot_change_what_stands_for_its_globals():
    """A state may be set on a global itself: with a class in its place, this would change the class for good."""
    name, state = b"ccollections\nOrderedDict\n", b"N}" + text("__call__") + b"Ns\x86"
    for pickled in (name + state + b"b.", name + b")R" + state + b"b."):
        read_plain_pickle(io.BytesIO(pickled), {"collections OrderedDict"})
    assert list(parse_torch_file(weight_bytes(), "file")) == ["weight"]


def test_thousands_of_mutations_are_refused_or_harmless(monkeypatch):
    for function in ("system", "popen", "execv"):
        monkeypatch.setattr(os, function, lambda *_: pytest.fail("the file ran something"))
    read = 0
    for state in mutations(weight_bytes(only_state=True), 6000):
        damaged = weight_bytes(state=state)
        try:
            weights = parse_torch_file(damaged, "file")
        except SourceError:
            continue
        read += 1
        assert all(isinstance(name, str) and array.dtype.str in ("<f4", "<i8") for name, array in weights.items())
        assert sum(array.nbytes for array in weights.values()) <= 2 * len(damaged)
    assert read > 100  # some edits do no harm: the damage is not too coarse


@pytest.mark.parametrize("length", [0, 1, 14, 20, 100, 30_000, 42_486, HEADER - 1, HEADER, HEADER + 5, len(REAL) - 1])
def test_a_truncated_file_is_refused(length):
    with pytest.raises(SourceError):
        parse_torch_file(REAL[:length], "file")


@given(place=st.integers(0, HEADER - 1), value=st.integers(0, 255))
def test_a_damaged_header_is_refused_or_harmless(place, value):
    damaged = REAL[:place] + bytes([value]) + REAL[place + 1 :]
    try:
        weights = parse_torch_file(damaged, "file")
    except SourceError:
        return
    assert all(isinstance(array, np.ndarray) for array in weights.values())


@given(st.binary(max_size=300))
def test_noise_is_refused(data):
    with pytest.raises(SourceError):
        parse_torch_file(weight_bytes()[:60] + data, "file")


def test_other_files_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "new.pth", "w") as archive:
        archive.writestr("data.pkl", b"")
    with pytest.raises(SourceError, match="zip"):
        read_torch_file(tmp_path / "new.pth")
    with pytest.raises(SourceError, match="cannot be read"):
        read_torch_file(tmp_path / "absent.pth")
