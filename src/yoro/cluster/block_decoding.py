"""Blocks read and decoded by tasks: pixels or responses in one array, and what is known of each row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro import errors
from yoro.cluster.blocks import Block
from yoro.data.examples import Picture, address_of
from yoro.data.geometry import Geometry
from yoro.data.processes import Decoded, DecodingProcess, decode_all, sendable
from yoro.data.remote_files import file_system, is_url, patiently
from yoro.errors import ImageError, InputError, YoroError

LOOPBACK = "127.0.0.1"  # the address of a Ray of one machine
Columns = dict[str, NDArray[np.generic]]  # of one row: what goes from a task to an actor


@dataclass(frozen=True)
class Decoding:
    """How blocks are read."""

    geometry: dict[str, object] | None  # of the pixels; None for responses
    strict: bool = False
    labelled: bool = True


@dataclass(frozen=True)
class BlockRows:
    """The rows of a block that could be read, without their pixels or responses, and those that could not."""

    index: int
    digest: str
    positions: list[int] = field(default_factory=list)  # in the block, of those that could be read
    names: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)  # of contents
    failures: list[tuple[str, str]] = field(default_factory=list)  # names of those that could not be read, and why
    error: tuple[str, str] | None = None  # kind and text of what must end the run

    def batches(self, size: int) -> Iterator[slice]:
        """Rows that one machine would have read together: those of the same `size` examples of the block."""
        start = 0
        for _, together in groupby(self.positions, key=lambda position: position // size):
            stop = start + sum(1 for _ in together)
            yield slice(start, stop)
            start = stop


def read_block(text: str, decoding: Decoding) -> Columns:
    """Read a block; an error of the whole block is returned, not raised, so that its text reaches the user."""
    block = Block.from_text(text)
    try:
        facts, array = _responses(block) if decoding.geometry is None else _pixels(block, decoding)
    except (YoroError, OSError) as error:
        facts, array = failed(block.index, block.digest, error), np.zeros((1, 1), dtype=np.uint8)
    return packed(facts, array)


def packed(facts: BlockRows, array: NDArray[np.generic]) -> Columns:
    """One row of columns; an empty array has a row that does not count, because columns of nothing have no shape."""
    kept = array if len(array) else np.zeros((1, *array.shape[1:]), dtype=array.dtype)
    return {"facts": np.array([json.dumps(asdict(facts))]), "array": kept[None]}


def unpacked(columns: Columns) -> tuple[BlockRows, NDArray[np.generic]]:
    """The rows and the array that `packed` was given."""
    facts = BlockRows(**json.loads(str(columns["facts"][0])))
    return facts, np.asarray(columns["array"][0])[: len(facts.positions)]


def failed(index: int, digest: str, error: Exception) -> BlockRows:
    """A block whose error ends the run."""
    return BlockRows(index, digest, error=told(error))


def told(error: Exception) -> tuple[str, str]:
    """Kind and text of an error, for another process; of one on another machine also the machine's address."""
    import ray

    where = ray.util.get_node_ip_address()
    return type(error).__name__, f"{error}{'' if where == LOOPBACK else f' (on {where})'}"


def raised(name: str, text: str) -> YoroError:
    """The error of another process, by its kind and text."""
    kind = getattr(errors, name, None)
    return kind(text) if isinstance(kind, type) and issubclass(kind, YoroError) else YoroError(text)


def _pixels(block: Block, decoding: Decoding) -> tuple[BlockRows, NDArray[np.generic]]:
    part = block.part
    listed = patiently(partial(part.examples, labelled=decoding.labelled)) if part is not None else block.examples
    examples = list(listed)
    if examples:
        refuse_unseen(address_of(examples[0].image))
    names = [example.name for example in examples]
    geometry = Geometry.from_config(decoding.geometry or {})
    good, digests, failures, pixels, *_ = _decoded([example.image for example in examples], names, geometry)
    if failures and decoding.strict:
        raise ImageError(failures[0][1])
    chosen = [examples[at] for at in good]
    return BlockRows(
        block.index, block.digest, good, [e.name for e in chosen], [e.label or "" for e in chosen],
        [e.group or "" for e in chosen], [e.split or "" for e in chosen], digests,
        [(names[at], why) for at, why in failures],
    ), pixels  # fmt: skip


def refuse_unseen(address: str | tuple[str | int, ...] | None) -> None:
    """Raise where this machine does not see the data at all, of which it would leave every image out."""
    if isinstance(address, tuple) and is_url(address[1]):
        file_system(str(address[1]))  # an error if the package for such URLs is not installed
    elif address is not None:
        place = Path(address).parent if isinstance(address, str) else Path(str(address[1]))
        if not place.exists():
            raise InputError(
                f"{place} is not there. Every machine of a cluster must see the data under the same path: share the "
                "folder, or give its URL."
            )


def _decoded(images: list[Picture], names: list[str], geometry: Geometry) -> Decoded:
    """Files are decoded in the helper process, one batch after another; pixels in memory are taken as they are."""
    sent = [image for image in map(sendable, images) if image is not None]
    if not sent or len(sent) < len(images):
        return decode_all(images, names, geometry)
    process = _process()
    process.request(sent, names, geometry)
    return process.answer()


@cache
def _process() -> DecodingProcess:
    """The decoding process of this worker, for all of its tasks; it ends with the worker."""
    return DecodingProcess()


def _responses(block: Block) -> tuple[BlockRows, NDArray[np.generic]]:
    assert block.part is not None
    batches = [batch for batch in patiently(block.part.responses) if len(batch)]
    if not batches:
        return BlockRows(block.index, block.digest), np.zeros((0, 1), dtype=np.float32)
    facts = BlockRows(block.index, block.digest)
    for batch in batches:
        facts.names.extend(batch.names)
        facts.labels.extend(batch.labels or [])
        facts.groups.extend(batch.groups or [])
        facts.splits.extend(batch.splits or [])
        facts.digests.extend(digest.hex() for digest in batch.digests)
    facts.positions.extend(range(len(facts.names)))
    return facts, np.concatenate([batch.responses for batch in batches])
