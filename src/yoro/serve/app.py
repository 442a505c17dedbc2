"""The service: its routes, and its process, which loads a model or a backbone and serves until it is told to stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ParamSpec, TypeVar

from fastapi import APIRouter, FastAPI, Query, Request, Security
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer

from yoro import limits
from yoro.data.examples import checked_label
from yoro.data.processes import Budget, Decoded, DecoderPool
from yoro.environment import __version__, cores
from yoro.errors import ImageError, one_line
from yoro.http.errors import busy, handle_errors
from yoro.http.guard import PAGE_HEADERS, WITHOUT_TOKEN, Access, Guard, Log
from yoro.http.priority import NICENESS, lower_priority
from yoro.http.server import run_server
from yoro.http.settings import ServeSettings
from yoro.http.uploads import Upload, read_uploads
from yoro.model.model import Json
from yoro.model.question import Question
from yoro.serve.batching import Batcher
from yoro.serve.hot_reload import Current, add_feedback, hot_reload
from yoro.serve.idempotency import HEADER, IdempotentResponses
from yoro.serve.metrics import Metrics
from yoro.serve.pages import FACTS, OPEN, add_pages, page_facts
from yoro.serve.schemas import Feedback, Health, ModelFacts, Predictions, Responses, SourceFacts, described
from yoro.serve.served_model import Answered, FixedSource, Served, ServedSource

WAITING_TO_SOLVE = 8  # requests that may wait for a model to be solved
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class AnsweredUpload:
    """An image that was sent: its name, digest and answer, or why it cannot be read."""

    name: str
    digest: str
    answer: Answered | ImageError


class Service:
    """A model, or a backbone alone, behind a queue: images are decoded in threads and answered in batches."""

    def __init__(self, current: Current | FixedSource, settings: ServeSettings, metrics: Metrics) -> None:
        self.current, self.settings, self.metrics = current, settings, metrics
        self.idempotent = IdempotentResponses()
        self.batcher = Batcher(settings.waiting_images, settings.batch_images, metrics.batch)
        metrics.waiting.set_function(lambda: self.batcher.waiting)
        current.changed = metrics.model
        self.decoding = ThreadPoolExecutor(cores(), "yoro-decoding", lower_priority)
        self.large = ThreadPoolExecutor(1, "yoro-large", lower_priority)  # images that take much, one at a time
        self.decoders = DecoderPool(cores(), NICENESS)  # on a par with the network: neither waits for the other
        self.slow_work = ThreadPoolExecutor(1, "yoro-slow-work", lower_priority)  # that may take seconds, one at a time
        self._solving = 0

    async def see(self, request: Request, *, whole: bool = False) -> tuple[Served | ServedSource, list[AnsweredUpload]]:
        """The model in use, and its answers to the images of a request; `whole` responses are of every network."""
        body = await request.body()
        kind = request.headers.get("content-type", "")
        read = partial(read_uploads, body, kind, self.settings.most_images)
        raw = kind.startswith("image/")  # nothing to parse
        uploads = read() if raw else await self._run(self.decoding, read)
        del body, read
        served = self.current.served
        if whole and isinstance(served, Served):
            served = served.whole
        budget = Budget(sum(len(upload.content) for upload in uploads))
        with self.batcher.room(len(uploads)):
            async with asyncio.timeout(self.settings.answer_seconds):
                return served, await asyncio.gather(*(self._answer(served, upload, budget) for upload in uploads))

    async def predict(self, served: Served, seen: Sequence[AnsweredUpload], question: Question) -> list[Json]:
        """Answers as a client reads them, of the images that could be read."""
        answers = _readable(seen)
        if question.together:
            digests = [bytes.fromhex(one.digest) for one in seen if isinstance(one.answer, Answered)]
            async with asyncio.timeout(self.settings.answer_seconds):
                return await self._solve(
                    "Others are answered together", served.predictions_together, answers, digests, question
                )
        if question.unknown is None and question.coverage is None:
            return served.predictions(answers, question)
        return await self._run(self.slow_work, served.predictions, answers, question)

    async def page_facts(self) -> Json:
        """What the page to try the model must know of it."""
        served = self.current.served
        assert isinstance(served, Served)  # a backbone alone has no such page
        return await self._run(self.slow_work, page_facts, served)

    async def model(self) -> Response:
        """The model in use: classes, backbone, and why a changed model could not be loaded."""
        told = {"feedback": self.settings.feedback, "error": self.current.error}
        return JSONResponse(self.current.served.facts() | told)

    async def source(self) -> Response:
        """The backbone in use, and the layers in its responses."""
        return JSONResponse(self.current.served.facts() | {"version": self.current.served.version})

    async def learn(self, served: Served | ServedSource, seen: Sequence[AnsweredUpload], label: str) -> Json:
        """Add images to the model under a label."""
        images = [(one.name, one.digest, one.answer) for one in seen if isinstance(one.answer, Answered)]
        assert isinstance(self.current, Current)  # a backbone alone has no such route
        assert isinstance(served, Served)
        return await self._solve("Others are changing the model", add_feedback, self.current, served, images, label)

    async def responses(self, answers: Sequence[Answered]) -> list[str]:
        """Responses as JSON lists, with all digits of single precision."""
        rows = (answer.response.tolist() for answer in answers)
        return await self._run(self.decoding, lambda: [f"[{', '.join([f'{n:.9g}' for n in row])}]" for row in rows])

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        """Reload the model when it changes; on shutdown, finish what was begun."""
        current = self.current
        reloading = asyncio.create_task(hot_reload(current, self.slow_work)) if isinstance(current, Current) else None
        yield
        if reloading is not None:
            reloading.cancel()
            with suppress(asyncio.CancelledError):
                await reloading
        for part in (self.decoding, self.large, self.slow_work):
            part.shutdown()
        self.decoders.close()
        self.batcher.close()

    async def _answer(self, served: Served | ServedSource, upload: Upload, budget: Budget) -> AnsweredUpload:
        image = upload.content, upload.name, served.pipeline.geometry

        def large() -> Decoded:
            return budget.spend(self.decoders.large(*image, seconds=budget.left(upload.name)))

        try:
            decoded = await asyncio.wrap_future(self.decoders.quick(*image, budget=budget))
            if decoded.more:
                decoded = await self._run(self.large, large)
            decoded.sound()
        except ImageError as error:
            return AnsweredUpload(upload.name, "", error)
        answer = await self.batcher.answer(served, decoded.pixels[0])
        return AnsweredUpload(upload.name, decoded.digests[0], answer)

    async def _solve(self, full: str, do: Callable[P, T], *words: P.args, **more: P.kwargs) -> T:
        """Solve a model beside the requests, one at a time; if too many wait for that, the client is told so."""
        if self._solving >= WAITING_TO_SOLVE:
            raise busy(full, 1)
        self._solving += 1
        try:
            return await self._run(self.slow_work, do, *words, **more)
        finally:
            self._solving -= 1

    @staticmethod
    def _run(where: ThreadPoolExecutor, do: Callable[P, T], *words: P.args, **more: P.kwargs) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(where, partial(do, *words, **more))


def make_app(service: Service, token: str | None, log: Log) -> Guard:
    """The application: routes, error responses, and the guard in front of them."""
    app = FastAPI(
        title="YORO", version=__version__, description="Images in, class names out.", lifespan=service.running,
        docs_url=None, redoc_url=None, openapi_url=None,
    )  # fmt: skip
    bearer = HTTPBearer(scheme_name="token", auto_error=False)  # as documentation: the guard checks the token
    api = APIRouter(dependencies=[] if token is None else [Security(bearer)])
    _add_responses(api, service)
    if isinstance(service.current, Current):
        _add_predictions(api, service)
        api.get("/v1/model", **described(ModelFacts))(service.model)
        api.get(FACTS, include_in_schema=False)(service.page_facts)
    else:
        api.get("/v1/source", **described(SourceFacts))(service.source)
    if service.settings.feedback:
        _add_feedback(api, service)

    @api.get("/metrics", response_class=Response, **described())
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/healthz", **described(Health))
    async def healthz() -> Response:
        """Whether the service answers."""
        return JSONResponse({"status": "ok"})

    app.include_router(api)
    handle_errors(app)
    add_pages(app, service.settings, tryable=isinstance(service.current, Current), token=token is not None)
    schema = app.openapi()
    description = json.dumps(schema).encode()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(description, media_type="application/json")

    pages = {str(getattr(route, "path", "")) for route in app.routes}
    service.metrics.routes = frozenset(pages | schema["paths"].keys())
    access = Access(token, open=WITHOUT_TOKEN | OPEN, headers=PAGE_HEADERS)
    return Guard(app, service.settings, access, log, service.metrics.request)


def _add_predictions(api: APIRouter, service: Service) -> None:
    @api.post("/v1/predict", **described(Predictions, service.settings))
    async def predict(
        request: Request,
        top: Annotated[int, Query(ge=1, le=1000, description="Number of best classes to return.")] = 1,
        threshold: Annotated[float, Query(ge=0, le=1, description="Give no label below this probability.")] = 0.0,
        unknown: Annotated[
            float | None,
            Query(ge=0, lt=1, description="Reject out-of-distribution images: this fraction of training images too."),
        ] = None,
        coverage: Annotated[
            float | None, Query(gt=0, lt=1, description="Also return a conformal prediction set with this coverage.")
        ] = None,
        together: Annotated[
            bool, Query(description="Let the images of this request learn from each other first; none of them is kept.")
        ] = False,
    ) -> Response:
        """Classify images."""
        served, seen = await service.see(request)
        assert isinstance(served, Served)
        question = Question(top, threshold, unknown, coverage, together=together)
        found = iter(await service.predict(served, seen, question))
        rows = [{"name": one.name} | (next(found) if isinstance(one.answer, Answered) else _error(one)) for one in seen]
        return JSONResponse({"version": served.version, "predictions": rows})


def _add_responses(api: APIRouter, service: Service) -> None:
    @api.post("/v1/responses", **described(Responses, service.settings))
    async def responses(request: Request) -> Response:
        """The network's responses to images, before any class; with an Idempotency-Key they are computed once."""
        key, body = request.headers.get(HEADER, ""), await request.body()
        text, replay = await service.idempotent.answer(key, body, lambda: answered(request))
        headers = {"idempotent-replayed": "true"} if replay else None
        return Response(text, media_type="application/json", headers=headers)

    async def answered(request: Request) -> str:
        served, seen = await service.see(request, whole=True)
        found = iter(await service.responses(_readable(seen)))
        rows = [
            f'{{"name": {json.dumps(one.name)}, "response": {next(found)}}}'
            if isinstance(one.answer, Answered)
            else json.dumps({"name": one.name} | _error(one))
            for one in seen
        ]
        return f'{{"version": "{served.version}", "width": {served.width}, "responses": [{", ".join(rows)}]}}'


