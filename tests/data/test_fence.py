"""Whatever a file claims, decoding it costs no more than the limits say; watched from outside the decoding process."""

from __future__ import annotations

import importlib.util
import io
import resource
import struct
import sys
import threading
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, features

import yoro
from child import BOUND
from photos import write_folder
from yoro import limits
from yoro.data import decoding, processes
from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.data.processes import Budget, DecoderPool, DecodingProcess, Fence
from yoro.data.thumbnails import thumbnail_of
from yoro.environment import peak_memory
from yoro.errors import ImageError, YoroError
from yoro.model.settings import Loading

GEOMETRY = Geometry(32)


def png(width: int, height: int, bits: int, colour: int, data: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def bmp(width: int, height: int) -> bytes:
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + info


def encoded(kind: str, size: tuple[int, int], **options: object) -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", size, (200, 30, 30)).save(sink, kind, **options)
    return sink.getvalue()


def heic() -> bytes:
    """A small HEIC; nothing where the extra is not installed."""
    if importlib.util.find_spec("pillow_heif") is None:
        return b""
    import pillow_heif

    sink = io.BytesIO()
    pillow_heif.from_pillow(Image.new("RGB", (64, 64))).save(sink)
    return sink.getvalue()


def claims(content: bytes, kind: str) -> bytes:
    """The file with the largest size that its header can state in place of its own."""
    if kind == "GIF":
        return content[:6] + b"\xff\xff\xff\xff" + content[10:]
    if kind == "JPEG":
        at = max(content.find(b"\xff\xc0"), content.find(b"\xff\xc2"))
        return content[: at + 5] + b"\xff\xff\xff\xff" + content[at + 9 :]
    if kind == "JPEG2000":
        at = content.find(b"\xff\x51") + 6
        return content[:at] + struct.pack(">II", 2**31 - 1, 2**31 - 1) + content[at + 8 :]
    if kind == "WEBP":
        return content[:26] + b"\xff\x3f\xff\x3f" + content[30:]
    if kind in ("AVIF", "HEIF"):
        at = content.find(b"ispe") + 8
        return content[:at] + struct.pack(">II", *LARGEST) + content[at + 8 :]
    raise AssertionError(kind)


LARGEST = (99_999, 1_700)  # sides that the limits on sides and pixels let through


def tiff(size: tuple[int, int], compression: int, data: bytes, *, bits: int = 8, tile: int | None = None) -> bytes:
    """A TIFF of grey pixels in one strip, or in one tile of this side."""
    held = (273, 8), (278, size[1]), (279, len(data))
    if tile is not None:
        held = (322, tile), (323, tile), (324, 8), (325, len(data))
    entries = (256, size[0]), (257, size[1]), (258, bits), (259, compression), (262, 1), (277, 1), *held
    table = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in sorted(entries))
    return b"II*\0" + struct.pack("<I", 8 + len(data)) + data + struct.pack("<H", len(entries)) + table + bytes(4)


def webp_canvas(width: int, height: int) -> bytes:
    """An extended WebP: a canvas of any size around a small image."""
    inner = encoded("WEBP", (8, 8))[12:]
    canvas = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (width - 1).to_bytes(3, "little")
    content = b"WEBP" + canvas + (height - 1).to_bytes(3, "little") + inner
    return b"RIFF" + struct.pack("<I", len(content)) + content


