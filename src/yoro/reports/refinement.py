"""The page about a refinement: what each epoch gave, which was chosen, and the prompt that was learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from yoro.model.model import Model
from yoro.prompts.prompt import Prompt
from yoro.prompts.restore import restore_prompt
from yoro.reports.page import render
from yoro.reports.prompt_pictures import prompt_picture
from yoro.reports.svg import curve, epoch_axis


def refinement_html(facts: Mapping[str, object], prompt: Prompt, source: str) -> str:
    """The page; `facts` are those of `Refinement.to_json`, `prompt` the model's after it."""
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
        picture=prompt_picture(prompt),
    )


def prompt_html(model: Model) -> str:
    """The page of a model's prompt, and of its last refinement if there was one."""
    prompt = restore_prompt(model.origin.prompt or {}, model.origin.prompt_arrays)
    source = model.origin.name
    told = [entry["refinement"] for entry in model.history if isinstance(entry.get("refinement"), dict)]
    if told:
        return refinement_html(cast("Mapping[str, object]", told[-1]), prompt, source)
    content = {"facts": {"Source": source, "Prompt": _described(prompt)}, "why": "", "accuracy": "", "loss": ""}
    return render("refinement.html", title="Prompt", prompt=prompt.name, picture=prompt_picture(prompt), **content)


def _facts(facts: Mapping[str, object], prompt: Prompt, source: str) -> dict[str, str]:
    seconds = sum(cast("list[float]", facts["seconds"]))
    return {
        "Source": source,
        "Prompt": _described(prompt),
        "Validation images": f"{facts['n']:,}",
        "Accuracy of the model as it came": f"{100 * cast(float, facts['given']):.1f}\u00a0%",
        "Epochs": str(len(cast("list[float]", facts["validation"])) - 1),
        "Chosen epoch": str(facts["epoch"]),
        "Seconds of training": f"{seconds:.0f}",
        "Adam's rate, images of one update": f"{facts['learning_rate']}, {facts['batch_size']}",
        "Temperature of the loss": f"{cast(float, facts['temperature']):.3g}",
    }


def _described(prompt: Prompt) -> str:
    return f"{prompt.name}, canvas {prompt.side}, image {prompt.image_side}, {prompt.n_values:,} values"
