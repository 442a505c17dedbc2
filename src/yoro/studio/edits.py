"""Edits: the steps of a person as what was before and after, so that each can be undone; and how they are saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from yoro.model.model import Json

UNSORTED = 0  # the number of no class
FORGOTTEN = -3  # of photos that the model was fitted on and that are removed from it (unlearned)


@dataclass(frozen=True)
class Photo:
    """A photo: the name of its file, the number of its class, and its place among all photos."""

    name: str
    belongs: int
    place: int


@dataclass(frozen=True)
class OpenedModel:
    """The model that the work starts from: its key, its name, and the class here of each of its labels.

    The label of a class that was removed is UNSORTED.
    """

    key: str
    name: str
    classes: tuple[tuple[str, int], ...]

    def belongs(self, label: str) -> int:
        """The number of the class of a label."""
        return dict(self.classes)[label]

    def labels(self, number: int) -> list[str]:
        """The labels of the model in a class."""
        return [label for label, belongs in self.classes if belongs == number]


ClassEdit = tuple[int, str | None, str | None]  # number, name before and after; None: there is no such class
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
        """Plain values; `from_json` gives it back."""
        return {
            "what": self.what,
            "classes": [list(edit) for edit in self.classes],
            "photos": [[digest, _photo_list(before), _photo_list(after)] for digest, before, after in self.photos],
            **({} if self.model is None else {"model": [_model_list(opened) for opened in self.model]}),
        }

    @classmethod
    def from_json(cls, value: Json) -> Edit:
        """The edit that plain values describe."""
        classes = cast("list[list[object]]", value["classes"])
        photos = cast("list[list[object]]", value["photos"])
        return cls(
            str(value["what"]),
            tuple((_number(n), _text(before), _text(after)) for n, before, after in classes),
            tuple((str(digest), _photo(before), _photo(after)) for digest, before, after in photos),
            _model(value["model"]) if "model" in value else None,
        )


def _photo_list(photo: Photo | None) -> list[object] | None:
    return None if photo is None else [photo.name, photo.belongs, photo.place]


def _photo(value: object) -> Photo | None:
    if value is None:
        return None
    name, belongs, place = cast("list[object]", value)
    return Photo(str(name), FORGOTTEN if belongs == FORGOTTEN else _number(belongs), _number(place))


def _model_list(opened: OpenedModel | None) -> list[object] | None:
    return None if opened is None else [opened.key, opened.name, [list(pair) for pair in opened.classes]]


def _model(value: object) -> ModelEdit:
    before, after = (_opened(part) for part in cast("list[object]", value))
    return before, after


def _opened(value: object) -> OpenedModel | None:
    if value is None:
        return None
    key, name, classes = cast("list[object]", value)
    pairs = cast("list[list[object]]", classes)
    return OpenedModel(str(key), str(name), tuple((str(label), _number(number)) for label, number in pairs))


def _number(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not the number of a class or a place")
    return value


def _text(value: object) -> str | None:
    return None if value is None else str(value)
