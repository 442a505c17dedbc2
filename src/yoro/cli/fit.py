"""`yoro fit`: labelled data in, a saved classifier out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yoro.cli.talk import AsJson, Data, Force, Quiet, parse_shrinkage, print_json, say, spoken_warnings

if TYPE_CHECKING:
    from yoro.classifier import Classifier


def run(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="M.yoro", help="Where to write the model.", show_default=False)],
    val: Annotated[str | None, typer.Option(metavar="DATA", help="Validation data.")] = None,
    shrinkage: Annotated[
        str, typer.Option(metavar="RULE", help="loo, validation, k-fold, oas, rblw, ledoit-wolf, or a number.")
    ] = "loo",
    protocol: Annotated[
        str, typer.Option(metavar="default|paper", help="'paper': the paper's rules and nothing else.")
    ] = "default",
    prior: Annotated[str, typer.Option(metavar="empirical|uniform", help="Class priors.")] = "empirical",
    reservoir: Annotated[
        bool, typer.Option("--reservoir/--no-reservoir", help="Keep responses, to choose the shrinkage anew later.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a classifier in one pass and save it."""
    from yoro.classifier import fit
    from yoro.store import refuse_existing

    rule = parse_shrinkage(shrinkage)
    refuse_existing(out, force=force)
    with spoken_warnings(quiet):
        classifier = fit(data, val=val, shrinkage=rule, prior=prior, protocol=protocol, seed=seed, progress=not quiet)
    if not reservoir:
        classifier.drop_reservoir()
    classifier.save(out, force=force)
    for note in classifier.notes:
        say(note, quiet)
    if as_json:
        print_json(summary(classifier))
    say(sentence(classifier, out), quiet)


def summary(classifier: Classifier) -> dict[str, object]:
    """What was fitted, for a machine."""
    model = classifier.model
    return {
        "classes": list(classifier.classes),
        "examples": model.statistics.total,
        "width": model.mapping.width,
        "source": model.source,
        "shrinkage": model.choice.shrinkage,
        "rule": model.choice.rule,
        "temperature": model.choice.temperature,
        "history": model.history,
    }


def sentence(classifier: Classifier, out: Path) -> str:
    """What was fitted, for a person."""
    model = classifier.model
    event = model.history[-1]
    return (
        f"{out}: {len(classifier.classes)} classes from {event['images']:,} examples in one pass, "
        f"{event['seconds']:g} s. Shrinkage {model.choice.shrinkage:g} by {model.choice.rule}."
    )
