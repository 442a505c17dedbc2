"""`yoro attributes`: banks of sentences that describe classes to an image-text model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from yoro.cli.talk import Force, Quiet, say

app = typer.Typer(
    help="Show, check, draw and ask for banks of sentences, {class: [sentences]} in JSON.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

BankPath = Annotated[
    str, typer.Argument(metavar="BANK", help="A JSON file, a saved model, templates or names.", show_default=False)
]
DataOption = Annotated[str | None, typer.Option(metavar="DATA", help="Data whose classes the bank must describe.")]
ClassesOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Class names, one a line.")]
Each = Annotated[int, typer.Option("--sentences", min=1, help="Sentences a class.")]
Seed = Annotated[int, typer.Option(help="Seed of the draw.")]


@app.command()
def show(
    bank: BankPath,
    of: Annotated[list[str] | None, typer.Option("--class", metavar="NAME", help="Only this class.")] = None,
    classes: ClassesOption = None,
) -> None:
    """Print the sentences of a bank, class by class."""
    from yoro.text.banks import match_classes

    sentences = _open(bank, _names(None, classes))
    chosen = sorted(sentences) if not of else [key for _, key in match_classes(of, sentences).items()]
    for name in chosen:
        typer.echo(name)
        for sentence in sentences[name]:
            typer.echo(f"  {' '.join(sentence.split())}")


@app.command()
def check(bank: BankPath, data: DataOption = None, classes: ClassesOption = None, sentences: Each = 20) -> None:
    """Say what a bank has for each class: sentences, usable ones, too few; and which classes it lacks."""
    from yoro.text.banks import match_classes, tidied

    wanted = _names(data, classes)
    given = _open(bank, wanted)
    found = match_classes(wanted, given) if wanted else {name: name for name in sorted(given)}
    width = max(map(len, ["class", *found]))
    typer.echo(f"{'class':<{width}}  sentences  usable")
    short = 0
    for name, key in found.items():
        usable = len(tidied(given[key]))
        short += usable < sentences
        remark = "" if usable >= sentences else "  too few, so that some are used twice" if usable else "  none"
        typer.echo(f"{name:<{width}}  {len(given[key]):>9}  {usable:>6}{remark}")
    say(f"{len(found)} classes; {short} with fewer than {sentences} usable sentences.")
    if any(not tidied(given[key]) for key in found.values()):
        raise typer.Exit(1)


@app.command()
def draw(
    bank: BankPath,
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="Where to write.", show_default=False)],
    data: DataOption = None,
    classes: ClassesOption = None,
    sentences: Each = 20,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Draw the sentences that `yoro fit` would draw, and write them as a bank of their own."""
    from yoro.model.store import refuse_existing
    from yoro.text.banks import BUILT_IN, make_bank

    refuse_existing(out, force=force)
    wanted = _names(data, classes)
    given = bank if bank in BUILT_IN else _open(bank, wanted)
    made, notes = make_bank(wanted or list(given), given, each=sentences, seed=seed)
    _write(out, {name: list(items) for name, items in made.sentences.items()})
    for note in notes:
        say(note, quiet)
    say(f"{out}: {len(made.classes)} classes, {len(made.flat()[0])} sentences.", quiet)


@app.command()
def ask(
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="Where to write the bank.", show_default=False)],
    url: Annotated[str, typer.Option(help="Your API, such as http://localhost:8000/v1.", show_default=False)],
    model: Annotated[str, typer.Option(help="The model's name there.", show_default=False)],
    data: DataOption = None,
    classes: ClassesOption = None,
    task: Annotated[str, typer.Option(help="What the classes are: flower, pet, texture ...")] = "object",
    sentences: Each = 20,
    key_from: Annotated[
        str, typer.Option("--key-from", metavar="VARIABLE", help="Environment variable that holds the API key.")
    ] = "OPENAI_API_KEY",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Ask your own OpenAI-compatible endpoint for sentences. Nothing but the class names is sent.

    What was answered is written after every class; a file that is there is completed, not asked for again.
    """
    from yoro.text.banks import read_sentences
    from yoro.text.language_model import ask_sentences

    wanted = _names(data, classes)
    if not wanted:
        raise typer.BadParameter("give the classes with --data or --classes.", param_hint="--classes")
    bank: dict[str, list[str]] = read_sentences(out) if out.exists() and not force else {}

    def keep(name: str, answers: list[str]) -> None:
        bank[name] = answers
        _write(out, bank)
        say(f"{name}: {len(answers)} sentences.", quiet)

    rest = [name for name in wanted if name not in bank]
    ask_sentences(rest, url=url, model=model, key=os.environ.get(key_from), task=task, each=sentences, done=keep)
    say(f"{out}: {len(bank)} classes.", quiet)


def _names(data: str | None, classes: Path | None) -> list[str]:
    from yoro.data.find import find
    from yoro.text.banks import read_classes

    found = set(find(data).classes) if data is not None else set()
    return sorted(found | set(read_classes(classes) if classes is not None else ()))


def _open(bank: str, classes: list[str]) -> dict[str, list[str]]:
    """The sentences of a file, of a saved model, or of a built-in bank for the classes given."""
    from yoro.text.banks import BUILT_IN, make_bank, read_sentences

    if bank in BUILT_IN:
        if not classes:
            raise typer.BadParameter(f"{bank!r} needs the classes: --data or --classes.", param_hint="BANK")
        made, _ = make_bank(classes, bank)
        return {name: list(items) for name, items in made.sentences.items()}
    path = Path(bank)
    return read_sentences(path / "bank.json" if path.is_dir() else path)


def _write(path: Path, bank: dict[str, list[str]]) -> None:
    from yoro.files.atomic import write_file

    write_file(path, (json.dumps(bank, indent=1, ensure_ascii=False) + "\n").encode())
