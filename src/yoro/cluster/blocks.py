"""Blocks: the parts of the data that are read, gathered and kept apart, each known by a digest before it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from yoro.cluster.files import FilePart, fetch
from yoro.data.archive_members import Address, Member
from yoro.data.examples import Example, Later
from yoro.errors import InputError
from yoro.model.checkpoint import fingerprint

Row = tuple[str, object, str | None, str, str | None, str | None]  # kind, place, label, name, group, split


@dataclass(frozen=True)
class Block:
    """Consecutive examples, or a part of a file of them; its digest is over all that its outcome depends on."""

    index: int
    digest: str
    examples: tuple[Example, ...] = ()
    part: FilePart | None = None

    def to_text(self) -> str:
        """What another process needs, as JSON."""
        part = None if self.part is None else self.part.to_json()
        return json.dumps([self.index, self.digest, [_row(example) for example in self.examples], part])

    @classmethod
    def from_text(cls, text: str) -> Block:
        """What `to_text` gave."""
        index, digest, rows, part = json.loads(text)
        examples = tuple(_example(cast(Row, tuple(row))) for row in rows)
        return cls(index, digest, examples, None if part is None else FilePart.from_json(part))


def cut(examples: Sequence[Example], size: int, facts: Mapping[str, object]) -> list[Block]:
    """Examples in blocks of a size, in their order."""
    for example in examples:
        if not _elsewhere(example):
            raise InputError(
                f"{example.name!r} is an image in the memory of this process, which other machines cannot read. "
                "Write the images to files first, or fit without ray."
            )
    parts = [examples[start : start + size] for start in range(0, len(examples), size)]
    return [Block(i, fingerprint(part, {**facts, "block": i}), tuple(part)) for i, part in enumerate(parts)]


def of_parts(parts: Sequence[FilePart], facts: Mapping[str, object]) -> list[Block]:
    """One block for each part of a file."""
    told = json.dumps(dict(facts), sort_keys=True, default=str)
    blocks = []
    for i, part in enumerate(parts):
        digest = hashlib.sha256(json.dumps([told, i, part.to_json()]).encode()).hexdigest()
        blocks.append(Block(i, digest, part=part))
    return blocks


def remote(url: str, stamp: str) -> Later:
    """An image at a URL."""
    return Later(partial(fetch, url), url, stamp)


def _elsewhere(example: Example) -> bool:
    return isinstance(example.image, Path | Member) or (
        isinstance(example.image, Later) and "://" in example.image.name
    )


def _row(example: Example) -> Row:
    image, known = example.image, (example.label, example.name, example.group, example.split)
    if isinstance(image, Member):
        archive, *rest = image.address()
        return "member", [str(Path(archive).absolute()), *rest], *known
    if isinstance(image, Later):
        return "url", image.name, *known
    return "path", str(cast(Path, image).absolute()), *known


def _example(row: Row) -> Example:
    kind, place, label, name, group, split = row
    if kind == "member":
        image: Path | Member | Later = Member.at(cast(Address, tuple(cast("list[object]", place))))
    else:
        image = remote(str(place), "") if kind == "url" else Path(str(place))
    return Example(image, label, name, group, split)
