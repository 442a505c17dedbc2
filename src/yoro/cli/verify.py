"""`yoro verify`: a model checked against an unlearning receipt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from yoro.cli.arguments import Images, LabelFrom, ModelPath, given
from yoro.cli.options import JsonOptions, ReadingOptions
from yoro.cli.output import name_skipped, print_json, print_text, say


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
    if output.as_json:
        print_json(found.to_json())
    else:
        for finding in found.findings:
            print_text(f"{'holds' if finding.holds else 'FAILS'}  {finding.said}")
        for sentence in found.uncertain:
            print_text(f"not certain  {sentence}")
    name_skipped(found.skipped)  # what cannot be read was not fitted, or the data would not be the same
    if not found.holds:
        say("Verification failed.")
        sys.exit(1)
    if not data:
        output.tell("To compare with a fit from scratch as well, give the remaining data.")
