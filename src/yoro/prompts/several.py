"""Several prompts trained together: each composes its own version of every image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from yoro.errors import InputError
from yoro.prompts.trainable import Respond, TrainablePrompt


class PromptSet:
    """See `VisualPrompt`: responses through each prompt in turn, side by side, (n, prompts * width)."""

    def __init__(self, prompts: Sequence[TrainablePrompt], rates: Sequence[float] | None = None) -> None:
        if not prompts:
            raise InputError("A set of prompts came empty; expected at least one.")
        self.prompts = list(prompts)
        self.rates = (1.0,) * len(self.prompts) if rates is None else tuple(rates)
        if len(self.rates) != len(self.prompts):
            raise InputError(f"{len(self.rates)} rates came for {len(self.prompts)} prompts; expected one each.")

    @property
    def n_values(self) -> int:
        """How many values of the programs show, over all prompts."""
        return sum(prompt.n_values for prompt in self.prompts)

    def parameters(self) -> list[torch.nn.Parameter]:
        return [prompt.program for prompt in self.prompts]

    def respond(self, source: Respond, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([prompt.respond(source, images) for prompt in self.prompts], dim=1)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return {f"program.{place}": prompt.arrays()["program"] for place, prompt in enumerate(self.prompts)}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        for place, prompt in enumerate(self.prompts):
            prompt.restore({"program": arrays[f"program.{place}"]})
