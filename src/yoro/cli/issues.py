"""`yoro clean`, and the issues of `yoro inspect`: label issues found and fixed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.options import Elsewhere, JsonOptions, ModelPath, ReadingOptions, WriteOptions, given, list_format, shown
from yoro.cli.output import change_model, say, tell_skipped, write_page
from yoro.errors import counted
from yoro.option import Option

if TYPE_CHECKING:
    from yoro.model.open_model import Change, OpenModel


@shown()
@dataclass(frozen=True)
class IssueOptions:
    """What to look for among labelled data, and where to write it."""

    issues: Annotated[bool, Option("List wrong labels, outliers and duplicates among DATA.")] = False
    out: Annotated[
        Path | None, Option("With --issues: a .csv, .json or .jsonl file instead of stdout.", metavar="LIST")
    ] = None
    html: Annotated[Path | None, Option("With --issues: also write a page with thumbnails.", metavar="PAGE")] = None


def list_issues(
    model: Path, data: tuple[str, ...], wanted: IssueOptions, reading: ReadingOptions, output: JsonOptions
) -> None:
    """Print the issues of labelled data as rows, and write them as a page."""
    from yoro.data.find import find
    from yoro.data.response_streams import is_response_data
    from yoro.files.rows import write_rows
    from yoro.trust.label_issues import KINDS, find_issues

    kind = "json" if output.as_json else list_format(wanted.out)
    output.check(wanted.out, wanted.html)
    classifier = reading.load(model)
    look = given(data)
    found = None if is_response_data(look) else find(look, known=classifier.names)
    issues = find_issues(classifier, found or look, loading=reading, progress=not output.quiet)
    for note in issues.left_out.notes:
        say(note, output.quiet)
    rows = (_row(issue.row(), found.before if found else "") for issue in issues)
    write_rows(rows, kind, wanted.out)
    told = ", ".join(counted(len(issues.of(kind)), kind) for kind in KINDS)
    say(f"Found in {counted(len(issues.names), 'example')}: {told}.", output.quiet)
    if wanted.html is not None:
        from yoro.reports.issues_page import issues_html

        write_page(wanted.html, issues_html(issues, classifier.model.origin.name), output.quiet)
    tell_skipped(issues.left_out.skipped)


def _row(row: dict[str, object], before: str) -> dict[str, object]:
    """A row with paths relative to the working directory."""
    paths = {key: str(row[key]) for key in ("path", "like") if row[key]}
    return {**row, **{key: name if Path(name).is_absolute() else before + name for key, name in paths.items()}}


def clean(
    model: ModelPath,
    reviewed: Annotated[
        Path, Parameter(name="LIST", help="A list of issues with its column 'action' filled in, or its .undo file.")
    ],
    /,
    *,
    out: Elsewhere = None,
    reading: ReadingOptions = ReadingOptions(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Apply a reviewed list of issues to a model, exactly.

    Changes are recorded in LIST.undo; give that file instead of the list to undo them.
    """
    from yoro.trust.label_cleaning import SUFFIX, is_unfinished, write_undo
    from yoro.trust.label_cleaning import clean as apply

    undo = reviewed.with_name(f"{reviewed.name}{SUFFIX}")
    keeps = reviewed.suffix != SUFFIX
    if keeps and not undo.exists():
        output.check(undo)

    def change(classifier: OpenModel) -> Change:
        if keeps and not is_unfinished(classifier, undo, reviewed):
            output.check(undo)
        changed, done = apply(classifier, reviewed, loading=reading)
        if keeps:
            write_undo(undo, done)
            changed = replace(changed, notes=(*changed.notes, f"To undo this: yoro clean {model} {undo}"))
        return changed

    change_model(model, out, change, reading, output)
