"""`yoro clean`, and the issues of `yoro inspect`: wrong labels found and mended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.data_arguments import given
from yoro.cli.options import (
    Elsewhere,
    JsonOptions,
    LoadingOptions,
    ModelPath,
    Moved,
    MovedOptions,
    Reads,
    UsageError,
    WriteOptions,
    Writes,
    flag,
)
from yoro.cli.output import change_model, say, tell_skipped, write_page
from yoro.errors import counted

if TYPE_CHECKING:
    from yoro.model.open_model import Change, OpenModel


@dataclass(frozen=True)
class IssueOptions:
    """What to look for among labelled data, and where to write it."""

    issues: Annotated[bool, flag("Look for wrong labels, odd images and duplicates among DATA.")] = False
    out: Annotated[
        Path | None, Parameter(metavar="LIST", help="With --issues: write a .csv, .json or .jsonl; else to stdout.")
    ] = None
    html: Annotated[
        Path | None, Parameter(metavar="PAGE", help="With --issues: also write a page with thumbnails.")
    ] = None


def list_issues(
    model: Path, data: tuple[str, ...], wanted: IssueOptions, moved: MovedOptions, loading: LoadingOptions,
    output: JsonOptions,
) -> None:  # fmt: skip
    """The issues of labelled data as rows, and as a page."""
    from yoro.data.find import find
    from yoro.data.response_streams import is_response_data
    from yoro.files.rows import FORMATS, write_rows
    from yoro.model.open_model import load
    from yoro.model.store import check_output
    from yoro.trust.label_issues import KINDS, find_issues

    kind = "json" if output.as_json else wanted.out.suffix.removeprefix(".").lower() if wanted.out else "csv"
    if kind not in FORMATS:
        raise UsageError(f"{kind!r} is no format; expected one of {', '.join(FORMATS)}.")
    for file in (wanted.out, wanted.html):
        if file is not None:
            check_output(file, force=output.force)
    classifier = load(model, source=moved.source, device=moved.device, calls=moved.calls)
    look = given(data)
    found = None if is_response_data(look) else find(look, known=classifier.names)
    issues = find_issues(classifier, found or look, loading=loading, progress=not output.quiet)
    for note in issues.left_out.notes:
        say(note, output.quiet)
    rows = (_row(issue.row(), found.before if found else "") for issue in issues)
    write_rows(rows, kind, wanted.out)
    told = ", ".join(counted(len(issues.of(kind)), kind) for kind in KINDS)
    say(f"Of {counted(len(issues.names), 'example')} to look at: {told}.", output.quiet)
    if wanted.html is not None:
        from yoro.reports.issues_page import issues_html

        write_page(wanted.html, issues_html(issues, classifier.model.origin.name), output.quiet)
    tell_skipped(issues.left_out.skipped)


def _row(row: dict[str, object], before: str) -> dict[str, object]:
    """A row whose paths lead from here."""
    paths = {key: str(row[key]) for key in ("path", "like") if row[key]}
    return {**row, **{key: name if Path(name).is_absolute() else before + name for key, name in paths.items()}}


def clean(
    model: ModelPath,
    reviewed: Annotated[
        Path, Parameter(name="LIST", help="A list of --issues whose column 'action' was filled in; or its .undo file.")
    ],
    /,
    *,
    out: Elsewhere = None,
    moved: Moved = MovedOptions(),
    loading: Reads = LoadingOptions(),
    output: Writes = WriteOptions(),
) -> None:
    """Apply a reviewed list to a model, exactly: relabel, remove.

    What was changed is kept beside the list in LIST.undo; given in place of the list, it takes the change back.
    """
    from yoro.model.store import check_output
    from yoro.trust.label_cleaning import SUFFIX, write_undo
    from yoro.trust.label_cleaning import clean as apply

    undo = reviewed.with_name(f"{reviewed.name}{SUFFIX}")
    keeps = reviewed.suffix != SUFFIX
    if keeps:
        check_output(undo, force=output.force)

    def change(classifier: OpenModel) -> Change:
        changed, done = apply(classifier, reviewed, loading=loading)
        if keeps:
            write_undo(undo, done)
            changed = replace(changed, notes=(*changed.notes, f"{undo}: takes this back."))
        return changed

    change_model(model, out, change, moved, output)
