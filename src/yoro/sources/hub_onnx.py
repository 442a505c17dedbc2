"""An ONNX file of a model hub, with its preprocessing: `hf:OWNER/NAME[@REVISION][/FILE.onnx]`.

A repository with an image tower and a text tower is opened as an image-text model, unless a file is named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from yoro import limits
from yoro.errors import SourceError, plain
from yoro.sources.hub import COMMIT, Revision, cached_revision, check_file, check_names, find_revision, remember
from yoro.sources.names import SourceName
from yoro.sources.preprocessing_file import FILE, TIMM_FILE, Preprocessing, read_preprocessing
from yoro.sources.protocol import Reading

if TYPE_CHECKING:
    from yoro.sources.onnx_file import OnnxFileSource
    from yoro.sources.onnx_pair import OnnxPairSource

PLACE = re.compile(r"(?P<repository>[^/@]+/[^/@]+)(@(?P<revision>[^/@]+))?(/(?P<file>.+))?")
PICKED = ("onnx/model.onnx", "model.onnx")
VISION, TEXT, TOKENIZER, CONFIG = "vision_model.onnx", "text_model.onnx", "tokenizer.json", "config.json"
CARD = "README.md"
LICENCE = re.compile(r"^license:\s*(\S{1,100})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class HubPlace:
    """What a name says: the repository, the revision, and the file if it is given."""

    repository: str
    revision: str = "main"
    file: str | None = None

    @property
    def pinned(self) -> bool:
        return COMMIT.fullmatch(self.revision) is not None


def parse_place(name: SourceName) -> HubPlace:
    """The parts of `hf:OWNER/NAME[@REVISION][/FILE.onnx]`."""
    found = PLACE.fullmatch(name.rest)
    if found is None or not (found["file"] or ".onnx").endswith(".onnx"):
        raise SourceError(f"{name.text!r} is not a network of a hub; write hf:OWNER/NAME[@REVISION][/FILE.onnx].")
    place = HubPlace(found["repository"], found["revision"] or "main", found["file"])
    check_names(place.repository, place.revision)
    if place.file is not None:
        check_file(place.file)
    return place


def open_hub(name: SourceName, read: Reading, threads: int | None) -> OnnxFileSource | OnnxPairSource:
    """Open a network of a hub; its recorded name has the commit and, unless it is an image-text model, the file."""
    from yoro.sources.onnx_file import OnnxFile, open_file

    place = parse_place(name)
    found = find_revision(place.repository, place.revision, partial(_is_complete, place=place))
    _, question, options = name.text.partition("?")
    towers = _towers(found) if place.file is None else []
    if towers:
        from yoro.sources.onnx_pair import open_pair

        most = {".onnx": limits.ONNX_FILE_BYTES, TOKENIZER: limits.TOKENIZER_BYTES}
        for file in towers:
            found.take(file, most.get(file, most.get(PurePosixPath(file).suffix, limits.HUB_SMALL_FILE_BYTES)))
        remember(found, place.revision)
        text = f"hf:{place.repository}@{found.commit}{question}{options}"
        return open_pair(found.folder, replace(name, text=text), read, threads)
    file = place.file or _pick(found)
    preprocessing = _preprocessing(found, name)
    card = found.take_if_there(CARD, limits.HUB_SMALL_FILE_BYTES)
    path = found.take(file, limits.ONNX_FILE_BYTES)
    weights = _take_weights(found, file)
    remember(found, place.revision)
    said = {"layout": "nchw", **(preprocessing.options if preprocessing else {})}  # all of the hub put colours first
    if card is not None and (licence := _licence(card)):
        said["licence"] = licence
    geometry = {} if preprocessing is None else {"fit": preprocessing.fit, "interpolation": preprocessing.interpolation}
    notes = [f"Using the cached copy of {place.repository}{found.away}"] if found.away else []
    text = f"hf:{place.repository}@{found.commit}/{file}{question}{options}"
    known = OnnxFile(path, said, weights, notes=notes, **geometry)
    return open_file(known, replace(name, text=text), read, threads)


def asks_hub(name: SourceName) -> bool:
    """Whether opening this name may ask the hub: not if it is pinned to a commit that the cache has."""
    place = parse_place(name)
    known = cached_revision(place.repository, place.revision) if place.pinned else None
    return known is None or not _is_complete(known, place)


def is_here(name: SourceName) -> bool:
    """Whether a network is in the cache, so that it can be opened without the hub."""
    place = parse_place(name)
    known = cached_revision(place.repository, place.revision)
    if known is None:
        return False
    return known.has(place.file) if place.file else any(map(known.has, PICKED)) or bool(_towers(known))


def _towers(found: Revision) -> list[str]:
    """The files of an image-text model, where a repository has them all."""
    for folder in ("onnx/", ""):
        files = [f"{folder}{VISION}", f"{folder}{TEXT}", TOKENIZER, FILE, CONFIG]
        if all(file in found.listed if found.listed is not None else found.has(file) for file in files):
            return files
    return []


def _is_complete(known: Revision, place: HubPlace) -> bool:
    """Whether the cache has all that `open_hub` needs, so that nobody is asked."""
    file = place.file
    if file is None:
        return place.pinned and bool(_towers(known))
    if not known.has(file) or not known.knows(FILE) or not (known.has(FILE) or known.knows(TIMM_FILE)):
        return False
    return all(known.has(_beside(file, each)) for each in external_files(known.folder / file))


def external_files(path: Path) -> list[str]:
    """The names of the files that a graph keeps its weights in, beside its own."""
    content = path.read_bytes() if path.stat().st_size <= limits.ONNX_FILE_BYTES else b""
    if b"location" not in content:  # the key under which a tensor names its file
        return []
    import onnx

    from yoro.sources.onnx_file import external_tensors

    try:
        tensors = external_tensors(onnx.load_model_from_string(content))
    except Exception:  # of protobuf; the file is refused when it is opened
        return []
    names = [entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"]
    found = list(dict.fromkeys(names))
    if len(found) > limits.HUB_WEIGHT_FILES:
        raise SourceError(
            f"{str(path)!r} names {len(found):,} files of weights; expected at most {limits.HUB_WEIGHT_FILES}."
        )
    return found


def _take_weights(found: Revision, file: str) -> dict[str, Path]:
    """The external weights of a graph, by the names in it; together they are no more than a graph can hold."""
    weights, left = dict[str, Path](), limits.ONNX_FILE_BYTES
    for name in external_files(found.folder / file):
        weights[name] = found.take(_beside(file, name), left)
        left = max(left - weights[name].stat().st_size, 0)
    return weights


def _beside(file: str, other: str) -> str:
    """The name in the repository of a file that is named relative to another."""
    check_file(other)
    return str(PurePosixPath(file).parent / other)


def _pick(found: Revision) -> str:
    """The ONNX file of a repository for which none was named."""
    listed = found.listed
    for file in PICKED:
        if file in listed if listed is not None else found.has(file):
            return file
    graphs = sorted(file for file in listed or () if file.endswith(".onnx"))
    if graphs:
        shown = ", ".join(map(plain, graphs[:8])) + (", ..." if len(graphs) > 8 else "")
        raise SourceError(
            f"{found.repository!r} has no {' or '.join(PICKED)}. "
            f"Name one of its files, hf:{found.repository}/FILE: {shown}."
        )
    where = "the cache" if listed is None else "its repository"
    raise SourceError(f"{found.repository!r} has no ONNX file in {where}. Look on the hub for a conversion of it.")


def _preprocessing(found: Revision, name: SourceName) -> Preprocessing | None:
    """What the repository says of its images; None if it says nothing, but the name does."""
    for file in (FILE, TIMM_FILE):
        path = found.take_if_there(file, limits.HUB_SMALL_FILE_BYTES)
        if path is not None:
            try:
                said = read_preprocessing(path)
            except SourceError:
                if {"mean", "std"} <= set(name.options):
                    return None
                raise
            if said is not None:
                return said
    if not {"mean", "std"} <= set(name.options):
        raise SourceError(
            f"{name.text!r} has no {FILE} that says how its images are prepared. Give it with the name, as in "
            f"hf:{found.repository}?mean=0.5,0.5,0.5&std=0.5,0.5,0.5&side=224."
        )
    return None


def _licence(card: Path) -> str | None:
    """The licence that the head of a model card names."""
    _, fence, rest = card.read_text(encoding="utf-8", errors="replace").partition("---\n")
    found = LICENCE.search(rest.partition("\n---")[0]) if fence else None
    return plain(found[1]) if found else None