def _add_feedback(api: APIRouter, service: Service) -> None:
    @api.post("/v1/feedback", **described(Feedback, service.settings))
    async def feedback(
        request: Request,
        label: Annotated[
            str, Query(min_length=1, max_length=limits.TAUGHT_LABEL, description="The class of the images.")
        ],
    ) -> Response:
        """Add images of a class to the model: an exact update, which is saved."""
        name = checked_label(label)
        served, seen = await service.see(request, whole=True)
        for one in seen:
            if isinstance(one.answer, ImageError):
                raise one.answer
        return JSONResponse(await service.learn(served, seen, name))


def _readable(seen: Sequence[AnsweredUpload]) -> list[Answered]:
    """The answers; if no image could be read, the error of the first is raised."""
    answers = [one.answer for one in seen if isinstance(one.answer, Answered)]
    if not answers:
        raise next(one.answer for one in seen if isinstance(one.answer, ImageError))
    return answers


def _error(one: AnsweredUpload) -> Json:
    return {"error": one_line(one.answer)} if isinstance(one.answer, ImageError) else {}


def serve(
    what: str, load: Callable[[], Current | FixedSource], settings: ServeSettings, token: str | None,
    tell: Callable[[str], None],
) -> None:  # fmt: skip
    """Serve a model or a backbone until the process is told to stop; `tell` takes notes, and a line per request."""

    def build(current: Current | FixedSource, address: str) -> Guard:
        current.tell = tell
        app = make_app(Service(current, settings, Metrics()), token, tell)
        if not address:
            return app
        tell(f"Serving {what} on {address}; Ctrl-C stops it.")
        tried = "" if isinstance(current, FixedSource) else f"Try it at {address}/ in a browser; "
        tell(f"{tried}{'its' if tried else 'Its'} API is described at {address}/docs.")
        if not settings.local and token is None:
            tell("Anyone who can reach this machine may use it; set a token (--token-file) to restrict access.")
        return app

    run_server(settings, load, build, tell)
