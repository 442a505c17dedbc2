"""The app of the studio: its page, its routes, and what can be downloaded."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles

from yoro.errors import InputError
from yoro.http.errors import handle_errors
from yoro.http.guard import PAGE_HEADERS, Access, Guard, Log
from yoro.http.server import add_file
from yoro.http.settings import ServeSettings
from yoro.model.onnx_export import checked_export
from yoro.reports.evaluation import evaluation_report, fit_report
from yoro.studio.live_studio import API, Studio
from yoro.studio.page_routes import add_looks, add_steps
from yoro.studio.solving import Learned, examples_of
from yoro.studio.upload_routes import add_receiving
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
