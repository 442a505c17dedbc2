"""Changes of what a person has arranged, as what was before and after; and how the journal writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from yoro.model.model import Json

UNSORTED = 0  # the number of no class
FORGOTTEN = -3  # of photos that a model brought and that are taken out of it again


@dataclass(frozen=True)
class Photo:
    """A photo: what its file was called, the number of its class, and its place among all."""

    name: str
    belongs: int
    place: int


@dataclass(frozen=True)
class Opened:
    """A model that the work begins with: where it is kept, what it was called, and the class of each of its own.

    A class of the model that was removed is of none.
    """

    key: str
    name: str
    classes: tuple[tuple[str, int], ...]

    def belongs(self, label: str) -> int:
        """The number of the class that a class of the model is."""
        return dict(self.classes)[label]

    def labels(self, number: int) -> list[str]:
        """The classes of the model that are a class."""
        return [label for label, belongs in self.classes if belongs == number]


ClassChange = tuple[int, str | None, str | None]  # number, name before and after; None: there is no such class
PhotoChange = tuple[str, Photo | None, Photo | None]  # digest, before and after
ModelChange = tuple[Opened | None, Opened | None]


@dataclass(frozen=True)
class Change:
    """One step that a person took, as what was before and after; so every step can be taken back."""

    what: str
    classes: tuple[ClassChange, ...] = ()
    photos: tuple[PhotoChange, ...] = ()
    model: ModelChange | None = None

    @property
    def empty(self) -> bool:
        return not self.classes and not self.photos and self.model is None

    def to_json(self) -> Json:
        """Plain values; `from_json` gives it back."""
        return {
            "what": self.what,
            "classes": [list(change) for change in self.classes],
            "photos": [[digest, _listed(before), _listed(after)] for digest, before, after in self.photos],
            **({} if self.model is None else {"model": [_told(opened) for opened in self.model]}),
        }

    @classmethod
    def from_json(cls, value: Json) -> Change:
        """The change that plain values describe."""
        classes = cast("list[list[object]]", value["classes"])
        photos = cast("list[list[object]]", value["photos"])
        return cls(
            str(value["what"]),
            tuple((_number(n), _text(before), _text(after)) for n, before, after in classes),
            tuple((str(digest), _photo(before), _photo(after)) for digest, before, after in photos),
            _model(value["model"]) if "model" in value else None,
        )


def _listed(photo: Photo | None) -> list[object] | None:
    return None if photo is None else [photo.name, photo.belongs, photo.place]


def _photo(value: object) -> Photo | None:
    if value is None:
        return None
    name, belongs, place = cast("list[object]", value)
    return Photo(str(name), FORGOTTEN if belongs == FORGOTTEN else _number(belongs), _number(place))


def _told(opened: Opened | None) -> list[object] | None:
    return None if opened is None else [opened.key, opened.name, [list(pair) for pair in opened.classes]]


def _model(value: object) -> ModelChange:
    before, after = (_opened(part) for part in cast("list[object]", value))
    return before, after


def _opened(value: object) -> Opened | None:
    if value is None:
        return None
    key, name, classes = cast("list[object]", value)
    pairs = cast("list[list[object]]", classes)
    return Opened(str(key), str(name), tuple((str(label), _number(number)) for label, number in pairs))


def _number(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no number of a class or a place")
    return value


def _text(value: object) -> str | None:
    return None if value is None else str(value)
