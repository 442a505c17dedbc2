"""Blocks through Ray Data: tasks read them, a pool of actors processes them, and each is reported when it is done."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from yoro.cluster.actors import Actor, BlockWork, Opening
from yoro.cluster.block_decoding import Columns, Decoding, raised, read_block
from yoro.cluster.blocks import Block
from yoro.cluster.session import READ_SHARE
from yoro.cluster.storage import Storage

WAVE = 4096  # blocks submitted to Ray at once; it keeps a record of each until all of them are done


@dataclass(frozen=True)
class FinishedBlock:
    """A block whose file is written."""

    index: int
    images: int  # those that could not be read included


@dataclass(frozen=True)
class Crew:
    """The workers: actors and their threads, what they open, what they compute from a block, and where it goes."""

    actors: int
    threads: int
    opening: Opening | None
    work: BlockWork
    storage: Storage
    decoding: Decoding


def run_blocks(blocks: Sequence[Block], crew: Crew) -> Iterator[FinishedBlock]:
    """Each block as it finishes, in any order; if a worker dies, another does its block."""
    _prepare()
    for start in range(0, len(blocks), WAVE):
        yield from _wave(blocks[start : start + WAVE], crew)


def _prepare() -> None:
    """Tell Ray Data to keep our blocks as they are, and to be silent."""
    import ray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on defaults of its own
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = context.print_on_execution_start = False
        context.target_max_block_size = None  # a block of ours stays one of Ray's
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def _wave(blocks: Sequence[Block], crew: Crew) -> Iterator[FinishedBlock]:
    import ray

    decoding = crew.decoding

    def read(row: Columns) -> Columns:
        return read_block(str(row["text"][0]), decoding)

    items = [{"text": block.to_text()} for block in blocks]
    told = (
        ray.data.from_items(items, override_num_blocks=len(items))
        .map_batches(read, batch_size=None, batch_format="numpy", num_cpus=READ_SHARE)
        .map_batches(
            Actor, batch_size=None, batch_format="numpy", num_cpus=(1 - READ_SHARE) * crew.threads,
            compute=ray.data.ActorPoolStrategy(size=min(crew.actors, len(items))),
            fn_constructor_args=(crew.opening, crew.work, crew.storage),
        )
    )  # fmt: skip
    for row in told.iter_rows():
        done = json.loads(str(row["told"]))
        if done["error"] is not None:
            raise raised(*done["error"])
        yield FinishedBlock(done["index"], done["images"])
