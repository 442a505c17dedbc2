"""Shards: what was gathered of a part of the data, as one file; shards of all parts add up to the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from yoro import limits
from yoro.discriminant.readings import Layout
from yoro.errors import InputError, StoreError, one_line
from yoro.files.atomic import write_file
from yoro.files.reading import read_bounded
from yoro.files.tensors import pack_tensors, parse_tensors
from yoro.model.gathered import Gathered
from yoro.model.model import Json, Origin
from yoro.model.store import checked_origin, origin_table

KIND = "yoro-shard"
FORMAT = 1
PARTS = "parts"  # the entry of a model's history that names what it was merged from
SHARES = "shares"  # the fact that says which shares of which data are here: a table of names to `of` and `have`
SHOWN = 8  # numbers of missing shares in a sentence
DEPTH = 3  # of tables in facts that are joined entry by entry


@dataclass(frozen=True)
class Shard:
    """What was gathered, where its responses come from, and the parts of the data that it covers, by name."""

    gathered: Gathered
    origin: Origin
    parts: tuple[str, ...] = ()  # digests; no two shards of a sum may have one in common
    facts: Json = field(default_factory=dict)  # what else its maker wants to be known of it

    def to_bytes(self) -> bytes:
        """The file's content."""
        arrays, gathered = self.gathered.to_arrays()
        arrays |= {f"prompt.{name}": array for name, array in self.origin.prompt_arrays.items()}
        metadata: Json = {
            "kind": KIND,
            "format": FORMAT,
            "gathered": gathered,
            "readings": self.gathered.statistics.layout.config(),
            "origin": origin_table(self.origin),
            "parts": list(self.parts),
            "facts": self.facts,
        }
        return pack_tensors(arrays, metadata)

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Shard:
        """What `to_bytes` gave, checked as if a stranger had written it; `name` is shown in errors."""
        arrays, metadata = parse_tensors(content, KIND, name)
        if metadata.get("format") != FORMAT:
            raise StoreError(f"{name} has format {metadata.get('format')!r}; this version of yoro reads {FORMAT}.")
        try:
            prompt = {key: arrays.pop(key) for key in list(arrays) if key.startswith("prompt.")}
            facts = {key: cast(Json, metadata[key]) for key in ("gathered", "origin", "facts")}
            if not all(isinstance(table, dict) for table in facts.values()):
                raise InputError("its facts are no tables.")
            gathered = Gathered.from_arrays(arrays, facts["gathered"], Layout.from_config(metadata["readings"]))
            origin = checked_origin(facts["origin"], {key.partition(".")[2]: array for key, array in prompt.items()})
            parts = cast("list[object]", metadata["parts"])
            if not isinstance(parts, list) or len(set(map(str, parts))) != len(parts):
                raise InputError("the parts of the data that it covers are no list of different names.")
        except (StoreError, MemoryError):
            raise
        except Exception as error:  # a hostile file may hold anything in place of anything
            raise StoreError(f"{name} is damaged: {one_line(error)}") from error
        return cls(gathered, origin, tuple(map(str, parts)), facts["facts"])


def write_shard(shard: Shard, path: Path) -> None:
    """Write the file; it appears whole or not at all."""
    write_file(path, shard.to_bytes())


def read_shard(path: Path) -> Shard:
    """Read a file; damage, or one that is no shard, is a StoreError that says so."""
    try:
        content = read_bounded(path, limits.MODEL_FILE_BYTES)
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}.") from error
    return Shard.from_bytes(content, str(path))


def merged(shards: Sequence[Shard]) -> Shard:
    """The shard of all that these cover, in their order; halves are added to halves, so that rounding stays small.

    A part that two of them cover would count twice, and is an error.
    """
    if not shards:
        raise InputError("No shards came; at least one is needed.")
    if len(shards) == 1:
        return shards[0]
    one, two = merged(shards[: len(shards) // 2]), merged(shards[len(shards) // 2 :])
    one.origin.check_same(two.origin)
    refuse_twice(one.parts, two.parts)
    facts = joined_facts(one.facts, two.facts)
    return Shard(one.gathered.merge(two.gathered), one.origin, one.parts + two.parts, facts)


def refuse_twice(one: Sequence[str], two: Sequence[str]) -> None:
    """Raise if two lists of parts have one in common."""
    if twice := sorted(set(one) & set(two)):
        raise InputError(
            f"{len(twice)} of the parts of the data would count twice, the first is {twice[0]:.60}. "
            "Was a shard given twice? Leave one of them out."
        )


def parts_of(history: Sequence[Json]) -> list[str]:
    """The parts of the data that a model was merged from, as its history names them."""
    found = [entry.get(PARTS) for entry in history]
    return [str(name) for names in found if isinstance(names, list) for name in names]


def missing_shares(shard: Shard) -> list[str]:
    """Sentences on data of which some shares are here and some are not."""
    shares, told = shard.facts.get(SHARES), []
    for entry in shares.values() if isinstance(shares, dict) else ():
        of, have = (entry.get("of"), entry.get("have")) if isinstance(entry, dict) else (None, None)
        if not isinstance(of, int) or not isinstance(have, list):
            continue
        lacking = sorted(set(range(1, min(of, limits.SHARES) + 1)) - {i for i in have if isinstance(i, int)})
        if lacking:
            named = ", ".join(map(str, lacking[:SHOWN])) + (", ..." if len(lacking) > SHOWN else "")
            told.append(f"Of {of:,} parts of the same data {len(lacking):,} {_are(lacking)} not here: {named}.")
    return told


def _are(items: Sequence[int]) -> str:
    return "is" if len(items) == 1 else "are"


def joined_facts(one: Json, two: Json, depth: int = DEPTH) -> Json:
    """Facts of both: tables are joined entry by entry, lists are put one behind the other."""
    both = one | two
    for key in one.keys() & two.keys():
        mine, theirs = one[key], two[key]
        if isinstance(mine, dict) and isinstance(theirs, dict) and depth:
            both[key] = joined_facts(mine, theirs, depth - 1)
        elif isinstance(mine, list) and isinstance(theirs, list):
            both[key] = [*mine, *theirs]
    return both
