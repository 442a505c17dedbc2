"""The report of a refinement: accuracy and loss by epoch, the chosen epoch, and the trained prompt."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from yoro.model.model import Model
from yoro.prompts.prompt import Prompt, restore_prompt
from yoro.reports.page import percent, render
from yoro.reports.svg import curve, epoch_axis


def refinement_html(facts: Mapping[str, object], prompt: Prompt, source: str) -> str:
    """The report as HTML; `facts` are those of `Refinement.to_json`, `prompt` is the refined one."""
    chosen = cast(int, facts["epoch"])
    validation = [(epoch, 100 * share) for epoch, share in enumerate(cast("list[float]", facts["validation"]))]
    losses = enumerate(cast("list[float | None]", facts["loss"]))
    trained = [(epoch, loss) for epoch, loss in losses if loss is not None]
    return render(
        "refinement.html",
        title=f"Refinement: {'kept' if facts['kept'] else 'not kept'}",
        why=facts["why"],
        facts=_facts(facts, prompt, source),
        accuracy=curve(validation, epoch_axis, ("epoch", "accuracy, %"), chosen),
        loss=curve(trained, epoch_axis, ("epoch", "loss"), chosen),
        prompt=prompt.name,
        picture=prompt_picture(prompt) if prompt.program is not None else None,
    )


def prompt_html(model: Model) -> str:
    """The page of a model's prompt, with its last refinement if there was one."""
    prompt = restore_prompt(model.origin.prompt or {}, model.origin.prompt_arrays)
    source = model.origin.name
    told = [entry["refinement"] for entry in model.history if isinstance(entry.get("refinement"), dict)]
    if told:
        return refinement_html(cast("Mapping[str, object]", told[-1]), prompt, source)
    return render(
        "refinement.html",
        title="Prompt",
        facts={"Backbone": source, "Prompt": _described(prompt)},
        prompt=prompt.name,
        picture=prompt_picture(prompt) if prompt.program is not None else None,
        **dict.fromkeys(("why", "accuracy", "loss"), ""),
    )


def _facts(facts: Mapping[str, object], prompt: Prompt, source: str) -> dict[str, str]:
    seconds = sum(cast("list[float]", facts["seconds"]))
    return {
        "Backbone": source,
        "Prompt": _described(prompt),
        "Validation images": f"{facts['n']:,}",
        "Accuracy before refinement": percent(cast(float, facts["given"])),
        "Epochs": str(len(cast("list[float]", facts["validation"])) - 1),
        "Chosen epoch": str(facts["epoch"]),
        "Seconds of training": f"{seconds:.0f}",
        "Learning rate, batch size": f"{facts['learning_rate']}, {facts['batch_size']}",
        "Temperature of the loss": f"{cast(float, facts['temperature']):.3g}",
    }


def _described(prompt: Prompt) -> str:
    return f"{prompt.name}, canvas {prompt.side}, image {prompt.image_side}, {prompt.n_values:,} values"


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
    changed = f"change, {gain:.3g} times", _laid(0.5 + gain * change, prompt, ground=0.0)
    return _side_by_side([("before", _laid(before, prompt)), ("after", _laid(after, prompt)), changed])


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
