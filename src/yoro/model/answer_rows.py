"""Answers as rows of a table: a name, the best classes and how probable they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yoro.model.open_model import Answers


@dataclass(frozen=True)
class Wanted:
    """What a row holds.

    top : how many of the best classes.
    threshold : the probability below which no label is given.
    before : what stands before a name so that the file can be found from here.
    as_text : whether a set of labels is written as one text, for tables that hold no lists.
    """

    top: int = 1
    threshold: float = 0.0
    before: str = ""
    as_text: bool = False


def answer_rows(answers: Iterable[Answers], classes: tuple[str, ...], wanted: Wanted) -> Iterator[dict[str, object]]:
    """One row an image: path, label, probability, and further columns for the next best."""
    for batch in answers:
        order = np.argsort(-batch.log_probabilities, axis=1, kind="stable")[:, : wanted.top]
        typical = batch.typicality
        for at, (name, best) in enumerate(zip(batch.names, order.tolist(), strict=True)):
            row = np.exp(batch.log_probabilities[at])
            result: dict[str, object] = {"path": name if Path(name).is_absolute() else wanted.before + name}
            for rank, i in enumerate(best, start=1):
                suffix = "" if rank == 1 else f"_{rank}"
                sure = row[i] >= wanted.threshold and not batch.is_unknown(at)
                result[f"label{suffix}"] = classes[i] if rank > 1 or sure else None
                result[f"probability{suffix}"] = round(float(row[i]), 6)
            if typical is not None:
                result["typicality"] = round(float(typical[at]), 6)
            if batch.sets is not None:
                by_share = np.argsort(-row, kind="stable")
                inside = [classes[i] for i in by_share.tolist() if batch.sets[at, i]]
                result["labels"] = json.dumps(inside, ensure_ascii=False) if wanted.as_text else inside
            yield result
