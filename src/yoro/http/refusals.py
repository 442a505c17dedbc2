"""Answers that are no: a status of HTTP, and a sentence on what came, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Mapping


class RefusedError(Exception):
    """A request that is not answered, with the status that says so."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


def busy(what: str, seconds: int) -> RefusedError:
    """There is no room now."""
    return RefusedError(429, f"{what}; try again in {seconds} s.", {"retry-after": str(seconds)})
