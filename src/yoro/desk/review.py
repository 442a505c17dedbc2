"""A review of label issues on a page: decisions, each saved in the list's column `action` as soon as it is made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from yoro import limits
from yoro.data.decoding import file_bytes
from yoro.data.examples import checked_label
from yoro.data.geometry import Geometry
from yoro.data.lists import listed_rows
from yoro.data.processes import DecoderPool
from yoro.data.thumbnails import thumbnail
from yoro.desk.app import mount_page, serve_page
from yoro.environment import cores
from yoro.errors import ImageError, InputError
from yoro.files.rows import write_rows
from yoro.http.errors import RefusedError, handle_errors
from yoro.http.guard import PAGE_HEADERS, Access, Guard, Log
from yoro.http.settings import ServeSettings
from yoro.trust.label_cleaning import ACTIONS, RELABEL, beside, plain_cell

PAGE = "/review/"
API = "/review/api"
PICTURE = Geometry(384, fit="crop")


@dataclass(frozen=True)
class ListActions:
    """What is done with a reviewed list: applied to files and model, or undone; each returns a sentence on it."""

    apply: Callable[[], str]
    undo: Callable[[], str]
    applied: Callable[[], bool]


class Review:
    """The rows of a list of issues, and what was decided about each; the list is the only state."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.RLock()
        self.rows = [{key: plain_cell(value) for key, value in row.items()} for _, row in listed_rows(path)]
        lacking = {"path", "label", "issue", "proposed", "action"} - set(self.rows[0] if self.rows else ())
        if lacking or len(self.rows) > limits.STUDIO_PHOTOS:
            raise InputError(f"'{path}' is not a list of issues; `yoro issues DATA --fix` makes one.")
        self._decoders = DecoderPool(cores())

    def close(self) -> None:
        """End the processes that decode pictures."""
        self._decoders.close()

    @property
    def classes(self) -> list[str]:
        """The classes that the list names, sorted."""
        return sorted({row[key] for row in self.rows for key in ("label", "proposed") if row[key]})

    def decide(self, at: int, action: str, proposed: str = "") -> None:
        """Decide about an image, in all of its rows, and save the list; an empty action takes the decision back."""
        if not 0 <= at < len(self.rows) or action not in ("", *ACTIONS):
            raise InputError(f"There is no issue {at} with the action {action!r:.40}; use {', '.join(ACTIONS)}.")
        with self._lock:
            row = self.rows[at]
            new = checked_label(proposed or row["proposed"]) if action == RELABEL else ""
            if new == row["label"]:
                raise InputError(f"The label is {new!r} already; choose another class, or keep it.")
            changed = [dict(one) for one in self.rows]
            for one in changed:
                if (one["path"], one["label"]) == (row["path"], row["label"]):
                    one |= {"action": action, "proposed": new or one["proposed"]}
            write_rows(iter([dict[str, object](one) for one in changed]), self.path.suffix[1:].lower(), self.path)
            self.rows = changed

    def picture(self, at: int, *, like: bool = False) -> bytes | None:
        """A JPEG of an issue's image, or of the one that it is like; None if its file is gone or unreadable."""
        name = self.rows[at].get("like" if like else "path", "") if 0 <= at < len(self.rows) else ""
        if not name:
            return None
        try:
            decoded = self._decoders.decode(file_bytes(beside(self.path, name)), name, PICTURE)
        except (OSError, ImageError):
            return None
        return thumbnail(decoded.pixels[0], PICTURE.side)


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