CLAIMS = {
    "png of one column": png(1, 100_000_000, 1, 0, zlib.compress(bytes(2))),
    "png of one row": png(100_000_000, 1, 1, 0, zlib.compress(bytes(2))),
    "png with rows missing": png(10_000, 10_000, 8, 2, zlib.compress(bytes(30_001))),
    "png of the largest sides": png(99_999, 1_700, 1, 0, zlib.compress(bytes(12_502))),
    "png of 16-bit colour": png(9_000, 9_000, 16, 6, zlib.compress(bytes(72_001))),
    "bmp of one column": bmp(1, 100_000_000),
    "bmp": bmp(13_000, 13_000),
    "pgm of one column": b"P5 1 100000000 255\n",
    "pgm": b"P5 13000 13000 255\n",
    "pbm of one column": b"P4 1 100000000\n",
    "plain ppm": b"P3 7000 7000 255\n1 2 3",
    "gif": claims(encoded("GIF", (8, 8)), "GIF"),
    "jpeg": claims(encoded("JPEG", (8, 8)), "JPEG"),
    "progressive jpeg": claims(encoded("JPEG", (8, 8), progressive=True), "JPEG"),
    "jpeg 2000": claims(encoded("JPEG2000", (8, 8)), "JPEG2000"),
    "webp": claims(encoded("WEBP", (8, 8)), "WEBP"),
    "webp lossless": claims(encoded("WEBP", (8, 8), lossless=True), "WEBP"),
    "webp of a great canvas": webp_canvas(2**24, 2**24),
    "webp of a wide canvas": webp_canvas(*LARGEST),
    "dib": bmp(13_000, 13_000)[14:],
    "tiff of one column": tiff((1, 100_000_000), 1, bytes(9)),
    "tiff": tiff(LARGEST, 1, bytes(9)),
    "tiff, deflate": tiff((8_000, 8_000), 8, zlib.compress(bytes(3_000))),
    "tiff, lzw": tiff((8_000, 8_000), 5, b"\x80\x00\x20" * 20),
    "tiff, packbits": tiff((8_000, 8_000), 32_773, b"\x81\x00" * 20),
    "tiff, fax": tiff((90_000, 600), 4, bytes(20), bits=1),
    "tiff of a great tile": tiff((100, 100), 8, zlib.compress(bytes(3_000)), tile=65_536),
    "tiff of a vast tile": tiff((100, 100), 8, zlib.compress(bytes(3_000)), tile=2**30),
    "avif": claims(encoded("AVIF", (8, 8)), "AVIF") if features.check("avif") else b"",
    "heic": claims(heic(), "HEIF"),
    "ico": encoded("ICO", (16, 16)),  # formats that are not taken are refused by name
    "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 90000 90000\n%%EndComments\n",
}


def test_every_format_that_is_taken_is_among_the_claims() -> None:
    tried = {kind for kind in [*decoding._FORMATS, "HEIF"] if any(NAMES.get(kind, kind.lower()) in c for c in CLAIMS)}
    assert tried == {*decoding._FORMATS, "HEIF"}


NAMES = {"PPM": "pgm", "JPEG2000": "jpeg 2000", "HEIF": "heic"}


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("name", CLAIMS)
def test_the_smallest_file_that_claims_the_most_costs_little(name: str) -> None:
    before, mine = children_seconds(), peak_memory()
    process = DecodingProcess()
    process.request([CLAIMS[name]], [name], GEOMETRY)
    decoded = process.answer()
    peak = peak_of(process.pid)
    process.close()
    assert decoded.failures, "it has too few bytes for its pixels"
    assert peak < 500  # megabytes, some 60 of them for the process itself
    assert children_seconds() - before < 5
    assert peak_memory() < mine + 50


def peak_of(pid: int | None) -> int:
    """Megabytes that another process has taken at most; none if it is gone already."""
    status = Path(f"/proc/{pid}/status")
    lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")] if status.exists() else []
    return int(lines[0].split()[1]) // 1024 if lines else 0


def test_a_repeated_scan_is_refused_before_it_is_decoded() -> None:
    content = encoded("JPEG", (1500, 1500), progressive=True)
    last = content.rfind(b"\xff\xda")
    bomb = content[:-2] + content[last:-2] * 2000 + content[-2:]
    process = DecodingProcess()
    process.request([bomb], ["scans.jpg"], GEOMETRY)
    started = time.process_time()
    ((_, said),) = process.answer().failures
    process.close()
    assert "scans" in said
    assert time.process_time() - started < 1


def test_honest_progressive_and_panoramic_photos_are_read() -> None:
    process = DecodingProcess()
    images = [
        encoded("JPEG", (1200, 800), progressive=True),
        encoded("JPEG", (60_000, 40)),
        encoded("PNG", (4000, 3000)),
    ]
    process.request(images, ["a", "b", "c"], GEOMETRY)
    assert process.answer().good == [0, 1, 2]
    process.close()


@pytest.mark.long
def test_a_photo_of_two_hundred_megapixels_is_decoded_at_reduced_scale() -> None:
    process = DecodingProcess()
    process.request([encoded("JPEG", (16_320, 12_240))], ["phone.jpg"], GEOMETRY)
    decoded = process.answer()
    peak = peak_of(process.pid)
    process.close()
    assert decoded.good == [0], decoded.failures
    assert peak < 500


