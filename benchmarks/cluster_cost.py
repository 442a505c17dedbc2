"""What a pass over very many images costs, from what one image, one block and one byte cost where it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from yoro.cluster.tree import FAN_IN

LEDGER_BYTES = 20  # of an image: a digest of 16 bytes, and the number of its class
MEMBER_BYTES = 32  # of a kept response besides it: digest, weight, class and group
EIGHT, FOUR = 8, 4  # bytes of a float64 of the statistics, of a float32 of a kept response
HOUR = 3600.0


@dataclass(frozen=True)
class Prices:
    """What was measured, in seconds of one core."""

    image: float  # a decoded image: forward pass and statistics
    block: float  # each block besides: hand it over, write its shard
    byte: float  # each byte of a shard that is added to another
    start: float = 0.0  # until the first image, by the clock


@dataclass(frozen=True)
class Shape:
    """What is gathered, and in which portions."""

    widths: Sequence[int]  # of the readings
    classes: int
    block: int = 512
    reservoir: int = 8192
    ledger: bool = True

    def shard_bytes(self, images: int) -> int:
        """Of the shard of so many images: a row each, and one a class, while these are fewer than the width."""
        classes, kept = min(self.classes, images), min(images, self.reservoir)
        scatter = sum(min(images + classes, width) * width for width in self.widths)
        numbers = EIGHT * (scatter + classes * sum(self.widths)) + FOUR * kept * sum(self.widths)
        return numbers + MEMBER_BYTES * kept + LEDGER_BYTES * images * self.ledger


@dataclass(frozen=True)
class Cost:
    """Of one pass."""

    blocks: int
    core_hours: float  # of the pass, on decoded images
    merge_hours: float  # of cores, beside it
    written: int  # bytes of shards in all
    most: int  # bytes of shards that lie there at once
    ledger: int  # bytes of it in the model, and in the memory of whoever adds up the last shards


def cost_of(images: int, shape: Shape, prices: Prices) -> Cost:
    """The cost of a pass over so many images."""
    blocks = -(-images // shape.block)
    covered, count = shape.block, blocks
    size = shape.shard_bytes(min(covered, images))
    written, added, most = count * size, 0, min(count, FAN_IN) * size
    while count > 1:
        added += count * size
        covered, count = min(covered * FAN_IN, images), -(-count // FAN_IN)
        size = shape.shard_bytes(covered)
        written, most = written + count * size, most + min(count, FAN_IN) * size
    seconds = images * prices.image + blocks * prices.block
    ledger = LEDGER_BYTES * images * shape.ledger
    return Cost(blocks, seconds / HOUR, added * prices.byte / HOUR, written, most, ledger)
