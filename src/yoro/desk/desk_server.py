"""The desk as a process: opens the session and the network, listens, and serves the page."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from yoro.data.find import find
from yoro.desk.app import PAGE, make_app
from yoro.desk.output import Result
from yoro.desk.session import Session
from yoro.http.guard import Guard, Log
from yoro.http.server import open_browser, run_server
from yoro.http.settings import ServeSettings
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import Loading, PipelineSettings


@dataclass(frozen=True)
class DeskSettings:
    """The pile, where the work is kept, where the result goes, and where the page is."""

    pile: str
    work: Path
    result: Result
    port: int = 8323
    browse: bool = False


def open_desk(
    settings: DeskSettings, source: PipelineSettings, loading: Loading, *, tell: Callable[[str], None], log: Log
) -> None:
    """Serve the page until the process is told to stop; only this machine can connect."""
    if not settings.work.exists():
        settings.result.check(find(settings.pile, labelled=False).examples)
    serving = ServeSettings(port=settings.port, most_megabytes=4)
    session = Session(settings.work, settings.pile, make_pipeline(source), tell=tell, loading=loading)
    with closing(session):

        def build(_: Session, address: str) -> Guard:
            page = f"{address}{PAGE}"
            tell(f"The desk is at {page} and saves its work in '{settings.work}'; Ctrl-C stops it.")
            if settings.browse:
                open_browser(page)
            return make_app(session, settings.result, serving, log)

        run_server(serving, lambda: session, build)
