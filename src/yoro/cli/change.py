"""`yoro update`, `forget` and `relabel`: a saved model changed exactly; `verify`: checked against a receipt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.arguments import Elsewhere, Images, LabelFrom, ModelPath, given
from yoro.cli.options import DRY_RUN, LABEL_FROM, JsonOptions, MovedOptions, ReadingOptions, WriteOptions, shown
from yoro.cli.output import UsageError, change_model, name_skipped, print_text, say
from yoro.errors import InputError
from yoro.option import option

if TYPE_CHECKING:
    from yoro.model.model import Model
    from yoro.model.open_model import Change, OpenModel


@shown()
class ForgetOutput(JsonOptions):
    """What is forgotten besides labelled images, and what is said."""

    unlabelled: str | None = option(None, "Unlabelled images to forget.", metavar="DATA")
    label_from: str | None = LABEL_FROM.field(None)


@shown()
class UpdateOptions:
    """What is added."""

    unlabelled: str | None = option(
        None, "Unlabelled images or responses to learn from as well, if they help.", metavar="DATA"
    )
    drop_unlabelled: bool = option(False, "Forget all unlabelled images.", expert=True)
    new_classes: bool = option(False, "Add the classes of DATA even if all of them are new.")
    label_from: str | None = LABEL_FROM.field(None)
    attributes: str | None = option(
        None, "Descriptions of new classes, for an image-text backbone.", metavar="BANK", expert=True
    )
    dry_run: bool = DRY_RUN.field(False)


def update(
    model: ModelPath,
    /,
    *data: Images,
    out: Elsewhere = None,
    wanted: UpdateOptions = UpdateOptions(),
    reading: ReadingOptions = ReadingOptions(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Add labelled images to a model, exactly; new classes are allowed."""
    if wanted.drop_unlabelled and (data or wanted.unlabelled):
        raise UsageError("--drop-unlabelled only removes; add data with a second command.")
    if not (data or wanted.unlabelled or wanted.drop_unlabelled):
        raise UsageError("DATA is missing: give labelled data, or --unlabelled DATA.")
    found = given(data, wanted.label_from) if data else None
    if wanted.dry_run:
        print_text(_forecast(model, found, wanted, reading))
        return

    def change(classifier: OpenModel) -> Change:
        if wanted.drop_unlabelled:
            return classifier.drop_unlabelled()
        if found is not None:
            _tell_new_classes(classifier, found, wanted, output)
        return classifier.update(
            found, unlabelled=wanted.unlabelled, attributes=wanted.attributes, loading=reading,
            progress=not output.quiet,
        )  # fmt: skip

    change_model(model, out, change, reading, output)


def _forecast(path: Path, data: object, wanted: UpdateOptions, reading: ReadingOptions) -> str:
    from yoro.data.find import find
    from yoro.data.roles import Part, to_change
    from yoro.model.call_forecast import model_forecast

    def parts(model: Model) -> list[Part]:
        known = model.mapping.classes
        added = to_change("update", data, model.choice.asked, known)[0] if data is not None else []
        return [*added, list(find(wanted.unlabelled, labelled=False))] if wanted.unlabelled is not None else added

    return model_forecast(path, reading.source, parts, reading)


def _tell_new_classes(classifier: OpenModel, data: object, wanted: UpdateOptions, output: WriteOptions) -> None:
    """Name the classes that the model does not have; all of them must be meant to be new."""
    from yoro.data.examples import listed
    from yoro.data.roles import labels_to_change

    labels = labels_to_change("update", data, classifier.names)
    new = sorted(labels - set(classifier.names))
    if new and len(new) == len(labels) and not wanted.new_classes:
        told = f"All classes of the data are new to the model: {listed(new)}. It has {listed(list(classifier.names))}."
        raise InputError(f"{told} To add them, give --new-classes; nothing was changed.")
    if new:
        output.tell(f"New {'class' if len(new) == 1 else 'classes'}: {listed(new)}.")


def forget(
    model: ModelPath,
    /,
    *data: Images,
    out: Elsewhere = None,
    receipt: Annotated[
        Path | None, Parameter(metavar="FILE.json", help="Also write an unlearning receipt, for --verify.")
    ] = None,
    verify: Annotated[
        Path | None, Parameter(metavar="FILE.json", help="Check a receipt; change nothing. DATA: what remains.")
    ] = None,
    reading: ReadingOptions = ReadingOptions(),
    output: ForgetOutput = ForgetOutput(),
) -> None:
    """Remove labelled images from a model exactly (machine unlearning)."""
    from yoro.model.unlearning_receipt import is_unfinished

    if verify is not None:
        if out is not None or receipt is not None:
            raise UsageError("--verify changes nothing; remove --out and --receipt.")
        check_receipt(model, verify, *data, label_from=output.label_from, reading=reading, output=output)
        return
    if output.as_json:
        raise UsageError("--json needs --verify.")
    if receipt is None or not receipt.exists():
        output.check(receipt)
    if bool(data) == (output.unlabelled is not None):
        raise UsageError("Give labelled data to forget, or unlabelled data with --unlabelled.")
    found = given(data, output.label_from) if data else None

    def change(classifier: OpenModel) -> Change:
        unsaved = out is None or not out.exists()
        again = receipt is not None and unsaved and is_unfinished(receipt, classifier.model)
        if not again:
            output.check(receipt)
        remove = classifier.forget if output.unlabelled is None else classifier.forget_unlabelled
        changed = remove(found or output.unlabelled, loading=reading, progress=not output.quiet)
        if receipt is not None and changed.receipt is not None:  # first: killed in between, this verb can run again
            changed.receipt.save(receipt, force=output.force or again)
        return changed

    change_model(model, out, change, reading, output, saved=lambda changed: _tell_receipt(changed, receipt, output))


def _tell_receipt(changed: Change, written: Path | None, output: ForgetOutput) -> None:
    """Say what the receipt of a change cannot promise, and where it was written."""
    if changed.receipt is None:
        return
    output.tell(*(f"Not certain: {sentence}" for sentence in changed.receipt.uncertain))
    if written is not None:
        output.tell(f"Receipt written to {written}")


def verify(
    model: ModelPath,
    receipt: Annotated[Path, Parameter(name="FILE.json", help="A receipt written by `yoro forget --receipt`.")],
    /,
    *data: Images,
    label_from: LabelFrom = None,
    reading: ReadingOptions = ReadingOptions(),
    output: JsonOptions = JsonOptions(),
) -> None:
    """Check that a model has forgotten what a receipt lists.

    With DATA (the remaining or the original data), a model is fitted from scratch without the forgotten images, and the
    two mappings are compared. The exit code is 1 if any check fails.
    """
    from yoro.trust.unlearning import verify as check

    classifier = reading.load(model)
    left = given(data, label_from) if data else None
    found = check(classifier, receipt, left, loading=reading, progress=not output.quiet)
    lines = [f"{'holds' if finding.holds else 'FAILS'}  {finding.said}" for finding in found.findings]
    output.show(found.to_json(), "\n".join([*lines, *(f"not certain  {sentence}" for sentence in found.uncertain)]))
    name_skipped(found.skipped)  # an unreadable image was not fitted: it is listed, and is no failure
    if not found.holds:
        say("Verification failed.")
        sys.exit(1)
    if not data:
        output.tell("To compare with a fit from scratch as well, give the remaining data.")


check_receipt = verify  # where an option has the name of the verb


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
