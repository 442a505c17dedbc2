"""The routes of the desk, and the server of this room's pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field

from yoro import limits
from yoro.desk.desk import OUT, Desk
from yoro.desk.output import DeskResult
from yoro.desk.proposals import Proposals
from yoro.desk.session import DeskSession
from yoro.errors import InputError
from yoro.http.errors import RefusedError, handle_errors
from yoro.http.guard import PAGE_HEADERS, Access, Guard, Log
from yoro.http.priority import lower_priority
from yoro.http.server import open_browser, run_server
from yoro.http.settings import ServeSettings
from yoro.model.model import Json
from yoro.reports.page import render

PAGE = "/desk/"
API = "/desk/api"
QUESTIONS = 12
COVERS = 3  # photos that stand for a group
SHOWN = 120  # photos at a time

Row = Annotated[int, Field(ge=0)]


class Given(BaseModel):
    """What a step is about: a group and another, photos, a label."""

    group: int = 0
    other: int = 0
    rows: list[Row] = Field(default=[], max_length=limits.STUDIO_PHOTOS)
    label: str = Field(default="", max_length=4 * limits.TAUGHT_LABEL)


STEPS: dict[str, Callable[[Desk, Given], object]] = {
    "name": lambda desk, given: desk.name(given.group, given.label),
    "throw-out": lambda desk, given: desk.throw_out(given.group, given.rows),
    "refuse": lambda desk, given: desk.refuse(given.rows),
    "split": lambda desk, given: desk.split(given.group),
    "join": lambda desk, given: desk.join(given.group, given.other),
    "regroup": lambda desk, _: desk.regroup(),
    "label": lambda desk, given: desk.label(given.rows, given.label),
    "accept": lambda desk, given: desk.accept(given.rows),
    "leave-out": lambda desk, given: desk.leave_out(given.rows),
    "undo": lambda desk, _: desk.undo(),
    "redo": lambda desk, _: desk.redo(),
}


class ProposalLearner:
    """Computes the proposals in the background, anew after every step."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.at = desk, -1  # the revision that the latest proposals are of
        self._thread = ThreadPoolExecutor(1, "yoro-proposing", lower_priority)
        self._running: Future[None] | None = None

    @property
    def learning(self) -> bool:
        return self._running is not None and not self._running.done()

    def wake(self) -> None:
        """Learn, unless that is under way; it goes on until it is up to date."""
        if not self.learning:
            self._running = self._thread.submit(self._learn)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    def _learn(self) -> None:
        while self.at != self.desk.revision:
            revision = self.desk.revision
            with suppress(InputError):  # fewer than two classes have names
                self.desk.proposals()
            self.at = revision


def make_app(session: DeskSession, result: DeskResult, settings: ServeSettings, log: Log) -> Guard:
    """The page and its routes, behind the guard; pages of other sites may not even read what the API returns."""
    desk, learner = session.desk, ProposalLearner(session.desk)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        learner.wake()
        yield
        learner.close()

    app = FastAPI(title="YORO desk", lifespan=running, openapi_url=None, docs_url=None, redoc_url=None)
    mount_page(app, PAGE, "label")

    @app.get(f"{API}/state")
    def state() -> Response:
        return JSONResponse(state_of(desk, learner.learning))

    @app.get(f"{API}/photos")
    def photos(kind: str, key: str = "", offset: Annotated[int, Query(ge=0)] = 0) -> Response:
        return JSONResponse(photos_of(desk, kind, key, offset))

    @app.get(f"{API}/small/{{row}}")
    def small(row: int) -> Response:
        found = session.small(row)
        if found is None:
            raise RefusedError(404, "The file of this photo is gone.")
        return Response(found, media_type="image/jpeg", headers={"cache-control": "max-age=3600"})

    @app.post(f"{API}/step/{{verb}}")
    def step(verb: str, given: Given) -> Response:
        if verb not in STEPS:
            raise RefusedError(404, f"There is no step {verb!r}; expected one of {', '.join(STEPS)}.")
        told = STEPS[verb](desk, given)
        learner.wake()
        return JSONResponse({"told": told})

    @app.post(f"{API}/write")
    def write() -> Response:
        return JSONResponse({"told": result.write(session.labelled())})

    handle_errors(app)
    return Guard(app, settings, Access(private=API, headers=PAGE_HEADERS), log)


