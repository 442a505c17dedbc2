"""Damage for files that hold pickles: seeded edits, and instructions that a hostile one would use."""

from __future__ import annotations

import pickletools
import random
import struct
from collections.abc import Iterator
from itertools import pairwise

TERABYTE = struct.pack("<Q", 1 << 40)
ORDERED = b"ccollections\nOrderedDict\n"
HOSTILE = (
    b"cos\nsystem\n", b"cbuiltins\neval\n", ORDERED, b"(ios\nsystem\n", b"\x8c\x02os\x8c\x06system\x93", b"P7\n",
    b"r\xff\xff\xff\x7f", b"X\xff\xff\xff\x7f", b"T\xff\xff\xff\x7f", b"\x8b\xff\xff\xff\x7f", b"S'\\q'\n",
    b"\x96" + TERABYTE, b"\x8d" + TERABYTE, b"\x95" + TERABYTE, b"\x82\x01", b"I9\n", b"L9L\n", b"F9\n", b"K\x01",
    b"h\x00", b"q\x00", *(bytes([code]) for code in b"RboQ012(tdl)}]asueN.\x81\x85\x86\x87\x88\x93\x94"),
)  # fmt: skip

# Small files that ask for much: each is refused, or read, in about the memory and time of its own size.
BOMBS = {
    "a place of the memo far away": b"}r\xff\xff\xff\xff.",
    "a byte array of a terabyte": b"\x96" + TERABYTE + b".",
    "a string of a terabyte": b"\x8d" + TERABYTE + b".",
    "a string of four gigabytes": b"X\xff\xff\xff\xff.",
    "a number of two gigabytes": b"\x8b\xff\xff\xff\x7f.",
    "a number of many digits": b"I" + b"9" * 1_000_000 + b"\n.",
    "tuples in tuples": b")" + b"\x85" * 50_000 + b".",
    "tuples in tuples as a key": b"})" + b"\x85" * 300_000 + b"Ns.",
    "doubled tuples as a key": b"})q\x00" + b"h\x00\x86q\x00" * 60 + b"Ns.",
    "doubled lists": b"]q\x00" + b"](h\x00h\x00eq\x00" * 60 + b".",
    "lists in lists": b"]" * 50_000 + b"a" * 49_999 + b".",
    "dictionaries in dictionaries": b"}" + b"X\x01\x00\x00\x00k}" * 50_000 + b"s" * 50_000 + b".",
    "calls of calls": ORDERED + b")R" * 50_000 + b".",
    "arguments in arguments": ORDERED + b"q\x00" + b"h\x00" * 50_000 + b")" + b"R\x85" * 50_000 + b"R.",
    "states in states": ORDERED + b"q\x00" + b"h\x00)R" * 50_000 + b"b" * 50_000 + b".",
    "keys that collide": b"}("
    + b"".join(b"\x8a\x0b" + (number * (2**61 - 1)).to_bytes(11, "little") + b"N" for number in range(1, 50_000))
    + b"u.",
    "too many instructions": b"(" + b"]" * 1_000_002 + b"t.",
    "a state set on a global": ORDERED + b"N}X\x08\x00\x00\x00__call__Ns\x86b.",
    "a state set on a dictionary": b"}}X\x01\x00\x00\x00aNsb.",
}


def mutations(pickled: bytes, count: int, *, seed: int = 0) -> Iterator[bytes]:
    """Copies of a pickle with one or two edits: a piece left out, doubled elsewhere, or changed into a hostile one.

    Half of the pieces are whole instructions, the others any bytes.
    """
    draw = random.Random(seed)
    starts = [place or 0 for _, _, place in pickletools.genops(pickled)] + [len(pickled)]
    instructions = [pickled[start:end] for start, end in pairwise(starts)]
    for number in range(count):
        pieces = list(instructions) if number % 2 else [pickled[i : i + 1] for i in range(len(pickled))]
        for _ in range(draw.randint(1, 2)):
            place, other = draw.randrange(len(pieces)), draw.randrange(len(pieces))
            new = draw.choice((b"", pieces[other], draw.choice(HOSTILE), draw.randbytes(1)))
            pieces[place : place + draw.randint(0, 1)] = [new]
        yield b"".join(pieces)
