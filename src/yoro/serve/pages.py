"""What people see of the service: the page to try it, its API described, and the way from a wrong address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from yoro.errors import InputError
from yoro.http.guard import HOST
from yoro.http.server import add_file
from yoro.http.settings import ServeSettings
from yoro.model.model import Json
from yoro.reports.page import render
from yoro.serve.served_model import Served
from yoro.web.page_export import described_model

FACTS = "/model.json"
KINDS = {"css": "text/css", "html": "text/html; charset=utf-8", "js": "text/javascript", "svg": "image/svg+xml"}
SHARED = ("index.html", "style.css", "icon.svg", "app.js", "list.js", "answer.js", "files.js", "camera.js")
OWN = ("remote.js",)
OPEN = frozenset({"/", "/docs", *(f"/{name}" for name in (*SHARED, *OWN))})  # these hold nothing of the model
METHODS = ("get", "post")
SHOWN_STATUSES = 8


def page_facts(served: Served) -> Json:
    """What the page must know of the model; takes a while when it is first asked."""
    try:
        measure = served.strangeness
    except InputError:  # it keeps no responses, or too few
        measure = None
    return described_model(served.classifier, measure) | {"service": True}


def add_pages(app: FastAPI, settings: ServeSettings, *, tryable: bool, token: bool) -> None:
    """The files of the page, the description of the API, and what an unknown address is told.

    tryable : whether there is a model to try; without one the description is the first page.
    """
    description = app.openapi()
    hidden = partial(app.get, include_in_schema=False)
    for name in (*SHARED, *OWN) if tryable else ("style.css", "icon.svg"):
        content = (files("yoro.serve" if name in OWN else "yoro.web") / "page" / name).read_bytes()
        add_file(app, "/" if name == "index.html" else f"/{name}", content, KINDS[name.rpartition(".")[2]])
    if not tryable:
        hidden("/")(lambda: RedirectResponse("docs"))
    routes = sorted(_routes(description), key=lambda route: (route["method"] != "POST", route["path"]))

    @hidden("/docs")
    async def docs(request: Request) -> Response:
        lines = [_curl(settings, request, token=token, image=route["image"], path=route["path"]) for route in routes]
        shown = [route | {"curl": line} for route, line in zip(routes, lines, strict=True)]
        return Response(render("api.html", routes=shown, token=token, tryable=tryable), media_type=KINDS["html"])

    names = [f"{route['method']} {route['path']}" for route in routes]

    async def lost(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = "/v1/predict" if tryable else "/v1/responses"
        line = _curl(settings, request, token=token, image=True, path=path)
        said = f"There is no {request.method} {request.url.path[:200]} here; try: {line}"
        content = {"error": said, "routes": names, "pages": ["/", "/docs"], "curl": line}
        return JSONResponse(content, error.status_code, error.headers)

    for status in (404, 405):
        app.add_exception_handler(status, lost)


def _curl(settings: ServeSettings, request: Request, *, token: bool, image: bool, path: str) -> str:
    """A command that works as it stands, but for the photo and the token."""
    said = request.headers.get("host", "")
    host = said if HOST.fullmatch(said) else f"{settings.host}:{settings.port}"
    parts = ["curl", *(["-H 'Authorization: Bearer TOKEN'"] if token and path != "/healthz" else [])]
    if image:
        parts.append("-F images=@photo.jpg")
    address = f"http://{host}{path}"
    return " ".join([*parts, f"'{address}?label=NAME'" if path == "/v1/feedback" else address])


def _routes(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The routes as a person reads them."""
    for path, methods in description["paths"].items():
        for method in METHODS:
            if method not in methods:
                continue
            route = methods[method]
            content = route["responses"]["200"].get("content", {})
            example = content.get("application/json", {}).get("example")
            yield {
                "method": method.upper(),
                "path": path,
                "said": route.get("description", ""),
                "parameters": [_parameter(one) for one in route.get("parameters", [])],
                "image": "requestBody" in route,
                "bodies": list(route.get("requestBody", {}).get("content", {})),
                "example": None if example is None else json.dumps(example, indent=1),
                "refusals": [
                    (code, said["description"])
                    for code, said in list(route["responses"].items())[: SHOWN_STATUSES + 1]
                    if code != "200"
                ],
            }


def _parameter(one: dict[str, Any]) -> dict[str, Any]:
    schema = one["schema"]
    kinds = [part["type"] for part in schema.get("anyOf", [schema]) if part.get("type", "null") != "null"]
    usual = None if schema.get("default") is None else f"default {json.dumps(schema['default'])}"
    return {
        "name": one["name"],
        "kind": kinds[0] if kinds else "",
        "usual": "required" if one.get("required") else usual,
        "said": one.get("description", ""),
    }
