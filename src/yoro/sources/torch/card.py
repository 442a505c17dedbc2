"""The device that torch computes on: its name and versions, and the memory that it took."""

from __future__ import annotations

import os

import torch

from yoro.sources.torch.network import choose_device


def device_facts(device: str) -> dict[str, str]:
    """What `device` stands for here; of a graphics card also its name, and what decides its numbers."""
    chosen = choose_device(device)
    exact = torch.are_deterministic_algorithms_enabled()
    facts = {"torch": torch.__version__, "device": chosen, "deterministic": str(exact)}
    if not chosen.startswith("cuda"):
        return facts
    return facts | {
        "device_name": torch.cuda.get_device_name(chosen),
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
        "tf32": str(torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32),
    }


def make_deterministic() -> None:
    """Let torch use only operations that give the same bits every time; one that cannot is an error."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without, cuBLAS refuses
    torch.use_deterministic_algorithms(True)


def forget_card_peak() -> None:
    """Let the peak of a card's memory begin anew."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def card_peak() -> dict[str, int]:
    """The most bytes that tensors took on a card since then; nothing without one."""
    return {"cuda": torch.cuda.max_memory_allocated()} if torch.cuda.is_available() else {}
