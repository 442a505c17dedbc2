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


def update(
    model: ModelPath,
    /,
    *data: Images,
    out: Elsewhere = None,
    label_from: LabelFrom = None,
    attributes: Annotated[
        str | None, Parameter(metavar="BANK", help="Descriptions of new classes, for an image-text backbone.")
    ] = None,
    reading: ReadingOptions = ReadingOptions(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Add labelled images to a model, exactly; new classes are allowed."""
    found = given(data, label_from)

    def change(classifier: OpenModel) -> Change:
        return classifier.update(found, attributes=attributes, loading=reading, progress=not output.quiet)

    change_model(model, out, change, reading, output)


def forget(
    model: ModelPath,
    /,
    *data: Images,
    out: Elsewhere = None,
    receipt: Annotated[
        Path | None, Parameter(metavar="FILE.json", help="Also write an unlearning receipt for `yoro verify`.")
    ] = None,
    label_from: LabelFrom = None,
    reading: ReadingOptions = ReadingOptions(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Remove labelled images from a model exactly (machine unlearning)."""
    from yoro.model.unlearning_receipt import is_unfinished

    if receipt is None or not receipt.exists():
        output.check(receipt)
    found = given(data, label_from)

    def change(classifier: OpenModel) -> Change:
        unsaved = out is None or not out.exists()
        again = receipt is not None and unsaved and is_unfinished(receipt, classifier.model)
        if not again:
            output.check(receipt)
        changed = classifier.forget(found, loading=reading, progress=not output.quiet)
        if receipt is not None and changed.receipt is not None:  # first: killed in between, this verb can run again
            changed.receipt.save(receipt, force=output.force or again)
        return changed

    def saved(changed: Change) -> None:
        if changed.receipt is None:
            return
        for sentence in changed.receipt.uncertain:
            output.tell(f"Not certain: {sentence}")
        if receipt is not None:
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
