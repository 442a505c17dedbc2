"""Blocks: the parts of the data that are read and gathered separately, each identified by a digest before reading."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from yoro.data.examples import Example, address_of, picture_at
from yoro.data.row_files import FilePart
from yoro.errors import InputError
from yoro.model.checkpoint import fingerprint


@dataclass(frozen=True)
class Block:
    """Consecutive examples, or a part of a file of them; its digest covers all that its outcome depends on."""

    index: int
    digest: str
    examples: tuple[Example, ...] = ()
    part: FilePart | None = None

    def to_text(self) -> str:
        """What another process needs, as JSON."""
        part = None if self.part is None else self.part.to_json()
        rows = [[address_of(e.image), e.label, e.name, e.group, e.split] for e in self.examples]
        return json.dumps([self.index, self.digest, rows, part])

    @classmethod
    def from_text(cls, text: str) -> Block:
        """What `to_text` gave."""
        index, digest, rows, part = json.loads(text)
        examples = tuple(Example(picture_at(address), *known) for address, *known in rows)
        return cls(index, digest, examples, None if part is None else FilePart.from_json(part))


def cut(examples: Sequence[Example], size: int, facts: Mapping[str, object]) -> list[Block]:
    """Examples in blocks of a size, in their order."""
    for example in examples:
        if address_of(example.image) is None:
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
