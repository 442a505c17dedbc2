"""What a person has arranged: classes and photos in them; and changes of that, which can all be undone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from yoro import limits
from yoro.errors import InputError, counted
from yoro.model.model import Json

UNSORTED = 0  # the number of no class


@dataclass(frozen=True)
class Photo:
    """A photo: what its file was called, the number of its class, and its place among all."""

    name: str
    belongs: int
    place: int


ClassChange = tuple[int, str | None, str | None]  # number, name before and after; None: there is no such class
PhotoChange = tuple[str, Photo | None, Photo | None]  # digest, before and after


@dataclass(frozen=True)
class Change:
    """One step that a person took, as what was before and after; so every step can be taken back."""

    what: str
    classes: tuple[ClassChange, ...] = ()
    photos: tuple[PhotoChange, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.classes and not self.photos

    def to_json(self) -> Json:
        """Plain values; `from_json` gives it back."""
        return {
            "what": self.what,
            "classes": [list(change) for change in self.classes],
            "photos": [[digest, _listed(before), _listed(after)] for digest, before, after in self.photos],
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
        )


@dataclass
class State:
    """Classes and photos as they are now, and what can be undone and done again."""

    classes: dict[int, str] = field(default_factory=dict)
    photos: dict[str, Photo] = field(default_factory=dict)
    done: list[Change] = field(default_factory=list)
    undone: list[Change] = field(default_factory=list)
    revision: int = 0  # steps so far, undoing among them
    _numbers: int = 0  # of classes that were ever given out
    _places: int = 0

    @classmethod
    def beginning(cls, change: Change) -> State:
        """A state to begin with, which cannot be undone."""
        state = cls()
        state.do(change)
        state.done.clear()
        return state

    def do(self, change: Change) -> None:
        """Take a step."""
        self._put(change.classes, change.photos)
        self.done.append(change)
        self.undone.clear()

    def undo(self) -> None:
        """Take the last step back."""
        change = self.done.pop()
        self._put(
            [(number, after, before) for number, before, after in change.classes],
            [(digest, after, before) for digest, before, after in change.photos],
        )
        self.undone.append(change)

    def redo(self) -> None:
        """Take the step again that was last taken back."""
        change = self.undone.pop()
        self._put(change.classes, change.photos)
        self.done.append(change)

    def members(self, number: int) -> list[str]:
        """The digests of the photos of a class, in their order."""
        found = [(photo.place, digest) for digest, photo in self.photos.items() if photo.belongs == number]
        return [digest for _, digest in sorted(found)]

    def counts(self) -> dict[int, int]:
        """How many photos each class has; those of none among them."""
        result = dict.fromkeys((UNSORTED, *self.classes), 0)
        for photo in self.photos.values():
            result[photo.belongs] += 1
        return result

    def named(self, name: str) -> int | None:
        """The number of the class of a name."""
        return next((number for number, known in self.classes.items() if known == name), None)

    def adding_class(self, name: str) -> tuple[Change, int]:
        """A new class, and its number."""
        if self.named(name) is not None:
            raise InputError(f"There is a class {name!r} already.")
        if len(self.classes) >= limits.STUDIO_CLASSES:
            raise InputError(
                f"There are {limits.STUDIO_CLASSES:,} classes, which is the most; use `yoro fit` for more."
            )
        number = self._numbers + 1
        return Change(f"Add the class {name}", ((number, None, name),)), number

    def renaming(self, number: int, name: str) -> Change:
        """Another name for a class."""
        self.check_class(number)
        before = self.classes[number]
        if before == name:
            return Change("Nothing")
        if self.named(name) is not None:
            raise InputError(f"There is a class {name!r} already; move the photos into it instead.")
        return Change(f"Rename {before} to {name}", ((number, before, name),))

    def removing_class(self, number: int) -> Change:
        """A class less; its photos are then of none."""
        self.check_class(number)
        moved = self.moving(self.members(number), UNSORTED)
        return Change(f"Remove the class {self.classes[number]}", ((number, self.classes[number], None),), moved.photos)

    def adding_photos(self, found: Iterable[tuple[str, str, int]]) -> Change:
        """Photos (digest, name, number of a class); one that is there already is moved."""
        new: dict[str, PhotoChange] = {}
        place, room = self._places, limits.STUDIO_PHOTOS - len(self.photos)
        for digest, name, belongs in found:
            if digest in new:
                continue
            before = self.photos.get(digest)
            if before is None:
                place, room = place + 1, room - 1
                new[digest] = digest, None, Photo(name, belongs, place)
            elif before.belongs != belongs and belongs != UNSORTED:
                new[digest] = digest, before, replace(before, belongs=belongs)
        if room < 0:
            raise InputError(f"There would be more than {limits.STUDIO_PHOTOS:,} photos; use `yoro fit` for so many.")
        return Change(f"Add {counted(len(new), 'photo')}", (), tuple(new.values()))

    def moving(self, digests: Sequence[str], number: int) -> Change:
        """Photos into a class, or out of any."""
        if number != UNSORTED:
            self.check_class(number)
        found = [(digest, self.photo(digest)) for digest in dict.fromkeys(digests)]
        moved = tuple((d, photo, replace(photo, belongs=number)) for d, photo in found if photo.belongs != number)
        return Change(f"Move {counted(len(moved), 'photo')} to {self.classes.get(number, 'unsorted')}", (), moved)

    def removing(self, digests: Sequence[str]) -> Change:
        """Photos less."""
        gone = tuple((digest, self.photo(digest), None) for digest in dict.fromkeys(digests))
        return Change(f"Remove {counted(len(gone), 'photo')}", (), gone)

    def photo(self, digest: str) -> Photo:
        """A photo that must be there."""
        if digest not in self.photos:
            raise InputError("One of the photos is not there any more; another page may have removed it.")
        return self.photos[digest]

    def check_class(self, number: int) -> None:
        """Raise if there is no such class."""
        if number not in self.classes:
            raise InputError("This class is not there any more; another page may have removed it.")

    def _put(self, classes: Iterable[ClassChange], photos: Iterable[PhotoChange]) -> None:
        for number, _, name in classes:
            self._numbers = max(self._numbers, number)
            if name is None:
                self.classes.pop(number, None)
            else:
                self.classes[number] = name
        for digest, _, photo in photos:
            if photo is None:
                self.photos.pop(digest, None)
            else:
                self._places = max(self._places, photo.place)
                self.photos[digest] = photo
        self.classes = dict(sorted(self.classes.items()))
        self.revision += 1


def _listed(photo: Photo | None) -> list[object] | None:
    return None if photo is None else [photo.name, photo.belongs, photo.place]


def _photo(value: object) -> Photo | None:
    if value is None:
        return None
    name, belongs, place = cast("list[object]", value)
    return Photo(str(name), _number(belongs), _number(place))


def _number(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no number of a class or a place")
    return value


def _text(value: object) -> str | None:
    return None if value is None else str(value)
