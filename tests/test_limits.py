"""Strangers' bytes cost bounded memory and time: each case runs in a process of its own that is measured."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

import yoro
from child import finish
from photos import write_folder
from yoro import limits
from yoro.data.decoding import decode
from yoro.data.geometry import Geometry
from yoro.errors import InputError, StoreError
from yoro.files.tensors import read_tensors, write_tensors
from yoro.model.store import _config_digest

MOST_MB = 1100  # of any case; the interpreter with numpy and Pillow takes about 60

MEASURED = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # seconds; it ends as if killed
from pathlib import Path
from yoro.errors import YoroError
said = "read"
try:
    exec(sys.argv[1])
except YoroError as error:
    said = str(error)
used = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024  # its own, not its parent's
print(json.dumps([said, used]))
"""
DECODE = (
    "from yoro.data.decoding import decode; from yoro.data.geometry import Geometry; decode(Path({!r}), Geometry(224))"
)


def measured(code):
    """What came of code in a process of its own that may take neither 6 GB nor a minute of the processor."""
    done = finish("-c", MEASURED, code)
    assert done.returncode == 0, (done.returncode, done.stderr)
    said, used = json.loads(done.stdout)
    assert used < MOST_MB, (said, used)
    return said


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
from yoro.cli.app import main
main(sys.argv[2:])
"""


def test_a_memory_limit_that_is_too_small_is_one_sentence(tmp_path):
    assert finish("-c", LIMITED, 400 * 2**20, "fit", "--help").returncode == 0
    for words in (["fit", tmp_path, "--out", "m.yoro"], ["predict", "m.yoro", "x"], ["serve", "m.yoro"]):
        done = finish("-c", LIMITED, 400 * 2**20, *words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("yoro: The memory limit is 400 MB (ulimit -v); at least")
        assert done.stderr.count("\n") == 1


@pytest.mark.long
@pytest.mark.parametrize("verb", ["fit", "predict", "update", "evaluate", "refine"])
def test_under_any_memory_limit_a_verb_ends_with_its_result_or_a_sentence(tmp_path, verb):
    for part, count in (("photos", 4), ("more", 3)):
        write_folder(tmp_path / part, count=count)
    yoro.fit(tmp_path / "photos").save(tmp_path / "m.yoro")
    words = {
        "fit": ["photos", "--out", "n.yoro", "--force"],
        "update": ["m.yoro", "more", "--out", "n.yoro", "--force"],
        "refine": ["m.yoro", "more", "--val", "more", "--epochs", "1", "--out", "n.yoro", "--force"],
    }.get(verb, ["m.yoro", "more"])
    for megabytes in range(1000, 2600, 300):
        done = finish("-c", LIMITED, megabytes * 2**20, verb, *words, cwd=tmp_path)
        assert done.returncode in (0, 1, 2), (megabytes, done.stderr)
        assert "Traceback" not in done.stderr, (megabytes, done.stderr)


def png(width, height, depth, colour):
    """A valid PNG of black pixels that compresses to almost nothing."""
    channels = {0: 1, 2: 3, 6: 4}[colour]
    line = bytes(1 + width * channels * depth // 8)
    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(line) for _ in range(height)) + packer.flush()

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def webp_of_claims():
    """A lossless WebP of a few bytes that claims 16,383 x 16,383 pixels."""
    bits = (16382 | 16382 << 14).to_bytes(4, "little")
    body = b"VP8L" + struct.pack("<I", 10) + b"\x2f" + bits + bytes(5)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def jp2_of_claims():
    """A JPEG 2000 whose header claims 13,000 x 13,000 pixels."""
    content = bytearray(saved(Image.new("L", (64, 64)), "JPEG2000"))
    head, size = content.index(b"ihdr"), content.index(b"\xff\x51")
    struct.pack_into(">II", content, head + 4, 13_000, 13_000)
    struct.pack_into(">II", content, size + 6, 13_000, 13_000)
    struct.pack_into(">II", content, size + 22, 13_000, 13_000)
    return bytes(content)


CASES = {
    "16-bit PNG of 169 megapixels": (lambda: png(13_000, 13_000, 16, 0), "bytes to decode"),
    "RGBA PNG of 121 megapixels": (lambda: png(11_000, 11_000, 8, 6), "bytes to decode"),
    "float TIFF of 169 megapixels": (
        lambda: saved(Image.new("F", (13_000, 13_000)), "TIFF", compression="tiff_adobe_deflate"), "bytes to decode"
    ),
    "WebP that claims 268 megapixels": (webp_of_claims, "pixels, more than"),
    "JPEG 2000 that claims 169 megapixels": (jp2_of_claims, "bytes to decode"),
    "16-bit PNG of 64 megapixels": (lambda: png(8_000, 8_000, 16, 0), "read"),
    "RGBA PNG of 60 megapixels": (lambda: png(10_000, 6_000, 8, 6), "read"),
    "RGB PNG of 120 megapixels": (lambda: png(12_000, 10_000, 8, 2), "read"),
    "float TIFF of 40 megapixels": (
        lambda: saved(Image.new("F", (8_000, 5_000)), "TIFF", compression="tiff_adobe_deflate"), "read"
    ),
    "JPEG of 150 megapixels": (lambda: saved(Image.new("RGB", (15_000, 10_000)), "JPEG"), "read"),
}  # fmt: skip


QUICK = (
    "16-bit PNG of 169 megapixels",
    "WebP that claims 268 megapixels",
    "JPEG 2000 that claims 169 megapixels",
    "16-bit PNG of 64 megapixels",
    "float TIFF of 40 megapixels",
)


@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.long) for case in CASES]
)
def test_an_image_of_few_bytes_takes_bounded_memory_and_time(tmp_path, case):
    make, expected = CASES[case]
    (tmp_path / "x").write_bytes(make())
    assert expected in measured(DECODE.format(str(tmp_path / "x")))


@pytest.mark.parametrize("mode", ["I;16", "F", "RGBA", "LA", "P", "L", "CMYK", "1"])
def test_strips_give_the_same_pixels_as_the_whole(mode, monkeypatch):
    rng = np.random.default_rng(0)
    if mode in ("I;16", "F"):
        deep = (
            rng.integers(0, 65536, (301, 200)).astype("u2") if mode == "I;16" else rng.random((301, 200)).astype("f4")
        )
        image = Image.fromarray(deep)
    else:
        colours = Image.fromarray(rng.integers(0, 256, (301, 200, 4)).astype("u1"))
        image = (colours.convert("RGB") if mode in "P1L" else colours).convert(mode)
    whole = decode(image, Geometry(64))
    monkeypatch.setattr("yoro.data.decoding.STRIP", 2_000)
    np.testing.assert_array_equal(decode(image, Geometry(64)), whole)


def test_a_model_that_wants_a_large_reservoir_takes_room_as_it_needs_it(tmp_path, digits):
    yoro.fit((digits[0][:100], digits[1][:100])).save(tmp_path / "m.yoro")
    for capacity in (limits.RESERVOIR_CAPACITY, 10**8):
        file = tmp_path / "m.yoro" / "reservoir.safetensors"
        arrays, facts = read_tensors(file, "yoro-reservoir")
        write_tensors(file, arrays, facts | {"capacity": capacity})
        config = json.loads((tmp_path / "m.yoro" / "config.json").read_text())
        config["digests"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
        config["digest"] = _config_digest(config)
        (tmp_path / "m.yoro" / "config.json").write_text(json.dumps(config))
        said = measured(f"import yoro; yoro.load({str(tmp_path / 'm.yoro')!r})")
        assert said == "read" if capacity == limits.RESERVOIR_CAPACITY else "damaged" in said
    with pytest.raises(StoreError):
        yoro.load(tmp_path / "m.yoro")


def test_a_response_file_of_great_width_is_refused_before_it_is_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "z.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in (("responses", np.zeros((9, 500_000))), ("labels", np.array(list("abcabcabc")))):
            with archive.open(f"{name}.npy", "w") as member:
                np.save(member, array)
    said = measured(f"import yoro; yoro.fit({str(tmp_path / 'z.npz')!r})")
    assert "responses have width 500,000; at most 16,384 are read" in said
    with pytest.raises(InputError, match="at most 16,384 can be fitted"):
        yoro.ResponseStatistics().update(np.zeros((1, 20_000)), ["a"])


@pytest.mark.long
def test_a_response_file_of_a_million_rows_takes_bounded_memory(tmp_path):
    generator = np.random.default_rng(0)
    labels = np.array([f"class {i}" for i in range(20)] * 50_000)
    responses = generator.normal(size=(1_000_000, 64)).astype("f4")  # 256 MB
    responses[:, 0] += np.arange(1_000_000) % 20
    np.savez(tmp_path / "z.npz", responses=responses, labels=labels)
    place = str(tmp_path)
    assert measured(f"import yoro; yoro.fit(Path({place!r}) / 'z.npz').save(Path({place!r}) / 'm.yoro')") == "read"
    predicted = f"['predict', {place!r} + '/m.yoro', {place!r} + '/z.npz', '--out', {place!r} + '/p.csv']"
    assert measured(f"from yoro.cli.app import main; main({predicted})") == "read"
    with (tmp_path / "p.csv").open() as rows:
        assert sum(1 for _ in rows) == 1_000_001
