"""`yoro bench datasets --get`: fetches what may be fetched, resumes, checks digests, and says what is left to do.

A split file that cannot be fetched is drawn again from the makers' lists.
"""

from __future__ import annotations

import ast
import hashlib
import shutil
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from yoro.data.examples import shown
from yoro.errors import DatasetError, SourceError, YoroError
from yoro.files.atomic import write_file
from yoro.option import check_choice
from yoro.research.bench.datasets.bench_datasets import DATASETS
from yoro.research.bench.datasets.finding import dataset_folders
from yoro.research.bench.datasets.split_drawing import LISTS, draw_split
from yoro.sources.hub_requests import HubRefusalError, ask, read_some

PARTS = ".downloads"  # folder of a data root: files that are on their way, and names of archives that were unpacked
CHUNK = 1 << 20
BESIDE = ("attributes", "causes")  # folders of files that a dataset's images do without


@dataclass(frozen=True)
class Download:
    """A file, and where it goes under a data root."""

    url: str
    to: str
    licence: str
    digest: str = ""  # md5:HEX, or git:HEX of a file in a repository; none is published for some
    kind: Literal["file", "archive", "list"] = "file"  # an archive is unpacked; of a list in Python come lines of text
    name: str = ""

    @property
    def file(self) -> str:
        return self.name or self.url.rpartition("/")[2]


def downloads() -> dict[str, list[Download]]:
    """What can be fetched, by the name of a dataset; "templates" are the published lists of templates."""
    table = tomllib.loads((files(__package__) / "downloads.toml").read_text("utf-8"))
    return {name: [Download(**row) for row in rows] for name, rows in table.items()}


def fetch(name: str, root: Path) -> Iterator[str]:
    """Fetch a dataset into a data root: a sentence on each file, and on what is still missing in the end."""
    known = downloads()
    check_choice("dataset", name, [*known, *DATASETS])
    there = False
    if name in DATASETS:
        with suppress(DatasetError):
            there = bool(DATASETS[name].find([root]))
    for item in known.get(name, ()):
        if there and item.to not in BESIDE:  # images that came in another way
            continue
        try:
            yield f"{name}: {_take(item, root)}"
        except (YoroError, OSError) as error:
            lost = f"'{item.file}' was not fetched from {item.url} (for '{shown(root / item.to)}'): {error}"
            drawn = name in LISTS and item.file == DATASETS[name].split_file
            yield f"{name}: {_draw_again(name, item, root, lost) if drawn else lost}"
    if name in DATASETS:
        try:
            found = DATASETS[name].find([root])
            yield f"{name}: {len(found.dataset):,} images in '{found.place}'; the counts are right."
        except DatasetError as error:
            yield f"{name}: not complete. {error}"


def _draw_again(name: str, item: Download, root: Path, lost: str) -> str:
    """Draw a split file that could not be fetched, if the makers' lists are there; what was done, in words."""
    folder, part = root / item.to, root / PARTS / item.file
    try:
        content = draw_split(name, [folder, *dataset_folders([root], DATASETS[name].folders)])
        part.parent.mkdir(parents=True, exist_ok=True)
        write_file(part, content)
        checked = "its digest is that of the published one" if _checked(item, part) else "no digest is published for it"
        folder.mkdir(parents=True, exist_ok=True)
        part.replace(folder / item.file)
    except (YoroError, OSError) as error:
        return f"{lost} Nor could it be drawn again from the makers' lists: {error}"
    return f"'{item.file}' drawn again into '{shown(folder)}' from the makers' lists; {checked}. {lost}"


def _take(item: Download, root: Path) -> str:
    """Fetch one file, unless it is there; what was done, in words."""
    folder, parts = root / item.to, root / PARTS
    place, done = folder / item.file, parts / f"{item.file}.done"
    if place.is_file() or done.is_file():
        return f"'{item.file}' is there."
    part = parts / item.file
    _download(item, part)
    checked = "its digest is right" if _checked(item, part) else "no digest is published for it"
    folder.mkdir(parents=True, exist_ok=True)
    if item.kind == "archive":
        _unpack(part, folder)
        done.touch()
        part.unlink()
    elif item.kind == "list":
        write_file(place, "".join(f"{line}\n" for line in _strings(part)).encode())
        part.unlink()
    else:
        part.replace(place)
    return f"'{item.file}' fetched into '{shown(folder)}'; {checked}. Licence: {item.licence}."


def _download(item: Download, part: Path) -> None:
    """Append the missing part of a file; a host that cannot resume sends the whole file again."""
    have = part.stat().st_size if part.is_file() else 0
    try:
        answer = ask("GET", item.url, item.file, headers={"Range": f"bytes={have}-"} if have else {})
    except HubRefusalError as error:
        if error.status == 416 and have and item.digest:  # all of it came before: the digest tells
            return
        if error.status == 416:
            part.unlink()
        raise
    part.parent.mkdir(parents=True, exist_ok=True)
    with answer, part.open("ab") as file:
        if have and answer.status != 206:
            have = file.truncate(0)
        size = have + int(answer.headers.get("Content-Length") or 0)
        if size - have > shutil.disk_usage(part.parent).free:
            raise SourceError(f"it has {size:,} bytes, more than the disk has room for")
        while chunk := read_some(answer, CHUNK):
            file.write(chunk)
        if file.tell() < size:
            raise SourceError(f"the connection broke at {file.tell():,} of {size:,} bytes; the same command resumes")


def _checked(item: Download, part: Path) -> bool:
    """Whether the digest was compared; a wrong one is an error, and the file is removed."""
    kind, _, expected = item.digest.partition(":")
    if not expected:
        return False
    digest = hashlib.md5(usedforsecurity=False)
    if kind == "git":
        digest = hashlib.sha1(b"blob %d\0" % part.stat().st_size, usedforsecurity=False)
    with part.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != expected:
        part.unlink()
        raise SourceError(f"its digest is {digest.hexdigest()}, expected {expected}; it was removed, try again")
    return True


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive, and archives within it; nothing is written outside the folder."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as content:
                names = content.namelist()
                content.extractall(folder)  # leaves out what would climb out of the folder
        else:
            with tarfile.open(archive) as content_of_tar:
                names = []
                content_of_tar.extractall(folder, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise SourceError(f"it cannot be unpacked ({error}); remove '{shown(archive)}' and try again") from error
    for name in names:
        if name.endswith((".tar.gz", ".tgz")) and not Path(name).name.startswith("."):
            _unpack(folder / name, (folder / name).parent)


def _strings(path: Path) -> list[str]:
    """The first list of texts in a file of Python, which is not run."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (ValueError, SyntaxError) as error:
        raise SourceError(f"it is no file of Python: {error}") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.List) and node.elts:
            texts = [part.value for part in node.elts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            if len(texts) == len(node.elts):
                return texts
    raise SourceError("there is no list of texts in it")
