"""The routes that look at the work, that take a step, and that take files: photos, a model, an image to try."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Literal

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from yoro import limits
from yoro.data.examples import checked_label
from yoro.data.thumbnails import thumbnail
from yoro.errors import InputError
from yoro.http.errors import RefusedError
from yoro.http.uploads import Upload
from yoro.model.model import Json, difference
from yoro.studio.base_model import sent_model
from yoro.studio.incoming_photos import THUMBNAIL, Goal
from yoro.studio.live_studio import API, Studio
from yoro.studio.page_data import HARD, answer_of, cell_of, confusion_of, mattered, photos_of, state_of


class ClassName(BaseModel):
    """The name of a class."""

    name: str = Field(max_length=limits.TAUGHT_LABEL)


class PhotoSelection(BaseModel):
    """Photos by their digests, and the class to move them to, or whether to keep them for testing."""

    photos: list[str] = Field(min_length=1, max_length=limits.STUDIO_PHOTOS)
    to: int = 0
    aside: bool = True


class Sorting(BaseModel):
    """The names of the classes that photos go to, by their digests."""

    photos: dict[str, Annotated[str, Field(max_length=limits.TAUGHT_LABEL)]] = Field(
        min_length=1, max_length=limits.STUDIO_PHOTOS
    )


class Target(BaseModel):
    """A class that another one goes into."""

    to: int


class Share(BaseModel):
    """The share of every class that is kept for testing."""

    share: float = Field(gt=0.0, lt=1.0)


def add_looks(app: FastAPI, studio: Studio) -> None:
    """Add the routes that change nothing."""
    work, learner = studio.work, studio.learner

    @app.get(f"{API}/state")
    async def state(after: Annotated[int, Query(ge=-1)] = -1) -> Response:
        version = await studio.news(after)
        return JSONResponse({"version": version, "phone": studio.phone is not None} | state_of(work, learner))

    @app.get("/studio/phone")
    async def phone() -> Response:
        if studio.phone is None:
            raise RefusedError(404, "No phone was asked for; start `yoro studio --phone`.")
        return Response(studio.phone.page(), media_type="text/html; charset=utf-8")

    @app.get(f"{API}/photos")
    async def photos(
        belongs: Annotated[int, Query(ge=HARD)] = 0,
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

    @app.get(f"{API}/tray")
    async def tray() -> Response:
        return JSONResponse(await studio.run(studio.answering, studio.tray.to_json))

    @app.post(f"{API}/tray/{{verb}}")
    async def regroup(verb: Literal["split", "join"], given: PhotoSelection) -> Response:
        doing = {"split": studio.tray.split, "join": studio.tray.join}[verb]
        await studio.run(studio.answering, doing, given.photos)
        return JSONResponse({})

    @app.get(f"{API}/cell")
    async def cell(truth: str, answer: str) -> Response:
        return JSONResponse(cell_of(work, learner, truth, answer))


def add_steps(app: FastAPI, studio: Studio) -> None:
    """Add the routes that take a step, or take one back."""
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

    @app.post(f"{API}/classes/{{number}}/merge")
    async def merge(number: int, given: Target) -> Response:
        return studio.step(lambda state: state.merging(number, given.to))

    @app.post(f"{API}/sort")
    async def sort(given: Sorting) -> Response:
        labels = {digest: checked_label(name) for digest, name in given.photos.items()}
        return studio.step(lambda state: state.sorting(labels))

    @app.post(f"{API}/keep")
    async def keep(given: PhotoSelection) -> Response:
        return studio.step(lambda state: state.keeping(given.photos))

    @app.post(f"{API}/aside")
    async def put_aside(given: PhotoSelection) -> Response:
        return studio.step(lambda state: state.putting_aside(given.photos, given.aside))

    @app.post(f"{API}/aside-share")
    async def put_share_aside(given: Share) -> Response:
        return studio.step(lambda state: state.putting_share_aside(given.share))

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
