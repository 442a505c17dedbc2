"""One pass over a share of the data, and what was gathered of it as a shard."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from yoro.data.examples import Example
from yoro.data.response_streams import ResponseStream, identity_of, is_response_data
from yoro.data.responses import ResponseBatch
from yoro.data.roles import Rows, to_fit
from yoro.discriminant.readings import Layout
from yoro.errors import InputError, counted
from yoro.model.clipping import Clip, ClippedPipeline
from yoro.model.gathered import Gathered
from yoro.model.model import Json, Origin
from yoro.model.one_pass import gather, gather_images
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.settings import FitSettings
from yoro.model.shards import SHARES, Shard
from yoro.model.views import BothViews
from yoro.sources.protocol import is_dual

NAME = 32  # hex digits of the name of a part


@dataclass(frozen=True)
class Share:
    """The `index`-th of `of` shares of the data, in their order; the first is number 1."""

    index: int = 1
    of: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.of:
            raise InputError(f"Part {self.index} of {self.of} was asked for; expected I/N with I from 1 to N.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The share that is written as I/N.

        >>> Share.parse("3/8")
        Share(index=3, of=8)
        """
        index, _, of = text.partition("/")
        if not (index.strip().isdecimal() and of.strip().isdecimal()):
            raise InputError(f"{text!r} is no part of the data; expected I/N, such as 3/8 for the third of eight.")
        return cls(int(index), int(of))

    def rows(self, count: int) -> range:
        """The rows of this share of so many: all shares together have each row once.

        >>> [list(Share(i, 3).rows(8)) for i in (1, 2, 3)]
        [[0, 1], [2, 3, 4], [5, 6, 7]]
        """
        rows = range(count * (self.index - 1) // self.of, count * self.index // self.of)
        if not rows:
            raise InputError(
                f"Part {self.index} of {self.of} is empty: there are {counted(count, 'example')}. "
                f"Make at most {count:,} parts."
            )
        return rows


WHOLE = Share()


@dataclass(frozen=True)
class ShardPass:
    """What came of the pass, and what could not be read, with the reasons."""

    shard: Shard
    skipped: tuple[tuple[str, str], ...] = ()


def gather_shard(
    data: object,
    settings: FitSettings,
    share: Share = WHOLE,
    *,
    sums_only: bool = False,
    pipeline: Pipeline | None = None,
    clip: Clip | None = None,
) -> ShardPass:
    """Read every example of the share once, and keep what a fit would keep; with `sums_only` nothing but sums.

    Shards of all shares merge into what a fit of the whole gathers. Images are read by the settings, or by `pipeline`;
    with `clip` every response is clipped before anything is made of it.
    """
    if sums_only:
        settings = replace(settings, solve=replace(settings.solve, reservoir=0))
    if is_response_data(data):
        gathered, origin, whole = _of_responses(data, settings, share, clip)
    else:
        gathered, origin, whole = _of_images(data, settings, share, pipeline, clip, both=not sums_only)
    skipped = tuple(gathered.skipped)
    if sums_only:  # a name that follows from the contents would tell who has them that they are here
        return ShardPass(Shard(gathered.only_sums(), origin, (secrets.token_hex(NAME // 2),)), skipped)
    facts: Json = {SHARES: {whole: {"of": share.of, "have": [share.index]}}} if share.of > 1 else {}
    return ShardPass(Shard(gathered, origin, (part_name(gathered),), facts), skipped)


def part_name(gathered: Gathered) -> str:
    """A name that follows from the contents and labels, whatever their order: the same data have the same name."""
    hasher = hashlib.sha256()
    for digest, label in sorted(gathered.ledger.entries()):
        hasher.update(digest + label.encode("utf-8", "backslashreplace") + b"\0")
    return hasher.hexdigest()[:NAME]


def _of_images(
    data: object, settings: FitSettings, share: Share, pipeline: Pipeline | None, clip: Clip | None, *, both: bool
) -> tuple[Gathered, Origin, str]:
    """What was gathered of a share of the images, where the responses come from, and a name of all the data."""
    parts, _, notes = to_fit(data, None, rule="loo", seed=settings.solve.seed)
    examples = [example for part in parts if isinstance(part, list) for example in part]
    rows = share.rows(len(examples))
    pipeline = pipeline or make_pipeline(settings.pipeline)
    if is_dual(pipeline.source) and pipeline.source.describe()["read"] != "features":
        raise InputError(
            f"{pipeline.source.name!r} compares images with sentences, which are not in a file of statistics. "
            "Read its image vectors with --read features, or use `yoro fit`."
        )
    for note in notes:
        settings.tell(note)
    _tell_share(settings, share, rows, len(examples))
    # Without individual responses nothing can choose between one view and two: both are then averaged.
    both = both and pipeline.layout.views == 2
    read_by = ClippedPipeline(pipeline, clip) if clip else BothViews(pipeline) if both else pipeline
    gathered = gather_images(examples[rows.start : rows.stop], read_by, settings)
    return gathered, pipeline.origin(), _whole_name(examples)


def _of_responses(data: object, settings: FitSettings, share: Share, clip: Clip | None) -> tuple[Gathered, Origin, str]:
    """The same of responses."""
    parts, _held, notes = to_fit(data, None, rule="loo", seed=settings.solve.seed)
    total = sum(map(len, parts))
    rows = share.rows(total)
    for note in notes:
        settings.tell(note)
    _tell_share(settings, share, rows, total)
    origin, hasher = Origin(made_by=identity_of(data)), hashlib.sha256()
    gathered = Gathered.empty(settings.solve.reservoir, settings.solve.seed, origin.layout)

    def batches(_: ResponseStream) -> Iterator[ResponseBatch]:
        done = 0
        for part in parts:
            assert isinstance(part, Rows)
            for batch in part.stream():
                hasher.update(b"".join(batch.digests))
                mine = [i for i in range(len(batch)) if done + i in rows]
                done += len(batch)
                taken = batch.take(mine) if mine else None
                if taken and clip:
                    layout = origin.layout or Layout.of(taken.responses.shape[1])
                    taken = replace(taken, responses=clip(taken.responses, layout))
                if taken:
                    yield taken

    gather(gathered, ResponseStream(batches, len(rows)), progress=settings.progress)
    return gathered, origin, hasher.hexdigest()[:NAME]


def _tell_share(settings: FitSettings, share: Share, rows: range, total: int) -> None:
    if share.of > 1:
        settings.tell(f"Part {share.index} of {share.of}: {len(rows):,} of {counted(total, 'example')}.")


def _whole_name(examples: Sequence[Example]) -> str:
    """A name of all the data, by which shares of the same are known."""
    hasher = hashlib.sha256()
    for example in examples:
        hasher.update(f"{example.name}\0{example.label}\0".encode("utf-8", "backslashreplace"))
    return hasher.hexdigest()[:NAME]
