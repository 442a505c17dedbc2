"""What `yoro predict` does with the images themselves: sorts them into folders, shows them on a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from yoro.cli.options import QuietOption, WriteOptions, shown
from yoro.cli.output import UsageError
from yoro.errors import InputError, counted
from yoro.option import option

if TYPE_CHECKING:
    from yoro.data.examples import Dataset
    from yoro.model.answers import ImageAnswer
    from yoro.model.model import Model

SHOWN = 12  # folders whose counts are reported


@shown()
class PictureOptions:
    """What to do with the images, besides rows about them."""

    sort_into: Path | None = option(None, "Copy the images into one folder per class.", metavar="FOLDER")
    link: bool = option(False, "With --sort-into: link instead of copying.")
    undo: bool = option(False, "With --sort-into: remove what was sorted.")
    html: Path | None = option(None, "Write a web page of the images, least certain first.", metavar="PAGE")

    def __post_init__(self) -> None:
        if (self.link or self.undo) and self.sort_into is None:
            raise InputError(f"{'--link' if self.link else '--undo'} needs --sort-into FOLDER.")

    @property
    def asked(self) -> bool:
        return self.sort_into is not None or self.html is not None


def undo(folder: Path, output: QuietOption) -> None:
    """Remove what was sorted into a folder, and report what was left."""
    from yoro.data.sorting import undo_sorting

    undone = undo_sorting(folder)
    output.tell(*(f"Kept, because it has changed since: {folder / name}" for name in undone.left))
    output.tell(f"{counted(undone.removed, 'image')} removed from {folder}.")


def find_pictures(data: object, options: PictureOptions) -> Dataset | None:
    """The images, or None if data are responses; raises before the first is read if they cannot be sorted."""
    from yoro.data.find import find
    from yoro.data.response_streams import is_response_data
    from yoro.data.sorting import check_sortable

    if is_response_data(data):
        if options.asked:
            raise UsageError("--sort-into and --html need images, not responses.")
        return None
    found = find(data, labelled=False)
    if options.sort_into is not None:
        check_sortable(options.sort_into, options.link, (example.image for example in found))
    return found


def attended(
    answers: Iterable[list[ImageAnswer]],
    pictures: Dataset,
    model: Model,
    options: PictureOptions,
    threshold: float,
    output: WriteOptions,
) -> Iterator[list[ImageAnswer]]:
    """The answers, while their images are sorted; at the end the page is written."""
    from yoro.data.sorting import begin_sorting
    from yoro.reports.gallery import Gallery

    named = {example.name: example for example in pictures}
    gallery, folder = Gallery(threshold), None
    if options.sort_into is not None:
        folder = begin_sorting(options.sort_into, model.mapping.classes, link=options.link)
    try:
        for batch in answers:
            gallery.add(batch)
            if folder is not None:
                for answer in batch:
                    folder.add(named[answer.name], None if answer.label is None else str(answer.label))
            yield batch
    except KeyboardInterrupt:
        if folder is None or not folder.counts:
            raise
        held = f"{counted(folder.counts.total(), 'image')} in {options.sort_into}"
        raise KeyboardInterrupt(f"interrupted, with {held}. Remove them with --undo.") from None
    finally:
        if folder is not None:
            folder.close()
    if folder is not None:
        told = ", ".join(f"{name} {count:,}" for name, count in folder.counts.most_common(SHOWN))
        more = f" and {len(folder.counts) - SHOWN} more" if len(folder.counts) > SHOWN else ""
        done = f"{counted(folder.counts.total(), 'image')} {'linked' if options.link else 'copied'}"
        there = f", {folder.already:,} already there" if folder.already else ""
        names = f"; {told}{more}" if told else ""
        output.tell(f"{options.sort_into}: {done}{there}{names}. Undo with --undo.")
    if options.html is not None:
        title = f"Predictions: {counted(gallery.total, 'image')}"
        output.write_page(options.html, gallery.page(named, title, model.origin.name))
