"""What a user wrote in a file of their own, found by name: `module:attribute`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from yoro.errors import InputError


def import_module(name: str) -> ModuleType:
    """The module, the working directory included; whatever goes wrong while it is imported is said in one error."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, so that a file here cannot take the place of an installed module
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise InputError(f"module {name!r} cannot be imported from {here}: {type(error).__name__}: {error}") from error


def import_attribute(name: str) -> object:
    """What `module:attribute` names."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise InputError(f"{name!r} is incomplete; write module:attribute.")
    try:
        module = import_module(module_name)
    except InputError as error:
        raise InputError(f"{name!r}: {error}") from error
    if not hasattr(module, attribute):
        raise InputError(f"{name!r}: module {module_name!r} has no {attribute!r}.")
    found: object = getattr(module, attribute)
    return found
