"""`yoro issues`, and the earlier `yoro clean`: wrong labels, outliers and duplicates found and fixed."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.arguments import Elsewhere, Images, ModelPath, given, list_format
from yoro.cli.options import LABEL_FROM, JsonOptions, ReadingOptions, WriteOptions, shown
from yoro.cli.output import (
    MOST_ON_SCREEN,
    UsageError,
    change_model,
    has_browser,
    interruptible,
    name_skipped,
    print_text,
    say_tracebacks,
    tell_skipped,
)
from yoro.environment import install
from yoro.errors import InputError, counted
from yoro.option import LAST_PORT, check_range, option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yoro.model.open_model import Change, OpenModel

MOVED = ".moved"  # suffix of the journal of what a list moved
REVIEW = "review"  # what --fix means without a list


@shown()
class IssueFiles:
    """Where issues are written."""

    out: Path | None = option(None, "Write the list to a .csv, .json or .jsonl file.", metavar="LIST")
    html: Path | None = option(None, "Also write a page with thumbnails.", metavar="PAGE")


@shown()
class IssueOptions(IssueFiles):
    """What judges the labels, and what is done about them."""

    model: Path | None = option(None, "Use a saved model instead of fitting one.", metavar="M.yoro")
    fix: str | None = option(None, "Review on a page; with a reviewed LIST: move the files.", metavar="[LIST]")
    port: int | None = option(
        None,
        "With --fix: port of the page, which is then served even if no browser opens; 0 picks one.",
        metavar="N",
        expert=True,
    )
    undo: bool = option(False, "With --fix LIST: move the files back.")
    label_from: str | None = LABEL_FROM.field(None)

    def __post_init__(self) -> None:
        check_range("port", self.port, 0, LAST_PORT)


def issues(
    *data: Images,
    wanted: IssueOptions = IssueOptions(),
    reading: ReadingOptions = ReadingOptions(),
    output: JsonOptions = JsonOptions(),
) -> None:
    """Find wrong labels, outliers and duplicates; --fix corrects them.

    Each image is judged by a model that was fitted without it. --fix opens a page on which you accept or keep what is
    proposed; files then move to the folder of their new class, or into .yoro-removed, and the model given with --model
    is changed too. Without a browser: enter relabel or remove in the column 'action' of the list, then --fix LIST.
    """
    if wanted.undo and wanted.fix in (None, REVIEW):
        raise UsageError("--undo needs --fix LIST.")
    if wanted.port is not None and wanted.fix != REVIEW:
        raise UsageError("--port needs --fix without a list.")
    if wanted.fix not in (None, REVIEW):
        output.tell((_undo if wanted.undo else _fix)(Path(wanted.fix), wanted.model, reading, output))
        return
    page = wanted.fix is not None and _is_interactive(wanted, output)
    if wanted.fix:
        wanted = replace(wanted, out=wanted.out or Path("issues.csv"))
    if wanted.fix and not page:
        wanted = replace(wanted, html=wanted.html or Path("issues.html"))
    skipped: Sequence[tuple[str, str]] = ()
    if page and wanted.out is not None and wanted.out.is_file() and not output.force:
        output.tell(f"Resuming {wanted.out}; --force searches again.")
    else:
        output.check(wanted.out, wanted.html)
        look = given(data, wanted.label_from)
        classifier = reading.load(wanted.model) if wanted.model else _fitted(look, reading, output)
        skipped = list_issues(classifier, look, wanted, reading, output)
    if page and wanted.out is not None:
        name_skipped(skipped)
        _review(wanted.out, wanted, reading, output)
        return
    if wanted.fix and wanted.html is not None:
        if has_browser():
            import webbrowser

            webbrowser.open(wanted.html.absolute().as_uri())
        how = f"Look at {wanted.html}, enter relabel or remove in the column 'action' of {wanted.out}, then"
        output.tell(f"{how}: yoro issues --fix {shlex.quote(str(wanted.out))}{_with(wanted.model)}")
    tell_skipped(skipped)


def _is_interactive(wanted: IssueOptions, output: WriteOptions) -> bool:
    """Whether the issues are reviewed on a page that is served; otherwise in the list."""
    if wanted.port is None and not has_browser():
        return False
    try:
        import fastapi  # noqa: F401
    except ModuleNotFoundError as error:
        told = f"The interactive page needs {error.name}: {install('serve')}."
        if wanted.port is not None:
            raise InputError(told) from None
        output.tell(f"Note: {told}")
        return False
    return True


def _review(path: Path, wanted: IssueOptions, reading: ReadingOptions, output: WriteOptions) -> None:
    """Serve the page of a list; what is applied there is what `--fix LIST` applies."""
    from yoro.desk.review import ListActions, open_review

    if not path.stat().st_size:
        output.tell("There is nothing to review.")
        return

    def told(change: Callable[[Path, Path | None, ReadingOptions, WriteOptions], str]) -> str:
        said = change(path, wanted.model, reading, output)
        output.tell(said)
        return said

    outcome = ListActions(lambda: told(_fix), lambda: told(_undo), _journal(path).is_file)
    port, browse = (8324 if wanted.port is None else wanted.port), has_browser()
    with interruptible(f"Decisions so far are in {path}."):
        open_review(path, outcome, port=port, browse=browse, tell=output.tell, log=say_tracebacks)


def _journal(reviewed: Path) -> Path:
    """The file that records which files a list moved."""
    return reviewed.with_name(f"{reviewed.name}{MOVED}")


def _fitted(data: object, reading: ReadingOptions, output: WriteOptions) -> OpenModel:
    """A model of the data, to judge them by; it is not saved."""
    from yoro.fit import run_fit
    from yoro.model.settings import FitSettings, PipelineSettings

    source = reading.source or PipelineSettings.source
    pipeline = PipelineSettings(source=source, device=reading.device, budget=reading.budget)
    settings = FitSettings(pipeline=pipeline, loading=reading, progress=not output.quiet, tell=output.tell)
    with output.spoken_warnings():
        return run_fit(data, None, settings).classifier


def list_issues(
    classifier: OpenModel, data: object, files: IssueFiles, reading: ReadingOptions, output: JsonOptions
) -> Sequence[tuple[str, str]]:
    """Print the issues of labelled data as rows, and write them as a page; returns what could not be read."""
    from yoro.data.find import find
    from yoro.data.response_streams import is_response_data
    from yoro.files.rows import write_rows
    from yoro.trust.label_issues import find_issues

    kind = "json" if output.as_json else list_format(files.out)
    found = None if is_response_data(data) else find(data, known=classifier.names)
    listed = find_issues(classifier, found or data, loading=reading, progress=not output.quiet)
    output.tell(*listed.left_out.notes)
    rows = (_row(issue.row(), found.before if found else "") for issue in listed)
    if files.out is None and not output.as_json and sys.stdout.isatty():
        print_text(_screen(listed.headline(), list(rows)))
    else:
        write_rows(rows, kind, files.out)
        output.tell(listed.headline() + (f" List written to {files.out}" if files.out else ""))
    if files.html is not None:
        from yoro.reports.gallery import issues_html

        output.write_page(files.html, issues_html(listed, classifier.model.origin.name))
    return listed.left_out.skipped


def _screen(headline: str, rows: list[dict[str, object]]) -> str:
    """For a terminal: what is worth a look, a line each, and where the rest is."""
    worth = [row for row in rows if row["issue"] != "hard photo"][:MOST_ON_SCREEN]
    lines = [f"{row['path']}  {row['issue']}: {row['like'] or row['proposed'] or ''}".rstrip(": ") for row in worth]
    if len(rows) > len(worth):
        left = f"... and {len(rows) - len(worth):,} more, mostly hard photos; " if worth else "To list them all: "
        lines.append(f"{left}--out issues.csv{' lists all' if worth else ''}.")
    return "\n".join([headline, *lines, *(["To review them on a page: --fix."] if rows else [])])


def _row(row: dict[str, object], before: str) -> dict[str, object]:
    """A row with paths relative to the working directory."""
    paths = {key: str(row[key]) for key in ("path", "like") if row[key]}
    return {**row, **{key: name if Path(name).is_absolute() else before + name for key, name in paths.items()}}


def _with(model: Path | None) -> str:
    """The model in a command that is suggested."""
    return f" --model {shlex.quote(str(model))}" if model else ""


def _fix(reviewed: Path, model: Path | None, reading: ReadingOptions, output: WriteOptions) -> str:
    """Apply a reviewed list to the files and, if one is given, to a model; first to the model, which may refuse."""
    from yoro.data.sorting import move_files, plan_moves, write_journal
    from yoro.trust.label_cleaning import read_corrections

    wanted, journal = read_corrections(reviewed), _journal(reviewed)
    moves = plan_moves((one.file(reviewed), one.label, one.new) for one in wanted)
    output.check(journal)
    back = f"To undo this: yoro issues --fix {shlex.quote(str(reviewed))} --undo{_with(model)}"
    write_journal(journal, moves)
    try:
        if model is not None:
            _mend(model, reviewed, None, "", reading, output)
    except BaseException:  # nothing was moved, so there is nothing to move back
        journal.unlink()
        raise
    move_files(moves)
    gone = sum(one.new is None for one in wanted)
    kept = f", {counted(gone, 'file')} set aside in .yoro-removed" if gone else ""
    return f"{counted(len(moves) - gone, 'file')} moved to another class{kept}. {back}"


def _undo(reviewed: Path, model: Path | None, reading: ReadingOptions, output: WriteOptions) -> str:
    """Undo what a list changed."""
    from yoro.data.sorting import undo_moves
    from yoro.trust.label_cleaning import SUFFIX

    changed = reviewed.with_name(f"{reviewed.name}{SUFFIX}")
    if model is not None:
        _mend(model, changed, None, "", reading, output)
        changed.unlink()
    elif changed.is_file():
        output.tell(f"Note: a model was changed too; undo that with `yoro clean M.yoro {changed}`.")
    count, left = undo_moves(_journal(reviewed))
    output.tell(*(f"Not found, so not moved back: {name}" for name in left))
    return f"{counted(count, 'file')} moved back."


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
    _mend(model, reviewed, out, f"To undo this: yoro clean {model} ", reading, output)


def _mend(
    model: Path, reviewed: Path, out: Path | None, back: str, reading: ReadingOptions, output: WriteOptions
) -> None:
    """Apply a list or its .undo file to a model; `back`, and the .undo file, say how it is undone."""
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
        if keeps and back:
            changed = replace(changed, notes=(*changed.notes, f"{back}{undo}"))
        return changed

    change_model(model, out, change, reading, output)
