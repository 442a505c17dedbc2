"""Tip-Adapter (Zhang et al. 2022): stored training vectors vote, beside the zero-shot answer.

    scores = scale v'T + alpha exp(-beta (1 - v'K)) Y

K are the training vectors at unit length, Y their indicators. (beta, alpha) are the first pair of a grid with the
most right answers on validation data:

    beta_i = 0.1 + i (S - 0.1) / 200, i < 200;   alpha_j = 0.1 + j (H - 0.1) / 20, j < 20

with bounds (S, H) of each dataset as its authors' configuration files have them. The published code averages ten crops
into a key (`views=10` on the bench) and searches the whole official validation split; here a key is one image, and the
validation data are those of the task.

Tip-Adapter-F trains the keys, which is why this file needs torch: AdamW (learning rate 0.001, epsilon 0.0001, torch's
weight decay of 0.01), a cosine schedule over all steps, 20 epochs (EuroSAT: 100), batches of 256, from the stored
vectors at beta 1 and the alpha of the dataset. The published code takes the best epoch on the *test* set, searches
(beta, alpha) for it, and prints the better of the two test accuracies. Here the first best epoch of those trained, and
then (beta, alpha), are chosen on validation data, and there is one answer. Where these data are held out of the
training data, the keys are trained on the rest and stay so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from yoro.environment import install
from yoro.errors import InputError
from yoro.mappings.batches import Array
from yoro.option import check_range
from yoro.research.peers.method import FitTask, Method, Scorer, in_blocks, most_right, one_hot, unit

LEAST = 0.1  # beta and alpha
BETAS, ALPHAS = 200, 20  # steps of the grid
BATCH = 256
RATE, EPSILON = 1e-3, 1e-4
BETA = 1.0  # while the keys are trained


@dataclass(frozen=True)
class TipAdapterSettings:
    """Bounds of the grid, which are not reached: of beta (how sharp) and of alpha (how heavy).

    For a dataset without bounds of its own, the most frequent of the published ones.
    """

    sharpest: float = 12.0
    heaviest: float = 10.0
    views: int = field(default=1, kw_only=True)  # random ones of an image, whose mean is its key; 10 as published

    def __post_init__(self) -> None:
        check_range("views", self.views, 1)
        if min(self.sharpest, self.heaviest) <= LEAST:
            raise InputError(f"The grid ends at {self.sharpest} and {self.heaviest}; both must exceed {LEAST}.")

    @property
    def betas(self) -> tuple[float, ...]:
        return grid(self.sharpest, BETAS)

    @property
    def alphas(self) -> tuple[float, ...]:
        return grid(self.heaviest, ALPHAS)


@dataclass(frozen=True)
class TipAdapterFSettings(TipAdapterSettings):
    """The alpha at which keys are trained, and for how long."""

    alpha: float = 1.17
    epochs: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("epochs", self.epochs, 1)


def grid(bound: float, steps: int) -> tuple[float, ...]:
    """Numbers in equal steps from 0.1 to below the bound."""
    return tuple(LEAST + i * (bound - LEAST) / steps for i in range(steps))


USUAL, TRAINED = TipAdapterSettings(), TipAdapterFSettings()


@dataclass(frozen=True)
class Cache:
    """Keys (n, dimension) with values (n, classes), beside a zero-shot head (dimension, classes)."""

    keys: Array
    values: Array
    head: Array
    beta: float
    alpha: float

    def __call__(self, responses: Array) -> Array:
        return in_blocks(self._scores, responses)

    def votes(self, vectors: Array) -> Array:
        """What the cache alone says of unit vectors."""
        return kernel(vectors @ self.keys.T, self.beta) @ self.values

    def _scores(self, responses: Array) -> Array:
        vectors = unit(responses)
        return vectors @ self.head + self.alpha * self.votes(vectors)


def kernel(cosines: Array, beta: float) -> Array:
    """How near unit vectors of such cosines are, at most 1."""
    return np.exp(-beta * (1.0 - cosines))


def fit(task: FitTask, settings: TipAdapterSettings = USUAL) -> Scorer:
    """Keys are stored as they are; (beta, alpha) are chosen on validation data, ties to the smaller."""
    texts, task = task.needed_texts(), task.normalised()
    head = texts.scale * texts.heads.T
    trial = task.validated()
    beta, alpha = best_mix(trial, trial.responses, head, settings)
    return Cache(task.responses, one_hot(task.truth, len(task.classes)), head, beta, alpha)


def best_mix(trial: FitTask, keys: Array, head: Array, settings: TipAdapterSettings) -> tuple[float, float]:
    """The pair (beta, alpha) with the most right answers on the validation data."""
    _, vectors, truth = trial.trial()
    cosines, guess = vectors @ keys.T, vectors @ head
    values, alphas = one_hot(trial.truth, len(trial.classes)), settings.alphas

    def answers() -> Iterator[tuple[tuple[float, float], Array]]:
        for beta in settings.betas:
            votes = kernel(cosines, beta) @ values
            for alpha in alphas:
                yield (beta, alpha), guess + alpha * votes

    return most_right(answers(), truth)


def fit_trained(task: FitTask, settings: TipAdapterFSettings = TRAINED) -> Scorer:
    """Train the keys, keep the first epoch that validates best, then choose (beta, alpha)."""
    texts, (task, vectors, truth) = task.needed_texts(), task.normalised().trial()
    load_torch()
    head = texts.scale * texts.heads.T
    values = one_hot(task.truth, len(task.classes))
    epochs = islice(train_keys(task, head, settings), 1, None)  # as they are stored, keys are no candidate
    kept = most_right(((keys, Cache(keys, values, head, BETA, settings.alpha)(vectors)) for keys in epochs), truth)
    return Cache(kept, values, head, *best_mix(task, kept, head, settings))


def load_torch() -> None:
    """Import torch, or say how to install it; making an optimiser loads the rest of it."""
    try:
        import torch
    except ImportError:
        raise InputError(f"torch is not installed: {install('torch')}.") from None
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])


def train_keys(task: FitTask, head: Array, settings: TipAdapterFSettings) -> Iterator[Array]:
    """The keys before training and after each epoch."""
    import torch

    vectors, zero_shot, values = (
        torch.tensor(array, dtype=torch.float32)
        for array in (task.responses, head, one_hot(task.truth, len(task.classes)))
    )
    truth, guess = torch.tensor(task.truth), vectors @ zero_shot
    keys = vectors.clone().requires_grad_()
    optimiser = torch.optim.AdamW([keys], lr=RATE, eps=EPSILON)
    steps = settings.epochs * -(-len(truth) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    generator = task.generator(1)
    yield task.responses
    for _ in range(settings.epochs):
        order = generator.permutation(len(truth))
        for start in range(0, len(truth), BATCH):
            rows = torch.tensor(order[start : start + BATCH])
            votes = torch.exp(-BETA * (1.0 - vectors[rows] @ keys.T)) @ values
            loss = torch.nn.functional.cross_entropy(guess[rows] + settings.alpha * votes, truth[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        yield keys.detach().numpy().astype(np.float64)


TIP_ADAPTER = Method(
    "tip-adapter", fit, ("features", "texts", "stored data", "validation"),
    about="stored training vectors vote beside the zero-shot answer", settings=TipAdapterSettings,
    edition=2,
)  # fmt: skip
TIP_ADAPTER_F = Method(
    "tip-adapter-f", fit_trained, ("gradients", "features", "texts", "stored data", "validation", "torch"),
    TRAINED.epochs, about="Tip-Adapter with trained keys", prepare=load_torch, settings=TipAdapterFSettings,
    edition=2,
)  # fmt: skip
