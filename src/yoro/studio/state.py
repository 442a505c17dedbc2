"""The state of the studio: classes and the photos in them; and edits of it, which can all be undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from yoro import limits
from yoro.errors import InputError, counted
from yoro.studio.edits import FORGOTTEN, UNSORTED, ClassEdit, Edit, ModelEdit, OpenedModel, Photo, PhotoEdit, added


@dataclass(frozen=True)
class Brought:
    """The training images of the opened model: labels by digest, counts by label, and which labels can be removed."""

    labels: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    removable: frozenset[str] = frozenset()  # those whose responses are all kept


@dataclass
class State:
    """Classes and photos as they are now, and the edits that can be undone and redone."""

    classes: dict[int, str] = field(default_factory=dict)
    photos: dict[str, Photo] = field(default_factory=dict)
    done: list[Edit] = field(default_factory=list)
    undone: list[Edit] = field(default_factory=list)
    model: OpenedModel | None = None
    brought: Brought = Brought()  # by the model; the workspace keeps it in step with the state
    revision: int = 0  # steps so far, undoing among them
    _numbers: int = 0  # the largest number that a class ever had
    _places: int = 0

    @classmethod
    def beginning(cls, edit: Edit) -> State:
        """A first state, which cannot be undone."""
        state = cls()
        state.do(edit)
        state.done.clear()
        return state

    def do(self, edit: Edit) -> None:
        """Take a step; further parts of a drop belong to its step."""
        self._put(edit.classes, edit.photos, edit.model)
        if edit.drop and self.done and self.done[-1].drop == edit.drop:
            edit = self.done.pop().then(edit)
        self.done.append(edit)
        self.undone.clear()

    def undo(self) -> None:
        edit = self.done.pop()
        self._put(
            [(number, after, before) for number, before, after in edit.classes],
            [(digest, after, before) for digest, before, after in edit.photos],
            edit.model and edit.model[::-1],
        )
        self.undone.append(edit)

    def redo(self) -> None:
        edit = self.undone.pop()
        self._put(edit.classes, edit.photos, edit.model)
        self.done.append(edit)

    def members(self, number: int) -> list[str]:
        """The digests of the photos of a class, in their order; without those of the test set."""
        return self._ordered(lambda photo: photo.belongs == number and not photo.aside)

    def test_set(self) -> list[str]:
        """The digests of the photos that are kept aside, in their order."""
        return self._ordered(lambda photo: photo.aside and photo.belongs != FORGOTTEN)

    def counts(self) -> dict[int, int]:
        """Number of photos of each class, of the unsorted and of the forgotten ones, without the test set."""
        result = dict.fromkeys((FORGOTTEN, UNSORTED, *self.classes), 0)
        for photo in self.photos.values():
            result[photo.belongs] += not photo.aside
        return result

    def unseen(self) -> dict[int, int]:
        """Number of training images of the model in each class that are not here as photos."""
        result = dict.fromkeys(self.classes, 0)
        if self.model is not None:
            here = Counter(self.brought.labels[digest] for digest in self.photos if digest in self.brought.labels)
            for label, number in self.model.classes:
                if number != UNSORTED:
                    result[number] += self.brought.counts[label] - here[label]
        return result

    def named(self, name: str) -> int | None:
        return next((number for number, known in self.classes.items() if known == name), None)

    def adding_class(self, name: str) -> tuple[Edit, int]:
        """A new class, and its number."""
        made = self.new_classes([name])
        if not made:
            raise InputError(f"The class {name!r} already exists.")
        return Edit(f"Add the class {name}", made), made[0][0]

    def new_classes(self, names: Iterable[str]) -> tuple[ClassEdit, ...]:
        """The classes to add so that every name has one."""
        known = set(self.classes.values())
        new = [name for name in dict.fromkeys(names) if name not in known]
        if len(known) + len(new) > limits.STUDIO_CLASSES:
            raise InputError(f"The studio takes at most {limits.STUDIO_CLASSES:,} classes; use `yoro fit` for more.")
        return tuple((self._numbers + i, None, name) for i, name in enumerate(new, 1))

    def renaming(self, number: int, name: str) -> Edit:
        self.check_class(number)
        before = self.classes[number]
        if before == name:
            return Edit("Nothing")
        other = self.named(name)
        if other is not None:
            return self.merging(number, other)
        return Edit(f"Rename {before} to {name}", ((number, before, name),))

    def merging(self, number: int, other: int) -> Edit:
        self.check_class(number)
        self.check_class(other)
        if number == other:
            return Edit("Nothing")
        return self._emptying(number, other, f"Merge {self.classes[number]} into {self.classes[other]}")

    def removing_class(self, number: int) -> Edit:
        """Remove a class; its photos become unsorted."""
        self.check_class(number)
        labels = [] if self.model is None else self.model.labels(number)
        if not self.brought.removable.issuperset(labels):
            raise InputError(
                f"The class {self.classes[number]!r} cannot be removed: the model keeps no responses of its images. "
                "Rename it, or fit again without it."
            )
        return self._emptying(number, UNSORTED, f"Remove the class {self.classes[number]}")

    def _emptying(self, number: int, to: int, what: str) -> Edit:
        """A class goes, and what it has goes to another class or to the unsorted photos, its test photos too."""
        moved = self.moving([digest for digest, photo in self.photos.items() if photo.belongs == number], to)
        change = None
        if self.model is not None and self.model.labels(number):
            classes = tuple((label, to if belongs == number else belongs) for label, belongs in self.model.classes)
            change = self.model, self.model._replace(classes=classes)
        return Edit(what, ((number, self.classes[number], None),), moved.photos, change)

    def opening(self, key: str, name: str, labels: Sequence[str]) -> Edit:
        """Start from a model; its classes join those of the same names, or are added."""
        if self.model is not None:
            if self.model.key == key:
                return Edit("Nothing")
            raise InputError(f"The model {self.model.name!r} is already open; open another one with another --work.")
        made = self.new_classes(sorted(labels))
        numbers = {known: n for n, known in self.classes.items()} | {label: n for n, _, label in made}
        opened = OpenedModel(key, name, tuple((label, numbers[label]) for label in labels))
        return Edit(f"Open the model {name}", made, (), (None, opened))

    def adding_photos(self, found: Iterable[tuple[str, str, int, bool]]) -> Edit:
        """Add photos (digest, name, number of a class, for testing?); one that is already there is moved."""
        new: dict[str, PhotoEdit] = {}
        place, room = self._places, limits.STUDIO_PHOTOS - len(self.photos)
        for digest, name, belongs, aside in found:
            if digest in new:
                continue
            before = self.photos.get(digest)
            if before is None:
                place, room = place + 1, room - 1
                number = belongs or self._brought(digest)
                new[digest] = digest, None, Photo(name, number, place, aside and number > UNSORTED)
            elif before.belongs != belongs and (belongs != UNSORTED or before.belongs == FORGOTTEN):
                new[digest] = digest, before, before.moved(belongs or self._brought(digest))
        if room < 0:
            raise InputError(f"The studio takes at most {limits.STUDIO_PHOTOS:,} photos; use `yoro fit` for more.")
        return Edit(added(len(new)), (), tuple(new.values()))

    def moving(self, digests: Sequence[str], number: int) -> Edit:
        """Move photos to a class, or to the unsorted ones."""
        if number != UNSORTED:
            self.check_class(number)
        found = [(digest, self.photo(digest)) for digest in dict.fromkeys(digests)]
        moved = tuple((d, photo, photo.moved(number)) for d, photo in found if photo.belongs != number)
        return Edit(f"Move {counted(len(moved), 'photo')} to {self.classes.get(number, 'unsorted')}", (), moved)

    def sorting(self, labels: Mapping[str, str]) -> Edit:
        """Move photos to classes by name, which may be new."""
        made = self.new_classes(labels.values())
        numbers = {name: number for number, name in self.classes.items()} | {name: n for n, _, name in made}
        found = [(digest, self.photo(digest), numbers[label]) for digest, label in labels.items()]
        moved = tuple((digest, photo, photo.moved(n)) for digest, photo, n in found if photo.belongs != n)
        names = set(labels.values())
        where = names.pop() if len(names) == 1 else f"{len(names)} classes"
        return Edit(f"Sort {counted(len(moved), 'photo')} into {where}", made, moved)

    def keeping(self, digests: Sequence[str]) -> Edit:
        """Confirm the labels of photos: they are not doubted again."""
        found = [(digest, self.photo(digest)) for digest in dict.fromkeys(digests)]
        kept = tuple((d, photo, photo._replace(checked=True)) for d, photo in found if not photo.checked)
        return Edit(f"Keep {counted(len(kept), 'label')}", (), kept)

    def putting_aside(self, digests: Sequence[str], aside: bool) -> Edit:
        """Move labelled photos into the test set, or back to what is learned from."""
        found = [(digest, self.photo(digest)) for digest in dict.fromkeys(digests)]
        moved = tuple(
            (digest, photo, photo._replace(aside=aside))
            for digest, photo in found
            if photo.aside != aside and (photo.belongs > UNSORTED or not aside)
        )
        if found and not moved and aside:
            raise InputError("Only photos with a class can be tested on; move these to their class first.")
        return self._aside(moved, aside)

    def putting_share_aside(self, share: float) -> Edit:
        """Move a share of the photos of every class into the test set; which, depends on nothing but their content."""
        drawn = list[PhotoEdit]()
        for number in self.classes:
            mine = sorted(self.members(number))
            for digest in mine[: min(round(share * len(mine)), len(mine) - 1)]:
                drawn.append((digest, self.photos[digest], self.photos[digest]._replace(aside=True)))
        if not drawn:
            raise InputError("There are too few photos to keep some for testing; every class needs a few.")
        return self._aside(tuple(drawn), True)

    @staticmethod
    def _aside(moved: tuple[PhotoEdit, ...], aside: bool) -> Edit:
        where = "Keep {} for testing" if aside else "Learn from {} again"
        return Edit(where.format(counted(len(moved), "photo")), (), moved)

    def removing(self, digests: Sequence[str]) -> Edit:
        found = [(digest, self.photo(digest)) for digest in dict.fromkeys(digests)]
        gone = tuple(
            (digest, photo, photo._replace(belongs=FORGOTTEN) if digest in self.brought.labels else None)
            for digest, photo in found
        )
        return Edit(f"Remove {counted(len(gone), 'photo')}", (), gone)

    def photo(self, digest: str) -> Photo:
        if digest not in self.photos or self.photos[digest].belongs == FORGOTTEN:
            raise InputError("One of the photos is gone; another page may have removed it.")
        return self.photos[digest]

    def _ordered(self, wanted: Callable[[Photo], bool]) -> list[str]:
        return [digest for _, digest in sorted((p.place, digest) for digest, p in self.photos.items() if wanted(p))]

    def check_class(self, number: int) -> None:
        """Raise if there is no such class."""
        if number not in self.classes:
            raise InputError("This class is gone; another page may have removed it.")

    def _brought(self, digest: str) -> int:
        """The class of an image that the model was fitted on, unless that class was removed."""
        label = self.brought.labels.get(digest)
        return UNSORTED if self.model is None or label is None else self.model.belongs(label)

    def _put(self, classes: Iterable[ClassEdit], photos: Iterable[PhotoEdit], model: ModelEdit | None = None) -> None:
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
