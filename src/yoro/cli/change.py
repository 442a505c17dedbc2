"""`yoro update`, `forget` and `relabel`: a saved model changed exactly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.options import (
    Elsewhere,
    Images,
    LabelFrom,
    ModelPath,
    MovedOptions,
    ReadingOptions,
    UsageError,
    WriteOptions,
    given,
)
from yoro.cli.output import change_model, say

if TYPE_CHECKING:
    from yoro.model.open_model import Change, OpenModel


Unlabelled = Annotated[str | None, Parameter(metavar="DATA", help="Unlabelled images or responses.")]


def update(
    model: ModelPath,
    /,
    *data: Images,
    out: Elsewhere = None,
    unlabelled: Unlabelled = None,
    drop_unlabelled: Annotated[bool, Parameter(negative="", help="Forget all unlabelled images.")] = False,
    label_from: LabelFrom = None,
    attributes: Annotated[
        str | None, Parameter(metavar="BANK", help="Descriptions of new classes, for an image-text backbone.")
    ] = None,
    reading: ReadingOptions = ReadingOptions(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Add labelled images to a model, exactly; new classes are allowed."""
    if drop_unlabelled and (data or unlabelled):
        raise UsageError("--drop-unlabelled forgets; add data in a second step.")
    found = given(data, label_from) if data else None

    def change(classifier: OpenModel) -> Change:
        if drop_unlabelled:
            return classifier.drop_unlabelled()
        return classifier.update(
            found, unlabelled=unlabelled, attributes=attributes, loading=reading, progress=not output.quiet
        )

    change_model(model, out, change, reading, output)


def forget(
    model: ModelPath,
    /,
    *data: Images,
    out: Elsewhere = None,
    receipt: Annotated[
        Path | None, Parameter(metavar="FILE.json", help="Also write an unlearning receipt for `yoro verify`.")
    ] = None,
    unlabelled: Unlabelled = None,
    label_from: LabelFrom = None,
    reading: ReadingOptions = ReadingOptions(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Remove labelled images from a model exactly (machine unlearning)."""
    output.check(receipt)
    if bool(data) == (unlabelled is not None):
        raise UsageError("Give labelled data to forget, or unlabelled ones with --unlabelled.")
    found = given(data, label_from) if data else None

    def change(classifier: OpenModel) -> Change:
        if unlabelled is not None:
            return classifier.forget_unlabelled(unlabelled, loading=reading, progress=not output.quiet)
        return classifier.forget(found, loading=reading, progress=not output.quiet)

    def saved(changed: Change) -> None:
        if changed.receipt is None:
            return
        for sentence in changed.receipt.uncertain:
            output.tell(f"Not certain: {sentence}")
        if receipt is not None:
            changed.receipt.save(receipt, force=output.force)
            say(f"Receipt written to {receipt}", output.quiet)

    change_model(model, out, change, reading, output, saved=saved)


def relabel(
    model: ModelPath,
    /,
    *names: Annotated[str, Parameter(name="OLD=NEW", help="Old and new class name.")],
    out: Elsewhere = None,
    output: WriteOptions = WriteOptions(),
) -> None:
    """Rename classes; classes with the same new name are merged exactly."""
    table: dict[str, str] = {}
    for pair in names:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise UsageError(f"Cannot read {pair!r}; expected OLD=NEW.")
        if table.setdefault(old, new) != new:
            raise UsageError(f"{old!r} has two new names; give one.")
    if not table:
        raise UsageError("No names given; expected OLD=NEW.")
    change_model(model, out, lambda classifier: classifier.relabel(table), MovedOptions(), output)
