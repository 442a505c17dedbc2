"""Small trainings for the tests: scikit-learn's digits through a small frozen network."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.prompts.prompt import make_prompt

CLASSES = tuple("0123456789")
SIDE = 32


def digit_examples(start: int, count: int) -> list[Example]:
    """Digits as 8 x 8 images in memory."""
    digits = load_digits()
    pixels = np.round(digits.images * 255 / 16).astype(np.uint8)
    return [Example(pixels[i], str(digits.target[i]), f"digit {i}") for i in range(start, start + count)]


class SmallSource:
    """A frozen random network of 12 responses at a canvas of 32, in torch."""

    def __init__(self, width: int = 12, dtype: object = None) -> None:
        import torch

        torch.manual_seed(0)
        self.side, self.width = SIDE, width
        self.mean = self.std = (0.5, 0.5, 0.5)
        self.device = torch.device("cpu")
        self.network = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 5, stride=3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(800, width)
        ).requires_grad_(False)

    def __call__(self, pixels: object) -> object:
        return 20 * self.network((pixels - 0.5) / 0.5)

    def respond(self, images: np.ndarray) -> np.ndarray:
        import torch

        pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float()
        with torch.no_grad():
            return self(pixels / 255 if images.dtype == np.uint8 else pixels).numpy()


def small_prompt(name: str = "watermark"):
    colours = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
    return make_prompt(name, SIDE, **colours, **({"image_side": 24} if name == "padding" else {}))


def responses_of(source, prompt, examples) -> tuple[np.ndarray, list[str]]:
    """Responses to images seen whole, with their labels."""
    from yoro.data.decoding import decode

    geometry = Geometry(prompt.image_side)
    images = np.stack([decode(example.image, geometry) for example in examples])
    return source.respond(prompt.compose(images)).astype(np.float64), [example.label for example in examples]
