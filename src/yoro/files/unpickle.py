"""Pickled plain data, read without importing or calling anything that the pickle names.

The instructions are looked through first; then pickle's own unpickler carries them out, with a record of ours in the
place of every global. A hostile file can at most be refused.
"""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Container
from typing import BinaryIO

from yoro import limits

PLAIN = frozenset({
    "PROTO", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT",
    "BINUNICODE", "SHORT_BINSTRING", "BINSTRING", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST",
    "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET",
    "GLOBAL", "REDUCE", "BUILD", "BINPERSID",
})  # fmt: skip
STRINGS = (pickletools.pyunicode, pickletools.pybytes_or_str)  # the latter of Python 2, read as Latin-1


class PickleRefused(ValueError):  # noqa: N818 - it is caught by name in this package and never shown
    """The pickle holds more than plain data, or is broken."""


class StandIn(dict[str, object]):
    """Instead of a global, and of what a call of it would give: a record of its arguments, its state and its items."""

    __slots__ = ("arguments", "name", "state")
    __match_args__ = ("name", "arguments")

    def __init__(self, name: str, *arguments: object) -> None:
        self.name, self.arguments = name, arguments
        self.state: object = None

    def __call__(self, *arguments: object) -> StandIn:
        return StandIn(self.name, *arguments)

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: BinaryIO, allowed: Container[str]) -> None:
        super().__init__(stream, encoding="latin-1")
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> StandIn:
        if f"{module} {name}" not in self._allowed:
            raise PickleRefused(f"it names {f'{module} {name}'[:100]!r}, which plain data do not need")
        return StandIn(f"{module} {name}")

    def persistent_load(self, pid: object) -> StandIn:
        return StandIn("persistent", pid)


def read_plain_pickle(stream: BinaryIO, allowed: Container[str] = ()) -> object:
    """One pickle from the stream, which is left just behind it; `allowed` are the globals it may name."""
    start = stream.tell()
    try:
        _check_instructions(stream)
        end = stream.tell()
        stream.seek(start)
        value: object = _Unpickler(stream, allowed).load()
    except PickleRefused:
        raise
    except Exception as error:  # broken pickles raise errors of many kinds
        raise PickleRefused(f"it is broken ({str(error)[:200]})") from error
    stream.seek(end)
    return value


def _check_instructions(stream: BinaryIO) -> None:
    """Refuse what plain data do not need, and what would cost more than the file's own size.

    pickle makes room for any place of its memo that is named. Keys must be strings, since tuples of tuples may take for
    ever to hash and numbers can be chosen to collide; so it is followed which values on the stack are strings.
    """
    strings, marks, memo = list[bool](), list[int](), dict[object, bool]()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        name, before = opcode.name, opcode.stack_before
        if name not in PLAIN:
            raise PickleRefused(f"it uses the instruction {name}, which plain data do not need")
        if count > limits.PICKLE_INSTRUCTIONS or (name == "LONG_BINPUT" and int(argument or 0) > count):
            raise PickleRefused("it has too many instructions, or names a place of its memo beyond their number")
        if name == "MARK":
            marks.append(len(strings))
        elif name.endswith("PUT"):
            memo[argument] = strings[-1]
        else:
            marked = pickletools.markobject in before
            start = marks.pop() - before.index(pickletools.markobject) if marked else len(strings) - len(before)
            if name.startswith("SETITEM") and not all(strings[start + 1 :: 2]):
                raise PickleRefused("a dictionary has a key that is not a string")
            strings[start:] = [memo[argument]] if name.endswith("GET") else [k in STRINGS for k in opcode.stack_after]
