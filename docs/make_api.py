"""Writes `api.md` from the docstrings of the public names and `options.md` from the declared options: `make api`."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

import yoro
from yoro.http.settings import ServeSettings
from yoro.model.settings import ClusterSettings, FitSettings, Loading, PipelineSettings, SolveSettings
from yoro.option import Declared, declared
from yoro.refining.settings import RefineSettings
from yoro.text.settings import SentenceSettings

FOLDER = Path(__file__).parent
FIRST = ["fit", "load", "Classifier", "compare", "Responses"]  # what most people look for; the rest follows by name
HEAD = """# The Python interface

Every public name, from its docstring; `make api` writes this page. `yoro.fit` and the methods of a classifier
take what you hold: a folder, a list file, `(images, labels)` as arrays or lists of paths, pairs `(image, label)`, a
table of pandas with a column of images and one of labels, a dataset of torch, torchvision's `ImageFolder`, a dataset of
Hugging Face, a generator. An image is a path, the bytes of a file, an open file, a PIL image, or an array or tensor of
uint8 or of floats from 0 to 1. Labels come back as they were given: whole numbers as whole numbers. Where a dataset
names its classes, the answers are these names. Images of files and of datasets that list their labels are read one by
one; those of arrays and generators are held until the pass is over.

The notebooks [photos](../examples/photos.ipynb), [pipeline](../examples/pipeline.ipynb) and
[paper](../examples/paper.ipynb) show most of it at work.
"""


OPTIONS = """# Options

Every option, from its declaration; `make api` writes this page. The options of a fit belong to `yoro fit` and to
`yoro.fit`, and other verbs share them; `yoro VERB --help` lists those of a verb. Expert options are marked with *.
"""
SETTINGS = {
    "A fit": FitSettings,
    "The backbone and the visual prompt": PipelineSettings,
    "The mapping": SolveSettings,
    "Class descriptions, for image-text backbones": SentenceSettings,
    "Reading images": Loading,
    "On Ray": ClusterSettings,
    "Refinement (`yoro refine`)": RefineSettings,
    "The service (`yoro serve`)": ServeSettings,
}


def options_page() -> str:
    """The page of all options, in tables."""
    parts = [OPTIONS]
    for title, settings in SETTINGS.items():
        rows = [row(one) for one in declared(settings, groups=False)]
        parts.append(
            "\n".join([f"## {title}", "", "| option | Python | default | |", "| --- | --- | --- | --- |", *rows])
        )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def row(one: Declared) -> str:
    """One line of a table."""
    flags = " ".join(one.option.flags) or f"--{one.name.replace('_', '-')}"
    if one.default is True:
        flags = f"--no-{one.name.replace('_', '-')}"
    metavar = f" {one.option.metavar}" if one.option.metavar else ""
    typed = "" if one.option.python_only else f"`{flags}{metavar}`".replace("|", "\\|")
    default = "" if one.default is None or callable(one.default) else f"`{one.default!r}`"
    return f"| {typed} | `{one.name}`{'*' if one.option.expert else ''} | {default} | {one.text} |"


def page() -> str:
    """The page of the public names."""
    parts = [HEAD]
    for name in sorted(yoro.__all__, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)):
        thing = getattr(yoro, name)
        if inspect.isclass(thing):
            parts.append(f"## yoro.{name}\n\n{described(thing)}")
            parts += [f"### {name}.{method}\n\n{described(value)}" for method, value in methods(thing)]
        elif callable(thing):
            parts.append(f"## yoro.{name}\n\n{described(thing)}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def methods(kind: type) -> list[tuple[str, object]]:
    """Public methods and properties of ours that have a docstring, in the order of their names."""
    found = []
    for name, value in inspect.getmembers(kind):
        function = value.fget if isinstance(value, property) else value
        ours = str(getattr(inspect.unwrap(function), "__module__", "")).startswith("yoro") if function else False
        if not name.startswith("_") and ours and callable(function) and inspect.getdoc(function):
            found.append((name, value))
    return found


def described(thing: object) -> str:
    """The signature, and the docstring as Markdown."""
    text = markdown(inspect.getdoc(thing) or "")
    if isinstance(thing, property):
        return f"*property*\n\n{text}"
    try:
        shown = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(thing)))
        shown = re.sub(r"\b(yoro|collections\.abc|pathlib|api\.classifier)\.", "", shown)
        shown = re.sub(r"Loading\([^)]+\)", "Loading()", shown)  # the defaults are on the page of options
    except (TypeError, ValueError):
        return text
    name = getattr(thing, "__name__", "")
    return f"```text\n{wrapped(name + shown)}\n```\n\n{text}"


def wrapped(signature: str) -> str:
    """A signature on lines that a page can show."""
    return "\n".join(textwrap.wrap(signature, 88, subsequent_indent="    ", break_long_words=False))


def markdown(text: str) -> str:
    """Sections of numpydoc as bold words and lists, examples as code."""
    text = re.sub(r"^(\w[\w ]*)\n-{3,}$", r"**\1**\n", text, flags=re.MULTILINE)
    lines, listed, code = [], False, False
    for line in text.splitlines():
        shown = line
        if line.startswith("**"):
            listed = not line.startswith("**Examples")
        elif line.lstrip().startswith((">>>", "...")) and not code:
            lines.append("```pycon")
            code = True
        elif code and not line.strip():
            lines.append("```")
            code = False
        elif listed and line and not code and not line.startswith(" "):
            shown = f"- `{line}`"
        elif listed and not code and line.startswith("    "):
            shown = f"  {line.strip()}"
        lines.append(shown)
    return "\n".join([*lines, "```"] if code else lines)


PAGES = {FOLDER / "api.md": page, FOLDER / "options.md": options_page}

if __name__ == "__main__":
    for path, make in PAGES.items():
        path.write_text(make())
