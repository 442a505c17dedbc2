"""The output of the desk: a folder for each class, or a list; both can be rewritten as the work goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from yoro.data.examples import Example, shown
from yoro.data.sorting import MANIFEST, begin_sorting, check_sortable, undo_sorting
from yoro.errors import InputError, counted
from yoro.files.rows import write_rows


@dataclass(frozen=True)
class DeskResult:
    """Where labelled photos go: into folders, copied, linked or moved; into a CSV list; or both."""

    into: Path | None = None
    list_: Path | None = None
    link: bool = False
    move: bool = False

    def check(self, examples: Sequence[Example]) -> None:
        """Raise before anything is read if the photos could not be put there."""
        if self.link and self.move:
            raise InputError("Photos can be linked to or moved, not both; give --link or --move.")
        if self.move and not all(isinstance(example.image, Path | OSError) for example in examples):
            raise InputError("Photos in an archive cannot be moved; without --move they are copied.")
        if self.into is not None:
            check_sortable(self.into, self.link, (example.image for example in examples))

    def write(self, labelled: Sequence[tuple[Example, str]], noun: str = "class") -> str:
        """Write the folder or the list anew; returns a sentence on it, which calls the folders by a noun."""
        if not labelled:
            raise InputError("No photo has a label yet; there is nothing to write.")
        told = []
        if self.list_ is not None:
            rows = (dict[str, object](path=example.name, label=label) for example, label in labelled)
            count = write_rows(rows, "csv", self.list_)
            told.append(f"{counted(count, 'label')} in '{shown(self.list_)}'")
        if self.into is not None:
            count = self._fill(self.into, labelled)
            classes = len({label for _, label in labelled})
            told.append(f"{counted(count, 'photo')} of {counted(classes, noun)} in '{shown(self.into)}'")
        return f"{' and '.join(told)}."

    def _fill(self, into: Path, labelled: Sequence[tuple[Example, str]]) -> int:
        """Put the photos whose files are there into folders; returns how many."""
        self.check([example for example, _ in labelled])
        if (into / MANIFEST).is_file():
            undo_sorting(into)
        folder = begin_sorting(into, sorted({label for _, label in labelled}), link=self.link, move=self.move)
        try:
            for example, label in labelled:
                if not isinstance(example.image, Path) or example.image.is_file():
                    folder.add(example, label)
        finally:
            folder.close()
        return folder.counts.total()
