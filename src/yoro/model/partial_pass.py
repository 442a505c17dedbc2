"""One pass over a share of the data, and what was gathered of it as a shard."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.data.examples import refuse_stray
from yoro.data.responses import ResponseBatch
from yoro.data.roles import Rows
from yoro.data.row_files import RowFiles
from yoro.discriminant.readings import Layout
from yoro.errors import InputError, counted
from yoro.model.gathered import Gathered
from yoro.model.model import Json, Origin
from yoro.model.one_pass import DataPart, ThisProcess, gather_parts, origin_of, plan_pass
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.settings import FitSettings
from yoro.model.shards import SHARES, Shard
from yoro.model.views import BothViews
from yoro.sources.protocol import is_dual

NAME = 32  # hex digits of the name of a part


@dataclass(frozen=True)
class DataShare:
    """The `index`-th of `of` shares of the data, in their order; the first is number 1."""

    index: int = 1
    of: int = 1

    def __post_init__(self) -> None:
        if self.of > limits.SHARES:
            raise InputError(f"{self.of:,} parts; at most {limits.SHARES:,} are supported.")
        if not 1 <= self.index <= self.of:
            raise InputError(f"Part {self.index} of {self.of} does not exist; expected I/N with I from 1 to N.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The share that is written as I/N.

        >>> DataShare.parse("3/8")
        DataShare(index=3, of=8)
        """
        index, _, of = text.partition("/")
        if not (index.strip().isdecimal() and of.strip().isdecimal()):
            raise InputError(f"{text!r} is not a part of the data; expected I/N, such as 3/8 for the third of eight.")
        return cls(int(index), int(of))

    def rows(self, count: int) -> range:
        """The rows of this share of `count` rows: each row belongs to exactly one share.

        >>> [list(DataShare(i, 3).rows(8)) for i in (1, 2, 3)]
        [[0, 1], [2, 3, 4], [5, 6, 7]]
        """
        rows = range(count * (self.index - 1) // self.of, count * self.index // self.of)
        if not rows:
            raise InputError(
                f"Part {self.index} of {self.of} is empty: there are {counted(count, 'example')}. "
                f"Make at most {count:,} parts."
            )
        return rows


WHOLE = DataShare()


INSIDE = 1 - 1e-12  # rounding must not lead beyond the length


@dataclass(frozen=True)
class Clip:
    """The point that lengths are measured from (None: zero), and the largest length of every reading.

    This bounds how much one image can change a sum.
    """

    length: float
    shift: tuple[float, ...] = ()

    def __call__(self, responses: NDArray[np.floating], layout: Layout) -> NDArray[np.float64]:
        """Responses (n, width): each reading that is too far from the point is moved towards it."""
        about = np.array(self.shift) if self.shift else np.zeros(layout.width)
        moved = np.asarray(responses, dtype=np.float64) - about
        for part in layout.slices:
            far = np.sqrt(np.einsum("ij,ij->i", moved[:, part], moved[:, part]))
            moved[:, part] *= np.where(far > self.length, INSIDE * self.length / np.maximum(far, 1e-300), 1.0)[:, None]
        return moved + about

    def batch(self, batch: ResponseBatch, layout: Layout | None) -> ResponseBatch:
        known = layout or Layout.of(batch.responses.shape[1])
        return replace(batch, responses=self(batch.responses, known))


@dataclass(frozen=True)
class ShardPass:
    """The shard that a pass gathered, and the images that could not be read, with the reasons."""

    shard: Shard
    skipped: tuple[tuple[str, str], ...] = ()


def gather_shard(
    data: object,
    settings: FitSettings,
    share: DataShare = WHOLE,
    *,
    sums_only: bool = False,
    pipeline: Pipeline | None = None,
    clip: Clip | None = None,
    classes: Sequence[str] | None = None,
) -> ShardPass:
    """Read every example of the share once, and keep what a fit would keep; with `sums_only` nothing but sums.

    Shards of all shares merge into what a fit of the whole gathers. Images are read by the settings, or by `pipeline`;
    with `clip` every response is clipped before anything is made of it. A label that is not among `classes` is an error
    before the first image.
    """
    if sums_only:
        settings = replace(settings, solve=replace(settings.solve, reservoir=0))
    plan = plan_pass(data, None, settings)
    for note in plan.notes:
        settings.tell(note)
    parts = _shared(plan.train, share, settings)
    if classes is not None:
        refuse_stray({example.label or "" for part in parts if isinstance(part, list) for example in part}, classes)
    read_by: Pipeline | Origin = plan.origin or pipeline or make_pipeline(settings.pipeline)
    origin = origin_of(read_by)
    if isinstance(read_by, Pipeline):
        _refuse_sentences(read_by)
        # Without individual responses nothing can choose between one view and two: both are then averaged.
        read_by = BothViews(read_by) if read_by.layout.views == 2 and not (sums_only or clip) else read_by
    engine = ThisProcess(None if clip is None else partial(clip.batch, layout=read_by.layout))
    gathered = gather_parts(parts, read_by, settings, engine)
    skipped = tuple(gathered.skipped)
    if sums_only:  # a name that follows from the contents would tell who has them that they are here
        return ShardPass(Shard(gathered.only_sums(), origin, (secrets.token_hex(NAME // 2),)), skipped)
    facts: Json = {}
    if share.of > 1:
        name, counts = _whole_of(plan.train)
        facts = {SHARES: {name: {"of": share.of, "have": [share.index], "classes": dict(counts)}}}
    return ShardPass(Shard(gathered, origin, (part_name(gathered),), facts), skipped)


def part_name(gathered: Gathered) -> str:
    """A name that follows from the contents and labels, whatever their order: the same data have the same name."""
    hasher = hashlib.sha256()
    for digest, label in sorted(gathered.ledger.entries()):
        hasher.update(digest + label.encode("utf-8", "backslashreplace") + b"\0")
    return hasher.hexdigest()[:NAME]


def _shared(parts: Sequence[DataPart], share: DataShare, settings: FitSettings) -> list[DataPart]:
    """What the share has of the parts, in their order."""
    sized = [part for part in parts if not isinstance(part, RowFiles)]
    total, start = sum(map(len, sized)), 0
    rows, taken = share.rows(total), list[DataPart]()
    if share.of > 1:
        settings.tell(f"Part {share.index} of {share.of}: {len(rows):,} of {counted(total, 'example')}.")
    for part in sized:
        mine = range(max(rows.start - start, 0), min(rows.stop - start, len(part)))
        start += len(part)
        if mine:
            taken.append(part.take(mine) if isinstance(part, Rows) else part[mine.start : mine.stop])
    return taken


def _refuse_sentences(pipeline: Pipeline) -> None:
    if is_dual(pipeline.source) and pipeline.source.describe()["read"] != "features":
        raise InputError(
            f"{pipeline.source.name!r} compares images with sentences, which are not in a file of statistics. "
            "Read its image vectors with --read features, or use `yoro fit`."
        )


def _whole_of(parts: Sequence[DataPart]) -> tuple[str, Counter[str]]:
    """A name of all the data, by which shares of the same are known, and how many examples each class has in them."""
    hasher, classes = hashlib.sha256(), Counter[str]()
    for part in parts:
        if isinstance(part, Rows):
            for batch in part.stream():
                hasher.update(b"".join(batch.digests))
                classes.update(batch.labels or ())
        elif isinstance(part, list):
            for example in part:
                hasher.update(f"{example.name}\0{example.label}\0".encode("utf-8", "backslashreplace"))
                classes[example.label or ""] += 1
    return hasher.hexdigest()[:NAME], classes