def test_an_image_that_takes_too_long_is_named_and_the_next_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        processes, "_START", processes._START.replace("from yoro.data.decoding_worker import main\n", SLOW_START)
    )
    monkeypatch.setattr(limits, "DECODING_DEADLINE", BOUND)  # a busy machine gives it little time
    process, good = DecodingProcess(), encoded("PNG", (9, 9))
    process.request([good, encoded("PNG", (7, 7)), good], ["a", "slow", "c"], GEOMETRY, fence=SHORT)
    process.request([good], ["d"], GEOMETRY)
    first, second = process.answer(), process.answer()
    process.close()
    assert first.good == [0, 2]
    assert first.failures[0][0] == 1
    assert "seconds of processor time" in first.failures[0][1]
    assert second.good == [0]


SHORT = Fence(limits.DECODING_MEMORY, 1)
SLOW_START = """
from yoro.data import decoding_worker
real = decoding_worker.decode_and_digest
def slow(image, *geometries, name):
    while name == "slow":
        pass
    return real(image, *geometries, name=name)
decoding_worker.decode_and_digest = slow
from yoro.data.decoding_worker import main
"""


def test_a_process_that_hangs_is_killed_at_the_deadline_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = SLOW_START.replace("        pass\n", "        __import__('time').sleep(99)\n")
    monkeypatch.setattr(
        processes, "_START", processes._START.replace("from yoro.data.decoding_worker import main\n", hanging)
    )
    monkeypatch.setattr(limits, "DECODING_DEADLINE", BOUND)
    process, good = DecodingProcess(), encoded("PNG", (9, 9))
    process.request([good], ["first"], GEOMETRY)
    assert process.answer().good == [0]
    replace = DecodingProcess._replace

    def patiently(*given: object) -> None:
        monkeypatch.setattr(limits, "DECODING_DEADLINE", BOUND)  # a busy machine takes long to start the next one
        replace(*given)

    monkeypatch.setattr(DecodingProcess, "_replace", patiently)
    monkeypatch.setattr(limits, "DECODING_DEADLINE", 1)
    process.request([good, good], ["slow", "next"], GEOMETRY)
    answer = process.answer()
    process.close()
    assert "was not decoded within" in answer.failures[0][1]
    assert answer.good == [1]


def test_memory_beyond_the_limit_is_refused_by_the_kernel_and_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        processes, "_START",
        processes._START.replace(
            "from yoro.data.decoding_worker import main\n",
            "from yoro import limits\nlimits.DECODED_BYTES = 1 << 40\n"  # as if the estimate were wrong
            "from yoro.data.decoding_worker import main\n",
        ),
    )  # fmt: skip
    process = DecodingProcess()
    large = io.BytesIO()
    Image.fromarray(np.zeros((13_000, 13_000), dtype=np.uint8)).save(large, "PNG", compress_level=1)
    process.request([large.getvalue()], ["large"], Geometry(32, reduced=False))
    ((_, said),) = process.answer().failures
    assert "memory" in said
    assert peak_of(process.pid) < 500  # megabytes; with a larger peak it was replaced
    process.request([encoded("PNG", (9, 9))], ["small"], GEOMETRY)
    assert process.answer().good == [0]
    process.close()


@pytest.mark.long
def test_a_heic_of_48_megapixels_is_decoded_within_the_limits() -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    large, process = io.BytesIO(), DecodingProcess()
    photo = pillow_heif.from_pillow(Image.new("RGB", (8064, 6048), (200, 30, 60)))
    photo.save(large, enc_params={"preset": "ultrafast"})
    pixels = process.decode(large.getvalue(), "large", GEOMETRY).sound().pixels
    process.close()
    assert np.abs(pixels[0].astype(int) - (200, 30, 60)).max() < 5


def test_an_image_that_takes_much_waits_for_its_like_and_keeps_no_photo_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "QUICK", Fence(20 * limits.MB, 5))
    pool, answers = DecoderPool(1), []
    large, small = encoded("PNG", (6_000, 4_000)), encoded("PNG", (9, 9))
    waiting = threading.Thread(target=lambda: answers.append(pool.decode(large, "large", GEOMETRY)))
    with pool._turn:  # as if another one were being decoded
        waiting.start()
        assert pool.decode(small, "small", GEOMETRY).good == [0]
        assert pool.quick(large, "large", GEOMETRY).result(BOUND).more
        assert waiting.is_alive()
    waiting.join()
    assert answers[0].good == [0]
    with pytest.raises(ImageError, match="took too long"):
        pool.decode(large, "large", GEOMETRY, budget=Budget(-limits.REQUEST_SECONDS * limits.MB))
    assert not pool.quick(b"words", "words", GEOMETRY).result(BOUND).more  # more memory would not help
    pool.close()


