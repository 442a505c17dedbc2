"""Imports modules of the user by name, also from the working directory."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from yoro.errors import InputError, YoroError

T = TypeVar("T")


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


def import_attribute(name: str, kind: type[T]) -> T:
    """The user's own object `module:ATTRIBUTE`, which must be of this kind."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise InputError(f"{name!r} is incomplete; write module:ATTRIBUTE.")
    found: object = getattr(import_here(module, name, InputError), attribute, None)
    if not isinstance(found, kind):
        raise InputError(f"{name!r} is {type(found).__name__}; expected a {kind.__name__} of {kind.__module__}.")
    return found
