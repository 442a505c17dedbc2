"""What a person has arranged: classes and photos in them; and changes of that, which can all be undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from yoro import limits
from yoro.errors import InputError, counted
from yoro.studio.edits import FORGOTTEN, UNSORTED, Change, ClassChange, ModelChange, Opened, Photo, PhotoChange


@dataclass(frozen=True)
class Brought:
    """What is known of the images of the model: labels by digest, counts by label, and which labels can be removed."""

    labels: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    removable: frozenset[str] = frozenset()  # those whose responses are all kept


@dataclass
class State:
    """Classes and photos as they are now, and what can be undone and done again."""

    classes: dict[int, str] = field(default_factory=dict)
    photos: dict[str, Photo] = field(default_factory=dict)
    done: list[Change] = field(default_factory=list)
    undone: list[Change] = field(default_factory=list)
    model: Opened | None = None
    brought: Brought = Brought()  # of the model; whoever changes the state keeps it in step
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
        self._put(change.classes, change.photos, change.model)
        self.done.append(change)
        self.undone.clear()

    def undo(self) -> None:
        """Take the last step back."""
        change = self.done.pop()
        self._put(
            [(number, after, before) for number, before, after in change.classes],
            [(digest, after, before) for digest, before, after in change.photos],
            change.model and change.model[::-1],
        )
        self.undone.append(change)

    def redo(self) -> None:
        """Take the step again that was last taken back."""
        change = self.undone.pop()
        self._put(change.classes, change.photos, change.model)
        self.done.append(change)

    def members(self, number: int) -> list[str]:
        """The digests of the photos of a class, in their order."""
        found = [(photo.place, digest) for digest, photo in self.photos.items() if photo.belongs == number]
        return [digest for _, digest in sorted(found)]

    def counts(self) -> dict[int, int]:
        """How many photos each class has; those of none and the forgotten among them."""
        result = dict.fromkeys((FORGOTTEN, UNSORTED, *self.classes), 0)
        for photo in self.photos.values():
            result[photo.belongs] += 1
        return result

    def unseen(self) -> dict[int, int]:
        """How many images of the model each class has that are not here as photos."""
        result = dict.fromkeys(self.classes, 0)
        if self.model is not None:
            here = Counter(self.brought.labels[digest] for digest in self.photos if digest in self.brought.labels)
            for label, number in self.model.classes:
                if number != UNSORTED:
                    result[number] += self.brought.counts[label] - here[label]
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
        name, less = self.classes[number], None
        labels = [] if self.model is None else self.model.labels(number)
        if self.model is not None and labels:
            if not self.brought.removable.issuperset(labels):
                raise InputError(
                    f"The class {name!r} has images of the model that it keeps no responses of, so it cannot be taken "
                    "out. Rename it, or fit again without it."
                )
            left = tuple((label, UNSORTED if belongs == number else belongs) for label, belongs in self.model.classes)
            less = self.model, replace(self.model, classes=left)
        return Change(f"Remove the class {name}", ((number, name, None),), moved.photos, less)

    def opening(self, key: str, name: str, labels: Sequence[str]) -> Change:
        """A model to begin with; its classes are those of the same names, or new."""
        if self.model is not None:
            if self.model.key == key:
                return Change("Nothing")
            raise InputError(f"The model {self.model.name!r} is open already; open another with another --work.")
        if len({*self.classes.values(), *labels}) > limits.STUDIO_CLASSES:
            raise InputError(f"There would be more than {limits.STUDIO_CLASSES:,} classes; use `yoro update`.")
        known = {held: number for number, held in self.classes.items()}
        new = {label: self._numbers + i for i, label in enumerate(sorted(set(labels) - set(known)), 1)}
        made = tuple((number, None, label) for label, number in new.items())
        opened = Opened(key, name, tuple((label, (known | new)[label]) for label in labels))
        return Change(f"Open the model {name}", made, (), (None, opened))

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
                new[digest] = digest, None, Photo(name, belongs or self._brought(digest), place)
            elif before.belongs != belongs and (belongs != UNSORTED or before.belongs == FORGOTTEN):
                new[digest] = digest, before, replace(before, belongs=belongs or self._brought(digest))
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
        found = [(digest, self.photo(digest)) for digest in dict.fromkeys(digests)]
        gone = tuple(
            (digest, photo, replace(photo, belongs=FORGOTTEN) if digest in self.brought.labels else None)
            for digest, photo in found
        )
        return Change(f"Remove {counted(len(gone), 'photo')}", (), gone)

    def photo(self, digest: str) -> Photo:
        """A photo that must be there."""
        if digest not in self.photos or self.photos[digest].belongs == FORGOTTEN:
            raise InputError("One of the photos is not there any more; another page may have removed it.")
        return self.photos[digest]

    def check_class(self, number: int) -> None:
        """Raise if there is no such class."""
        if number not in self.classes:
            raise InputError("This class is not there any more; another page may have removed it.")

    def _brought(self, digest: str) -> int:
        """The class that the model has an image in, if it knows it and the class is still there."""
        label = self.brought.labels.get(digest)
        return UNSORTED if self.model is None or label is None else self.model.belongs(label)

    def _put(
        self, classes: Iterable[ClassChange], photos: Iterable[PhotoChange], model: ModelChange | None = None
    ) -> None:
        if model is not None:
            self.model = model[1]
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
