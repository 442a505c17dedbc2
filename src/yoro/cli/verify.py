"""`yoro verify`: a model held against the receipt of what it forgot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from yoro.cli.data_arguments import Images, LabelFrom, given
from yoro.cli.options import Answers, JsonOptions, LoadingOptions, ModelPath, Moved, MovedOptions, Reads
from yoro.cli.output import name_skipped, print_json, print_text, say


def verify(
    model: ModelPath,
    receipt: Annotated[Path, Parameter(name="FILE.json", help="What `yoro forget --receipt` wrote.")],
    /,
    *data: Images,
    label_from: LabelFrom = None,
    moved: Moved = MovedOptions(),
    loading: Reads = LoadingOptions(),
    output: Answers = JsonOptions(),
) -> None:
    """Check that a model has forgotten what a receipt lists.

    With DATA, the data that are left or those of the first fit, they are fitted afresh without what was forgotten, and
    the two mappings are compared. The exit code is 1 if anything does not hold.
    """
    from yoro.model.open_model import load
    from yoro.trust.unlearning import verify as check

    classifier = load(model, source=moved.source, device=moved.device, calls=moved.calls)
    left = given(data, label_from) if data else None
    found = check(classifier, receipt, left, loading=loading, progress=not output.quiet)
    if output.as_json:
        print_json(found.to_json())
    else:
        for finding in found.findings:
            print_text(f"{'holds' if finding.holds else 'FAILS'}  {finding.said}")
        for sentence in found.uncertain:
            print_text(f"not certain  {sentence}")
    name_skipped(found.skipped)  # what cannot be read was not fitted, or the data would not be the same
    if not found.holds:
        say("The receipt does not hold.")
        sys.exit(1)
    if not data:
        say("Give the data that are left to compare with a fit of them, too.", output.quiet)
