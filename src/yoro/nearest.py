"""What may have been meant by a name that is none of those known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

CUTOFF = 0.5  # of difflib's ratio: what is less alike is not suggested


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that names the one known name most alike, or else all of them.

    >>> nearest("yorro", ["yoro", "blm"]), nearest("x", ["yoro", "blm"])
    ("Did you mean 'yoro'?", 'There are yoro, blm.')
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=CUTOFF)
    return f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(names) or 'none'}."
