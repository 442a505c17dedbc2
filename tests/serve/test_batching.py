from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from yoro.http.errors import RefusedError
from yoro.serve.batching import Batcher


class Sums:
    """Answers an image by the sum of its pixels, once it may."""

    def __init__(self, *, concurrent: bool = False) -> None:
        self.concurrent = concurrent
        self.asked, self.may, self.batches = threading.Event(), threading.Event(), []

    def rows(self, images):
        self.asked.set()
        self.may.wait()
        self.batches.append(len(images))
        if (images == 255).any():
            raise ValueError("too bright")
        return images.sum(axis=(1, 2, 3)).tolist()


def picture(value: int) -> np.ndarray:
    return np.full((2, 2, 3), value, dtype=np.uint8)


def test_what_comes_while_a_pass_runs_is_the_next_one():
    async def all_of_it():
        batcher, by = Batcher(100, 8), Sums()
        first = asyncio.create_task(batcher.answer(by, picture(0)))
        await asyncio.to_thread(by.asked.wait)
        others = [asyncio.create_task(batcher.answer(by, picture(i))) for i in range(1, 20)]
        await asyncio.sleep(0)
        by.may.set()
        found = await asyncio.gather(first, *others)
        batcher.close()
        return found, by.batches

    found, batches = asyncio.run(all_of_it())
    assert found == [12 * i for i in range(20)]
    assert batches == [1, 8, 8, 3]


def test_images_decoded_for_one_model_are_answered_by_it():
    async def all_of_it():
        batcher, old, new = Batcher(100, 8), Sums(), Sums()
        order = [old, old, new, new, new, old]
        tasks = [asyncio.create_task(batcher.answer(by, picture(1))) for by in order]
        await asyncio.sleep(0.05)
        for by in (old, new):
            by.may.set()
        await asyncio.gather(*tasks)
        batcher.close()
        return old.batches, new.batches

    old, new = asyncio.run(all_of_it())
    assert (sum(old), sum(new), new) == (3, 3, [3])


def test_beyond_the_room_a_client_is_told_when_to_come_again():
    batcher = Batcher(3, 8)
    with batcher.room(2):
        with (
            pytest.raises(RefusedError, match="2 of 3") as refused,
            batcher.room(2),
        ):
            pass
        assert refused.value.status == 429
        assert int(refused.value.headers["retry-after"]) >= 1
        with batcher.room(1):
            assert batcher.waiting == 3
    assert batcher.waiting == 0
    batcher.close()


def test_a_failing_pass_fails_its_own_images_and_the_next_goes_on():
    async def all_of_it():
        batcher, by = Batcher(100, 1), Sums()
        by.may.set()
        found = await asyncio.gather(
            *(batcher.answer(by, picture(i)) for i in (1, 255, 2)), return_exceptions=True
        )  # fmt: skip
        batcher.close()
        return found

    first, odd, last = asyncio.run(all_of_it())
    assert (first, last) == (12, 24)
    assert isinstance(odd, ValueError)


def test_what_nobody_waits_for_any_more_is_not_computed():
    async def all_of_it():
        batcher, by = Batcher(100, 8), Sums()
        first = asyncio.create_task(batcher.answer(by, picture(0)))
        await asyncio.to_thread(by.asked.wait)
        gone = asyncio.create_task(batcher.answer(by, picture(1)))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        by.may.set()
        await first
        batcher.close()
        return by.batches

    assert asyncio.run(all_of_it()) == [1]


@pytest.mark.parametrize("concurrent", [False, True])
def test_two_batches_run_at_once_only_of_a_model_that_allows_it(concurrent):
    class Watched(Sums):
        def rows(self, images):
            with lock:
                running.append(running[-1] + 1)
            if len(running) > 2:
                both.set()
            rows = super().rows(images)
            with lock:
                running.append(running[-1] - 1)
            return rows

    async def all_of_it():
        batcher, by = Batcher(100, 4), Watched(concurrent=concurrent)
        first = asyncio.create_task(batcher.answer(by, picture(1)))
        await asyncio.to_thread(by.asked.wait)
        others = [asyncio.create_task(batcher.answer(by, picture(1))) for _ in range(20)]
        if concurrent:
            await asyncio.to_thread(both.wait)
        by.may.set()
        assert await asyncio.gather(first, *others) == [12] * 21
        batcher.close()

    lock, both, running = threading.Lock(), threading.Event(), [0]
    asyncio.run(all_of_it())
    assert max(running) == 1 + concurrent
