"""The app of the studio: its page, its routes, what can be downloaded; and the process that serves it."""

from __future__ import annotations

import io
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles

from yoro.data.archives import is_archive
from yoro.data.lists import is_list
from yoro.errors import InputError, counted
from yoro.http.errors import handle_errors
from yoro.http.guard import PAGE_HEADERS, Access, Guard, Log
from yoro.http.server import add_file, open_browser, run_server, second_server
from yoro.http.settings import ServeSettings
from yoro.model.onnx_export import checked_export
from yoro.model.pipeline import Pipeline, make_pipeline, reopen_pipeline
from yoro.model.settings import PipelineSettings
from yoro.model.store import read_model
from yoro.reports.evaluation import evaluation_report, fit_report
from yoro.studio.incoming_photos import Goal, add_data
from yoro.studio.live_studio import API, Studio
from yoro.studio.page_routes import add_looks, add_receiving, add_steps
from yoro.studio.phone import Phone, open_phone, phone_app
from yoro.studio.solving import Learned, examples_of
from yoro.studio.workspace import Workspace
from yoro.web.browser_runtime import find_runtime
from yoro.web.page_export import export_web

NAME = "studio"  # of what is downloaded
HTML = "text/html; charset=utf-8"


def make_app(studio: Studio, settings: ServeSettings, log: Log) -> Guard:
    """The page and its routes, behind the guard; pages of other sites may not even read what the API returns."""
    app = FastAPI(title="YORO studio", lifespan=studio.running, openapi_url=None, docs_url=None, redoc_url=None)
    page = Path(str(files("yoro.studio") / "page"))
    app.mount("/studio/page", StaticFiles(directory=page))
    for name, kind in (("style.css", "text/css"), ("camera.js", "text/javascript")):
        add_file(app, f"/studio/{name}", (files("yoro.web") / "page" / name).read_bytes(), kind)
    app.get("/")(lambda: RedirectResponse("/studio/"))
    app.get("/studio/")(lambda: FileResponse(page / "index.html"))
    add_looks(app, studio)
    add_steps(app, studio)
    add_receiving(app, studio)
    _add_downloads(app, studio)
    handle_errors(app)
    return Guard(app, settings, Access(private=API, headers=PAGE_HEADERS), log, shut_down=studio.shut_down)


def _add_downloads(app: FastAPI, studio: Studio) -> None:
    def add(name: str, kind: str, make: Callable[[Learned], bytes]) -> None:
        @app.get(f"{API}/{name}")
        async def download() -> Response:
            content = await studio.run(studio.answering, make, await studio.settled())
            headers = {"content-type": kind, "content-disposition": f'attachment; filename="{name}"'}
            return Response(content, headers=headers)

    add(f"{NAME}.yoro.zip", "application/zip", packed_model)
    add(f"{NAME}.onnx", "application/octet-stream", lambda learned: checked_export(learned.classifier)[0])
    add(f"{NAME}-web.zip", "application/zip", packed_page)
    add(f"{NAME}.html", HTML, partial(report_of, studio.work))
    add(f"{NAME}-test.html", HTML, partial(test_report_of, studio.work))


def packed_model(learned: Learned) -> bytes:
    """The model directory in a zip archive."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{NAME}.yoro"
        learned.classifier.save(path)
        return _zipped(path)


def packed_page(learned: Learned) -> bytes:
    """The classifier as a web page that needs no server, in a zip archive."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{NAME}-web"
        export_web(learned.classifier, path, find_runtime())
        return _zipped(path)


def report_of(work: Workspace, learned: Learned) -> bytes:
    """The report on the training photos, as `yoro fit --html` writes it."""
    page = fit_report(learned.classifier, examples_of(work, learned), "the studio")
    if page is None:
        raise InputError("Too few photos for a report: no class has two.")
    return page.encode()


def test_report_of(work: Workspace, learned: Learned) -> bytes:
    """The report on the test set, as `yoro evaluate --html` writes it."""
    with work.lock:
        state, classes = work.state, learned.classifier.model.statistics.classes
        labels = [(digest, state.classes.get(state.photos[digest].belongs, "")) for digest in state.test_set()]
    data = [(work.photo(digest), label) for digest, label in labels if label in classes]
    if not data:
        raise InputError("The test set is empty; drag photos onto Test set first.")
    return evaluation_report(learned.classifier, data)[1].encode()


def _zipped(path: Path) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in sorted(path.iterdir()):
            archive.write(part, f"{path.name}/{part.name}")
    return stream.getvalue()


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
