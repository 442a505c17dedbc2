"""`yoro inspect`: what a saved model is and how it came about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from yoro.cli.talk import AsJson, ModelPath, print_json

if TYPE_CHECKING:
    from yoro.store import Model


def run(model: ModelPath, as_json: AsJson = False) -> None:
    """Show classes, counts, source, shrinkage and history of a model."""
    from yoro.store import read_model

    content = read_model(model)
    if as_json:
        print_json(facts(content))
    else:
        typer.echo(text(content))


def facts(model: Model) -> dict[str, object]:
    """The model without its arrays."""
    statistics = model.statistics
    return {
        "classes": dict(zip(statistics.classes, statistics.counts.tolist(), strict=True)),
        "width": statistics.width,
        "source": model.source,
        "transform": model.transform,
        "prompt": model.prompt,
        "prior": model.prior if isinstance(model.prior, str) else dict(model.prior),
        "protocol": model.protocol,
        "shrinkage": model.choice.shrinkage,
        "rule": model.choice.rule,
        "temperature": model.choice.temperature,
        "alpha": model.choice.alpha,
        "bank": None if model.wording is None else model.wording.bank.facts() | {"votes": model.wording.votes},
        "delta": model.delta,
        "candidates": dict(zip(map(str, model.choice.candidates), model.choice.scores, strict=True)),
        "reservoir": None if model.reservoir is None else len(model.reservoir),
        "history": model.history,
    }


def text(model: Model) -> str:
    """The same for a person."""
    statistics, choice = model.statistics, model.choice
    kept = "none kept" if model.reservoir is None else f"{len(model.reservoir):,} kept"
    lines = [
        f"source       {model.source.get('name')}, responses of width {statistics.width}",
        f"examples     {statistics.total:,.0f} of {len(statistics.classes)} classes; individual responses: {kept}",
        f"shrinkage    {choice.shrinkage:g} by {choice.rule}; temperature {choice.temperature:.3g}",
        f"protocol     {model.protocol}; prior {model.prior if isinstance(model.prior, str) else 'given'}",
        *_words(model),
        "",
        *_curve(model),
        "class counts",
        *(f"{count:>9,.0f}  {name}" for name, count in zip(statistics.classes, statistics.counts, strict=True)),
        "",
        "history",
        *(
            f"  {e.get('when')}  {e.get('verb')}: {e.get('images')} examples, {e.get('seconds')} s"
            for e in model.history
        ),
    ]
    return "\n".join(lines)


def _words(model: Model) -> list[str]:
    if model.wording is None:
        return []
    bank = model.wording.bank
    voice = f"the zero-shot head counts {model.choice.alpha:.3g}" if model.wording.votes else "they do not vote"
    return [f"sentences    {len(bank.flat()[0]):,} from {bank.origin}; {voice}"]


def _curve(model: Model) -> list[str]:
    if not model.choice.candidates:
        return []
    what = "correct answers" if model.choice.rule == "validation" else "negative log-likelihood"
    rows = [
        f"{rho:>9g}  {score:<10.6g}{' <- chosen' if rho == model.choice.shrinkage else ''}"
        for rho, score in zip(model.choice.candidates, model.choice.scores, strict=True)
    ]
    return [f"shrinkage  {what}", *rows, ""]
