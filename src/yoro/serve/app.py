"""The routes of the service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ParamSpec, TypeVar

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response

from yoro import limits
from yoro.data.decoding import decode_and_digest
from yoro.environment import __version__, cores
from yoro.errors import ImageError, one_line
from yoro.http.errors import answer_errors
from yoro.http.guard import Guard, Log
from yoro.http.metrics import Metrics
from yoro.http.priority import stand_back
from yoro.http.refusals import busy
from yoro.http.settings import ServeSettings
from yoro.http.uploads import Upload, read_uploads
from yoro.model.model import Json
from yoro.model.question import Question
from yoro.serve.batching import Batcher
from yoro.serve.feedback import checked_label, learn
from yoro.serve.hot_reload import Current, watch
from yoro.serve.idempotency import KEY, Repeated
from yoro.serve.openapi import described
from yoro.serve.response_service import ServedSource, Still
from yoro.serve.served_model import Answered, Served

WAITING_FEEDBACK = 8  # requests that may wait for the model to be written
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Seen:
    """An image that was sent: its name, digest and answer, or what is wrong with it."""

    name: str
    digest: str
    answer: Answered | ImageError


class Service:
    """A model, or a source alone, behind a queue: images are decoded beside the event loop, and answered in batches."""

    def __init__(self, current: Current | Still, settings: ServeSettings, metrics: Metrics) -> None:
        self.current, self.settings, self.metrics = current, settings, metrics
        self.repeated = Repeated()
        self.batcher: Batcher[Answered | ImageError] = Batcher(
            settings.waiting_images, settings.batch_images, metrics.batch
        )
        metrics.waiting.set_function(lambda: self.batcher.waiting)
        current.changed = metrics.model
        self.beside = ThreadPoolExecutor(cores(), "yoro-decoding", stand_back)
        self.slowly = ThreadPoolExecutor(1, "yoro-slowly", stand_back)  # what may take seconds, one by one
        self._learning = 0

    async def see(self, request: Request) -> tuple[Served | ServedSource, list[Seen]]:
        """The model that answers, and what it says of the images of a request."""
        body = await request.body()
        kind = request.headers.get("content-type", "")
        read = partial(read_uploads, body, kind, self.settings.most_images)
        small = kind.startswith("image/")  # there is nothing to parse
        uploads = read() if small else await self._run(self.beside, read)
        del body, read
        served = self.current.served
        with self.batcher.room(len(uploads)):
            async with asyncio.timeout(self.settings.answer_seconds):
                return served, await asyncio.gather(*(self._answer(served, upload) for upload in uploads))

    async def predict(self, served: Served, answers: Sequence[Answered], question: Question) -> list[Json]:
        """What a client reads of answers."""
        if question.unknown is None and question.coverage is None:
            return served.predictions(answers, question)
        return await self._run(self.slowly, served.predictions, answers, question)

    async def learn(self, served: Served | ServedSource, seen: Sequence[Seen], label: str) -> Json:
        """Add what was seen to the model under a label."""
        images = [(one.name, one.digest, one.answer) for one in seen if isinstance(one.answer, Answered)]
        assert isinstance(self.current, Current)  # a source alone has no such route
        assert isinstance(served, Served)
        if self._learning >= WAITING_FEEDBACK:
            raise busy("Others are changing the model", 1)
        self._learning += 1
        try:
            return await self._run(self.slowly, learn, self.current, served, images, label)
        finally:
            self._learning -= 1

    async def responses(self, answers: Sequence[Answered]) -> list[str]:
        """Responses as lists in JSON, of as many digits as single precision has."""
        return await self._run(self.beside, lambda: [_numbers(answer) for answer in answers])

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        """Watch the model directory meanwhile; at the end, finish what was begun."""
        current = self.current
        watching = asyncio.create_task(watch(current, self.slowly)) if isinstance(current, Current) else None
        yield
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        for part in (self.beside, self.slowly):
            part.shutdown()
        self.batcher.close()

    async def _answer(self, served: Served | ServedSource, upload: Upload) -> Seen:
        decode = partial(decode_and_digest, upload.content, served.pipeline.geometry, name=upload.name)
        try:
            image, digest = await self._run(self.beside, decode)
        except ImageError as error:
            return Seen(upload.name, "", error)
        return Seen(upload.name, digest, await self.batcher.answer(served, image))

    @staticmethod
    def _run(where: ThreadPoolExecutor, do: Callable[P, T], *words: P.args, **more: P.kwargs) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(where, partial(do, *words, **more))


def make_app(service: Service, token: str | None, log: Log) -> Guard:
    """The application: routes, what becomes of errors, and the guard in front of them."""
    app = FastAPI(
        title="YORO", version=__version__, description="Images in, class names out.", lifespan=service.running,
        docs_url=None, redoc_url=None, openapi_url=None,
    )  # fmt: skip
    _add_responses(app, service)
    if isinstance(service.current, Current):
        _add_predictions(app, service)
        _add_model(app, service.current, service.settings)
    else:
        _add_source(app, service.current)
    _add_facts(app, service)
    if service.settings.feedback:
        _add_feedback(app, service)
    answer_errors(app)
    page = json.dumps(described(app, service.settings, token is not None)).encode()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(page, media_type="application/json")

    routes = [str(getattr(route, "path", "")) for route in app.routes]
    return Guard(app, service.settings, token, service.metrics, log, routes)


def _add_predictions(app: FastAPI, service: Service) -> None:
    @app.post("/v1/predict")
    async def predict(
        request: Request,
        top: Annotated[int, Query(ge=1, le=1000, description="How many of the best classes.")] = 1,
        threshold: Annotated[float, Query(ge=0, le=1, description="No label where the probability is less.")] = 0.0,
        unknown: Annotated[
            float | None, Query(ge=0, lt=1, description="No label for what is no more typical than this share.")
        ] = None,
        coverage: Annotated[
            float | None, Query(gt=0, lt=1, description="Also the labels that hold the right one so often.")
        ] = None,
    ) -> Response:
        """Classes of images."""
        served, seen = await service.see(request)
        assert isinstance(served, Served)
        good = _readable(seen)
        found = iter(await service.predict(served, good, Question(top, threshold, unknown, coverage)))
        rows = [{"name": one.name} | (next(found) if isinstance(one.answer, Answered) else _wrong(one)) for one in seen]
        return JSONResponse({"version": served.version, "predictions": rows})


def _add_responses(app: FastAPI, service: Service) -> None:
    @app.post("/v1/responses")
    async def responses(request: Request) -> Response:
        """The network's own responses to images, before any class; with an Idempotency-Key computed once."""
        key, body = request.headers.get(KEY, ""), await request.body()
        text, again = await service.repeated.answer(key, body, lambda: answered(request))
        return Response(text, media_type="application/json", headers={"idempotent-replayed": "true"} if again else None)

    async def answered(request: Request) -> str:
        served, seen = await service.see(request)
        found = iter(await service.responses(_readable(seen)))
        rows = [
            f'{{"name": {json.dumps(one.name)}, "response": {next(found)}}}'
            if isinstance(one.answer, Answered)
            else json.dumps({"name": one.name} | _wrong(one))
            for one in seen
        ]
        return f'{{"version": "{served.version}", "width": {served.width}, "responses": [{", ".join(rows)}]}}'


