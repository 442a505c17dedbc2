"""Options, declared once: on the fields of settings classes, for Python, the command line and the documentation."""

from __future__ import annotations

import inspect
import math
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from numbers import Integral, Real
from typing import TypeVar, get_type_hints

from yoro.errors import InputError, did_you_mean

LAST_PORT = 65_535

Function = TypeVar("Function", bound=Callable[..., object])
T = TypeVar("T")
KEY = "option"  # in the metadata of a field


@dataclass(frozen=True)
class Option:
    """The declaration of an option; its name, type and default are those of a field."""

    help: str  # one line, as the command line shows it
    details: str = ""  # further sentences, for the documentation
    metavar: str | None = None
    expert: bool = False
    flags: tuple[str, ...] = ()  # on the command line, where they differ from the name of the field
    python_only: bool = False  # the command line lacks it, or has its own spelling of it

    def field(self, default: T) -> T:
        """A field of a settings class that is this option."""
        return field(default=default, metadata={KEY: self})


def option(
    default: T, help: str, details: str = "", *, metavar: str | None = None, expert: bool = False,
    flags: tuple[str, ...] = (), python_only: bool = False,
) -> T:  # fmt: skip
    """A field of a settings class that is an option: its default, and what there is to say of it (see `Option`)."""
    return Option(help, details, metavar, expert, flags, python_only).field(default)


@dataclass(frozen=True)
class Declared:
    """An option as it was declared, and the group of settings it belongs to ("" for none)."""

    name: str
    kind: object
    default: object
    option: Option
    group: str = ""

    @property
    def text(self) -> str:
        """The help and the details."""
        return f"{self.option.help} {self.option.details}".strip()

    def check(self, value: object) -> None:
        """Raise if an option that is a whole number, or yes or no, is given as something else."""
        kinds: dict[object, str] = {int: "a whole number", int | None: "a whole number or None", bool: "True or False"}
        expected = kinds.get(self.kind)
        if expected is None or (value is None and self.kind == int | None):
            return
        if not isinstance(value, bool if self.kind is bool else Integral) or (
            self.kind is not bool and isinstance(value, bool)
        ):
            raise InputError(f"The option {self.name} is {value!r}; expected {expected}.")


def check_range(
    option: str, value: float | None, least: float, most: float | None = None, *, whole: bool = False
) -> None:
    """Raise if an option is no number, or no whole one, or is out of range; None is always fine."""
    given: object = value
    is_number = isinstance(given, Integral if whole else Real) and not (whole and isinstance(given, bool))
    if value is None or (is_number and least <= value <= (math.inf if most is None else most)):
        return
    shown, expected = f"{value:,}" if is_number else repr(value), "a whole number, " if whole else ""
    expected += f"{least:,} or more" if most is None else f"{least:,} to {most:,}"
    raise InputError(f"The option {option} is {shown}; expected {expected}.")


def check_choice(what: str, value: str, choices: Iterable[str]) -> None:
    """Raise if a value is not among the choices."""
    known = list(choices)
    if value not in known:
        raise InputError(f"Unknown {what} {value!r}. {did_you_mean(str(value), known)}")


def declared(settings: type, made: object | None = None, group: str = "", *, groups: bool = True) -> list[Declared]:
    """The options of a settings class, with those of groups within it; defaults are those of an instance.

    Settings modules do without postponed annotations, which are slow to read at run time.
    """
    made = settings() if made is None else made
    hints, found = get_type_hints(settings), list[Declared]()
    for one in fields(settings):
        kind, default = hints[one.name], getattr(made, one.name)
        if groups and isinstance(kind, type) and is_dataclass(kind):
            found += declared(kind, default, one.name)
        if KEY in one.metadata:
            found.append(Declared(one.name, kind, default, one.metadata[KEY], group))
    return found


def documented(settings: type) -> Callable[[Function], Function]:
    """Give a function that takes `**options` their signature, and their descriptions in place of "{options}"."""

    def mark(function: Function) -> Function:
        options = declared(settings)
        own = inspect.signature(function)
        shown = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        for one in options:
            default = None if callable(one.default) else one.default
            shown.append(
                inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=one.kind)
            )
        function.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
        lines = [
            line
            for one in options
            for line in (
                one.name,
                *textwrap.wrap(f"    {one.text}", 100, subsequent_indent="    ", break_on_hyphens=False),
            )
        ]
        function.__doc__ = (function.__doc__ or "").replace("{options}", "\n    ".join(lines))
        return function

    return mark
