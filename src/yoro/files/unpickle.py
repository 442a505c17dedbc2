"""A reader of pickled plain data that never runs the pickle.

It walks the instructions with a stack of its own and knows only those that build numbers, strings,
tuples, lists and dictionaries. A global is kept as its name, a call as a record of the call: nothing
is ever imported or called, so a hostile file can at most be refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

MOST_INSTRUCTIONS = 1_000_000  # the embedded weight files have about 12,000, CIFAR-100 about 200,000


class PickleRefused(ValueError):  # noqa: N818 - it is caught by name in this package and never shown
    """The pickle holds more than plain data, or is broken."""


@dataclass(frozen=True, eq=False)
class Name:
    """A global, by its name only."""

    text: str


@dataclass(eq=False)
class Call:
    """A call that the pickle asks for; it is not made. `state` is what the result would have been given then."""

    function: str
    arguments: tuple[object, ...]
    state: object = None


@dataclass(frozen=True, eq=False)
class Persistent:
    """A persistent id: a reference to data outside the pickle."""

    identity: object


@dataclass
class _Machine:
    stack: list[object] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[object, object] = field(default_factory=dict)

    def pop(self, n: int) -> list[object]:
        """The last n values, which must lie above the last mark."""
        start = len(self.stack) - n
        if start < (self.marks[-1] if self.marks else 0):
            raise PickleRefused("an instruction lacks its operands")
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def pop_to_mark(self) -> list[object]:
        """Everything above the last mark."""
        if not self.marks:
            raise PickleRefused("a mark is missing")
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values


def read_plain_pickle(stream: BinaryIO, allowed: frozenset[str]) -> object:
    """One pickle from the stream, which is left just behind it; `allowed` are the globals it may name."""
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if count > MOST_INSTRUCTIONS:
                raise PickleRefused("it has too many instructions")
            if opcode.name == "STOP":
                break
            if opcode.name == "GLOBAL":
                if argument not in allowed:
                    raise PickleRefused(f"it names {argument!r}, which plain data do not need")
                machine.stack.append(Name(str(argument)))
            elif opcode.name in _CONSTANTS:
                machine.stack.append(argument)
            elif opcode.name in _INSTRUCTIONS:
                _INSTRUCTIONS[opcode.name](machine, argument)
            else:
                raise PickleRefused(f"it uses the instruction {opcode.name}, which plain data do not need")
    except PickleRefused:
        raise
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise PickleRefused(f"it is broken ({error})") from error
    if len(machine.stack) != 1 or machine.marks:
        raise PickleRefused("it is not one value")
    return machine.stack[0]


def _put(machine: _Machine, argument: object) -> None:
    machine.memo[argument] = machine.stack[-1]


def _get(machine: _Machine, argument: object) -> None:
    machine.stack.append(machine.memo[argument])


def _mark(machine: _Machine, _: object) -> None:
    machine.marks.append(len(machine.stack))


def _set_items(machine: _Machine, values: list[object]) -> None:
    target = machine.stack[-1]
    if not isinstance(target, dict) or len(values) % 2:
        raise PickleRefused("items are set on what is not a dictionary")
    for key, value in zip(values[::2], values[1::2], strict=True):
        if not isinstance(key, str):  # also keeps deeply nested keys from being hashed
            raise PickleRefused("a dictionary has a key that is not a string")
        target[key] = value


def _append(machine: _Machine, values: list[object]) -> None:
    target = machine.stack[-1]
    if not isinstance(target, list):
        raise PickleRefused("values are appended to what is not a list")
    target.extend(values)


def _reduce(machine: _Machine, _: object) -> None:
    function, arguments = machine.pop(2)
    if not isinstance(function, Name) or not isinstance(arguments, tuple):
        raise PickleRefused("it calls what is not a global")
    if function.text == "collections OrderedDict" and arguments == ():
        machine.stack.append({})
    else:
        machine.stack.append(Call(function.text, arguments))


def _build(machine: _Machine, _: object) -> None:
    (state,) = machine.pop(1)
    if machine.stack and isinstance(machine.stack[-1], Call):
        machine.stack[-1].state = state  # the attributes of a dictionary are not needed


def _tuple(n: int) -> Callable[[_Machine, object], None]:
    return lambda machine, _: machine.stack.append(tuple(machine.pop(n)))


_CONSTANTS = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "BINFLOAT"}
    | {"SHORT_BINSTRING", "BINSTRING"}  # strings of Python 2, read as Latin-1
)
_INSTRUCTIONS: dict[str, Callable[[_Machine, object], None]] = {
    "PROTO": lambda machine, _: None,
    "NONE": lambda machine, _: machine.stack.append(None),
    "NEWTRUE": lambda machine, _: machine.stack.append(True),
    "NEWFALSE": lambda machine, _: machine.stack.append(False),
    "EMPTY_TUPLE": _tuple(0),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.pop_to_mark())),
    "EMPTY_LIST": lambda machine, _: machine.stack.append([]),
    "EMPTY_DICT": lambda machine, _: machine.stack.append({}),
    "MARK": _mark,
    "BINPUT": _put,
    "LONG_BINPUT": _put,
    "BINGET": _get,
    "LONG_BINGET": _get,
    "APPEND": lambda machine, _: _append(machine, machine.pop(1)),
    "APPENDS": lambda machine, _: _append(machine, machine.pop_to_mark()),
    "SETITEM": lambda machine, _: _set_items(machine, machine.pop(2)),
    "SETITEMS": lambda machine, _: _set_items(machine, machine.pop_to_mark()),
    "REDUCE": _reduce,
    "BINPERSID": lambda machine, _: machine.stack.append(Persistent(machine.pop(1)[0])),
    "BUILD": _build,
}
