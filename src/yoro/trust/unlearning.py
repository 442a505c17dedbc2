"""Was it forgotten? A model held against a receipt, and against a fit afresh of the data that are left."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from yoro.data.responses import ResponseBatch
from yoro.data.roles import to_change
from yoro.discriminant.rules import MEMBERS, RULES
from yoro.errors import InputError, counted
from yoro.model.classifier import Classifier, need_ledger
from yoro.model.model import Model, Origin
from yoro.model.one_pass import ThisProcess, in_views, origin_of
from yoro.model.pipeline import Pipeline
from yoro.model.settings import HERE, FitSettings, Loading, SolveSettings
from yoro.model.solve import solve
from yoro.model.store import model_digest
from yoro.model.unlearning_receipt import Receipt, asked_views, digest_of, read_receipt

EQUAL = 1e-9  # of the largest number of a mapping, or of 1: two that differ by less are one
MODEL, REMOVED, LEDGER, DATA, FIT = "model", "list", "contents", "data", "fit"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, whether it holds, and what was found, in a sentence."""

    what: str
    holds: bool
    said: str


@dataclass(frozen=True)
class Verification:
    """Whether a receipt holds, and all that was looked at for it."""

    findings: tuple[Finding, ...]
    difference: float | None = None  # the largest between the mapping and that of a fit afresh
    uncertain: tuple[str, ...] = ()  # as the receipt says
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def holds(self) -> bool:
        """Whether everything does."""
        return all(finding.holds for finding in self.findings)

    def to_json(self) -> dict[str, object]:
        """The same as plain values."""
        findings = [vars(finding) for finding in self.findings]
        return {
            "holds": self.holds, "findings": findings, "difference": self.difference, "uncertain": list(self.uncertain),
        }  # fmt: skip


def verify(
    classifier: Classifier,
    receipt: Receipt | str | Path,
    data: object = None,
    *,
    loading: Loading = HERE,
    progress: bool = False,
) -> Verification:
    """Hold a model against a receipt; with the data that are left, also against a fit of them.

    What the receipt lists is passed over in the data, so they may be those of the first fit.
    """
    paper = receipt if isinstance(receipt, Receipt) else read_receipt(receipt)
    model = classifier.model
    need_ledger(model, "verify")
    findings = [_is_the_model(model, paper), _is_the_list(model, paper), _is_gone(model, paper)]
    if data is None:
        return Verification(tuple(findings), uncertain=paper.uncertain)
    fresh, skipped = _fitted(classifier, paper, data, loading, progress)
    findings.append(_same_data(model, fresh))
    difference = None
    if fresh.mapping.classes == model.mapping.classes and fresh.mapping.width == model.mapping.width:
        difference = largest_difference(model, fresh)
    findings.append(_same_fit(model, fresh, difference))
    return Verification(tuple(findings), difference, paper.uncertain, tuple(skipped))


def largest_difference(one: Model, two: Model) -> float:
    """The largest difference between the mappings of the same classes."""
    known = np.isfinite(two.mapping.bias)
    if (np.isfinite(one.mapping.bias) != known).any():
        return float("inf")
    weights = np.abs(one.mapping.weights - two.mapping.weights).max(initial=0.0)
    return float(max(weights, np.abs(one.mapping.bias[known] - two.mapping.bias[known]).max(initial=0.0)))


def _is_the_model(model: Model, paper: Receipt) -> Finding:
    digest = model_digest(model)
    if digest == paper.after["digest"]:
        return Finding(MODEL, True, "The model is the one of the receipt.")
    if digest == paper.before["digest"]:
        return Finding(MODEL, False, "The model is the one before the forgetting.")
    return Finding(MODEL, False, "The model is not the one of the receipt: it is another, or was changed since.")


def _is_the_list(model: Model, paper: Receipt) -> Finding:
    """The history of the model knows what was removed, by one digest of all."""
    known = any(entry.get("removed") == digest_of(paper.removed) for entry in model.history)
    what = counted(len(paper.removed), "example")
    if known:
        return Finding(REMOVED, True, f"The model's history has the forgetting of these {what}.")
    return Finding(REMOVED, False, f"The model's history has no forgetting of these {what}.")


