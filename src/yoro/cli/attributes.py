"""`yoro attributes`: banks of sentences that describe classes to an image-text model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from yoro.cli.options import UsageError, WriteOptions, Writes
from yoro.cli.output import print_text, say
from yoro.errors import counted
from yoro.model.settings import SolveSettings
from yoro.text.settings import EACH

app = App("attributes", sort_key=100, help="Show, check, draw and ask for sentences about classes, in JSON.")

BankPath = Annotated[str, Parameter(name="BANK", help="A JSON file, a saved model, templates or names.")]
DataOption = Annotated[str | None, Parameter(metavar="DATA", help="Data whose classes the bank must describe.")]
ClassesOption = Annotated[Path | None, Parameter(metavar="FILE", help="Class names, one a line.")]
Each = Annotated[int, Parameter(help="Sentences a class.")]
Seed = Annotated[int, Parameter(help="Seed of the draw.")]
BankOut = Annotated[Path, Parameter(metavar="FILE.json", help="Where to write the bank.")]


@app.command
def show(
    bank: BankPath,
    /,
    *,
    of: Annotated[list[str] | None, Parameter(name="--class", metavar="NAME", help="Only this class.")] = None,
    classes: ClassesOption = None,
) -> None:
    """Print the sentences of a bank, class by class."""
    from yoro.text.banks import match_classes

    sentences = _open(bank, _names(None, classes))
    chosen = sorted(sentences) if not of else [key for _, key in match_classes(of, sentences).items()]
    for name in chosen:
        print_text(name)
        for sentence in sentences[name]:
            print_text(f"  {' '.join(sentence.split())}")


@app.command
def check(bank: BankPath, /, *, data: DataOption = None, classes: ClassesOption = None, sentences: Each = EACH) -> None:
    """Say what a bank has for each class: sentences, usable ones, too few; and which classes it lacks."""
    from yoro.text.banks import match_classes, tidied

    wanted = _names(data, classes)
    given = _open(bank, wanted)
    found = match_classes(wanted, given) if wanted else {name: name for name in sorted(given)}
    width = max(map(len, ["class", *found]))
    print_text(f"{'class':<{width}}  sentences  usable")
    short = 0
    for name, key in found.items():
        usable = len(tidied(given[key]))
        short += usable < sentences
        remark = "" if usable >= sentences else "  too few, so that some are used twice" if usable else "  none"
        print_text(f"{name:<{width}}  {len(given[key]):>9}  {usable:>6}{remark}")
    say(f"{counted(len(found), 'class')}; {short} with fewer than {sentences} usable sentences.")
    if any(not tidied(given[key]) for key in found.values()):
        raise SystemExit(1)


@app.command
def draw(
    bank: BankPath,
    /,
    *,
    out: BankOut,
    data: DataOption = None,
    classes: ClassesOption = None,
    sentences: Each = EACH,
    seed: Seed = SolveSettings.seed,
    output: Writes = WriteOptions(),
) -> None:
    """Draw the sentences that `yoro fit` would draw, and write them as a bank of their own."""
    from yoro.model.store import check_output
    from yoro.text.banks import BUILT_IN, make_bank

    check_output(out, force=output.force)
    wanted = _names(data, classes)
    given = bank if bank in BUILT_IN else _open(bank, wanted)
    made, notes = make_bank(wanted or list(given), given, each=sentences, seed=seed)
    _write(out, {name: list(items) for name, items in made.sentences.items()})
    for note in notes:
        say(note, output.quiet)
    say(f"{out}: {counted(len(made.classes), 'class')}, {counted(len(made.flat()[0]), 'sentence')}.", output.quiet)


@app.command
def ask(
    *,
    out: BankOut,
    url: Annotated[str, Parameter(help="Your API, such as http://localhost:8000/v1.")],
    model: Annotated[str, Parameter(help="The model's name there.")],
    data: DataOption = None,
    classes: ClassesOption = None,
    task: Annotated[str, Parameter(help="What the classes are: flower, pet, texture ...")] = "object",
    sentences: Each = EACH,
    key_from: Annotated[
        str, Parameter(metavar="VARIABLE", help="Environment variable that holds the API key.")
    ] = "OPENAI_API_KEY",
    output: Writes = WriteOptions(),
) -> None:
    """Ask your own OpenAI-compatible endpoint for sentences. Nothing but the class names is sent.

    What was answered is written after every class; a file that is there is completed, not asked for again.
    """
    from yoro.text.banks import read_sentences
    from yoro.text.language_model import ask_sentences

    wanted = _names(data, classes)
    if not wanted:
        raise UsageError("Give the classes with --data or --classes.")
    bank: dict[str, list[str]] = read_sentences(out) if out.exists() and not output.force else {}

    def keep(name: str, answers: list[str]) -> None:
        bank[name] = answers
        _write(out, bank)
        say(f"{name}: {len(answers)} sentences.", output.quiet)

    rest = [name for name in wanted if name not in bank]
    ask_sentences(rest, url=url, model=model, key=os.environ.get(key_from), task=task, each=sentences, done=keep)
    say(f"{out}: {counted(len(bank), 'class')}.", output.quiet)


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
            raise UsageError(f"{bank!r} needs the classes: --data or --classes.")
        made, _ = make_bank(classes, bank)
        return {name: list(items) for name, items in made.sentences.items()}
    path = Path(bank)
    return read_sentences(path / "bank.json" if path.is_dir() else path)


def _write(path: Path, bank: dict[str, list[str]]) -> None:
    from yoro.files.atomic import write_file

    write_file(path, (json.dumps(bank, indent=1, ensure_ascii=False) + "\n").encode())
