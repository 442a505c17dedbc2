"""Machine unlearning, verified: compares a model with a receipt, and with a fresh fit of the remaining data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from yoro.data.responses import ResponseBatch
from yoro.data.roles import to_change
from yoro.errors import InputError, counted
from yoro.files.result_view import Result, Table
from yoro.model.ledger import Entry
from yoro.model.model import Model, Origin
from yoro.model.one_pass import ThisProcess, in_views, origin_of
from yoro.model.open_model import OpenModel, need_ledger
from yoro.model.pipeline import Pipeline
from yoro.model.settings import USUAL, FitSettings, Loading
from yoro.model.solve import settings_of, solve
from yoro.model.store import model_digest
from yoro.model.unlearning_receipt import Receipt, asked_views, digest_of, read_receipt

EQUAL = 1e-9  # of the largest number of a mapping, or of 1: two that differ by less are one
MODEL, REMOVED, LEDGER, DATA, FIT = "model", "list", "contents", "data", "fit"


@dataclass(frozen=True, repr=False)
class Verification(Result):
    """Whether a receipt holds, and the checks behind it."""

    findings: tuple[Finding, ...]
    difference: float | None = None  # the largest between the mapping and that of a fit afresh
    uncertain: tuple[str, ...] = ()  # as the receipt says
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)

    def headline(self) -> str:
        failed = [finding.said for finding in self.findings if not finding.holds]
        verdict = "The receipt holds." if self.holds else "The receipt does not hold."
        return " ".join([verdict, *failed, *self.uncertain])

    def tables(self) -> list[Table]:
        return [Table([vars(finding) for finding in self.findings])]

    def to_json(self) -> dict[str, object]:
        findings = [vars(finding) for finding in self.findings]
        return {
            "holds": self.holds, "findings": findings, "difference": self.difference, "uncertain": list(self.uncertain),
        }  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One check, whether it holds, and a sentence on it."""

    what: str
    holds: bool
    said: str


def verify(
    classifier: OpenModel,
    receipt: Receipt | str | Path,
    data: object = None,
    *,
    loading: Loading = USUAL,
    progress: bool = False,
) -> Verification:
    """Compare a model with a receipt; with the remaining data, also with a fresh fit of them.

    Examples that the receipt lists are skipped in the data, so these may be the data of the first fit.
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
        return Finding(MODEL, True, "The model matches the receipt.")
    if digest == paper.before["digest"]:
        return Finding(MODEL, False, "This is the model from before the examples were forgotten.")
    return Finding(MODEL, False, "The model does not match the receipt: it is another one, or was changed since.")


def _is_the_list(model: Model, paper: Receipt) -> Finding:
    """The history of the model knows what was removed, by one digest of all."""
    known, what = digest_of(paper.removed), counted(len(paper.removed), "example")
    recorded = any(entry.get("removed") == known for entry in model.history)
    told = "records" if recorded else "does not record"
    return Finding(REMOVED, recorded, f"The model's history {told} that these {what} were forgotten.")


def _is_gone(model: Model, paper: Receipt) -> Finding:
    contents = set(paper.digests)
    listed = {digest for digest, held in zip(contents, model.ledger.holds(list(contents)), strict=True) if held}
    stores = [store for store in (model.reservoir, model.gathered.pile) if store]
    kept = contents & set().union(*(store.digests for store in stores))
    if listed | kept:
        where = f"{len(listed):,} in its ledger, {len(kept):,} in its reservoir"
        return Finding(LEDGER, False, f"{counted(len(listed | kept), 'image')} still in the model: {where}.")
    return Finding(LEDGER, True, "None of the images is in the model.")


def _same_data(model: Model, fresh: Model) -> Finding:
    mine, theirs = Counter(model.ledger.entries()), Counter(fresh.ledger.entries())
    lacking, more = (mine - theirs).total(), (theirs - mine).total()
    if not lacking and not more:
        return Finding(DATA, True, f"The data match what the model was fitted on: {counted(mine.total(), 'example')}.")
    odd = f"{counted(lacking, 'fitted example')} missing from the data, {counted(more, 'example')} never fitted"
    return Finding(DATA, False, f"The data differ from what the model was fitted on: {odd}.")


def _same_fit(model: Model, fresh: Model, difference: float | None) -> Finding:
    if difference is None:
        return Finding(FIT, False, "A fresh fit has other classes, or reads one view instead of two.")
    size = max(1.0, float(np.abs(fresh.mapping.weights).max(initial=0.0)))
    said = f"largest difference {difference:.1e}, for values up to {size:.3g}"
    if difference <= EQUAL * size:
        return Finding(FIT, True, f"A fresh fit gives the same mapping: {said}.")
    mine, theirs = (f"{one.choice.shrinkage:g}" for one in (model, fresh))
    chosen = "" if mine == theirs else f" It chooses the shrinkage {theirs}; the model has {mine}."
    return Finding(FIT, False, f"A fresh fit gives another mapping: {said}.{chosen}")


def _fitted(
    classifier: OpenModel, paper: Receipt, data: object, loading: Loading, progress: bool
) -> tuple[Model, list[tuple[str, str]]]:
    """The model of a fit afresh, by the settings of the model, of data less what the receipt lists."""
    model = classifier.model
    parts, _ = to_change("forget", data, model.choice.asked, classifier.names)
    solving, keep = settings_of(model, model.gathered)
    settings = FitSettings(solve=solving, loading=loading, progress=progress)
    read_by: Pipeline | Origin = classifier.pipeline if model.origin.images else model.origin
    if isinstance(read_by, Pipeline) and asked_views(model) == 2:
        read_by = replace(read_by, layout=replace(read_by.layout, views=2))
    gone = Counter(paper.removed)
    engine = ThisProcess(lambda batch: _without(batch, gone))
    read_by, gathered, _ = in_views(list(parts), read_by, settings, engine)
    if not gathered.images:
        raise InputError("The data contain only forgotten examples; give the remaining data.")
    gathered.pile = model.gathered.pile  # without labels it is not among the data
    return solve(gathered, solving, origin_of(read_by), words=model.words, keep=keep), gathered.skipped


def _without(batch: ResponseBatch, gone: Counter[Entry]) -> ResponseBatch:
    """The batch without the forgotten examples, each removed as often as it is listed."""
    rows = []
    for row, entry in enumerate(zip(batch.digests, batch.labels or [], strict=True)):
        gone[entry] -= 1
        if gone[entry] < 0:
            rows.append(row)
    return batch.take(rows)
