"""The model card: what a person wants to know about a saved model, as Markdown."""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib import resources
from typing import Any

Config = Mapping[str, Any]

FAST = "fast"  # of an entry of the history: what was chosen for speed, and on what evidence
NOISE = "noise"  # the fact of a shard: a table of its parts to epsilon, delta and clip
EVENT = ("when", "verb", "images", "passes", "seconds", "peak_memory_mb")  # columns of the history
CARD = resources.files("yoro.model").joinpath("card.md").read_text(encoding="utf-8")


def model_card(config: Config) -> str:
    """Markdown for a model's config."""
    classes, counts, source = config["classes"], config["counts"], config["source"]
    return CARD.format(
        summary=(
            f"{len(classes)} classes, {sum(counts.values()):g} fitted images, one linear mapping on the responses "
            f"of `{_cell(str(source.get('name')))}` ({config['width']} numbers per image). Nothing was trained: "
            "the mapping is solved from class counts, means and one covariance."
        ),
        data='"new.npz"' if source.get("name") == "responses" else '["new.jpg"]',
        facts="\n".join(_facts(config, source)),
        history="\n".join(
            f"| {' | '.join(_cell(str(event.get(key, ''))) for key in EVENT)} |" for event in config["history"]
        ),
        classes="\n".join(f"| {_cell(name)} | {counts.get(name, 0):g} |" for name in classes),
    )


def noise_told(facts: Mapping[str, object]) -> list[str]:
    """Sentences on the noise in the sums, one for each privacy guarantee; `yoro.parties` adds the noise."""
    noise, promises = facts.get(NOISE), dict[str, int]()
    for entry in noise.values() if isinstance(noise, dict) else ():
        numbers = [entry.get(key) for key in ("epsilon", "delta", "clip")] if isinstance(entry, dict) else []
        if numbers and all(isinstance(number, int | float) for number in numbers):
            epsilon, delta, clip = numbers
            told = f"epsilon {epsilon:g}, delta {delta:g} for adding or removing one image, clipped to {clip:g}"
            promises[told] = promises.get(told, 0) + 1
    return [f"Noise: {told}{f'; {n} parts' if n > 1 else ''}." for told, n in promises.items()]


def _facts(config: Config, source: Config) -> list[str]:
    selection = config["selection"]
    prior = config["prior"] if isinstance(config["prior"], str) else "given by the user"
    settings, parts = f"prior {prior}; protocol {config['protocol']}.", selection.get("parts")
    if parts:
        shares = [
            f"{_cell(str(part['name']))} {part['weight']:.0%} at shrinkage {part['shrinkage']:g}" for part in parts
        ]
        rows = [
            f"- Ensemble of {len(shares)} layers, with their weights: {'; '.join(shares)}.",
            f"- Chosen by `{selection['rule']}`; {settings}",
        ]
    else:
        chosen = f"Shrinkage {config['shrinkage']:g}, chosen by `{selection['rule']}`"
        rows = [f"- {chosen}; temperature {config['temperature']:.3g}; {settings}"]
    if "bank" in config:
        bank = config["bank"]
        rows.append(
            f"- Responses are similarities to the sentences of `bank.json` (from {_cell(str(bank['origin']))}); "
            f"the zero-shot head has weight {config['alpha']:.3g}."
        )
    for event in config["history"]:
        rows += [f"- {_cell(str(event[FAST]))}"] if FAST in event else []
        facts = event.get("facts")
        rows += [f"- {told}" for told in (noise_told(facts) if isinstance(facts, dict) else [])]
    if config["delta"]:
        rows.append(f"- A diagonal shift of {config['delta']:g} was needed for a stable solution.")
    if source.get("licence"):
        rows.append(f"- Licence of the backbone's weights: {_cell(str(source['licence']))}.")
    if config["prompt"]:
        rows.append(f"- Visual prompt: {_cell(str(config['prompt'].get('prompt')))}.")
    versions = ", ".join(f"{name} {version}" for name, version in config["versions"].items())
    return [*rows, f"- Written by {versions}."]


def _cell(text: str) -> str:
    """Untrusted text made safe for a cell: no HTML, no Markdown, no line breaks, nothing invisible."""
    seen = "".join(c if c.isprintable() else " " for c in text)
    return html.escape(seen, quote=False).replace("|", "\\|").replace("`", "\\`").replace("[", "\\[")
