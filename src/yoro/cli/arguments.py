"""The arguments of commands: data, models, outputs, and how they are read."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from yoro.cli.options import LABEL_FROM
from yoro.cli.output import UsageError, say

KINDS = "Folders, archives, lists (.csv, .jsonl), Parquet, WebDataset or URLs of images"
Data = Annotated[str, Parameter(name="DATA", help=f"{KINDS}.")]
Images = Annotated[str, Parameter(name="DATA", help=f"{KINDS}, or responses (.npz).")]
Pictures = Annotated[
    str,
    Parameter(name="IMAGES", help="Images, folders, archives, lists, Parquet, WebDataset, URLs, or responses (.npz)."),
]
ModelPath = Annotated[Path, Parameter(help="A saved model.", name="M.yoro")]
Out = Annotated[Path, Parameter(metavar="M.yoro", help="Where to write the model.")]
Elsewhere = Annotated[
    Path | None, Parameter(metavar="N.yoro", help="Write the changed model here instead of in place.")
]
Statistics = Annotated[Path, Parameter(metavar="S.stats", help="Where to write the statistics.")]
LabelFrom = Annotated[str | None, Parameter(help=LABEL_FROM.help, metavar=LABEL_FROM.metavar)]


def given(paths: Sequence[str], label_from: str | None = None) -> object:
    """The data of a verb: a path, several of them, or images with labels by a pattern."""
    if not paths:
        raise UsageError("No data given; expected a folder, an archive, a list, a Parquet file, a URL or responses.")
    data: object = paths[0] if len(paths) == 1 else list(paths)
    label_from = label_from or _answered(data)
    if label_from is None:
        return data
    from yoro.data.find import find_named

    return find_named(data, label_from)


def _answered(data: object) -> str | None:
    """Ask a person at a terminal about folders that look like splits: where the labels are."""
    if not (isinstance(data, str) and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    if not Path(data).is_dir():
        return None
    from yoro.data.examples import listed
    from yoro.data.file_trees import on_disk
    from yoro.data.folders import like_splits

    names = like_splits(on_disk(Path(data)))
    while names:
        say(f"The folders {listed(names)} look like splits. Are they [s]plits, each with class folders, or [c]lasses?")
        answer = sys.stdin.readline()
        if not answer or answer.strip().lower()[:1] in ("s", "c"):
            return {"s": "subfolders", "c": "folders"}.get(answer.strip().lower()[:1])
    return None


def given_for(path: str | None, label_from: str | None) -> object | None:
    """The same for data of one purpose, such as --val."""
    return None if path is None else given([path], label_from)


def called(paths: Sequence[str]) -> str:
    """The name of data on a page; a folder given as a dot gets its real name."""
    paths = [path if Path(path).name.strip(".") else Path(path).resolve().name for path in paths]
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


ADDRESS = re.compile(r"auto|local|ray://\S+|[\w.-]+:\d+")  # of a Ray
BARE = {  # options with an optional value: what a value looks like, and what a missing one means
    "--ray": (ADDRESS, "local"),
    "--fix": (re.compile(r".*\.(csv|tsv|jsonl|ndjson)"), "review"),
}


def spelled_out(words: list[str]) -> list[str]:
    """The words of a command, with the value of a --ray or --fix that is not followed by one, and -o as --out.

    >>> spelled_out(["fit", "--ray", "photos"]), spelled_out(["fit", "photos", "--ray", "10.0.0.7:6379"])
    (['fit', '--ray=local', 'photos'], ['fit', 'photos', '--ray', '10.0.0.7:6379'])
    """
    found = []
    for at, word in enumerate(words):
        looks, usual = BARE.get(word, (None, ""))
        bare = looks is not None and not looks.fullmatch("".join(words[at + 1 : at + 2]))
        found.append(f"{word}={usual}" if bare else "--out" if word == "-o" else word)
    return found


def list_format(out: Path | None, usual: str = "csv") -> str:
    """The format of a list by the suffix of its file."""
    from yoro.files.rows import FORMATS

    found = out.suffix.removeprefix(".").lower() if out else usual
    if found not in FORMATS:
        raise UsageError(f"Unknown format {found!r}; choose one of {', '.join(FORMATS)}.")
    return found


def parse_names(text: str | None) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]
