"""Edits: the steps of a person as what was before and after, so that each can be undone; and how they are saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, TypeAdapter

from yoro.model.model import Json

UNSORTED = 0  # the number of no class
FORGOTTEN = -3  # of photos that the model was fitted on and that are removed from it (unlearned)

Number = Annotated[int, Field(ge=0)]


class Photo(NamedTuple):
    """A photo: the name of its file, the number of its class, and its place among all photos."""

    name: str
    belongs: Number | Literal[-3]
    place: Number


class OpenedModel(NamedTuple):
    """The model that the work starts from: its key, its name, and the class here of each of its labels.

    The label of a class that was removed is UNSORTED.
    """

    key: str
    name: str
    classes: tuple[tuple[str, Number], ...]

    def belongs(self, label: str) -> int:
        """The number of the class of a label."""
        return dict(self.classes)[label]

    def labels(self, number: int) -> list[str]:
        """The labels of the model in a class."""
        return [label for label, belongs in self.classes if belongs == number]


ClassEdit = tuple[Number, str | None, str | None]  # number, name before and after; None: there is no such class
PhotoEdit = tuple[str, Photo | None, Photo | None]  # digest, before and after
ModelEdit = tuple[OpenedModel | None, OpenedModel | None]


@dataclass(frozen=True)
class Edit:
    """One step of a person, as what was before and after."""

    what: str
    classes: tuple[ClassEdit, ...] = ()
    photos: tuple[PhotoEdit, ...] = ()
    model: ModelEdit | None = None

    @property
    def empty(self) -> bool:
        return not self.classes and not self.photos and self.model is None

    def to_json(self) -> Json:
        """Plain values, where tuples are lists; `from_json` gives the edit back."""
        parts: Json = {"what": self.what, "classes": self.classes, "photos": self.photos}
        return parts if self.model is None else parts | {"model": self.model}

    @classmethod
    def from_json(cls, value: object) -> Edit:
        """The edit that plain values describe; a ValueError if they do not."""
        return _EDITS.validate_python(value)


_EDITS = TypeAdapter(Edit)
