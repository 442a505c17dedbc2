"""Visual prompts with a constant addend: zero_pad(image in [0, 1]) + addend, normalised afterwards by the source.

A padding's addend is a frame, sigmoid(program) in pixel units, around a smaller image. A watermark's
is theta * std over the image, because theta lives in normalised units: (x + theta std - mean) / std =
normalised x + theta. At theta = 0 the image goes through unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from reprlib import repr  # a hostile value may be very long
from typing import Any

import numpy as np
import numpy.typing as npt

from yoro import limits
from yoro.errors import InputError, StoreError

PROMPTS = ("watermark", "padding", "legacy-padding")
# sigmoid(-128) is 3e-56: exactly 0 in float32, and a finite program, as stores want it. Its gradient is
# 0 too, so a black frame cannot be refined; start refinement from a dark number such as 0.01 instead.
BLACK_PROGRAM = -128.0

Program = npt.NDArray[np.float32]
Colour = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt and its state; `program` (side, side, 3) is None while the prompt is as it started."""

    name: str
    side: int
    image_side: int
    mean: Colour
    std: Colour
    frame: str | float | None  # how a frame starts; None for a watermark
    pad: int | None  # border of a masked watermark; None covers the whole image
    program: Program | None = None

    def compose(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8] | npt.NDArray[np.float32]:
        """Images (n, image_side, image_side, 3) on the canvas (n, side, side, 3).

        Float32 in pixel units (a watermark may leave [0, 1]); uint8 where there is nothing to add.
        """
        expected = (self.image_side, self.image_side, 3)
        if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != expected:
            came = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
            raise InputError(
                f"The {self.name} prompt takes uint8 images (n, {', '.join(map(str, expected))}); got {came}."
            )
        rows, columns = image_square(self.side, self.image_side)
        if not self._addend.any():
            if self.image_side == self.side:
                return images
            canvas = np.zeros((len(images), self.side, self.side, 3), np.uint8)
            canvas[:, rows, columns] = images
            return canvas
        composed = np.empty((len(images), self.side, self.side, 3), np.float32)
        composed[:] = self._addend
        composed[:, rows, columns] += np.divide(images, 255, dtype=np.float32)
        return composed

    def addend(self) -> Program:
        """What is added to the zero-padded image, (side, side, 3) in pixel units; a copy."""
        return self._addend.copy()

    def mask(self) -> npt.NDArray[np.bool_]:
        """(side, side, 1): where the program shows."""
        mask = np.ones((self.side, self.side, 1), np.bool_)
        if self.name != "watermark":
            mask[image_square(self.side, self.image_side)] = False
        elif self.pad is not None:
            mask[self.pad : self.side - self.pad, self.pad : self.side - self.pad] = False
        return mask

    @property
    def n_values(self) -> int:
        """How many values of the program show."""
        return 3 * int(self.mask().sum())

    def current_program(self) -> Program:
        """The program, (side, side, 3); where the prompt is as it started, its start."""
        if self.program is not None:
            return self.program.copy()
        start = np.zeros(3) if self.frame is None else _frame_program(self.frame, self.mean)
        return (start * self.mask()).astype(np.float32)

    def with_program(self, program: Program) -> Prompt:
        """The same prompt with another program; values that do not show are set to zero."""
        shape = (self.side, self.side, 3)
        if not isinstance(program, np.ndarray) or program.dtype != np.float32 or program.shape != shape:
            came = f"{program.dtype} {program.shape}" if isinstance(program, np.ndarray) else type(program).__name__
            raise InputError(f"The program of this prompt must be float32 {shape}; got {came}.")
        if not np.isfinite(program).all():
            raise InputError("The program contains NaN or infinity; every value must be finite.")
        shown = np.where(self.mask(), program, np.float32(0))
        shown.setflags(write=False)
        return replace(self, program=shown)

    def config(self) -> dict[str, object]:
        """The prompt without its program, as JSON-able values."""
        return {
            "prompt": self.name,
            "side": self.side,
            "image_side": self.image_side,
            "mean": list(self.mean),
            "std": list(self.std),
            "frame": self.frame,
            "pad": self.pad,
            "trained": self.program is not None,
        }

    def arrays(self) -> dict[str, npt.NDArray[np.float32]]:
        """The program, if the prompt is not as it started; else nothing, for `config` says it all."""
        return {} if self.program is None else {"program": self.program.copy()}

    @cached_property
    def _addend(self) -> Program:
        program = self.current_program().astype(np.float64)
        sigmoid = 0.5 * (1.0 + np.tanh(program / 2))  # scipy's takes half a second to import
        values = program * np.array(self.std) if self.name == "watermark" else sigmoid
        addend: Program = (values * self.mask()).astype(np.float32)
        addend.setflags(write=False)
        return addend


