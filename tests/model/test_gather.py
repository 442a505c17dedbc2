"""Adding to the statistics in a thread beside the pass: in order, and never half of what a checkpoint says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from yoro.data.response_streams import ResponseStream
from yoro.data.responses import ResponseBatch
from yoro.errors import WidthError
from yoro.mappings.batches import row_digests
from yoro.model.checkpoint import Checkpoint
from yoro.model.gathered import Gathered
from yoro.model.one_pass import ROWS_PER_UPDATE, gather

BATCH, WIDTH = 64, 6
PER_UPDATE = ROWS_PER_UPDATE // BATCH


def batches(count: int, width: int = WIDTH) -> list[ResponseBatch]:
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        responses = rng.normal(size=(BATCH, width)).astype(np.float32)
        labels = [f"class {i % 3}" for i in range(BATCH)]
        names = [f"{number}/{i}" for i in range(BATCH)]
        made.append(ResponseBatch(responses, labels, None, row_digests(responses), names))
    return made


def stream_of(parts: list[ResponseBatch], end: type[BaseException] | None = None) -> ResponseStream:
    def read(stream: ResponseStream) -> Iterator[ResponseBatch]:
        for part in parts:
            stream.position += len(part)
            yield part
        if end is not None:
            raise end

    return ResponseStream(read, BATCH * len(parts))


def empty() -> Gathered:
    return Gathered.empty(50, 0)


def test_it_gathers_what_adding_one_after_the_other_gathers():
    parts, found, expected = batches(3 * PER_UPDATE + 1), empty(), empty()
    gather(found, stream_of(parts))
    for start in range(0, len(parts), PER_UPDATE):
        expected.add(parts[start : start + PER_UPDATE])
    assert found.ledger.entries() == expected.ledger.entries()
    np.testing.assert_array_equal(found.statistics.parts[0].scatter, expected.statistics.parts[0].scatter)
    np.testing.assert_array_equal(found.reservoir.members().responses, expected.reservoir.members().responses)


@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError])
def test_what_was_added_before_the_pass_broke_off_is_kept(tmp_path, end):
    checkpoint = Checkpoint(tmp_path / "checkpoint", "a run")
    with pytest.raises(end):
        gather(empty(), stream_of(batches(2 * PER_UPDATE + 1), end), checkpoint=checkpoint)
    kept, done = Checkpoint(tmp_path / "checkpoint", "a run").read()
    assert done == kept.images == 2 * ROWS_PER_UPDATE
    assert kept.ledger.entries() == [
        (digest, label)
        for part in batches(2 * PER_UPDATE)
        for digest, label in zip(part.digests, part.labels, strict=True)
    ]


def test_an_addition_that_breaks_off_ends_the_pass_and_is_not_kept(tmp_path):
    checkpoint = Checkpoint(tmp_path / "checkpoint", "a run")
    parts = [*batches(PER_UPDATE), *batches(PER_UPDATE, width=WIDTH + 1), *batches(4 * PER_UPDATE)]
    with pytest.raises(WidthError):
        gather(empty(), stream_of(parts), checkpoint=checkpoint)
    assert checkpoint.read() is None
