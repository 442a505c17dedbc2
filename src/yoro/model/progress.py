"""A word on the terminal while there is nothing to count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm


@contextmanager
def waiting(what: str, shown: bool) -> Iterator[None]:
    """Say what is being done until it is done; as a bar does, it stays silent in logs and leaves nothing behind."""
    with tqdm(desc=f"{what} ...", bar_format="{desc}", disable=None if shown else True, leave=False):
        yield