def make_prompt(
    name: str,
    side: int,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    image_side: int | None = None,
    frame: str | float = "grey",
    pad: int | None = None,
) -> Prompt:
    """A prompt as it starts, on a canvas of `side`.

    `padding` keeps 16 pixels a side around the image unless `image_side` says otherwise,
    `legacy-padding` has an image of 128. Their `frame` starts "grey" (0.5), "black", "mean" (the
    source's) or at a number in (0, 1). `watermark` fills the canvas; `pad` limits it to a border.

    >>> make_prompt("padding", 224, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25)).n_values
    39936
    """
    if name not in PROMPTS:
        raise InputError(f"Unknown prompt {name!r}; choose one of {', '.join(PROMPTS)}.")
    side = check_whole(side, 1, limits.CANVAS_SIDE, "The canvas side")
    means, stds = _colour(mean, "mean", 0.0), _colour(std, "std", math.ulp(0.0))
    if name == "watermark":
        if image_side not in (None, side):
            raise InputError(f"A watermark's image fills the canvas of {side}; got an image side of {image_side!r}.")
        if frame != "grey":
            raise InputError(f"A watermark has no frame; remove frame={frame!r} or use a padding.")
        pad = None if pad is None else check_whole(pad, 1, (side + 1) // 2, "The watermark's pad")
        return Prompt(name, side, side, means, stds, None, pad)
    if pad is not None:
        raise InputError(f"Only a watermark has a pad; for {name} set the image side instead of pad={pad!r}.")
    if image_side is None:
        image_side = side - 2 * FRAME if name == "padding" else LEGACY_IMAGE
    image_side = check_whole(image_side, 1, side - 1, f"The image side of {name} in a canvas of {side}")
    _frame_program(frame, means)  # refuses a frame that cannot be
    return Prompt(name, side, image_side, means, stds, frame if isinstance(frame, str) else float(frame), None)


def parse_frame(text: str) -> str | float:
    """A frame's start as it is written: a name, or a number."""
    try:
        return float(text)
    except ValueError:
        return text


def _frame_program(frame: str | float, mean: Colour) -> npt.NDArray[np.float64]:
    """The program (3,) whose sigmoid is the frame's colour."""
    if frame == "black":
        return np.full(3, BLACK_PROGRAM)
    start: object = {"grey": (0.5,) * 3, "mean": mean}.get(frame) if isinstance(frame, str) else (frame,) * 3
    if not isinstance(start, tuple) or not all(type(value) in (int, float) and 0 < value < 1 for value in start):
        raise InputError(f"A frame starts at 'grey', 'black', 'mean' or a number between 0 and 1; got {frame!r}.")
    return np.array([math.log(value / (1 - value)) for value in start])


def _colour(values: Sequence[float], what: str, low: float) -> Colour:
    """Three finite numbers, none below `low`."""
    try:
        red, green, blue = (float(value) for value in values if not isinstance(value, bool | str))
    except (TypeError, ValueError):
        raise InputError(f"The source's {what} must be three numbers; got {values!r}.") from None
    if not all(math.isfinite(value) and value >= low for value in (red, green, blue)):
        raise InputError(f"The source's {what} must be three finite numbers of at least {low:g}; got {values!r}.")
    return red, green, blue


FRAME = 16  # pixels on each side of the image, at any canvas
LEGACY_IMAGE = 128  # the image side of the older padding experiments, in a canvas of 224


def image_square(side: int, image_side: int) -> tuple[slice, slice]:
    """Rows and columns of the image in the middle of the canvas; an odd pixel goes to the top and left."""
    start = (side - image_side + 1) // 2
    return slice(start, start + image_side), slice(start, start + image_side)


def check_whole(value: object, low: int, high: int, what: str) -> int:
    """A whole number from low to high; a boolean is none."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise InputError(f"{what} must be a whole number from {low} to {high}; got {value!r}.")
    return int(value)


KEYS = frozenset({"prompt", "side", "image_side", "mean", "std", "frame", "pad", "trained"})


def restore_prompt(config: Mapping[str, object], arrays: Mapping[str, npt.NDArray[np.generic]]) -> Prompt:
    """The prompt that gave this config and these arrays; anything else is a StoreError."""
    if not isinstance(config, Mapping) or set(config) != KEYS:
        came = ", ".join(sorted(map(str, config))) if isinstance(config, Mapping) else type(config).__name__
        raise StoreError(f"A stored prompt has the keys {', '.join(sorted(KEYS))}; got {came}.")
    given: dict[str, Any] = {key: value for key, value in config.items() if key not in ("prompt", "trained")}
    try:
        prompt = make_prompt(str(config["prompt"]), **given | {"frame": given["frame"] or "grey"})
        if prompt.config() != {**config, "trained": False}:  # for instance a pad wider than a watermark can have
            raise StoreError("The stored prompt contradicts itself.")
        return _with_arrays(prompt, config["trained"], arrays)
    except (InputError, OverflowError) as error:
        raise StoreError(f"The stored prompt cannot be used. {str(error)[:300]}") from error


def _with_arrays(prompt: Prompt, trained: object, arrays: Mapping[str, npt.NDArray[np.generic]]) -> Prompt:
    """The program put back; there must be one exactly if the prompt was trained."""
    if type(trained) is not bool or set(arrays) != ({"program"} if trained else set()):
        raise StoreError(f"A prompt with trained={trained!r} does not come with the arrays {repr(sorted(arrays))}.")
    if not trained:
        return prompt
    program = np.asarray(arrays["program"])
    if program.dtype != np.float32:
        raise StoreError(f"A stored program is float32; got {program.dtype}.")
    return prompt.with_program(program.astype(np.float32, copy=False))
