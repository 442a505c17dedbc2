"""Tip-Adapter (Zhang et al. 2022): stored training vectors vote, beside the zero-shot answer.

    scores = scale v'T + alpha exp(-beta (1 - v'K)) Y

K are the training vectors at unit length, Y their indicators. The published code averages ten
crops into a key and bounds the grid of (beta, alpha) for each dataset; here a key is one image, and
the bounds are the most frequent of the published ones.

Tip-Adapter-F trains the keys, which is why this file needs torch: AdamW (learning rate 0.001,
epsilon 0.0001), cosine schedule, 20 epochs, batches of 256, starting from the stored vectors at beta
1 and alpha 1.17, the most frequent of the published starts. The published figure is the best epoch
on the *test* set; here the epoch and then (beta, alpha) are chosen on validation data. Where these
are held out of the training data, the keys are trained on the rest and stay so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from yoro.errors import InputError
from yoro.peers.contract import Array, Method, Scorer, Task, held, in_blocks, most_right, one_hot, unit

if TYPE_CHECKING:
    import torch

SHARPEST, HEAVIEST = 12.0, 10.0  # bounds of beta and alpha
BETAS = tuple(0.1 + i * (SHARPEST - 0.1) / 200 for i in range(200))
ALPHAS = tuple(0.1 + j * (HEAVIEST - 0.1) / 20 for j in range(20))
EPOCHS = 20
BATCH = 256
RATE, EPSILON = 1e-3, 1e-4
BETA, ALPHA = 1.0, 1.17  # while the keys are trained


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


def fit(task: Task) -> Scorer:
    """Keys are stored as they are; (beta, alpha) are chosen on validation data, ties to the smaller."""
    texts, task = task.needed_texts(), task.normalised()
    head = texts.scale * texts.heads.T
    trial = task.validated()
    beta, alpha = best_mix(trial, trial.responses, head)
    return Cache(task.responses, one_hot(task.truth, len(task.classes)), head, beta, alpha)


def best_mix(trial: Task, keys: Array, head: Array) -> tuple[float, float]:
    """The pair (beta, alpha) with the most right answers on the validation data."""
    vectors, truth = held(trial)
    cosines, guess = vectors @ keys.T, vectors @ head
    values = one_hot(trial.truth, len(trial.classes))

    def answers() -> Iterator[tuple[tuple[float, float], Array]]:
        for beta in BETAS:
            votes = kernel(cosines, beta) @ values
            for alpha in ALPHAS:
                yield (beta, alpha), guess + alpha * votes

    return most_right(answers(), truth)


def fit_trained(task: Task) -> Scorer:
    """Train the keys, keep the epoch that validates best (epoch 0 among them), then choose (beta, alpha)."""
    texts, task = task.needed_texts(), task.normalised().validated()
    load_torch()
    head = texts.scale * texts.heads.T
    values = one_hot(task.truth, len(task.classes))
    vectors, truth = held(task)
    epochs = train_keys(task, head)
    kept = most_right(((keys, Cache(keys, values, head, BETA, ALPHA)(vectors)) for keys in epochs), truth)
    return Cache(kept, values, head, *best_mix(task, kept, head))


def load_torch() -> None:
    """Import torch, or say how to get it; its optimisers load more of it when one is first made."""
    try:
        import torch
    except ImportError:
        raise InputError("torch is not installed: pip install 'yoro-vr[torch]'") from None
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])


def train_keys(task: Task, head: Array) -> Iterator[Array]:
    """The keys before training and after each epoch."""
    import torch

    vectors, zero_shot, values = (
        torch.tensor(array, dtype=torch.float32)
        for array in (task.responses, head, one_hot(task.truth, len(task.classes)))
    )
    truth, guess = torch.tensor(task.truth), vectors @ zero_shot
    keys = vectors.clone().requires_grad_()
    optimiser = torch.optim.AdamW([keys], lr=RATE, eps=EPSILON)
    steps = EPOCHS * -(-len(truth) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    generator = task.generator(1)
    yield task.responses
    for _ in range(EPOCHS):
        order = generator.permutation(len(truth))
        for start in range(0, len(truth), BATCH):
            rows = torch.tensor(order[start : start + BATCH])
            loss = _loss(keys, vectors[rows], guess[rows], values, truth[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        yield keys.detach().numpy().astype(np.float64)


def _loss(
    keys: torch.Tensor, vectors: torch.Tensor, guess: torch.Tensor, values: torch.Tensor, truth: torch.Tensor
) -> torch.Tensor:
    import torch

    votes = torch.exp(-BETA * (1.0 - vectors @ keys.T)) @ values
    return torch.nn.functional.cross_entropy(guess + ALPHA * votes, truth)


TIP_ADAPTER = Method(
    "tip-adapter", fit, ("features", "texts", "stored data", "validation"),
    about="stored training vectors vote beside the zero-shot answer",
)  # fmt: skip
TIP_ADAPTER_F = Method(
    "tip-adapter-f", fit_trained, ("gradients", "features", "texts", "stored data", "validation", "torch"), EPOCHS,
    about="Tip-Adapter with trained keys", prepare=load_torch,
)  # fmt: skip