def _is_gone(model: Model, paper: Receipt) -> Finding:
    contents = set(paper.digests)
    listed = {digest for digest, held in zip(contents, model.ledger.holds(list(contents)), strict=True) if held}
    kept = contents & set(model.reservoir.members().digests) if model.reservoir else set()
    if listed | kept:
        where = f"{len(listed):,} in its list, {len(kept):,} among its responses"
        return Finding(LEDGER, False, f"The model still holds {counted(len(listed | kept), 'content')}: {where}.")
    return Finding(LEDGER, True, "The model holds none of the contents.")


def _same_data(model: Model, fresh: Model) -> Finding:
    mine, theirs = Counter(model.ledger.entries()), Counter(fresh.ledger.entries())
    lacking, more = (mine - theirs).total(), (theirs - mine).total()
    if not lacking and not more:
        return Finding(DATA, True, f"The data are what the model was fitted on: {counted(mine.total(), 'example')}.")
    told = f"{counted(lacking, 'fitted example')} not in the data, {counted(more, 'example')} of the data not fitted"
    return Finding(DATA, False, f"The data are not what the model was fitted on: {told}.")


def _same_fit(model: Model, fresh: Model, difference: float | None) -> Finding:
    if difference is None:
        return Finding(FIT, False, "A fit of the data has other classes, or reads one view in place of two.")
    size = max(1.0, float(np.abs(fresh.mapping.weights).max(initial=0.0)))
    said = f"the largest difference is {difference:.1e}, of numbers up to {size:.3g}"
    if difference <= EQUAL * size:
        return Finding(FIT, True, f"A fit of the data gives the same mapping: {said}.")
    mine, theirs = (f"{one.choice.shrinkage:g}" for one in (model, fresh))
    chosen = "" if mine == theirs else f" It chooses the shrinkage {theirs}; the model has {mine}."
    return Finding(FIT, False, f"A fit of the data gives another mapping: {said}.{chosen}")


def _fitted(
    classifier: Classifier, paper: Receipt, data: object, loading: Loading, progress: bool
) -> tuple[Model, list[tuple[str, str]]]:
    """The model of a fit afresh, by the settings of the model, of data less what the receipt lists."""
    model, rule = classifier.model, classifier.model.choice.asked
    parts, _ = to_change("forget", data, rule, classifier.names)
    capacity, seed = (model.reservoir.capacity, model.reservoir.seed) if model.reservoir else (0, 0)
    solving = SolveSettings(rule, model.prior, model.protocol, capacity, seed)
    settings = FitSettings(solve=solving, loading=loading, progress=progress)
    read_by: Pipeline | Origin = classifier.pipeline if model.origin.images else model.origin
    if isinstance(read_by, Pipeline) and asked_views(model) == 2:
        read_by = replace(read_by, layout=replace(read_by.layout, views=2))
    gone = Counter(paper.removed)
    engine = ThisProcess(lambda batch: _without(batch, gone))
    read_by, gathered, _ = in_views(list(parts), read_by, settings, engine)
    if not gathered.images:
        raise InputError("The data hold nothing but what was forgotten; give the data that are left.")
    lacks = isinstance(rule, str) and RULES[rule] == MEMBERS and not capacity
    keep = model.choice if rule == "validation" or lacks else None  # as `forget` keeps it
    return solve(gathered, solving, origin_of(read_by), words=model.words, keep=keep), gathered.skipped


def _without(batch: ResponseBatch, gone: Counter[tuple[str, str]]) -> ResponseBatch:
    """The batch less what is gone, once for each time it is listed."""
    rows = []
    for row, (digest, label) in enumerate(zip(batch.digests, batch.labels or [], strict=True)):
        gone[digest.hex(), label] -= 1
        if gone[digest.hex(), label] < 0:
            rows.append(row)
    return batch.take(rows)
