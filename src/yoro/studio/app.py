"""The routes of the studio."""

from __future__ import annotations

import asyncio
import io
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from yoro import limits
from yoro.data.decoding import decode
from yoro.errors import InputError
from yoro.http.errors import answer_errors
from yoro.http.guard import Guard, Log, refuse
from yoro.http.metrics import Metrics
from yoro.http.priority import stand_back
from yoro.http.refusals import RefusedError
from yoro.http.settings import ServeSettings
from yoro.http.uploads import read_uploads
from yoro.model.model import difference
from yoro.model.onnx_export import checked_export
from yoro.model.pipeline import Pipeline
from yoro.reports.evaluation import fit_report
from yoro.serve.feedback import checked_label
from yoro.studio.background_learner import Learner
from yoro.studio.base_model import sent_model
from yoro.studio.incoming_photos import add_uploads
from yoro.studio.page_data import TWINS, answer_of, cell_of, confusion_of, photos_of, state_of
from yoro.studio.solving import Learned, examples_of
from yoro.studio.workspace import Work
from yoro.web.browser_runtime import find_runtime
from yoro.web.page_export import export_web

POLL = 20.0  # seconds that a page waits for news
LOOK = 0.05  # seconds between two looks for them
SETTLING = 120.0  # seconds that a download waits for the photos to be learned
MOST_FILES = 64  # of one request
CALLED = "studio"  # what is downloaded
API = "/studio/api"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
    "referrer-policy": "no-referrer",
}
P = ParamSpec("P")
T = TypeVar("T")


class Name(BaseModel):
    """Of a class."""

    name: str = Field(max_length=limits.TAUGHT_LABEL)


class Chosen(BaseModel):
    """Photos by their digests, and the class that they go to."""

    photos: list[str] = Field(min_length=1, max_length=limits.STUDIO_PHOTOS)
    to: int = 0


class Studio:
    """A work folder, what learns from it, and pages that watch both."""

    def __init__(self, work: Work, pipeline: Pipeline) -> None:
        self.work = work
        self.version = 0  # of what a page shows; it grows with every step and everything learned
        self.ending = False
        self.learner = Learner(work, pipeline, self._news)
        self.slowly = ThreadPoolExecutor(1, "yoro-adding", stand_back)
        self.beside = ThreadPoolExecutor(2, "yoro-trying", stand_back)

    def stepped(self) -> Response:
        """Tell everybody of a step."""
        self.version += 1
        self.learner.wake()
        return JSONResponse({"revision": self.work.state.revision})

    def end(self) -> None:
        """Let no page wait any longer."""
        self.ending = True

    async def news(self, after: int) -> int:
        """The version, once it is another than one that a page has, or after a while."""
        until = time.monotonic() + POLL
        while self.version == after and not self.ending and time.monotonic() < until:
            await asyncio.sleep(LOOK)
        return self.version

    async def settled(self) -> Learned:
        """The classifier of the photos as they are now."""
        until = time.monotonic() + SETTLING
        while self.learner.settled != self.work.state.revision:
            if self.ending or time.monotonic() > until:
                raise RefusedError(503, "The photos are still being read; try again in a while.", {"retry-after": "5"})
            await asyncio.sleep(LOOK)
        if self.learner.learned is None:
            raise InputError(self.learner.said or "There is no classifier yet.")
        return self.learner.learned

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        """Learn meanwhile."""
        self.learner.start()
        yield
        for part in (self.slowly, self.beside):
            part.shutdown()
        self.learner.close()

    @staticmethod
    def run(where: ThreadPoolExecutor, do: Callable[P, T], *words: P.args, **more: P.kwargs) -> Awaitable[T]:
        """Do something beside the event loop."""
        return asyncio.get_running_loop().run_in_executor(where, partial(do, *words, **more))

    def _news(self) -> None:
        self.version += 1


def make_app(studio: Studio, settings: ServeSettings, log: Log) -> Guard:
    """The page and its routes, behind the guard of the service."""
    app = FastAPI(title="YORO studio", lifespan=studio.running, openapi_url=None, docs_url=None, redoc_url=None)

    _add_page(app)
    _add_looks(app, studio)
    _add_steps(app, studio)
    _add_answers(app, studio)
    _add_downloads(app, studio)
    answer_errors(app)
    return Guard(Careful(app), settings, None, Metrics(), log, ())


