"""The studio as a process: opens the workspace and the network, listens, and serves the page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from yoro.data.archives import is_archive
from yoro.data.lists import is_list
from yoro.errors import InputError, counted
from yoro.http.guard import Guard, Log
from yoro.http.server import open_browser, run_server, second_server
from yoro.http.settings import ServeSettings
from yoro.model.pipeline import Pipeline, make_pipeline, reopen_pipeline
from yoro.model.settings import PipelineSettings
from yoro.model.store import read_model
from yoro.studio.app import make_app
from yoro.studio.incoming_photos import Goal, add_data
from yoro.studio.live_studio import Studio
from yoro.studio.phone import Phone, open_phone, phone_app
from yoro.studio.workspace import Workspace

BODY_MEGABYTES = 256  # per request: an archive is one


@dataclass(frozen=True)
class StudioSettings:
    """Where the studio works and listens, what it starts with, and whether a browser is opened.

    tidy : whether removed photos are deleted first.
    phone : whether a phone in the same network may send photos.
    phone_address : of this machine in that network; None finds it.
    """

    work: Path = Path("studio.yoro-work")
    data: Sequence[Path] = ()
    port: int = 8322
    browse: bool = False
    tidy: bool = False
    phone: bool = False
    phone_address: str | None = None


def open_studio(settings: StudioSettings, source: PipelineSettings, *, tell: Callable[[str], None], log: Log) -> None:
    """Serve the page until the process is told to stop; only this machine can connect."""
    paths, photos = _sorted(settings.data)
    models = [(path, read_model(path)) for path in paths]
    serving = ServeSettings(
        port=settings.port, most_megabytes=BODY_MEGABYTES, held_megabytes=2 * BODY_MEGABYTES, read_seconds=120.0
    )
    phone = open_phone(serving, settings.phone_address) if settings.phone else None
    with closing(Workspace(settings.work)) as work:
        if settings.tidy:
            tell(f"{counted(work.tidy(), 'removed photo')} deleted for good; earlier steps can no longer be undone.")
        for path, model in models:
            new = work.open(model, path.stem)
            tell(f"'{path}' {'opened' if new else 'is already open'}; a model does not contain its photos.")

        def build(pipeline: Pipeline, address: str) -> Guard:
            for data in photos:
                added = add_data(work, data, pipeline.geometry)
                tell(f"'{data}': {counted(added.new, 'photo')} added, {added.known + added.moved} already there.")
                for sentence in added.sentences():
                    tell(sentence)
            page = f"{address}/studio/"
            tell(f"The studio is at {page} and saves its work in '{settings.work}'; Ctrl-C stops it.")
            studio = Studio(work, pipeline)
            if phone is not None:
                _let_in(phone, studio, f"{address}/studio/phone", tell, log)
            if settings.browse:
                open_browser(page)
            return make_app(studio, serving, log)

        run_server(serving, lambda: _pipeline(work, source), build)


def _let_in(phone: Phone, studio: Studio, page: str, tell: Callable[[str], None], log: Log) -> None:
    """Serve the page of the phone beside the studio, and say how to reach it."""
    app = phone_app(phone, studio.work, lambda request, number: studio.add_photos(request, Goal(number)), log)
    studio.phone, studio.beside = phone, second_server(app, phone.sock, phone.settings, phone.context)
    tell(f"For a phone in the same network, scan the code at {page}; its certificate has the fingerprint")
    tell(phone.fingerprint)
    if sys.stderr.isatty():
        tell(phone.lines())


def _pipeline(work: Workspace, source: PipelineSettings) -> Pipeline:
    """The pipeline of the model that the work starts from, or the one that the settings name."""
    if work.base is None:
        return make_pipeline(source)
    named = None if source.source == PipelineSettings().source else source.source
    return reopen_pipeline(work.base.model.origin, named, device=source.device)


def _sorted(given: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Models and photos to start with; an error if something is neither."""
    models = [path for path in given if path.suffix == ".yoro"]
    if len(models) > 1:
        raise InputError(f"{len(models)} models were given; expected one. Combine them with `yoro merge` first.")
    photos = [path for path in given if path.suffix != ".yoro"]
    for path in photos:
        if not (path.is_dir() or is_archive(path) or is_list(path)):
            raise InputError(f"'{path}' is not a model, folder, archive or list of labelled photos.")
    return models, photos
