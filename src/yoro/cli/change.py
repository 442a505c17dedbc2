"""`yoro update`, `forget` and `relabel`: a saved model changed exactly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.data_arguments import Images, LabelFrom, given
from yoro.cli.options import (
    Elsewhere,
    LoadingOptions,
    ModelPath,
    Moved,
    MovedOptions,
    Reads,
    UsageError,
    WriteOptions,
    Writes,
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
        str | None, Parameter(metavar="BANK", help="Sentences for new classes of a model on an image-text source.")
    ] = None,
    moved: Moved = MovedOptions(),
    loading: Reads = LoadingOptions(),
    output: Writes = WriteOptions(),
) -> None:
    """Add labelled data to a model, exactly; new classes may appear."""

    found = given(data, label_from)

    def change(classifier: OpenModel) -> Change:
        return classifier.update(found, attributes=attributes, loading=loading, progress=not output.quiet)

    change_model(model, out, change, moved, output)


def forget(
    model: ModelPath,
    /,
    *data: Images,
    out: Elsewhere = None,
    receipt: Annotated[
        Path | None, Parameter(metavar="FILE.json", help="Also write a receipt that `yoro verify` can check.")
    ] = None,
    label_from: LabelFrom = None,
    moved: Moved = MovedOptions(),
    loading: Reads = LoadingOptions(),
    output: Writes = WriteOptions(),
) -> None:
    """Remove labelled data from a model, as if never fitted (machine unlearning)."""
    if receipt is not None:
        from yoro.model.store import check_output

        check_output(receipt, force=output.force)
    found = given(data, label_from)

    def change(classifier: OpenModel) -> Change:
        return classifier.forget(found, loading=loading, progress=not output.quiet)

    def saved(changed: Change) -> None:
        if changed.receipt is None:
            return
        for sentence in changed.receipt.uncertain:
            say(f"Not certain: {sentence}", output.quiet)
        if receipt is not None:
            changed.receipt.save(receipt, force=output.force)
            say(f"Receipt written to {receipt}", output.quiet)

    change_model(model, out, change, moved, output, saved=saved)


def relabel(
    model: ModelPath,
    /,
    *names: Annotated[str, Parameter(name="OLD=NEW", help="Old and new names.")],
    out: Elsewhere = None,
    output: Writes = WriteOptions(),
) -> None:
    """Rename classes; classes given the same name are joined, exactly."""
    table: dict[str, str] = {}
    for pair in names:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise UsageError(f"{pair!r} does not rename a class; expected OLD=NEW.")
        if table.setdefault(old, new) != new:
            raise UsageError(f"{old!r} has two new names; give it one.")
    if not table:
        raise UsageError("No class to rename; expected OLD=NEW.")
    change_model(model, out, lambda classifier: classifier.relabel(table), MovedOptions(), output)
