"""`yoro label`: a desk at which a pile of unlabelled photos becomes a folder for each class."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.options import LoadingOptions, PipelineOptions, QuietOption, shown
from yoro.cli.output import UsageError, interruptible, say_tracebacks
from yoro.environment import install
from yoro.errors import InputError
from yoro.option import LAST_PORT, check_range, option

if TYPE_CHECKING:
    from yoro.desk.output import DeskResult
    from yoro.desk.session import DeskSession

SUFFIX = ".yoro-desk"  # suffix of the folder where the work is saved, beside the result


@shown()
class LabelOptions:
    """What comes of the desk, where the work is kept, and how the page is opened."""

    into: Path | None = option(None, "Put the photos into one folder per class here.", metavar="FOLDER")
    list_: Path | None = option(
        None, "Write a list with the columns path,label.", flags=("--list",), metavar="FILE.csv"
    )
    groups: Path | None = option(
        None, "Only group the photos, into folders or a list (.csv), without a page.", metavar="FOLDER|FILE.csv"
    )
    move: bool = option(False, "Move the photos instead of copying them.")
    link: bool = option(False, "Link to the photos instead of copying them.")
    undo: bool = option(False, "With --into: undo the sorting; moved photos go back.")
    work: Path | None = option(None, f"Where the work is saved and resumed (default: beside the result, {SUFFIX}).")
    port: int = option(8323, "Port; 0 picks a free one.", metavar="N")
    browse: bool = option(False, "Open the page in a browser.", flags=("--open",))

    def __post_init__(self) -> None:
        check_range("port", self.port, 0, LAST_PORT)


def label(
    pile: Annotated[
        str | None, Parameter(name="PILE", help="Unlabelled photos: a folder, an archive or a list.")
    ] = None,
    /,
    *,
    options: LabelOptions = LabelOptions(),
    source: PipelineOptions = PipelineOptions(),
    loading: LoadingOptions = LoadingOptions(),
    output: QuietOption = QuietOption(),
) -> None:
    """Label a pile of photos: name groups, check what is proposed.

    The page runs on this machine. Every step is saved, and can be undone.
    """
    if options.undo:
        from yoro.cli.image_output import undo

        if options.into is None:
            raise UsageError("--undo needs --into FOLDER.")
        undo(options.into, output)
        return
    if pile is None:
        raise UsageError("PILE is missing.")
    goal = options.into or options.list_ or options.groups
    if goal is None or (options.groups is not None and (options.into or options.list_)):
        raise UsageError("Say where the result goes: --into FOLDER, --list FILE.csv, or --groups FOLDER.")
    from yoro.data.find import find
    from yoro.desk.output import DeskResult
    from yoro.desk.session import DeskSession
    from yoro.model.pipeline import make_pipeline

    def open_session(work: Path) -> DeskSession:
        return DeskSession(work, pile, make_pipeline(source), tell=output.tell, loading=loading)

    into, list_ = options.into, options.list_
    if options.groups is not None:
        into, list_ = (None, options.groups) if options.groups.suffix.lower() == ".csv" else (options.groups, None)
    result = DeskResult(into, list_, options.link, options.move)
    if result.into is not None and result.into.absolute().is_relative_to(Path(pile).absolute()):
        raise InputError(f"'{result.into}' is inside the pile; choose a folder outside it.")
    if options.groups is not None:
        result.check(find(pile, labelled=False).examples)
        _group(result, options.work, open_session, output)
        return
    try:
        from yoro.desk.app import open_desk
    except ModuleNotFoundError as error:
        raise InputError(
            f"The page needs {error.name}: {install('serve')}. --groups FOLDER works without it."
        ) from None

    work = options.work or goal.with_name(f"{goal.name}{SUFFIX}")
    if not work.exists():
        result.check(find(pile, labelled=False).examples)
    kept = f"Steps so far are in {work}; the same command resumes."
    with interruptible(kept), closing(open_session(work)) as session:
        open_desk(session, result, port=options.port, browse=options.browse, tell=output.tell, log=say_tracebacks)


def _group(
    result: DeskResult, work: Path | None, open_session: Callable[[Path], DeskSession], output: QuietOption
) -> None:
    import tempfile

    from yoro.desk.session import group_name

    with tempfile.TemporaryDirectory() as folder, closing(open_session(work or Path(folder))) as session:
        named = [(session.examples[row], group_name(group)) for row, group in enumerate(session.desk.first_groups)]
        output.tell(result.write(named, "group"))
