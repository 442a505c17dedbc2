"""The review page of label issues: its routes, and its server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from yoro import limits
from yoro.desk.app import mount_page, serve_page
from yoro.desk.review import ListActions, Review
from yoro.errors import InputError
from yoro.http.errors import RefusedError, handle_errors
from yoro.http.guard import PAGE_HEADERS, Access, Guard, Log
from yoro.http.settings import ServeSettings

PAGE = "/review/"
API = "/review/api"


class Decision(BaseModel):
    """What is to be done about an issue."""

    row: Annotated[int, Field(ge=0)]
    action: str = Field(max_length=20)
    proposed: str = Field(default="", max_length=4 * limits.TAUGHT_LABEL)


def make_app(review: Review, outcome: ListActions, settings: ServeSettings, log: Log) -> Guard:
    """The page and its routes, behind the guard of all pages."""
    app = FastAPI(title="YORO review", openapi_url=None, docs_url=None, redoc_url=None)
    mount_page(app, PAGE, "issues --fix")

    @app.get(f"{API}/state")
    def state() -> Response:
        return JSONResponse({"rows": review.rows, "classes": review.classes, "applied": outcome.applied()})

    @app.get(f"{API}/picture/{{row}}")
    def picture(row: int, like: bool = False) -> Response:
        found = review.picture(row, like=like)
        if found is None:
            raise RefusedError(404, "The file of this photo is gone.")
        return Response(found, media_type="image/jpeg", headers={"cache-control": "max-age=3600"})

    @app.post(f"{API}/decide")
    def decide(given: Decision) -> Response:
        if outcome.applied():
            raise InputError("The decisions were applied; undo that first.")
        review.decide(given.row, given.action, given.proposed)
        return state()

    @app.post(f"{API}/apply")
    def apply() -> Response:
        return JSONResponse({"told": outcome.apply()})

    @app.post(f"{API}/undo")
    def undo() -> Response:
        return JSONResponse({"told": outcome.undo()})

    handle_errors(app)
    return Guard(app, settings, Access(private=API, headers=PAGE_HEADERS), log)


def open_review(
    path: Path, outcome: ListActions, *, port: int, browse: bool, tell: Callable[[str], None], log: Log
) -> None:
    """Serve the page of a list until the process is told to stop; only this machine can connect."""
    serving = ServeSettings(port=port, most_megabytes=1)
    with closing(Review(path)) as review:
        saved = f"every decision in '{path}'"
        serve_page(PAGE, saved, serving, lambda: make_app(review, outcome, serving, log), browse, tell)