def children() -> set[int]:
    """Processes that this one has started, in any of its threads."""
    tasks = Path("/proc/self/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_pool_starts_the_processes_it_needs_and_ends_them() -> None:
    before, pool, image = children(), DecoderPool(2), encoded("PNG", (9, 9))
    for _ in range(5):
        assert pool.quick(image, "one after the other", GEOMETRY).result(BOUND).good == [0]
    assert len(children() - before) == 1
    several = [pool.quick(image, str(i), GEOMETRY) for i in range(20)]
    assert [one.result(BOUND).good for one in several] == [[0]] * 20
    assert len(children() - before) == 2
    pool.close()
    assert children() == before
    with pytest.raises(RuntimeError, match="closed"):
        pool.quick(image, "late", GEOMETRY)


def test_an_image_that_a_process_of_a_pool_dies_over_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    dying = SLOW_START.replace("        pass\n", "        __import__('os')._exit(3)\n")
    start = processes._START.replace("from yoro.data.decoding_worker import main\n", dying)
    monkeypatch.setattr(processes, "_START", start)
    pool, image = DecoderPool(1), encoded("PNG", (9, 9))
    names = ["a", "slow", "b", "slow", "slow", "c"]
    answers = [one.result(BOUND) for one in [pool.quick(image, name, GEOMETRY) for name in names]]
    pool.close()
    assert [bool(one.good) for one in answers] == [name != "slow" for name in names]
    assert all("crashed" in said for one in answers for _, said in one.failures)


def test_a_pool_that_cannot_start_a_process_says_so_and_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, image, start = DecoderPool(1), encoded("PNG", (9, 9)), processes._START
    monkeypatch.setattr(processes, "_START", "import sys; sys.exit(5)")
    waiting = [pool.quick(image, "image", GEOMETRY) for _ in range(3)]
    for one in waiting:
        with pytest.raises(YoroError, match="status 5 at its start"):
            one.result(BOUND)
    monkeypatch.setattr(processes, "_START", start)
    assert pool.quick(image, "image", GEOMETRY).result(BOUND).good == [0]
    pool.close()


def test_what_nobody_waits_for_is_not_decoded_and_a_spent_budget_pays_for_nothing() -> None:
    pool, image, spent = DecoderPool(1), encoded("PNG", (9, 9)), Budget(-limits.REQUEST_SECONDS * limits.MB)
    with pytest.raises(ImageError, match="took too long"):
        pool.quick(image, "image", GEOMETRY, budget=spent).result(BOUND)
    several = [pool.quick(image, str(i), GEOMETRY) for i in range(50)]
    cancelled = [one for one in several if one.cancel()]
    assert cancelled  # of fifty, no more than two can be under way
    assert all(one.result(BOUND).good == [0] for one in several if one not in cancelled)
    pool.close()


def test_python_decodes_behind_the_fence_unless_it_is_asked_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("decoded in this process")

    write_folder(tmp_path / "photos", count=3)
    some = next((tmp_path / "photos").rglob("*.jpg"))
    monkeypatch.setattr("yoro.data.loading.default_workers", lambda: 2)
    monkeypatch.setattr("yoro.data.processes.decode_and_digest", refuse)
    classifier = yoro.fit(tmp_path / "photos", source="embedded:lite0?side=32")
    assert len(classifier.predict([some, some.read_bytes()])) == 2
    assert yoro.Responses("embedded:lite0?side=32").fit_transform([some]).shape[0] == 1
    with pytest.raises(AssertionError, match="in this process"):
        classifier.predict([some], loading=Loading(workers=0))


def test_a_thumbnail_is_decoded_behind_the_fence(tmp_path, monkeypatch):
    """Were it decoded in this process, the refusal here would be met."""
    Image.new("RGB", (300, 200), (9, 99, 199)).save(tmp_path / "a.png")

    def refuse(*_, **__):
        raise AssertionError("decoded in this process")

    monkeypatch.setattr("yoro.data.processes.decode", refuse)
    monkeypatch.setattr("yoro.data.decoding._upright", refuse)
    made = thumbnail_of(Example(tmp_path / "a.png", None, "a.png"))
    assert Image.open(io.BytesIO(made)).size == (112, 112)
    assert thumbnail_of(Example(tmp_path / "absent.png", None, "absent.png")) is None