def open_desk(
    session: DeskSession, result: DeskResult, *, port: int, browse: bool, tell: Callable[[str], None], log: Log
) -> None:
    """Serve the page of a session until the process is told to stop."""
    settings = ServeSettings(port=port, most_megabytes=4)
    saved = f"its work in '{session.folder}'"
    serve_page(PAGE, saved, settings, lambda: make_app(session, result, settings, log), browse, tell)


def serve_page(
    page: str, saved: str, settings: ServeSettings, make: Callable[[], Guard], browse: bool, tell: Callable[[str], None]
) -> None:
    """Serve a page until the process is told to stop, and open it if wanted; only this machine can connect."""

    def build(_: None, address: str) -> Guard:
        tell(f"The {page.strip('/')} is at {address}{page} and saves {saved}; Ctrl-C stops it.")
        if browse:
            open_browser(f"{address}{page}")
        return make()

    run_server(settings, lambda: None, build)


def mount_page(app: FastAPI, address: str, verb: str) -> None:
    """Serve a page of this room at its address, and what it shares with the studio's."""
    page = address.strip("/")
    for room in ("desk", "studio"):
        app.mount(f"/{room}/page", StaticFiles(directory=Path(str(files(f"yoro.{room}") / "page"))))
    app.get("/")(lambda: RedirectResponse(address))
    app.get(address)(lambda: HTMLResponse(render(f"{page}.html", page=page, address=address, verb=verb)))


def state_of(desk: Desk, learning: bool) -> Json:
    """All that the page shows beside photos."""
    with desk.lock:
        places, counts = desk.places, Counter(label for label in desk.labels if label is not None)
        groups = [(group, len(rows), desk.members(group)[:COVERS]) for group, rows in desk.groups().items()]
        return {
            "photos": len(places),
            "labelled": counts.total(),
            "out": sum(place.group == OUT for place in places),
            "rest": len(desk.rest()),
            "decisions": desk.decisions,
            "groups": [{"group": group, "count": count, "covers": covers} for group, count, covers in groups],
            "classes": [{"label": name, "count": counts[name]} for name in sorted(counts)],
            "learning": learning,
            "undo": desk.done[-1].what if desk.done else None,
            "redo": desk.undone[-1].what if desk.undone else None,
            **_proposed(desk.latest),
        }


def _proposed(found: Proposals | None) -> Json:
    """What can be accepted at once, and what is to be checked."""
    if found is None or not len(found.rows):
        return {"sure": [], "check": [], "expected": None}
    sure = [{"rows": rows.tolist(), "expected": expected} for rows, expected in found.acceptable()]
    check = [{"label": label, "count": count, "wrong": wrong} for label, count, wrong in found.doubtful()]
    return {"sure": sure, "check": check, "expected": float(found.chances.mean())}


def photos_of(desk: Desk, kind: str, key: str, offset: int) -> Json:
    """The photos of a group, a class, a proposed class, the questions, the rest, or what is left out."""
    with desk.lock:
        latest = desk.latest
        told = [] if latest is None else zip(latest.rows.tolist(), latest.labels, latest.chances.tolist(), strict=True)
        chances = {row: (label, chance) for row, label, chance in told}
        rows = _rows_of(desk, latest, kind, key)
        shown = []
        for row in rows[offset : offset + SHOWN]:
            label, chance = chances.get(row, (desk.places[row].label, None))
            shown.append({"row": row, "name": desk.pile.names[row], "label": label, "chance": chance})
        return {"total": len(rows), "photos": shown}


def _rows_of(desk: Desk, latest: Proposals | None, kind: str, key: str) -> Sequence[int]:
    if kind == "group":
        return desk.members(int(key)) if key.isdecimal() else []
    if kind == "class":
        return desk.of_class(key)
    if kind == "check":
        return [] if latest is None else latest.of_class(key)[0].tolist()
    if kind == "ask":
        return desk.middles(QUESTIONS) if latest is None else latest.questions(desk.space, QUESTIONS)
    if kind == "rest":
        return desk.rest()
    if kind == "out":
        return desk.members(OUT)
    raise InputError(f"There are no photos of kind {kind!r}.")