def _add_model(app: FastAPI, current: Current, settings: ServeSettings) -> None:
    @app.get("/v1/model")
    async def model() -> Response:
        """What answers: classes, source, and whether a changed model could not be taken up."""
        return JSONResponse(current.served.facts() | {"feedback": settings.feedback, "error": current.error})


def _add_source(app: FastAPI, current: Still) -> None:
    @app.get("/v1/source")
    async def source() -> Response:
        """What answers: the source's identity, and which readings its responses hold."""
        return JSONResponse(current.served.facts() | {"version": current.served.version})


def _add_facts(app: FastAPI, service: Service) -> None:
    @app.get("/healthz")
    async def healthz() -> Response:
        """Whether the service answers."""
        return JSONResponse({"status": "ok"})

    @app.get("/metrics")
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_feedback(app: FastAPI, service: Service) -> None:
    @app.post("/v1/feedback")
    async def feedback(
        request: Request,
        label: Annotated[str, Query(min_length=1, max_length=limits.TAUGHT_LABEL, description="What the images show.")],
    ) -> Response:
        """Images of a class: the model is updated, exactly, and saved."""
        name = checked_label(label)
        served, seen = await service.see(request)
        for one in seen:
            if isinstance(one.answer, ImageError):
                raise one.answer
        return JSONResponse(await service.learn(served, seen, name))


def _readable(seen: Sequence[Seen]) -> list[Answered]:
    """The answers; if there is not one, what is wrong with the first image."""
    answers = [one.answer for one in seen if isinstance(one.answer, Answered)]
    if not answers:
        raise next(one.answer for one in seen if isinstance(one.answer, ImageError))
    return answers


def _wrong(one: Seen) -> Json:
    return {"error": one_line(one.answer)} if isinstance(one.answer, ImageError) else {}


def _numbers(answer: Answered) -> str:
    return f"[{', '.join([f'{number:.9g}' for number in answer.response.tolist()])}]"
