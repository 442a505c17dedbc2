"""`yoro update`, `forget` and `relabel`: a saved model changed exactly."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.options import (
    LABEL_FROM,
    Elsewhere,
    Images,
    JsonOptions,
    LabelFrom,
    ModelPath,
    MovedOptions,
    ReadingOptions,
    UsageError,
    WriteOptions,
    given,
    shown,
)
from yoro.cli.output import change_model, say

if TYPE_CHECKING:
    from yoro.model.open_model import Change, OpenModel


@shown()
@dataclass(frozen=True)
class ForgetOutput(JsonOptions):
    """What is said, and by which labels."""

    label_from: Annotated[str | None, LABEL_FROM] = None


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
    verify: Annotated[
        Path | None, Parameter(metavar="FILE.json", help="Change nothing: check that a receipt holds, by DATA too.")
    ] = None,
    reading: ReadingOptions = ReadingOptions(),
    output: ForgetOutput = ForgetOutput(),
) -> None:
    """Remove labelled images from a model exactly (machine unlearning)."""
    if verify is not None:
        if out is not None or receipt is not None:
            raise UsageError("--verify changes nothing; remove --out and --receipt.")
        from yoro.cli.verify import verify as check

        check(model, verify, *data, label_from=output.label_from, reading=reading, output=output)
        return
    if output.as_json:
        raise UsageError("--json goes with --verify.")
    output.check(receipt)
    found = given(data, output.label_from)

    def change(classifier: OpenModel) -> Change:
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