class Careful:
    """An application in front of another: its headers keep the page to itself, and other sites' pages may not look."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
            await send(message)

        if scope["path"].startswith(API) and _of_another_site(Headers(scope=scope)):
            said = "The request comes from a page of another site, which may not look."
            await refuse(RefusedError(403, said), sending)
        else:
            await self._app(scope, receive, sending)


def _of_another_site(headers: Headers) -> bool:
    origin = headers.get("origin", "")
    strange = bool(origin) and origin.partition("://")[2] != headers.get("host")
    return strange or headers.get("sec-fetch-site") in ("cross-site", "same-site")


def _add_page(app: FastAPI) -> None:
    """The files of the page, read once: there are no others to be had."""
    folder = files("yoro.studio") / "page"
    parts = {part.name: part.read_bytes() for part in folder.iterdir() if Path(part.name).suffix in KINDS}

    @app.get("/")
    async def home() -> Response:
        return RedirectResponse("/studio/")

    @app.get("/studio/")
    async def page() -> Response:
        return _file(parts, "index.html")

    @app.get("/studio/page/{name}")
    async def part(name: str) -> Response:
        return _file(parts, name)


def _file(parts: dict[str, bytes], name: str) -> Response:
    if name not in parts:
        raise RefusedError(404, "The page has no such part.")
    return Response(parts[name], media_type=f"{KINDS[Path(name).suffix]}")


def _add_looks(app: FastAPI, studio: Studio) -> None:
    work, learner = studio.work, studio.learner

    @app.get(f"{API}/state")
    async def state(after: Annotated[int, Query(ge=-1)] = -1) -> Response:
        version = await studio.news(after)
        return JSONResponse({"version": version} | state_of(work, learner))

    @app.get(f"{API}/photos")
    async def photos(
        belongs: Annotated[int, Query(ge=TWINS)] = 0,
        offset: Annotated[int, Query(ge=0)] = 0,
        most: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> Response:
        return JSONResponse(photos_of(work, learner, belongs, offset, most))

    @app.get(f"{API}/small/{{digest}}")
    async def small(digest: str) -> Response:
        path = work.small(digest)
        if not path.is_file():
            raise RefusedError(404, "There is no such photo.")
        return Response(path.read_bytes(), media_type="image/jpeg")

    @app.get(f"{API}/confusion")
    async def confusion() -> Response:
        return JSONResponse(confusion_of(learner))

    @app.get(f"{API}/cell")
    async def cell(truth: str, answer: str) -> Response:
        return JSONResponse(cell_of(work, learner, truth, answer))


def _add_steps(app: FastAPI, studio: Studio) -> None:
    work = studio.work

    @app.post(f"{API}/classes")
    async def add_class(given: Name) -> Response:
        with work.lock:
            change, number = work.state.adding_class(checked_label(given.name))
            work.do(change)
        studio.stepped()
        return JSONResponse({"id": number})

    @app.post(f"{API}/classes/{{number}}/name")
    async def rename(number: int, given: Name) -> Response:
        with work.lock:
            work.do(work.state.renaming(number, checked_label(given.name)))
        return studio.stepped()

    @app.post(f"{API}/classes/{{number}}/remove")
    async def remove_class(number: int) -> Response:
        with work.lock:
            work.do(work.state.removing_class(number))
        return studio.stepped()

    @app.post(f"{API}/photos")
    async def add(request: Request, belongs: int | None = None, name: str | None = None) -> Response:
        body, kind = await request.body(), request.headers.get("content-type", "")

        def adding() -> dict[str, object]:
            return add_uploads(work, read_uploads(body, kind, MOST_FILES), belongs, name).to_json()

        try:
            return JSONResponse(await studio.run(studio.slowly, adding))
        finally:
            studio.stepped()

    @app.post(f"{API}/model")
    async def open_model(request: Request) -> Response:
        body, kind = await request.body(), request.headers.get("content-type", "")

        def opening() -> bool:
            model, name = sent_model(read_uploads(body, kind, MOST_FILES))
            odd = difference(studio.learner.pipeline.origin().identity(), model.origin.identity())
            if odd:
                raise InputError(
                    f"This studio and the model read images otherwise: they differ in {odd}. "
                    "Start `yoro studio` with the model and another --work."
                )
            return work.open(model, name)

        new = await studio.run(studio.slowly, opening)
        studio.stepped()
        return JSONResponse({"new": new})

    @app.post(f"{API}/move")
    async def move(given: Chosen) -> Response:
        with work.lock:
            work.do(work.state.moving(given.photos, given.to))
        return studio.stepped()

    @app.post(f"{API}/remove")
    async def remove(given: Chosen) -> Response:
        with work.lock:
            work.do(work.state.removing(given.photos))
        return studio.stepped()

    @app.post(f"{API}/undo")
    async def undo() -> Response:
        what = work.undo()
        studio.stepped()
        return JSONResponse({"what": what})

    @app.post(f"{API}/redo")
    async def redo() -> Response:
        what = work.redo()
        studio.stepped()
        return JSONResponse({"what": what})


def _add_answers(app: FastAPI, studio: Studio) -> None:
    work, learner = studio.work, studio.learner

    @app.get(f"{API}/answer")
    async def answer(photo: str) -> Response:
        response = learner.response(photo)
        if response is None:
            raise InputError("This photo was not read yet; try again in a while.")
        return JSONResponse(await studio.run(studio.beside, answer_of, work, learner.learned, learner.said, response))

    @app.post(f"{API}/try")
    async def trial(request: Request) -> Response:
        body, kind = await request.body(), request.headers.get("content-type", "")

        def trying() -> dict[str, object]:
            upload = read_uploads(body, kind, 1)[0]
            image = decode(upload.content, learner.pipeline.geometry, name=upload.name)
            return answer_of(work, learner.learned, learner.said, learner.respond(image[None])[0])

        return JSONResponse(await studio.run(studio.beside, trying))


def _add_downloads(app: FastAPI, studio: Studio) -> None:
    @app.get(f"{API}/{CALLED}.yoro.zip")
    async def model() -> Response:
        learned = await studio.settled()
        return _download(await studio.run(studio.beside, packed, learned), "application/zip", "yoro.zip")

    @app.get(f"{API}/{CALLED}.onnx")
    async def onnx() -> Response:
        learned = await studio.settled()
        graph, _ = await studio.run(studio.beside, checked_export, learned.classifier)
        return _download(graph, "application/octet-stream", "onnx")

    @app.get(f"{API}/web")
    async def runtime() -> Response:
        await studio.run(studio.beside, find_runtime)
        return JSONResponse({"ready": True})

    @app.get(f"{API}/{CALLED}-web.zip")
    async def web() -> Response:
        learned = await studio.settled()
        return _download(await studio.run(studio.beside, packed_page, learned), "application/zip", "zip", "-web")

    @app.get(f"{API}/{CALLED}.html")
    async def report() -> Response:
        learned = await studio.settled()
        page = await studio.run(
            studio.beside, fit_report, learned.classifier, examples_of(studio.work, learned), "the studio"
        )
        if page is None:
            raise InputError("There are too few photos for a report: no class has two.")
        return _download(page.encode(), "text/html; charset=utf-8", "html")


def packed(learned: Learned) -> bytes:
    """The model directory in a zip archive."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{CALLED}.yoro"
        learned.classifier.save(path)
        return _zipped(path)


def packed_page(learned: Learned) -> bytes:
    """The classifier as a web page that needs no server, in a zip archive."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{CALLED}-web"
        export_web(learned.classifier, path, find_runtime())
        return _zipped(path)


def _zipped(path: Path) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in sorted(path.iterdir()):
            archive.write(part, f"{path.name}/{part.name}")
    return stream.getvalue()


def _download(content: bytes, kind: str, suffix: str, more: str = "") -> Response:
    return Response(content, headers={
        "content-type": kind, "content-disposition": f'attachment; filename="{CALLED}{more}.{suffix}"',
    })  # fmt: skip
