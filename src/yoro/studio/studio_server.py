"""The studio as a process."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from yoro.data.archives import is_archive
from yoro.data.lists import is_list
from yoro.errors import InputError, counted
from yoro.http.guard import Log
from yoro.http.priority import alone, stand_back
from yoro.http.server import listening, run
from yoro.http.settings import ServeSettings
from yoro.model.pipeline import Pipeline, make_pipeline, reopen_pipeline
from yoro.model.settings import PipelineSettings
from yoro.model.store import read_model
from yoro.studio.app import Studio, make_app
from yoro.studio.incoming_photos import add_data
from yoro.studio.workspace import Work

BODY_MEGABYTES = 256  # of one request: an archive comes in one


@dataclass(frozen=True)
class StudioSettings:
    """Where the studio works and listens, what it begins with, and whether a browser is opened.

    tidy : whether photos that were removed are deleted before.
    """

    work: Path = Path("studio.yoro-work")
    data: Sequence[Path] = ()
    port: int = 8322
    browse: bool = False
    tidy: bool = False


def open_studio(settings: StudioSettings, source: PipelineSettings, *, tell: Callable[[str], None], log: Log) -> None:
    """Show the page until the process is told to end; this machine alone can connect."""
    paths, photos = _sorted(settings.data)
    models = [(path, read_model(path)) for path in paths]
    serving = ServeSettings(
        port=settings.port, most_megabytes=BODY_MEGABYTES, held_megabytes=2 * BODY_MEGABYTES, read_seconds=120.0
    )
    with listening(serving) as sock:
        work = Work(settings.work)
        try:
            if settings.tidy:
                tell(f"{counted(work.tidy(), 'photo')} deleted that had been removed; nothing before can be undone.")
            for path, model in models:
                new = work.open(model, path.stem)
                tell(f"'{path}' {'opened' if new else 'is open already'}; its images are not in it, their sums are.")
            with ThreadPoolExecutor(1, initializer=stand_back) as opener:  # the network's threads are its children
                pipeline = opener.submit(_pipeline, work, source).result()
            alone()
            for data in photos:
                added = add_data(work, data)
                tell(f"'{data}': {counted(added.new, 'photo')} added, {added.known + added.moved} known.")
                for sentence in added.sentences():
                    tell(sentence)
            studio = Studio(work, pipeline)
            address = f"http://127.0.0.1:{sock.getsockname()[1]}/studio/"
            tell(f"The studio is at {address}; work is saved in '{settings.work}'; Ctrl-C ends it.")
            if settings.browse:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
            run(make_app(studio, serving, log), sock, serving, studio.end)
        finally:
            work.close()


def _pipeline(work: Work, source: PipelineSettings) -> Pipeline:
    """That of the model which the work begins with, or one by the names that were given."""
    if work.base is None:
        return make_pipeline(source)
    named = None if source.source == PipelineSettings().source else source.source
    return reopen_pipeline(work.base.model.origin, named, device=source.device)


def _sorted(given: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Models and photos to begin with; an error if something is neither."""
    models = [path for path in given if path.suffix == ".yoro"]
    if len(models) > 1:
        raise InputError(f"{len(models)} models were given; expected one. `yoro merge` makes one of several.")
    photos = [path for path in given if path.suffix != ".yoro"]
    for path in photos:
        if not (path.is_dir() or is_archive(path) or is_list(path)):
            raise InputError(f"'{path}' is no model, folder, archive or list of labelled photos.")
    return models, photos
