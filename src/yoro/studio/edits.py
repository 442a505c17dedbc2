"""Edits: the steps of a person as what was before and after, so that each can be undone; and how they are saved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, TypeAdapter

from yoro.errors import counted
from yoro.model.model import Json

UNSORTED = 0  # the number of no class
FORGOTTEN = -3  # of photos that the model was fitted on and that are removed from it (unlearned)

Number = Annotated[int, Field(ge=0)]


class Photo(NamedTuple):
    """A photo: the name of its file, the number of its class, and its place among all photos.

    aside : whether it is in the test set, which is never learned from.
    checked : whether a person confirmed the label that it has.
    """

    name: str
    belongs: Number | Literal[-3]
    place: Number
    aside: bool = False
    checked: bool = False

    def moved(self, belongs: int) -> Photo:
        """The photo in another class, where nobody has confirmed it; an unsorted one can test nothing."""
        return self._replace(belongs=belongs, checked=False, aside=self.aside and belongs != UNSORTED)


class OpenedModel(NamedTuple):
    """The model that the work starts from: its key, its name, and the class here of each of its labels.

    The label of a class that was removed is UNSORTED.
    """

    key: str
    name: str
    classes: tuple[tuple[str, Number], ...]

    def belongs(self, label: str) -> int:
        return dict(self.classes)[label]

    def labels(self, number: int) -> list[str]:
        return [label for label, belongs in self.classes if belongs == number]


ClassEdit = tuple[Number, str | None, str | None]  # number, name before and after; None: there is no such class
PhotoEdit = tuple[str, Photo | None, Photo | None]  # digest, before and after
ModelEdit = tuple[OpenedModel | None, OpenedModel | None]


@dataclass(frozen=True)
class Edit:
    """One step of a person, as what was before and after.

    drop : what came in one drop arrives in parts; edits in a row with the same word are one step.
    """

    what: str
    classes: tuple[ClassEdit, ...] = ()
    photos: tuple[PhotoEdit, ...] = ()
    model: ModelEdit | None = None
    drop: str = ""

    @property
    def empty(self) -> bool:
        return not self.classes and not self.photos and self.model is None

    def then(self, later: Edit) -> Edit:
        """This edit and a later part of the same drop, as one step."""
        photos = {digest: (before, after) for digest, before, after in self.photos}
        for digest, before, after in later.photos:
            photos[digest] = photos.get(digest, (before, after))[0], after
        joined = tuple((digest, before, after) for digest, (before, after) in photos.items())
        return replace(later, what=added(len(joined)), classes=(*self.classes, *later.classes), photos=joined)

    def to_json(self) -> Json:
        """Plain values, where tuples are lists; `from_json` gives the edit back."""
        parts: Json = {"what": self.what, "classes": self.classes, "photos": self.photos}
        parts |= {"drop": self.drop} if self.drop else {}
        return parts if self.model is None else parts | {"model": self.model}

    @classmethod
    def from_json(cls, value: object) -> Edit:
        """The edit that plain values describe; a ValueError if they do not."""
        return _EDITS.validate_python(value)


def added(photos: int) -> str:
    """What a step is called that adds photos."""
    return f"Add {counted(photos, 'photo')}"


_EDITS = TypeAdapter(Edit)
