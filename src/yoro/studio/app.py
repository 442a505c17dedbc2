"""The routes of the studio."""

from __future__ import annotations

import asyncio
import io
import tempfile
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

from fastapi import FastAPI, Query, Request
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field

from yoro import limits
from yoro.data.examples import checked_label
from yoro.errors import InputError
from yoro.http.errors import RefusedError, handle_errors
from yoro.http.guard import PAGE_HEADERS, Access, Guard, Log
from yoro.http.priority import lower_priority
from yoro.http.settings import ServeSettings
from yoro.http.uploads import Upload, read_uploads
from yoro.model.model import difference
from yoro.model.onnx_export import checked_export
from yoro.model.pipeline import Pipeline
from yoro.reports.evaluation import fit_report
from yoro.studio.background_learner import Learner
from yoro.studio.base_model import sent_model
from yoro.studio.edits import Edit
from yoro.studio.incoming_photos import add_uploads
from yoro.studio.page_data import TWINS, answer_of, cell_of, confusion_of, photos_of, state_of
from yoro.studio.solving import Learned, examples_of
from yoro.studio.state import State
from yoro.studio.workspace import Workspace
from yoro.web.browser_runtime import find_runtime
from yoro.web.page_export import export_web

LONG_POLL = 20.0  # seconds that a page waits for news
SETTLING = 120.0  # seconds that a download waits for the photos to be learned
MOST_FILES = 64  # per request
NAME = "studio"  # of what is downloaded
API = "/studio/api"
P = ParamSpec("P")
T = TypeVar("T")


class ClassName(BaseModel):
    """The name of a class."""

    name: str = Field(max_length=limits.TAUGHT_LABEL)


class PhotoSelection(BaseModel):
    """Photos by their digests, and the class to move them to."""

    photos: list[str] = Field(min_length=1, max_length=limits.STUDIO_PHOTOS)
    to: int = 0


