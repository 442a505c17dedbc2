"""Shards: what was gathered of a part of the data, as one file; shards of all parts add up to the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from yoro import limits
from yoro.data.examples import listed
from yoro.errors import InputError
from yoro.files.atomic import write_file
from yoro.files.reading import read_bounded, refuse_damaged, refuse_unusable
from yoro.model.gathered import Gathered
from yoro.model.model import Json, Origin
from yoro.model.store import checked_origin, origin_table

PARTS = "parts"  # the entry of a model's history that names what it was merged from
SHARES = "shares"  # the fact that says which shares of which data are here: a table of names to `of` and `have`
SHOWN = 8  # numbers of missing shares in a sentence
DEPTH = 3  # of tables in facts that are joined entry by entry

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """What was gathered, where its responses come from, and the parts of the data that it covers, by name."""

    gathered: Gathered
    origin: Origin
    parts: tuple[str, ...] = ()  # digests; no two shards of a sum may have one in common
    facts: Json = field(default_factory=dict)  # what else its maker wants to be known of it

    def to_bytes(self) -> bytes:
        more: Json = {"origin": origin_table(self.origin), "parts": list(self.parts), "facts": self.facts}
        prompt = {f"prompt.{name}": array for name, array in self.origin.prompt_arrays.items()}
        return self.gathered.to_bytes(more, prompt)

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Shard:
        """What `to_bytes` gave, checked as untrusted input; `name` is shown in errors."""
        gathered, more, prompt = Gathered.from_bytes(content, name)
        with refuse_damaged(name):
            table, parts, facts = more["origin"], more["parts"], more["facts"]
            if not isinstance(table, dict) or not isinstance(facts, dict):
                raise InputError("its facts are not tables.")
            if not isinstance(parts, list) or len(set(map(str, parts))) != len(parts):
                raise InputError("the parts of the data that it covers are not a list of different names.")
            origin = checked_origin(table, {key.partition(".")[2]: array for key, array in prompt.items()})
            return cls(gathered, origin, tuple(map(str, parts)), facts)


def write_shard(shard: Shard, path: Path) -> None:
    """Write the file; it appears whole or not at all."""
    write_file(path, shard.to_bytes())


def read_shard(path: Path) -> Shard:
    """Read a file; damage, or a file of another kind, is a StoreError that says so."""
    with refuse_unusable(str(path)):
        content = read_bounded(path, limits.MODEL_FILE_BYTES)
    return Shard.from_bytes(content, str(path))


def merged(shards: Sequence[Shard]) -> Shard:
    """The shard of all that these cover, in their order; halves are added to halves, so that rounding stays small.

    A part that two of them cover would count twice, and is an error.
    """
    return merged_from(shards, lambda shard: shard)


def merged_from(places: Sequence[T], read: Callable[[T], Shard]) -> Shard:
    """`merged` of shards that are read when their turn comes: of sixteen, five are in memory at most."""
    if not places:
        raise InputError("There is nothing to merge; give at least one shard.")
    if len(places) == 1:
        return read(places[0])
    half = len(places) // 2
    one, two = merged_from(places[:half], read), merged_from(places[half:], read)
    one.origin.check_same(two.origin)
    refuse_twice(one.parts, two.parts)
    facts = joined_facts(one.facts, two.facts)
    return Shard(one.gathered.merge(two.gathered), one.origin, one.parts + two.parts, facts)


def refuse_twice(one: Sequence[str], two: Sequence[str]) -> None:
    """Raise if two lists of parts have one in common."""
    if twice := sorted(set(one) & set(two)):
        raise InputError(
            f"{len(twice)} of the parts of the data would count twice; the first is {twice[0]:.60}. "
            "Leave out a shard that was given twice."
        )


def parts_of(history: Sequence[Json]) -> list[str]:
    """The parts of the data that a model was merged from, as its history names them."""
    found = [entry.get(PARTS) for entry in history]
    return [str(name) for names in found if isinstance(names, list) for name in names]


def missing_shares(shard: Shard) -> list[str]:
    """Notes on data whose shares are only partly present, and on the classes that vanish with the others."""
    notes, there = [], set(shard.gathered.statistics.classes)
    for of, have, classes in _shares(shard.facts):
        missing = sorted(set(range(1, min(of, limits.SHARES) + 1)) - have)
        if missing:
            named = ", ".join(map(str, missing[:SHOWN])) + (", ..." if len(missing) > SHOWN else "")
            are = "is" if len(missing) == 1 else "are"
            notes.append(f"{len(missing):,} of {of:,} parts of the same data {are} missing: {named}.")
            if gone := listed(sorted(set(classes) - there)):
                notes[-1] += f" Without {'it' if len(missing) == 1 else 'them'} these classes have no image: {gone}."
    return notes


def told_parts(shard: Shard) -> str:
    """Which parts of the data a shard covers, in words.

    A part of data that were shared out is known by its number; any other is only counted.
    """
    shares = [f"{', '.join(map(str, sorted(have)[:SHOWN]))}{', ...' * (len(have) > SHOWN)} of {of:,}"
              for of, have, _ in _shares(shard.facts)]  # fmt: skip
    return "; ".join(shares) or f"{len(shard.parts):,}"


def _shares(facts: Json) -> Iterator[tuple[int, set[int], list[str]]]:
    """For each dataset that was split into shares: how many there are, which are here, and the classes of all."""
    shares = facts.get(SHARES)
    for entry in shares.values() if isinstance(shares, dict) else ():
        of, have = (entry.get("of"), entry.get("have")) if isinstance(entry, dict) else (None, None)
        if isinstance(of, int) and isinstance(have, list):
            classes = entry.get("classes")
            yield of, {i for i in have if isinstance(i, int)}, list(classes) if isinstance(classes, dict) else []


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
