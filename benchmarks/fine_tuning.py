"""What training would give: scikit-learn's logistic regression on frozen features, and all of the network fine-tuned.

Run: python fine_tuning.py FOLDER [--shots 16] [--seed 0] [--linear], FOLDER holding train/CLASS/ and test/CLASS/.

Logistic regression: standardised features, C from 1e-4 to 1e2 in powers of ten, by the log-loss of five folds, or as
many as the smallest class has images. Fine-tuning: the embedded network in torch with its batch norms folded in (as
if their statistics were frozen), under a head that starts from that logistic regression; AdamW, 1e-4 for the network
and 1e-3 for the head, weight decay 0.01, batches of 32, cosine to zero, random crops of at least 0.7 of the image and
mirroring; ten epochs, or as many as make a hundred steps. Nothing of it was chosen on test images.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch.nn.functional import cross_entropy

from timing import print_machine, print_table, processor_seconds
from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.geometry import WEAK, Geometry, Looks
from yoro.refining.images import LabelledImages
from yoro.sources import open_source
from yoro.sources.open import torch_network
from yoro.sources.protocol import ResponseSource

SOURCE = "embedded:lite0"
PENALTIES = tuple(10.0**power for power in range(-4, 3))  # C: large ones penalise little
FOLDS = 5
EPOCHS, STEPS = 10, 100  # at least so many of both
BATCH = 32
NETWORK_RATE, HEAD_RATE, DECAY = 1e-4, 1e-3, 0.01

Labelled = tuple[np.ndarray, np.ndarray]  # features (n, width) and labels (n,)


@dataclass(frozen=True)
class Outcome:
    """Test accuracy, from 0 to 1, and the processor's seconds that training took."""

    accuracy: float
    seconds: float


def logistic_regression(train: Labelled, test: Labelled) -> Outcome:
    """Scikit-learn's, its penalty cross-validated; the seconds do not count the reading of the features."""
    started = processor_seconds()
    model = fit_logistic(*train)
    seconds = processor_seconds() - started
    return Outcome(float(model.score(*test)), seconds)


def fit_logistic(features: np.ndarray, labels: np.ndarray) -> Pipeline:
    """A scaler and a regression; one image a class leaves no fold, and C is 1."""
    steps = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    folds = min(FOLDS, *Counter(labels.tolist()).values())
    if folds < 2:
        return steps.fit(features, labels)
    search = GridSearchCV(
        steps,
        {"logisticregression__C": PENALTIES},
        scoring="neg_log_loss",
        cv=StratifiedKFold(folds, shuffle=True, random_state=0),
    )
    return search.fit(features, labels).best_estimator_


def fine_tuned(train: Sequence[Example], test: Sequence[Example], *, source: str = SOURCE, seed: int = 0) -> Outcome:
    """All weights of an embedded network trained as the head of this file says; decoding counts, measuring does not."""
    started = processor_seconds()
    torch.manual_seed(seed)
    frozen = open_source(source, read="features")
    classes = tuple(sorted({example.label or "" for example in train}))
    images = LabelledImages(train, classes, Geometry(frozen.side))
    model = _network(source, frozen, images)
    steps_an_epoch = math.ceil(len(images) / BATCH)
    epochs = max(EPOCHS, math.ceil(STEPS / steps_an_epoch))
    network, head = model[:-1], model[-1]
    groups = [{"params": network.parameters(), "lr": NETWORK_RATE}, {"params": head.parameters(), "lr": HEAD_RATE}]
    optimiser = torch.optim.AdamW(groups, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * steps_an_epoch)
    for epoch in range(epochs):
        order = np.random.default_rng([seed, epoch]).permutation(len(images))
        for pixels, codes in images.batches(BATCH, order=order, looks=_looks(seed, epoch)):
            optimiser.zero_grad()
            cross_entropy(model(_tensor(pixels, frozen)), torch.from_numpy(codes)).backward()
            optimiser.step()
            schedule.step()
    seconds = processor_seconds() - started
    return Outcome(_accuracy(model, LabelledImages(test, classes, images.geometry), frozen), seconds)


def features_of(examples: Sequence[Example], source: ResponseSource) -> Labelled:
    """What the frozen network reads of the images, seen whole."""
    classes = tuple(sorted({example.label or "" for example in examples}))
    images = LabelledImages(examples, classes, Geometry(source.side))
    read = [source.respond(pixels) for pixels, _ in images.batches(BATCH)]
    return np.concatenate(read), np.array([example.label for example in examples])


def _network(source: str, frozen: ResponseSource, train: LabelledImages) -> torch.nn.Sequential:
    """The network to its features, and a linear head with the weights of the logistic regression on them."""
    features = torch_network(source, "features")[1].module.requires_grad_(True)
    scaler, regression = (step for _, step in fit_logistic(*features_of(train.examples, frozen)).steps)
    rows, bias = regression.coef_, regression.intercept_
    if len(rows) == 1:  # scikit-learn keeps one row for two classes
        rows, bias = (np.concatenate([-part, part]) / 2 for part in (rows, bias))
    weights = rows / scaler.scale_
    head = torch.nn.Linear(frozen.width, len(train.classes))
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(weights))
        head.bias.copy_(torch.from_numpy(bias - weights @ scaler.mean_))
    return torch.nn.Sequential(features, head).to(memory_format=torch.channels_last)


def _looks(seed: int, epoch: int) -> Looks:
    """How each image is cropped and mirrored in an epoch."""
    return lambda image: partial(WEAK.draw, (seed, epoch, image))


def _tensor(pixels: np.ndarray, source: ResponseSource) -> torch.Tensor:
    """Normalised (n, 3, side, side)."""
    normalised = (pixels.astype(np.float32) / 255 - np.float32(source.mean)) / np.float32(source.std)
    return torch.from_numpy(normalised).permute(0, 3, 1, 2)  # channels last in memory


def _accuracy(model: torch.nn.Module, test: LabelledImages, source: ResponseSource) -> float:
    with torch.inference_mode():
        right = sum(
            int((model(_tensor(pixels, source)).argmax(dim=1).numpy() == codes).sum())
            for pixels, codes in test.batches(BATCH)
        )
    return right / len(test)


def drawn(examples: Sequence[Example], shots: int, seed: int) -> list[Example]:
    """So many images of each class, by lot."""
    rng = np.random.default_rng(seed)
    labels = np.array([example.label for example in examples])
    rows = [rng.permutation(np.flatnonzero(labels == name))[:shots] for name in np.unique(labels)]
    return [examples[row] for row in np.concatenate(rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shots", type=int, default=16, help="images a class")
    parser.add_argument("--seed", type=int, default=0, help="of the draw and the training")
    parser.add_argument("--linear", action="store_true", help="logistic regression alone")
    options = parser.parse_args()
    print_machine()
    train = drawn(find(options.folder / "train").examples, options.shots, options.seed)
    test = find(options.folder / "test").examples
    frozen = open_source(SOURCE, read="features")
    found = {"logistic regression": logistic_regression(features_of(train, frozen), features_of(test, frozen))}
    if not options.linear:
        found["fine-tuning"] = fine_tuned(train, test, seed=options.seed)
    print_table(
        f"{SOURCE} on {options.folder.name}: {len(train)} images to train on, {len(test)} to test",
        ["method", "accuracy", "seconds to train"],
        [[name, f"{outcome.accuracy:.1%}", f"{outcome.seconds:.1f}"] for name, outcome in found.items()],
    )


if __name__ == "__main__":
    main()
