"""Accuracy and cost of every method on the same responses: label mappings, ablations of BDM, training-free peers.

Without texts: scikit-learn's digits through the embedded network, 16 images a class. With texts: the
digits' pixels as image vectors and noisy class means as text vectors, which stands for no
real model and only lets the methods that need texts run.
"""

from __future__ import annotations

import sys

import numpy as np
from sklearn.datasets import load_digits

from timing import print_machine, print_table, responses_to
from yoro.model.pipeline import make_pipeline
from yoro.research.comparing import Comparison, compare_methods
from yoro.research.peers.method import unit
from yoro.research.peers.shared_responses import read_responses

SHOTS = 16
COLUMNS = ["method", "accuracy", "±", "fit s", "responses/s", "memory MB", "passes", "needs"]


def tell(name: str) -> None:
    print(f"\r{name:<20}", end="", file=sys.stderr)


def show(title: str, comparison: Comparison) -> None:
    rows = [
        [
            row.method, f"{row.accuracy:.1%}", f"{100 * (row.deviation or 0):.1f}", f"{row.fit_seconds:.2g}",
            f"{row.predict_rate:,.0f}", f"{row.memory_mb:,.1f}", str(row.passes), ", ".join(row.needs),
        ]
        for row in comparison.ran
    ]  # fmt: skip
    print(file=sys.stderr)
    print_table(title, COLUMNS, rows)
    refused = [f"{row.method} ({row.reason})" for row in comparison.rows if row.accuracy is None]
    if refused:
        print("could not run:", ", ".join(refused))


def main() -> None:
    print_machine()
    data = load_digits()
    labels = data.target.astype(str)
    responses = responses_to(make_pipeline(), list(np.round(data.images * 255 / 16).astype(np.uint8)))
    found = compare_methods(read_responses((responses, labels)), shots=SHOTS, tell=tell)
    show(f"digits, logits of the embedded network, {SHOTS} images a class", found)
    vectors, rng = unit(data.data), np.random.default_rng(0)
    texts = {name: vectors[labels == name].mean(axis=0) + 0.05 * rng.normal(size=(5, 64)) for name in np.unique(labels)}
    found = compare_methods(read_responses((vectors, labels)), shots=SHOTS, texts=texts, tell=tell)
    show(f"digits, pixels as vectors, noisy class means as texts, {SHOTS} images a class", found)


if __name__ == "__main__":
    main()
