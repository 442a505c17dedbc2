"""Prompts that can be trained: one, or several that each compose their own version of every image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad

from yoro.errors import InputError
from yoro.prompts.prompt import BLACK_PROGRAM, Prompt, image_square

Respond = Callable[[torch.Tensor], torch.Tensor]  # composed pixels (n, 3, side, side) to responses (n, width)


class NamedParameters:
    """Parameters that a training learns, by the names under which their values are kept."""

    def __init__(self, learned: Mapping[str, torch.nn.Parameter] | None = None) -> None:
        self._learned = dict(learned or {})

    def parameters(self) -> list[torch.nn.Parameter]:
        return list(self._learned.values())

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The values as they are now."""
        return {name: value.detach().cpu().numpy().copy() for name, value in self._learned.items()}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take values back."""
        with torch.no_grad():
            for name, value in self._learned.items():
                value.copy_(torch.from_numpy(np.array(arrays[name])).reshape(value.shape))


class VisualPrompt(NamedParameters):
    """What a training learns of the input: one prompt, or several whose responses stand side by side."""

    rates: tuple[float, ...] = ()  # share of the recipe's learning rate for each parameter; empty for all of it

    @property
    def n_values(self) -> int:
        """How many values of the programs show."""
        raise NotImplementedError

    def respond(self, source: Respond, images: torch.Tensor) -> torch.Tensor:
        """Responses (n, width), with gradients, to images (n, 3, image_side, image_side) in [0, 1]."""
        raise NotImplementedError

    def clipped(self) -> list[torch.nn.Parameter]:
        """Parameters whose gradients are cut as those of the head are."""
        return []

    def confine(self) -> None:
        """Put values back into their bounds, after an update."""


class TrainablePrompt(VisualPrompt):
    """A prompt whose program is a torch parameter, (3, side, side); values that do not show get no gradient.

    Padding: zero_pad(x) + sigmoid(program) * mask. Watermark: x + program * std * mask, which the source's
    normalisation turns into (normalised x) + program * mask. Both in [0, 1] pixel units.
    """

    def __init__(self, prompt: Prompt, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        if prompt.frame is not None and (prompt.current_program()[prompt.mask()[..., 0]] <= BLACK_PROGRAM).all():
            raise InputError(
                "A black frame has no gradient, so it cannot be refined. Fit with a dark one instead: --frame 0.01."
            )
        self._prompt = prompt
        start = torch.from_numpy(prompt.current_program()).permute(2, 0, 1).contiguous()
        self.program = torch.nn.Parameter(start.to(device, dtype))
        super().__init__({"program": self.program})
        self._mask = torch.from_numpy(prompt.mask()).permute(2, 0, 1).to(device, dtype)  # (1, side, side)
        self._std = torch.tensor(prompt.std, device=device, dtype=dtype).view(3, 1, 1)
        rows, columns = image_square(prompt.side, prompt.image_side)
        self._margins = (columns.start, prompt.side - columns.stop, rows.start, prompt.side - rows.stop)

    @property
    def n_values(self) -> int:
        return self._prompt.n_values

    def addend(self, program: torch.Tensor | None = None) -> torch.Tensor:
        """What is added to the zero-padded image, (3, side, side); `program` stands in for the prompt's own."""
        shown = self.program if program is None else program
        values = shown * self._std if self._prompt.name == "watermark" else torch.sigmoid(shown)
        return values * self._mask

    def compose(self, images: torch.Tensor, addend: torch.Tensor | None = None) -> torch.Tensor:
        """Images (n, 3, image_side, image_side) in [0, 1] on the canvas, (n, 3, side, side)."""
        canvas = pad(images, self._margins) if any(self._margins) else images
        return canvas + (self.addend() if addend is None else addend)

    def respond(self, source: Respond, images: torch.Tensor) -> torch.Tensor:
        return source(self.compose(images))

    def to_prompt(self) -> Prompt:
        program = self.program.detach().to("cpu", torch.float32).permute(1, 2, 0).numpy()
        return self._prompt.with_program(np.ascontiguousarray(program))


class PromptSet(VisualPrompt):
    """Responses through each prompt in turn, side by side, (n, prompts * width)."""

    def __init__(self, prompts: Sequence[TrainablePrompt], rates: Sequence[float] = ()) -> None:
        if not prompts:
            raise InputError("Got an empty set of prompts; expected at least one.")
        super().__init__({f"program.{place}": prompt.program for place, prompt in enumerate(prompts)})
        self.prompts, self.rates = list(prompts), tuple(rates)
        if len(self.rates) not in (0, len(self.prompts)):
            raise InputError(f"Got {len(self.rates)} rates for {len(self.prompts)} prompts; expected one each.")

    @property
    def n_values(self) -> int:
        return sum(prompt.n_values for prompt in self.prompts)

    def respond(self, source: Respond, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([prompt.respond(source, images) for prompt in self.prompts], dim=1)