class Studio:
    """A workspace, the learner beside it, and the pages that watch both."""

    def __init__(self, work: Workspace, pipeline: Pipeline) -> None:
        self.work = work
        self.version = 0  # of what a page shows; it grows with every step and everything learned
        self.learner = Learner(work, pipeline, self._changed)
        self.adding = ThreadPoolExecutor(1, "yoro-adding", lower_priority)
        self.answering = ThreadPoolExecutor(2, "yoro-answering", lower_priority)
        self._shutting_down = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()  # a new one for every version

    def step(self, make: Callable[[State], Edit]) -> Response:
        """Take a step, and tell everybody."""
        with self.work.lock:
            self.work.do(make(self.work.state))
        return self.stepped(revision=self.work.state.revision)

    def stepped(self, **answer: object) -> Response:
        """Tell everybody that something was edited; the response is `answer`."""
        self._announce()
        self.learner.wake()
        return JSONResponse(answer)

    def shut_down(self) -> None:
        """Let no request wait any longer."""
        self._shutting_down = True
        self._changed()

    async def news(self, after: int) -> int:
        """The version, as soon as it differs from the one that a page has, or after a while (long poll)."""
        await self._wait_until(lambda: self.version != after, LONG_POLL)
        return self.version

    async def settled(self) -> Learned:
        """The classifier of the photos as they are now."""
        if not await self._wait_until(lambda: self.learner.settled == self.work.state.revision, SETTLING):
            raise RefusedError(503, "The photos are still being processed; try again soon.", {"retry-after": "5"})
        if self.learner.learned is None:
            raise InputError(self.learner.said or "There is no classifier yet.")
        return self.learner.learned

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        """Learn in the background until shutdown."""
        self._loop = asyncio.get_running_loop()
        self.learner.start()
        yield
        for pool in (self.adding, self.answering):
            pool.shutdown()
        self.learner.close()

    @staticmethod
    def run(pool: ThreadPoolExecutor, do: Callable[P, T], *args: P.args, **options: P.kwargs) -> Awaitable[T]:
        """Do something outside the event loop."""
        return asyncio.get_running_loop().run_in_executor(pool, partial(do, *args, **options))

    async def receive(
        self, request: Request, pool: ThreadPoolExecutor, do: Callable[[list[Upload]], T], most: int = MOST_FILES
    ) -> T:
        """Do something with the files of a request, outside the event loop."""
        body, kind = await request.body(), request.headers.get("content-type", "")
        return await self.run(pool, lambda: do(read_uploads(body, kind, most)))

    async def _wait_until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait for news until something holds; whether it does in the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not done() and not self._shutting_down:
                    await self._news.wait()
        return done()

    def _changed(self) -> None:
        """Announce a new version from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._announce)

    def _announce(self) -> None:
        self.version += 1
        self._news.set()
        self._news = asyncio.Event()


def make_app(studio: Studio, settings: ServeSettings, log: Log) -> Guard:
    """The page and its routes, behind the guard; pages of other sites may not even read what the API returns."""
    app = FastAPI(title="YORO studio", lifespan=studio.running, openapi_url=None, docs_url=None, redoc_url=None)
    page = Path(str(files("yoro.studio") / "page"))
    app.mount("/studio/page", StaticFiles(directory=page))
    app.get("/")(lambda: RedirectResponse("/studio/"))
    app.get("/studio/")(lambda: FileResponse(page / "index.html"))
    _add_looks(app, studio)
    _add_steps(app, studio)
    _add_uploads(app, studio)
    _add_downloads(app, studio)
    handle_errors(app)
    return Guard(app, settings, Access(private=API, headers=PAGE_HEADERS), log, shut_down=studio.shut_down)


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
            raise RefusedError(404, "There is no such photo; another page may have removed it.")
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
    async def add_class(given: ClassName) -> Response:
        with work.lock:
            edit, number = work.state.adding_class(checked_label(given.name))
            work.do(edit)
        return studio.stepped(id=number)

    @app.post(f"{API}/classes/{{number}}/name")
    async def rename(number: int, given: ClassName) -> Response:
        return studio.step(lambda state: state.renaming(number, checked_label(given.name)))

    @app.post(f"{API}/classes/{{number}}/remove")
    async def remove_class(number: int) -> Response:
        return studio.step(lambda state: state.removing_class(number))

    @app.post(f"{API}/move")
    async def move(given: PhotoSelection) -> Response:
        return studio.step(lambda state: state.moving(given.photos, given.to))

    @app.post(f"{API}/remove")
    async def remove(given: PhotoSelection) -> Response:
        return studio.step(lambda state: state.removing(given.photos))

    @app.post(f"{API}/undo")
    async def undo() -> Response:
        return studio.stepped(what=work.undo())

    @app.post(f"{API}/redo")
    async def redo() -> Response:
        return studio.stepped(what=work.redo())


def _add_uploads(app: FastAPI, studio: Studio) -> None:
    """Routes that take files: photos, a model, an image to try; and the answer to a photo."""
    work, learner = studio.work, studio.learner

    @app.post(f"{API}/photos")
    async def add(request: Request, belongs: int | None = None, name: str | None = None) -> Response:
        def adding(uploads: list[Upload]) -> dict[str, object]:
            return add_uploads(work, uploads, learner.pipeline.geometry, belongs, name).to_json()

        try:
            return JSONResponse(await studio.receive(request, studio.adding, adding))
        finally:
            studio.stepped()

    @app.post(f"{API}/model")
    async def open_model(request: Request) -> Response:
        def opening(uploads: list[Upload]) -> bool:
            model, name = sent_model(uploads)
            odd = difference(learner.pipeline.origin().identity(), model.origin.identity())
            if odd:
                raise InputError(
                    f"The model reads images differently from this studio: they differ in {odd}. "
                    "Start `yoro studio` with the model and another --work."
                )
            return work.open(model, name)

        return studio.stepped(new=await studio.receive(request, studio.adding, opening))

    @app.post(f"{API}/try")
    async def trial(request: Request) -> Response:
        def trying(uploads: list[Upload]) -> dict[str, object]:
            image = work.decoders.decode(uploads[0].content, uploads[0].name, learner.pipeline.geometry).pixels[0]
            return answer_of(work, learner.learned, learner.said, learner.respond(image[None])[0])

        return JSONResponse(await studio.receive(request, studio.answering, trying, 1))

    @app.get(f"{API}/answer")
    async def answer(photo: str) -> Response:
        response = learner.response(photo)
        if response is None:
            raise InputError("This photo has not been processed yet; try again soon.")
        return JSONResponse(
            await studio.run(studio.answering, answer_of, work, learner.learned, learner.said, response)
        )


def _add_downloads(app: FastAPI, studio: Studio) -> None:
    async def download(make: Callable[[Learned], bytes], kind: str, name: str) -> Response:
        content = await studio.run(studio.answering, make, await studio.settled())
        return Response(content, headers={
            "content-type": kind, "content-disposition": f'attachment; filename="{name}"',
        })  # fmt: skip

    @app.get(f"{API}/{NAME}.yoro.zip")
    async def model() -> Response:
        return await download(packed_model, "application/zip", f"{NAME}.yoro.zip")

    @app.get(f"{API}/{NAME}.onnx")
    async def onnx() -> Response:
        return await download(
            lambda learned: checked_export(learned.classifier)[0], "application/octet-stream", f"{NAME}.onnx"
        )

    @app.get(f"{API}/web")
    async def runtime() -> Response:
        await studio.run(studio.answering, find_runtime)
        return JSONResponse({"ready": True})

    @app.get(f"{API}/{NAME}-web.zip")
    async def web() -> Response:
        return await download(packed_page, "application/zip", f"{NAME}-web.zip")

    @app.get(f"{API}/{NAME}.html")
    async def report() -> Response:
        return await download(partial(report_of, studio.work), "text/html; charset=utf-8", f"{NAME}.html")


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
    """The report that `yoro fit --html` writes."""
    page = fit_report(learned.classifier, examples_of(work, learned), "the studio")
    if page is None:
        raise InputError("Too few photos for a report: no class has two.")
    return page.encode()


def _zipped(path: Path) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in sorted(path.iterdir()):
            archive.write(part, f"{path.name}/{part.name}")
    return stream.getvalue()
