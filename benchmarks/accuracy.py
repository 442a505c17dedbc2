"""Accuracy of the paper's rule and of the default on the same labelled images, with the embedded network; then of
frames, readings and canvases, by the default.

Data: scikit-learn's digits, and Fashion-MNIST where Debian's package `dataset-fashion-mnist` is installed.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import yoro
from timing import print_machine, print_table, responses_to
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import PipelineSettings

FASHION = Path("/usr/share/datasets/fashion-mnist")
SEEDS = (0, 1, 2)


def digits() -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return np.round(data.images * 255 / 16).astype(np.uint8), data.target.astype(str)


def fashion() -> tuple[np.ndarray, np.ndarray]:
    content = [
        gzip.decompress((FASHION / f"train-{what}-ubyte.gz").read_bytes()) for what in ("images-idx3", "labels-idx1")
    ]
    images, labels = (np.frombuffer(part, np.uint8, offset=head) for part, head in zip(content, (16, 8), strict=True))
    return images.reshape(-1, 28, 28)[:3000], labels[:3000].astype(str)


def draw(labels: np.ndarray, fit: int, val: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of `fit` and `val` images a class, and half of the data to test on, which is the same for every draw."""
    rng = np.random.default_rng(seed)
    pool, test = np.arange(0, len(labels), 2), np.arange(1, len(labels), 2)
    shuffled = [rng.permutation(pool[labels[pool] == name]) for name in np.unique(labels)]
    return np.concatenate([s[:fit] for s in shuffled]), np.concatenate([s[fit : fit + val] for s in shuffled]), test


WAYS = {  # how images are read: a source and the settings of its pipeline
    "plain image, logits, 224": PipelineSettings(),
    "black frame": PipelineSettings(prompt="padding", frame="black"),
    "grey frame": PipelineSettings(prompt="padding", frame="grey"),
    "features": PipelineSettings(read="features"),
    "canvas 128": PipelineSettings("embedded:lite0?side=128"),
    "canvas 96": PipelineSettings("embedded:lite0?side=96"),
}


def main() -> None:
    print_machine()
    sets = {"digits": digits()} | ({"Fashion-MNIST": fashion()} if FASHION.exists() else {})
    answers = {
        (name, way): responses_to(make_pipeline(settings), list(images))
        for name, (images, _) in sets.items()
        for way, settings in WAYS.items()
    }
    rows = []
    for name, (_, labels) in sets.items():
        responses = answers[name, next(iter(WAYS))]
        for fit, val in ((4, 2), (16, 4), (60, 12)):
            found = []
            for seed in SEEDS:
                train, held, test = draw(labels, fit, val, seed)
                parts = [(responses[part], labels[part]) for part in (train, held, test)]
                paper = yoro.fit(parts[0], val=parts[1], protocol="paper").evaluate(parts[2]).accuracy
                plain = yoro.fit(parts[0], val=parts[1]).evaluate(parts[2]).accuracy
                alone = yoro.fit(parts[0]).evaluate(parts[2]).accuracy
                found.append((paper, plain, alone))
            mean = 100 * np.mean(found, axis=0)
            rows.append([name, f"{fit} + {val}", *(f"{value:.1f}" for value in mean), f"{mean[1] - mean[0]:+.1f}"])
    print_table(
        f"Test accuracy (%), means of {len(SEEDS)} draws; images a class: to fit + to validate",
        ["data", "images", "paper's rule", "default (fits both)", "leave-one-out on the first alone", "gain"],
        rows,
    )
    print_table(
        f"Test accuracy (%) by how images are read, 16 images a class, means of {len(SEEDS)} draws",
        ["data", *WAYS],
        [
            [name, *(f"{accuracy_of(answers[name, way], labels):.1f}" for way in WAYS)]
            for name, (_, labels) in sets.items()
        ],
    )


def accuracy_of(responses: np.ndarray, labels: np.ndarray) -> float:
    """Of the default on 16 images a class, in percent."""
    found = []
    for seed in SEEDS:
        train, _, test = draw(labels, 16, 0, seed)
        found.append(yoro.fit((responses[train], labels[train])).evaluate((responses[test], labels[test])).accuracy)
    return 100 * float(np.mean(found))


if __name__ == "__main__":
    main()
