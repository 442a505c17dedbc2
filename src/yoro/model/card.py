"""The model card: what a person wants to know of a saved model, as Markdown."""

from __future__ import annotations

import html
from typing import cast

from yoro.model.noise_facts import noise_told


def model_card(config: dict[str, object]) -> str:
    """Markdown for a model's config."""
    classes = cast("list[str]", config["classes"])
    counts = cast("dict[str, float]", config["counts"])
    history = cast("list[dict[str, object]]", config["history"])
    source = cast("dict[str, object]", config["source"])
    return "\n".join(
        [
            "# A YORO classifier",
            "",
            (
                f"{len(classes)} classes, {sum(counts.values()):g} fitted images, one linear mapping on the responses "
                f"of `{_cell(str(source.get('name')))}` ({config['width']} numbers an image). Nothing was trained: "
                "the mapping is solved from class counts, means and one covariance."
            ),
            "",
            *_use(source),
            "## How it was made",
            "",
            *_facts(config, source),
            "",
            "## History",
            "",
            "| when | verb | images | passes | seconds | peak memory (MB) |",
            "| --- | --- | --- | --- | --- | --- |",
            *(_event(event) for event in history),
            "",
            "## Classes",
            "",
            "| class | images |",
            "| --- | --- |",
            *(f"| {_cell(name)} | {counts.get(name, 0):g} |" for name in classes),
            "",
        ]
    )


def _use(source: dict[str, object]) -> list[str]:
    data = '"new.npz"' if source.get("name") == "responses" else '["new.jpg"]'
    return [
        "```python",
        "import yoro",
        'classifier = yoro.load("THIS_FOLDER.yoro")',
        f"classifier.predict({data})",
        "```",
        "",
    ]


def _facts(config: dict[str, object], source: dict[str, object]) -> list[str]:
    selection = cast("dict[str, object]", config["selection"])
    parts = cast("list[dict[str, object]]", selection.get("parts", []))
    rows = [
        (
            f"- Shrinkage {config['shrinkage']:g}, chosen by `{selection['rule']}`; "
            f"temperature {config['temperature']:.3g}; prior {_prior(config['prior'])}; protocol {config['protocol']}."
        ),
    ]
    if parts:
        shares = (
            f"{_cell(str(part['name']))} {part['weight']:.0%} at shrinkage {part['shrinkage']:g}" for part in parts
        )
        rows = [
            f"- Discriminants of {len(parts)} readings, by their share in the answer: {'; '.join(shares)}.",
            f"- Chosen by `{selection['rule']}`; prior {_prior(config['prior'])}; protocol {config['protocol']}.",
        ]
    if "bank" in config:
        bank = cast("dict[str, object]", config["bank"])
        rows.append(
            f"- Responses are similarities to the sentences of `bank.json` (from {_cell(str(bank['origin']))}); "
            f"the zero-shot head counts {config['alpha']:.3g}."
        )
    for event in cast("list[dict[str, object]]", config["history"]):
        facts = event.get("facts")
        rows += [f"- {told}" for told in (noise_told(facts) if isinstance(facts, dict) else [])]
    if config["delta"]:
        rows.append(f"- A diagonal shift of {config['delta']:g} was needed for a stable solution.")
    if source.get("licence"):
        rows.append(f"- Licence of the source's weights: {_cell(str(source['licence']))}.")
    if config["prompt"]:
        prompt = cast("dict[str, object]", config["prompt"])
        rows.append(f"- Visual prompt: {_cell(str(prompt.get('prompt')))}.")
    versions = ", ".join(f"{name} {version}" for name, version in cast("dict[str, str]", config["versions"]).items())
    return [*rows, f"- Written by {versions}."]


def _prior(prior: object) -> str:
    return prior if isinstance(prior, str) else "given by the user"


def _event(event: dict[str, object]) -> str:
    keys = ("when", "verb", "images", "passes", "seconds", "peak_memory_mb")
    return "| " + " | ".join(_cell(str(event.get(key, ""))) for key in keys) + " |"


def _cell(text: str) -> str:
    """A stranger's text that stays text: no HTML, no table, no line of its own, nothing that cannot be seen."""
    seen = "".join(c if c.isprintable() else " " for c in text)
    return html.escape(seen, quote=False).replace("|", "\\|").replace("`", "\\`").replace("[", "\\[")
