"""Shards: what was gathered of a part of the data, as one file; those of all parts add up to the whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from yoro import limits
from yoro.data.examples import listed
from yoro.discriminant.readings import Layout
from yoro.errors import InputError, counted
from yoro.files.atomic import write_file
from yoro.files.reading import read_bounded, refuse_damaged, refuse_unusable
from yoro.model.gathered import Gathered
from yoro.model.model import Json, Model, Origin, Verb
from yoro.model.settings import SolveSettings
from yoro.model.solve import solve
from yoro.model.store import checked_origin, origin_table
from yoro.model.views import preferred_views

PARTS = "parts"  # the entry of a model's history that names what it was merged from
SHARES = "shares"  # the fact that says which shares of which data are here: a table of names to `of` and `have`
SHOWN = 8  # numbers of missing shares in a sentence
DEPTH = 3  # of tables in facts that are joined entry by entry

T = TypeVar("T")
FACTS = "facts"  # of an entry of a model's history: what `Shard` calls so
WITHOUT_RESPONSES = "oas"  # the rule where nothing can be left out: it needs the statistics alone


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


@dataclass(frozen=True)
class Merged:
    """The merged model, and notes for the user."""

    model: Model
    notes: tuple[str, ...] = ()


def shard_of(model: Model) -> Shard:
    """What a model was solved from, as a shard."""
    if model.words is not None:
        raise InputError(
            "A model that compares images with sentences is more than its statistics; merge it with models, not with "
            "statistics files."
        )
    return Shard(model.gathered, model.origin, tuple(parts_of(model.history)), shard_facts_of(model))


def shard_facts_of(model: Model) -> Json:
    """What was said of the shards that a model was merged from."""
    facts: Json = {}
    for entry in model.history:
        told = entry.get(FACTS)
        facts = joined_facts(facts, told if isinstance(told, dict) else {})
    return facts


def joined_notes(shards: Sequence[Shard], whole: Shard) -> list[str]:
    """Notes on what is missing, and on what is in two of the shards.

    A share whose images are all in another shard too does not tell that anything is missing.
    """
    if blind := sum(not shard.gathered.noting for shard in shards) if len(shards) > 1 else 0:
        have = "has" if blind == 1 else "have"
        unchecked = (
            f"Overlap cannot be checked: {blind} of the {len(shards)} files {have} no image hashes. Images that are in "
            "two of the files, such as those of a total and of a part of it, count twice."
        )
        return [*missing_shares(whole), unchecked]
    twice = _repeats(whole.gathered) - sum(_repeats(shard.gathered) for shard in shards)
    if not twice:
        return missing_shares(whole)
    held, facts = [set(shard.gathered.ledger.entries()) for shard in shards], Json()
    for i, shard in enumerate(shards):
        if not any(held[i] <= other for j, other in enumerate(held) if j != i):
            facts = joined_facts(facts, shard.facts)
    again = f"{counted(twice, 'example')} in two of the files, now counted twice."
    return [*missing_shares(replace(whole, facts=facts)), again]


def solve_shards(shards: Sequence[Shard], rule: str | float | None, prior: str, before: Sequence[Json] = ()) -> Merged:
    """The model of all that the shards cover; without a rule, by leave-one-out where individual responses are kept.

    `before` is the history that the model goes on with.
    """
    whole = merged(shards)
    notes, gathered = joined_notes(shards, whole), whole.gathered
    if rule is None and gathered.reservoir is None:
        rule = WITHOUT_RESPONSES
        alone = "" if len(gathered.statistics.parts) == 1 else ", and a single layer is used"
        notes.append(
            f"Shrinkage by {rule}{alone}: leave-one-out needs individual responses, and none are kept. "
            "Probabilities are calibrated on responses simulated from the sums."
        )
    settings = SolveSettings(SolveSettings.shrinkage if rule is None else rule, prior)
    origin, more = whole.origin, Json(passes=0)
    if origin.layout is not None and len(gathered.statistics.layout.readings) == 2 * len(origin.layout.readings):
        views, gathered = preferred_views(origin.layout, gathered, settings)
        origin, more = _with_views(origin, origin.layout, views), more | {"views": 2}
    more[PARTS] = [part for part in whole.parts if part not in set(parts_of(before))]
    if whole.facts:
        more[FACTS] = whole.facts
    verb = Verb("merge", gathered.images, tuple(before), more)
    try:
        return Merged(solve(gathered, settings, origin, verb=verb), tuple(notes))
    except InputError as error:
        error.args = (" ".join([str(error), *missing_shares(whole)]),)
        raise


def _with_views(origin: Origin, layout: Layout, views: int) -> Origin:
    """The origin of responses that are read with this number of views."""
    mine = replace(layout, views=views)
    source = {key: value for key, value in origin.source.items() if key != "readings"}
    return replace(origin, source=source if mine.plain else source | {"readings": mine.config()})


def _repeats(gathered: Gathered) -> int:
    """How many entries repeat an earlier one, content and label."""
    entries = gathered.ledger.entries()
    return len(entries) - len(set(entries))
