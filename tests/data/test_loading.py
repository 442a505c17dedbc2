from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from child import BOUND, start, wait_until
from yoro.data import processes as processes_module
from yoro.data.decoding import decode, digest
from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.geometry import Geometry
from yoro.data.loading import default_workers, load
from yoro.data.processes import Decoded, DecodingProcess
from yoro.errors import InputError, YoroError

from .conftest import save

GEOMETRY = Geometry(16)


@pytest.fixture
def many(tmp_path: Path) -> list[Example]:
    for number in range(23):
        save(tmp_path / "many" / "class" / f"{number:02d}.png", number * 10)
    return list(find(tmp_path / "many"))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Collects every decoding process a test starts; none is kept of an earlier test."""
    if kept := processes_module._KEPT.pop(os.getpid(), None):
        kept.close()
    collected: list[subprocess.Popen[bytes]] = []
    start = processes_module._start

    def recorded(niceness: int) -> subprocess.Popen[bytes]:
        collected.append(start(niceness))
        return collected[-1]

    monkeypatch.setattr(processes_module, "_start", recorded)
    return collected


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def ignores_interrupts(pid: int) -> bool:
    """Whether a process has said by now that it ignores SIGINT."""
    ignored = re.search(r"^SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(ignored[1], 16) >> (signal.SIGINT - 1) & 1)


def joined(batches: list[Decoded]) -> tuple[list[int], np.ndarray, list[str]]:
    indices = [index for batch in batches for index in batch.good]
    return indices, np.concatenate([b.pixels for b in batches]), [d for batch in batches for d in batch.digests]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 5, 23, 100])
def test_order_and_pixels_do_not_depend_on_workers_or_batches(
    many: list[Example], workers: int, batch_size: int
) -> None:
    indices, images, digests = joined(list(load(many, GEOMETRY, batch_size=batch_size, workers=workers)))
    assert indices == list(range(23))
    assert np.array_equal(images[:, 0, 0, 0], np.arange(23) * 10)
    assert digests == [digest(example.image) for example in many]


@pytest.mark.parametrize("workers", [0, 2])
def test_broken_files_are_reported_and_skipped(tmp_path: Path, many: list[Example], workers: int) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_text("no image")
    examples = [*many[:3], Example(bad, "x", "bad.jpg"), *many[3:6], Example(tmp_path / "gone.jpg", "x", "gone.jpg")]
    batches = list(load(examples, GEOMETRY, batch_size=4, workers=workers))
    assert joined(batches)[0] == [0, 1, 2, 4, 5, 6]
    failures = [failure for batch in batches for failure in batch.failures]
    assert [index for index, _ in failures] == [3, 7]
    assert "'bad.jpg' cannot be read" in failures[0][1]
    assert "'gone.jpg' cannot be read as an image: there is no such file" in failures[1][1]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_of_broken_files_only_is_empty_not_fatal(tmp_path: Path, workers: int) -> None:
    examples = [Example(tmp_path / f"{number}.jpg", "x", f"{number}.jpg") for number in range(3)]
    (batch,) = load(examples, GEOMETRY, batch_size=8, workers=workers)
    assert batch.pixels.shape == (0, 16, 16, 3)
    assert len(batch.failures) == 3


def test_files_and_images_in_memory_mix_in_order(many: list[Example]) -> None:
    array = np.full((4, 4, 3), 77, dtype=np.uint8)
    examples = [Example(array, "a", "item 0"), many[1], Example(b"", "a", "item 2"), many[3]]
    examples += [Example(Image.new("L", (3, 3), 9), "a", "item 4")]
    for workers in (0, 2):
        batches = list(load(examples, GEOMETRY, batch_size=3, workers=workers))
        indices, images, digests = joined(batches)
        assert indices == [0, 1, 3, 4]
        assert images[:, 0, 0, 0].tolist() == [77, 10, 30, 9]
        assert digests[0] == digest(array)
        assert batches[0].failures[0][0] == 2


def test_images_in_memory_start_no_process(started: list[subprocess.Popen[bytes]]) -> None:
    examples = [Example(np.zeros((4, 4), dtype=np.uint8), "a", "item 0")]
    assert len(list(load(examples, GEOMETRY, batch_size=2, workers=4))) == 1
    assert started == []


def test_odd_names_reach_the_workers(tmp_path: Path) -> None:
    paths = [save(tmp_path / 'new\nline "quote" ü 花.png'), tmp_path / os.fsdecode(b"\xff\xfe.png")]
    save(tmp_path / "plain.png").rename(paths[1])
    examples = [Example(path, "a", "x") for path in paths]
    (batch,) = load(examples, GEOMETRY, batch_size=4, workers=1)
    assert (batch.good, batch.failures) == ([0, 1], [])


def test_no_examples_give_no_batches() -> None:
    assert list(load([], GEOMETRY, batch_size=4, workers=2)) == []


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"batch_size": 1, "workers": -1}])
def test_senseless_numbers_are_refused_before_iterating(options: dict[str, int]) -> None:
    with pytest.raises(InputError, match="expected"):
        load([], GEOMETRY, **options)


def test_workers_end_when_the_caller_stops_early(many: list[Example], started: list[subprocess.Popen[bytes]]) -> None:
    before = set(threading.enumerate())  # among them the helper for single images, if a test has used it
    batches = load(many, GEOMETRY, batch_size=2, workers=2)
    next(batches)
    assert len(started) == 2
    batches.close()
    assert all(process.poll() is not None for process in started)
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "yoro-decoding"]


def test_workers_end_when_the_callers_loop_raises(many: list[Example], started: list[subprocess.Popen[bytes]]) -> None:
    def consume() -> None:
        for _ in load(many, GEOMETRY, batch_size=2, workers=2):
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        consume()
    gc.collect()
    assert all(process.poll() is not None for process in started)


def test_one_worker_is_kept_for_the_next_pass(many: list[Example], started: list[subprocess.Popen[bytes]]) -> None:
    for _ in range(3):
        assert len(list(load(many[:4], GEOMETRY, batch_size=4, workers=2))) == 1
    assert len(started) == 1
    with_two = load(many, GEOMETRY, batch_size=2, workers=2)
    next(with_two)
    assert len(list(load(many[:4], GEOMETRY, batch_size=4, workers=1))) == 1, "a pass within a pass has its own"
    assert len(list(with_two)) == 11
    wait_until(lambda: sum(process.poll() is None for process in started) == 1)


def test_a_killed_worker_is_replaced_and_nothing_is_lost(
    many: list[Example], started: list[subprocess.Popen[bytes]]
) -> None:
    expected = [batch.digests for batch in load(many, GEOMETRY, batch_size=2, workers=0)]
    batches = load(many, GEOMETRY, batch_size=2, workers=1)
    first = next(batches)
    started[0].kill()
    found = [first, *batches]
    assert [batch.digests for batch in found] == expected
    assert not any(batch.failures for batch in found)
    assert len(started) == 2


def test_a_worker_that_cannot_start_is_an_error_not_a_hang(
    many: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "_START", "raise SystemExit(3)")
    with pytest.raises(YoroError, match="ended with status 3"):
        list(load(many, GEOMETRY, batch_size=2, workers=2))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(YoroError, match="use workers=0"):
        list(load(many, GEOMETRY, batch_size=2, workers=2))


SCRIPT = """
import sys
from yoro.data.geometry import Geometry
from yoro.data.find import find
from yoro.data.loading import load
from yoro.data import processes
start = processes._start
def recorded(niceness):
    process = start(niceness)
    print(process.pid, flush=True)
    return process
