"""The routes that take files: photos, a model, an image to try; and the answer to a photo, with what mattered in it."""

from __future__ import annotations

from base64 import b64encode

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from yoro.data.thumbnails import thumbnail
from yoro.errors import InputError
from yoro.http.uploads import Upload
from yoro.model.model import Json, difference
from yoro.studio.answer_data import answer_of, mattered
from yoro.studio.base_model import sent_model
from yoro.studio.incoming_photos import THUMBNAIL, Goal
from yoro.studio.live_studio import API, Studio

MOST_DROP = 64  # characters of the word of a drop


def add_receiving(app: FastAPI, studio: Studio) -> None:
    """Routes that take files: photos, a model, an image to try; and the answer to a photo."""
    work, learner = studio.work, studio.learner

    @app.post(f"{API}/photos")
    async def add(
        request: Request, belongs: int | None = None, name: str | None = None, aside: bool = False, drop: str = ""
    ) -> Response:
        return await studio.add_photos(request, Goal(belongs, name, aside, drop[:MOST_DROP]))

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
        def trying(uploads: list[Upload]) -> Json:
            one = work.decoders.decode(uploads[0].content, uploads[0].name, learner.pipeline.geometry, THUMBNAIL)
            picture = b64encode(thumbnail(one.smalls[0], THUMBNAIL.side)).decode()
            response = learner.respond(one.pixels)[0]
            return answer_of(work, learner.classifier(), response, one.digests[0]) | {"picture": picture}

        return JSONResponse(await studio.receive(request, studio.answering, trying, 1))

    @app.get(f"{API}/answer")
    async def answer(photo: str) -> Response:
        response = learner.response(photo)
        if response is None:
            raise InputError("This photo has not been processed yet; try again soon.")
        return JSONResponse(await studio.run(studio.answering, answer_of, work, learner.classifier(), response, photo))

    @app.post(f"{API}/mattered")
    async def mattered_in_image(request: Request) -> Response:
        def looking(uploads: list[Upload]) -> bytes:
            one = work.decoders.decode(uploads[0].content, uploads[0].name, learner.pipeline.geometry)
            return mattered(learner, one.pixels[0])

        return Response(await studio.receive(request, studio.answering, looking, 1), media_type="image/jpeg")

    @app.get(f"{API}/mattered")
    async def mattered_in_photo(photo: str) -> Response:
        def looking() -> bytes:
            return mattered(learner, work.pixels(photo, learner.pipeline.geometry, "the photo"))

        with work.lock:
            work.state.photo(photo)
        return Response(await studio.run(studio.answering, looking), media_type="image/jpeg")
