"""Drawings of a visual prompt: as it started, as it was learned, and the change between the two."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from yoro.prompts.prompt import Prompt

PANEL = 256  # pixels of a panel at least
GAP, HEAD = 16, 44  # around the panels, and above them for their titles
PAPER, INK = (255, 255, 255), (32, 32, 32)
GREY = 0.5  # of an image that a watermark is drawn on
LIGHT, DARK = 0.86, 0.74  # of the squares where the image goes

Picture = NDArray[np.float64]  # (side, side, 3) in [0, 1]


def prompt_picture(prompt: Prompt) -> bytes:
    """A PNG of three panels; the change is enlarged so that its largest value is half the range."""
    start = replace(prompt, program=None)
    before, after = start.addend().astype(np.float64), prompt.addend().astype(np.float64)
    change = after - before
    largest = float(np.abs(change).max())
    gain = 0.5 / largest if largest else 1.0
    panels = [
        ("before", _laid(before, prompt)),
        ("after", _laid(after, prompt)),
        (f"change, {gain:.3g} times", _laid(0.5 + gain * change, prompt, ground=0.0)),
    ]
    return _side_by_side(panels)


def _laid(addend: Picture, prompt: Prompt, ground: float = GREY) -> Picture:
    """The addend on what it is added to: the ground under a watermark, a chequered square within a frame."""
    if prompt.name == "watermark":
        return np.clip(ground + addend, 0.0, 1.0)
    rows, columns = np.indices((prompt.side, prompt.side)) // max(1, prompt.side // 28)
    squares = np.where((rows + columns) % 2, LIGHT, DARK)[..., None]
    return np.where(prompt.mask(), np.clip(addend, 0.0, 1.0), squares)


def _side_by_side(panels: list[tuple[str, Picture]]) -> bytes:
    own = len(panels[0][1])
    side = own * -(-PANEL // own)  # a whole multiple, so that every pixel is drawn in one size
    sheet = Image.new("RGB", (len(panels) * (side + GAP) + GAP, side + HEAD + GAP), PAPER)
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(20)
    for number, (title, pixels) in enumerate(panels):
        left = GAP + number * (side + GAP)
        draw.text((left, 12), title, INK, font=font)
        picture = Image.fromarray(np.rint(255 * pixels).astype(np.uint8))
        sheet.paste(picture.resize((side, side), Image.Resampling.NEAREST), (left, HEAD))
    stream = io.BytesIO()
    sheet.save(stream, "PNG", optimize=True)
    return stream.getvalue()
