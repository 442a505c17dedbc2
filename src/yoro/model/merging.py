"""From shards and models to the model of all their data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from yoro.discriminant.readings import Layout
from yoro.errors import InputError, counted
from yoro.model.gathered import Gathered
from yoro.model.model import Json, Model, Origin, Verb
from yoro.model.settings import SolveSettings
from yoro.model.shards import PARTS, Shard, joined_facts, merged, missing_shares, parts_of
from yoro.model.solve import solve
from yoro.model.views import preferred_views

FACTS = "facts"  # of an entry of a model's history: what `Shard` calls so
WITHOUT_RESPONSES = "oas"  # the rule where nothing can be left out: it needs the statistics alone


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
    return Merged(solve(gathered, settings, origin, verb=verb), tuple(notes))


def _with_views(origin: Origin, layout: Layout, views: int) -> Origin:
    """The origin of responses that are read with this number of views."""
    mine = replace(layout, views=views)
    source = {key: value for key, value in origin.source.items() if key != "readings"}
    return replace(origin, source=source if mine.plain else source | {"readings": mine.config()})


def _repeats(gathered: Gathered) -> int:
    """How many entries repeat an earlier one, content and label."""
    entries = gathered.ledger.entries()
    return len(entries) - len(set(entries))
