"""Tip-Adapter-F: Tip-Adapter whose keys are trained, which is why this file needs torch.

AdamW (learning rate 0.001, epsilon 0.0001), cosine schedule, 20 epochs, batches of 256, starting
from the stored vectors at beta 1 and alpha 1.17, the most frequent of the published starts. The
published figure is the best epoch on the *test* set; here the epoch and then (beta, alpha) are
chosen on validation data. Where these are held out of the training data, the keys are trained on
the rest and stay so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from yoro.errors import InputError
from yoro.peers.contract import Array, Method, Scorer, Task, correct, held, one_hot
from yoro.peers.tip_adapter import Cache, best_mix

if TYPE_CHECKING:
    import torch

EPOCHS = 20
BATCH = 256
RATE, EPSILON = 1e-3, 1e-4
BETA, ALPHA = 1.0, 1.17


def fit(task: Task) -> Scorer:
    """Train the keys, keep the epoch that validates best (epoch 0 among them), then choose (beta, alpha)."""
    texts, task = task.needed_texts(), task.normalised().validated()
    load_torch()
    head = texts.scale * texts.heads.T
    values = one_hot(task.truth, len(task.classes))
    vectors, truth = held(task)
    best, kept = -1, task.responses
    for keys in train_keys(task, head):
        right = correct(Cache(keys, values, head, BETA, ALPHA)(vectors), truth)
        if right > best:
            best, kept = right, keys
    return Cache(kept, values, head, *best_mix(task, kept, head))


def load_torch() -> None:
    """Import torch, or say how to get it; its optimisers load more of it when one is first made."""
    try:
        import torch
    except ImportError:
        raise InputError("torch is not installed: pip install 'yoro-vr[torch]'") from None
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])


def train_keys(task: Task, head: Array) -> list[Array]:
    """The keys before training and after each epoch."""
    import torch

    f4 = torch.float32
    vectors, truth = torch.tensor(task.responses, dtype=f4), torch.tensor(task.truth)
    guess = vectors @ torch.tensor(head, dtype=f4)
    values = torch.tensor(one_hot(task.truth, len(task.classes)), dtype=f4)
    keys = vectors.clone().requires_grad_()
    optimiser = torch.optim.AdamW([keys], lr=RATE, eps=EPSILON)
    steps = EPOCHS * -(-len(truth) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    generator = task.generator(1)
    history = [task.responses]
    for _ in range(EPOCHS):
        order = generator.permutation(len(truth))
        for start in range(0, len(truth), BATCH):
            rows = torch.tensor(order[start : start + BATCH])
            loss = _loss(keys, vectors[rows], guess[rows], values, truth[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        history.append(keys.detach().numpy().astype(np.float64))
    return history


def _loss(
    keys: torch.Tensor, vectors: torch.Tensor, guess: torch.Tensor, values: torch.Tensor, truth: torch.Tensor
) -> torch.Tensor:
    import torch

    votes = torch.exp(-BETA * (1.0 - vectors @ keys.T)) @ values
    return torch.nn.functional.cross_entropy(guess + ALPHA * votes, truth)


TIP_ADAPTER_F = Method(
    "tip-adapter-f", fit, ("gradients", "features", "texts", "stored data", "validation", "torch"), EPOCHS,
    about="Tip-Adapter with trained keys", prepare=load_torch,
)  # fmt: skip
