"""`yoro attributes`: class descriptions for image-text models."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from yoro.cli.options import WriteOptions, shown, verb_group
from yoro.cli.output import UsageError, print_text, say
from yoro.errors import counted
from yoro.model.settings import SolveSettings
from yoro.option import option
from yoro.text.settings import EACH

app = verb_group("attributes")

BankPath = Annotated[str, Parameter(name="BANK", help="A JSON file, a saved model, templates or names.")]
BankOut = Annotated[Path, Parameter(metavar="FILE.json", help="Where to write the bank.")]


@shown()
class ClassOptions:
    """The classes to describe."""

    data: str | None = option(None, "Data whose classes are described.", metavar="DATA")
    classes: Path | None = option(None, "File of class names, one per line.", metavar="FILE")

    def names(self) -> list[str]:
        """The classes of the data and of the file, sorted."""
        from yoro.data.find import find
        from yoro.text.banks import read_classes

        found = set(find(self.data).classes) if self.data is not None else set()
        return sorted(found | set(read_classes(self.classes) if self.classes is not None else ()))


@shown()
class DescriptionOptions(ClassOptions):
    """How many sentences each class gets."""

    sentences: int = option(EACH, "Sentences per class.")


@shown()
class DrawOptions(DescriptionOptions):
    """The same, with a seed."""

    seed: int = option(SolveSettings.seed, "Random seed.")


@shown()
class AskOptions(DescriptionOptions):
    """What a language model is asked."""

    task: str = option("object", "What the classes are: flower, pet, texture ...")
    key_from: str = option("OPENAI_API_KEY", "Environment variable with the API key.", metavar="VARIABLE")


@app.command
def show(
    bank: BankPath,
    /,
    *,
    of: Annotated[list[str] | None, Parameter(name="--class", metavar="NAME", help="Only this class.")] = None,
    classes: Annotated[Path | None, Parameter(metavar="FILE", help="File of class names, one per line.")] = None,
) -> None:
    """Print the sentences of a bank by class."""
    from yoro.text.banks import match_classes

    sentences = _open(bank, ClassOptions(classes=classes).names())
    chosen = sorted(sentences) if not of else [key for _, key in match_classes(of, sentences).items()]
    for name in chosen:
        print_text(name)
        for sentence in sentences[name]:
            print_text(f"  {' '.join(sentence.split())}")


@app.command
def check(bank: BankPath, /, *, options: DescriptionOptions = DescriptionOptions()) -> None:
    """Count the sentences of each class, and report classes that have too few or none."""
    from yoro.text.banks import match_classes, tidied

    wanted, sentences = options.names(), options.sentences
    given = _open(bank, wanted)
    found = match_classes(wanted, given) if wanted else {name: name for name in sorted(given)}
    width = max(map(len, ["class", *found]))
    print_text(f"{'class':<{width}}  sentences  usable")
    short = 0
    for name, key in found.items():
        usable = len(tidied(given[key]))
        short += usable < sentences
        remark = "" if usable >= sentences else "  too few, so some are used twice" if usable else "  none"
        print_text(f"{name:<{width}}  {len(given[key]):>9}  {usable:>6}{remark}")
    say(f"{counted(len(found), 'class')}; {short} with fewer than {sentences} usable sentences.")
    if any(not tidied(given[key]) for key in found.values()):
        raise SystemExit(1)


@app.command
def draw(
    bank: BankPath, /, *, out: BankOut, options: DrawOptions = DrawOptions(), output: WriteOptions = WriteOptions()
) -> None:
    """Sample sentences as `yoro fit` would, and write them as a bank."""
    from yoro.text.banks import BUILT_IN, make_bank

    output.check(out)
    wanted = options.names()
    given = bank if bank in BUILT_IN else _open(bank, wanted)
    made, notes = make_bank(wanted or list(given), given, each=options.sentences, seed=options.seed)
    _write(out, {name: list(items) for name, items in made.sentences.items()})
    output.tell(*notes, f"{out}: {counted(len(made.classes), 'class')}, {counted(len(made.flat()[0]), 'sentence')}.")


@app.command
def ask(
    *,
    out: BankOut,
    url: Annotated[str, Parameter(help="URL of the API, such as http://localhost:8000/v1.")],
    model: Annotated[str, Parameter(help="Name of the model at that API.")],
    options: AskOptions = AskOptions(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Generate sentences with an OpenAI-compatible API of yours. Only the class names are sent.

    The file is written after every class; classes that it already has are not asked for again.
    """
    from yoro.text.banks import read_sentences
    from yoro.text.language_model import ask_sentences

    wanted = options.names()
    if not wanted:
        raise UsageError("Give the classes with --data or --classes.")
    bank: dict[str, list[str]] = read_sentences(out) if out.exists() and not output.force else {}
    key = os.environ.get(options.key_from)
    for name in sorted(set(wanted) - bank.keys()):
        bank[name] = ask_sentences(name, url=url, model=model, key=key, task=options.task, each=options.sentences)
        _write(out, bank)
        output.tell(f"{name}: {len(bank[name])} sentences.")
    output.tell(f"{out}: {counted(len(bank), 'class')}.")


def _open(bank: str, classes: list[str]) -> dict[str, list[str]]:
    """The sentences of a file, of a saved model, or of a built-in bank for these classes."""
    from yoro.text.banks import BUILT_IN, make_bank, read_sentences

    if bank in BUILT_IN:
        if not classes:
            raise UsageError(f"{bank!r} needs the classes; give --data or --classes.")
        return {name: list(items) for name, items in make_bank(classes, bank)[0].sentences.items()}
    path = Path(bank)
    return read_sentences(path / "bank.json" if path.is_dir() else path)


def _write(path: Path, bank: dict[str, list[str]]) -> None:
    from yoro.files.atomic import write_file

    write_file(path, (json.dumps(bank, indent=1, ensure_ascii=False) + "\n").encode())
