"""A prompt read back from a file that nobody vouches for."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr  # a hostile value may be very long

import numpy as np
import numpy.typing as npt

from yoro.errors import InputError, StoreError
from yoro.prompts.prompt import Prompt, make_prompt

KEYS = frozenset({"prompt", "side", "image_side", "mean", "std", "frame", "pad", "trained"})


def restore_prompt(config: Mapping[str, object], arrays: Mapping[str, npt.NDArray[np.generic]]) -> Prompt:
    """The prompt that gave this config and these arrays; anything else is a StoreError."""
    if not isinstance(config, Mapping) or set(config) != KEYS:
        came = ", ".join(sorted(map(str, config))) if isinstance(config, Mapping) else type(config).__name__
        raise StoreError(f"A stored prompt has the keys {', '.join(sorted(KEYS))}; {came} came.")
    try:
        prompt = _make(config)
        if prompt.config() != {**config, "trained": False}:  # for instance a pad wider than a watermark can have
            raise StoreError("The stored prompt contradicts itself.")
        return _with_arrays(prompt, config["trained"], arrays)
    except InputError as error:
        raise StoreError(f"The stored prompt cannot be used. {str(error)[:300]}") from error


def _make(config: Mapping[str, object]) -> Prompt:
    name, side, image_side = config["prompt"], config["side"], config["image_side"]
    frame, pad, mean, std = config["frame"], config["pad"], config["mean"], config["std"]
    if not isinstance(name, str) or type(side) is not int or type(image_side) is not int:
        raise StoreError(f"A stored prompt has a name and two whole sides; {repr((name, side, image_side))} came.")
    if not (pad is None or type(pad) is int) or not (frame is None or type(frame) in (str, float)):
        raise StoreError(f"A stored prompt has a frame and a pad; {repr((frame, pad))} came.")
    for values in (mean, std):
        if not isinstance(values, list) or not all(type(value) is float for value in values):
            raise StoreError(f"A stored prompt has lists of three numbers for mean and std; {repr(values)} came.")
    assert frame is None or isinstance(frame, str | float)
    assert isinstance(mean, list)
    assert isinstance(std, list)
    return make_prompt(
        name, side, mean=mean, std=std, image_side=image_side, frame="grey" if frame is None else frame, pad=pad
    )


def _with_arrays(prompt: Prompt, trained: object, arrays: Mapping[str, npt.NDArray[np.generic]]) -> Prompt:
    """The program put back; there must be one exactly if the prompt was trained."""
    if type(trained) is not bool or set(arrays) != ({"program"} if trained else set()):
        raise StoreError(f"A prompt with trained={trained!r} does not come with the arrays {repr(sorted(arrays))}.")
    if not trained:
        return prompt
    program = np.asarray(arrays["program"])
    if program.dtype != np.float32:
        raise StoreError(f"A stored program is float32; {program.dtype} came.")
    return prompt.with_program(program.astype(np.float32, copy=False))
