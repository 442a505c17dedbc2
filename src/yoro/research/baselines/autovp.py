"""AutoVP on CLIP: a raw delta around the image, whose size may be trained, and a full mapping.

The other mapping of its search, by frequency, is `yoro.mappings.cooccurrence.frequency_mapping`.

The published code clips the mapping's gradients to 0.001 while they still carry the factor of its gradient scaler
(65,536 at first), so that its mapping hardly moves. In mixed precision the same is done here; in full precision the
true gradients are clipped, and the mapping moves by up to 0.04 a step at the published rate.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import affine_grid, grid_sample, pad

from yoro.errors import InputError
from yoro.prompts.prompt import Prompt
from yoro.prompts.trainable import TrainablePrompt
from yoro.refining.heads import TrainingHead
from yoro.research.baselines.published import SCALE_BOUNDS

CLIP = 0.001  # largest gradient of the mapping


class RawPadding(TrainablePrompt):
    """A frame that is added raw to the normalised image, around which there are zeros; it starts at zero.

    A zero there is the source's mean colour in pixel units, so the frame is `mean + program * std`.
    """

    def __init__(self, prompt: Prompt, device: torch.device | str = "cpu") -> None:
        if prompt.name != "padding" or prompt.frame != "grey" or prompt.program is not None:
            raise InputError(f"A raw frame needs an untrained grey padding, got {prompt.config()}.")
        super().__init__(prompt, device)  # the program of a grey frame is zero
        self._mean = torch.tensor(prompt.mean, device=device).view(3, 1, 1)

    def addend(self, program: torch.Tensor | None = None) -> torch.Tensor:
        shown = self.program if program is None else program
        return (self._mean + shown * self._std) * self._mask

    def to_prompt(self) -> Prompt:
        """A raw frame may leave the colours that a padding can have, so it is none."""
        raise InputError("A raw frame cannot be saved as a padding: its colours may be out of range for pixels.")


class ResizedPadding(RawPadding):
    """A raw frame around an image whose size is trained, too: bilinear about the centre, with zeros outside.

    The frame covers all but the square that the image fills, whole pixels of the side times the factor.
    """

    def __init__(self, prompt: Prompt, scale: float, device: torch.device | str = "cpu") -> None:
        super().__init__(prompt, device)
        self.scale = torch.nn.Parameter(torch.tensor(scale, device=device))
        self._learned["scale"] = self.scale
        self._sides = prompt.image_side, prompt.side

    @property
    def n_values(self) -> int:
        return 3 * int(self._around().sum()) + 1

    def compose(self, images: torch.Tensor, addend: torch.Tensor | None = None) -> torch.Tensor:
        normalised = pad((images - self._mean) / self._std, self._margins)
        aspect = torch.eye(2, 3, device=images.device, dtype=images.dtype) / self.scale
        grid = affine_grid(aspect.expand(len(images), 2, 3), list(normalised.shape), align_corners=True)
        shown = grid_sample(normalised, grid, "bilinear", "zeros", align_corners=True)
        frame = self.program * self._around() if addend is None else addend
        return (shown + frame) * self._std + self._mean

    def clipped(self) -> list[torch.nn.Parameter]:
        return [self.scale]

    def confine(self) -> None:
        with torch.no_grad():
            self.scale.clamp_(*SCALE_BOUNDS)

    def _around(self) -> torch.Tensor:
        """Ones (1, side, side) where the frame shows."""
        image, side = self._sides
        hole = (image * self.scale.detach()).floor().clamp(max=side)
        place = torch.arange(side, device=self.scale.device)
        inside = (place >= ((side - hole) / 2).floor()) & (place < ((side + hole) / 2).floor())
        return 1.0 - (inside[:, None] & inside[None, :]).float()[None]


class FullMapping(TrainingHead):
    """A linear map with bias from all source texts to the classes, learned by gradient.

    It starts as the identity on the first `classes` texts, the default template's, with zeros elsewhere and torch's
    own start of a bias: the zero-shot answer of that template, but for the bias.
    """

    def __init__(
        self, width: int, classes: Sequence[str], *, seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        if width < len(classes):
            raise InputError(f"Got {width} texts for {len(classes)} classes; expected at least one each.")
        start = torch.zeros(len(classes), width)
        start[:, : len(classes)] = torch.eye(len(classes))
        noise = torch.rand(len(classes), generator=torch.Generator().manual_seed(seed))
        self.weight = torch.nn.Parameter(start.to(device))
        self.bias = torch.nn.Parameter(((2.0 * noise - 1.0) * width**-0.5).to(device))
        super().__init__(classes, {"weight": self.weight, "bias": self.bias})

    def score(self, responses: torch.Tensor) -> torch.Tensor:
        return responses @ self.weight.T + self.bias
