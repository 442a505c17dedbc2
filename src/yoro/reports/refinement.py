"""The page about a refinement: what each epoch gave, which was chosen, and the prompt that was learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from yoro.model.model import Model
from yoro.prompts.prompt import Prompt
from yoro.prompts.restore import restore_prompt
from yoro.reports.charts import data_uri, epoch_curve, name, text
from yoro.reports.prompt_pictures import prompt_picture
from yoro.reports.report import facts_list, page


def refinement_html(facts: Mapping[str, object], prompt: Prompt, source: str) -> str:
    """The page; `facts` are those of `Refinement.to_json`, `prompt` the model's after it."""
    validation = [100 * share for share in cast("list[float]", facts["validation"])]
    losses = cast("list[float | None]", facts["loss"])
    chosen = cast(int, facts["epoch"])
    verdict = "kept" if facts["kept"] else "not kept"
    trained = [(epoch, loss) for epoch, loss in enumerate(losses) if loss is not None]
    sections = [
        f'<header><h1>Refinement: {verdict}</h1>\n<p class="quiet">{text(facts["why"], 400)}</p></header>',
        facts_list(_facts(facts, prompt, source)),
        _section(
            "Validation accuracy",
            "Per cent of the validation images; epoch 0 is the predictor before any training.",
            epoch_curve(list(enumerate(validation)), "accuracy, %", chosen),
        ),
        _section(
            "Training loss",
            "Mean over the training images, each before the update it contributed to.",
            epoch_curve(trained, "loss", chosen),
        ),
        _drawing(prompt),
    ]
    return page(f"Refinement: {verdict}", sections)


def prompt_html(model: Model) -> str:
    """The page of a model's prompt, and of its last refinement if there was one."""
    prompt = restore_prompt(model.origin.prompt or {}, model.origin.prompt_arrays)
    source = model.origin.name
    told = [entry["refinement"] for entry in model.history if isinstance(entry.get("refinement"), dict)]
    if told:
        return refinement_html(cast("Mapping[str, object]", told[-1]), prompt, source)
    facts = {"Source": source, "Prompt": _described(prompt)}
    return page("Prompt", [f"<header><h1>{name('Prompt')}</h1></header>", facts_list(facts), _drawing(prompt)])


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


def _section(title: str, told: str, drawing: str) -> str:
    return f'<section><h2>{title}</h2>\n<p class="quiet">{told}</p>\n{drawing}</section>' if drawing else ""


def _drawing(prompt: Prompt) -> str:
    picture = data_uri(prompt_picture(prompt), "png")
    told = (
        "On grey, as a watermark is laid over the image."
        if prompt.name == "watermark"
        else ("The frame around the image, which goes where the squares are.")
    )
    about = "Three panels: the prompt before training, after it, and the change."
    return _section("The prompt", told, f'<img class="picture" alt="{about}" src="{picture}">')