processes._start = recorded
for batch in load(list(find(sys.argv[1])), Geometry(16), batch_size=2, workers=2):
    print("batch", flush=True)
    sys.stdin.read()  # until it is closed
"""


def script(tmp_path: Path, **options: object) -> tuple[subprocess.Popen[str], list[int]]:
    """A plain script without a __main__ guard, waiting in its first batch; and its workers' ids."""
    (tmp_path / "script.py").write_text(SCRIPT)
    words = (tmp_path / "script.py", tmp_path / "many")
    process = start(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    assert process.stdout is not None
    workers = [int(process.stdout.readline()) for _ in range(2)]
    assert process.stdout.readline() == "batch\n"
    return process, workers


@pytest.mark.usefixtures("many")
def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    process, workers = script(tmp_path)
    assert not any(gone(pid) for pid in workers)
    process.kill()
    process.communicate()
    wait_until(lambda: all(gone(pid) for pid in workers))


@pytest.mark.usefixtures("many")
def test_ctrl_c_ends_parent_and_workers_with_one_traceback(tmp_path: Path) -> None:
    process, workers = script(tmp_path, start_new_session=True)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    _, errors = process.communicate(timeout=BOUND)
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")
    wait_until(lambda: all(gone(pid) for pid in workers))


@pytest.mark.usefixtures("many")
def test_workers_ignore_an_interrupt_of_their_own(tmp_path: Path) -> None:
    process, workers = script(tmp_path)
    wait_until(lambda: all(ignores_interrupts(pid) for pid in workers))  # the second one may still be starting
    for pid in workers:
        os.kill(pid, signal.SIGINT)
    process.stdin.close()  # it asks for the rest, and gets it
    assert process.wait(BOUND) == 0
    assert process.stdout.read() == "batch\n" * 11
    process.stderr.close()
    process.stdout.close()


def test_a_worker_imports_numpy_and_pillow_only() -> None:
    code = "import sys, yoro.data.processes; print(' '.join({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"torch", "scipy", "sklearn", "onnx", "onnxruntime", "matplotlib", "safetensors", "typer", "tqdm"}
    assert not heavy & set(loaded)


@pytest.mark.long
def test_more_images_need_no_more_memory(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png")

    def peak(count: int) -> int:
        examples = [Example(path, "a", "a.png")] * count
        tracemalloc.start()
        for batch in load(examples, Geometry(64), batch_size=8, workers=2):
            del batch
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return result

    peak(16)
    small, large = peak(160), peak(1600)
    assert large < small + 8 * 64 * 64 * 3 + 200_000  # at most one batch more in flight, and the list of ranges


def test_requests_and_answers_larger_than_a_pipe_do_not_block(tmp_path: Path) -> None:
    process = DecodingProcess()
    try:
        names = ["n" * 3000] * 400  # 1.2 MB each way: every one fails, and says so with its name
        for _ in range(4):
            process.request([str(tmp_path / "gone.jpg")] * 400, names, GEOMETRY)
        for _ in range(4):
            assert len(process.answer().failures) == 400
    finally:
        process.close()
        process.close()


def test_default_workers_is_the_number_of_usable_cores() -> None:
    assert 1 <= default_workers() <= 16


def test_decode_and_load_agree_on_a_real_photo(photos: Path) -> None:
    example = Example(photos / "retina.jpg", "eye", "retina.jpg")
    (batch,) = load([example], Geometry(224), batch_size=1, workers=1)
    assert np.array_equal(batch.pixels[0], decode(photos / "retina.jpg", Geometry(224)))
