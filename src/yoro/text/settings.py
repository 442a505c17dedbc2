"""Settings of the sentences that an image-text source compares images with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yoro.errors import InputError

Sentences = Mapping[str, Sequence[str]]
Attributes = str | Path | Sentences | None


@dataclass(frozen=True)
class SentenceSettings:
    """Which sentences describe the classes.

    attributes : a JSON file or mapping {class: [sentences]}; "templates" (also None), built-in sentences for any
        class; or "names", the bare class names.
    sentences : how many are sampled per class.
    classes : classes besides those of the data, known by their sentences alone.
    zero_shot : whether the sentences take part in the answer, or only make up the response.
    """

    attributes: Attributes = None
    sentences: int = 20  # as in the paper
    classes: tuple[str, ...] = ()
    zero_shot: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        if self.sentences < 1:
            raise InputError(f"sentences is {self.sentences}; expected at least 1.")

    def asked(self, shots: int | None = None) -> str | None:
        """The first given option that needs an image-text source."""
        given = {"attributes": self.attributes is not None, "classes": bool(self.classes), "shots 0": shots == 0}
        return next((f"--{name}" for name, there in given.items() if there), None)


EACH = SentenceSettings.sentences
