"""Sessions for the tests: data dealt out to parties, and the rounds played through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.readings import Layout
from yoro.model.gathered import Gathered
from yoro.model.model import Model, Origin
from yoro.model.shards import Shard, solve_shards
from yoro.parties.agreement import agreement_of, write_agreement
from yoro.parties.secure_aggregation import Session, confirm, join, send

EIGHT = tuple(f"party-{i}" for i in range(8))


def summed(responses: np.ndarray, labels: Sequence[str], layout: Layout | None = None) -> JointStatistics:
    result = JointStatistics(layout)
    result.update(responses, list(labels))
    return result


def dealt(responses: np.ndarray, labels: np.ndarray, parties: Sequence[str]) -> dict[str, JointStatistics]:
    """The rows dealt out at random, so that some parties lack classes where there are few rows."""
    hand = np.random.default_rng(1).integers(0, len(parties), len(labels))
    layout = Layout.of(responses.shape[1])
    return {party: summed(responses[hand == i], labels[hand == i], layout) for i, party in enumerate(parties)}


def begin(
    folder: Path,
    parties: Sequence[str],
    classes: Sequence[str],
    layout: Layout,
    origin: Origin | None = None,
    **more: object,
) -> Session:
    """All have joined; keys lie beside the folder."""
    write_agreement(agreement_of(parties, classes, origin or Origin(), layout, **more), folder)
    session = Session(folder)
    for party in parties:
        join(session, party, key(folder, party))
    return session


def key(folder: Path, party: str) -> Path:
    return folder.parent / f"{folder.name}-{party}.key"


def play(
    folder: Path, data: dict[str, JointStatistics], sending: Sequence[str] | None = None, **more: object
) -> Session:
    """A session up to the confirmations of those who send."""
    parties = list(data)
    layout = next(iter(data.values())).layout
    classes = sorted({name for part in data.values() for name in part.classes})
    session = begin(folder, parties, classes, layout, **more)
    for party in sending or parties:
        send(session, data[party], key(folder, party))
    for party in sending or parties:
        confirm(session, key(folder, party), [name for name in parties if name not in (sending or parties)])
    return session


def solved(shard: Shard, rule: str | float = "oas") -> Model:
    return solve_shards([shard], rule, "empirical").model


def pooled(parts: Sequence[JointStatistics], origin: Origin | None = None) -> Shard:
    """The statistics of all data in one place, added up plainly."""
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    return Shard(Gathered(whole.folded(), noting=False), origin or Origin(), ("pooled",))
