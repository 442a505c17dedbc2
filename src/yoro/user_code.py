"""Imports modules of the user by name, also from the working directory."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from yoro.errors import YoroError


def import_here(module: str, said: str, error: type[YoroError]) -> ModuleType:
    """The module of that name; a failure becomes an `error` about the name that was `said`."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, so that a file here cannot take the place of an installed module
    try:
        return importlib.import_module(module)
    except Exception as cause:
        raise error(
            f"{said!r}: cannot import module {module!r} from {here}: {type(cause).__name__}: {cause}"
        ) from cause
