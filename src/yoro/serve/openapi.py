"""The service described for programs: what may be sent, what comes back, and an example of each."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from yoro.http.settings import ServeSettings

Schema = dict[str, Any]

BINARY: Schema = {"type": "string", "format": "binary"}
PROBABILITY: Schema = {"type": "number", "minimum": 0, "maximum": 1}
ONE_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"  # of a red PNG
)
REFUSALS = {
    "400": "What came is no HTTP.",
    "401": "The token is missing or wrong.",
    "403": "The request names another host, or comes from a page of another site.",
    "408": "The body did not come in time.",
    "413": "The body is too large, or holds too many images.",
    "415": "The content type is none of those described.",
    "422": "No image of the request can be read, or a parameter is out of its range.",
    "429": "Too many images are waiting; the header Retry-After says when to come again.",
    "503": "The model cannot answer now.",
}


def _objects(properties: Schema, *needed: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(needed)}


def _body(settings: ServeSettings) -> Schema:
    """The forms in which images may come."""
    most = {"type": "array", "minItems": 1, "maxItems": settings.most_images}
    form = _objects({"images": {**most, "items": BINARY}}, "images")
    text = _objects({"images": {**most, "items": {"type": "string", "contentEncoding": "base64"}}}, "images")
    return {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": form},
            "application/json": {"schema": text, "example": {"images": [ONE_PIXEL]}},
            **{kind: {"schema": BINARY} for kind in ("image/jpeg", "image/png", "application/octet-stream")},
        },
    }


NAMED = {"name": {"type": "string"}, "error": {"type": "string"}}
BEST = _objects({"label": {"type": "string"}, "probability": PROBABILITY}, "label", "probability")
PREDICTION = _objects(
    {
        **NAMED,
        "label": {"type": ["string", "null"]},
        "probability": PROBABILITY,
        "top": {"type": "array", "items": BEST},
        "typicality": PROBABILITY,
        "labels": {"type": "array", "items": {"type": "string"}},
    },
    "name",
)
RESPONSE = _objects({**NAMED, "response": {"type": "array", "items": {"type": "number"}}}, "name")
VERSION: Schema = {"type": "string", "description": "Which state of the model answered."}
COUNT: Schema = {"type": "integer", "minimum": 0}
ERROR = _objects({"error": {"type": "string"}}, "error")
ANSWERS: dict[str, tuple[Schema, Schema]] = {  # by path: what comes back, and an example
    "/v1/predict": (
        _objects({"version": VERSION, "predictions": {"type": "array", "items": PREDICTION}}, "version", "predictions"),
        {
            "version": "5d41402abc4b2a76",
            "predictions": [{"name": "a.jpg", "label": "tulip", "probability": 0.98}, {"name": "b", "error": "..."}],
        },
    ),
    "/v1/responses": (
        _objects(
            {"version": VERSION, "width": COUNT, "responses": {"type": "array", "items": RESPONSE}},
            "version", "width", "responses",
        ),
        {"version": "5d41402abc4b2a76", "width": 3, "responses": [{"name": "a.jpg", "response": [0.5, -1.25, 3]}]},
    ),
    "/v1/feedback": (
        _objects({"added": COUNT, "known": COUNT, "examples": COUNT, "version": VERSION}, "added", "known", "examples"),
        {"added": 1, "known": 0, "examples": 121, "version": "5d41402abc4b2a76"},
    ),
    "/v1/model": (
        _objects(
            {
                "version": VERSION,
                "classes": {"type": "array", "items": {"type": "string"}},
                "counts": {"type": "object", "additionalProperties": COUNT},
                "examples": COUNT,
                "source": {"type": "string"},
                "width": COUNT,
                "side": COUNT,
                "shrinkage": {"type": "number"},
                "temperature": {"type": "number"},
                "feedback": {"type": "boolean"},
                "error": {"type": ["string", "null"]},
            },
            "version", "classes", "source",
        ),
        {"version": "5d41402abc4b2a76", "classes": ["rose", "tulip"], "examples": 120, "source": "embedded:lite0"},
    ),
    "/v1/source": (
        _objects(
            {
                "version": VERSION,
                "source": {"type": "object"},
                "width": COUNT,
                "readings": {"type": "object"},
            },
            "version", "source", "width",
        ),
        {"version": "5d41402abc4b2a76", "source": {"side": 224}, "width": 1000, "readings": {"views": 1}},
    ),
    "/healthz": (_objects({"status": {"type": "string"}}, "status"), {"status": "ok"}),
}  # fmt: skip


def described(app: FastAPI, settings: ServeSettings, token: bool) -> Schema:
    """The whole description; parameters are as the routes declare them."""
    page = app.openapi()
    page.get("components", {}).pop("schemas", None)  # of errors as FastAPI would write them
    for path, methods in page["paths"].items():
        for method, operation in methods.items():
            operation["responses"] = _responses(path, method == "post")
            if method == "post":
                operation["requestBody"] = _body(settings)
            if token and path != "/healthz":
                operation["security"] = [{"token": []}]
    if token:
        page.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return page


def _responses(path: str, takes_images: bool) -> Schema:
    refusals = REFUSALS if takes_images else {status: REFUSALS[status] for status in ("400", "401", "403")}
    told = {status: {"description": said, "content": _content(ERROR)} for status, said in refusals.items()}
    if path not in ANSWERS:
        return {"200": {"description": "Text.", "content": {"text/plain": {"schema": {"type": "string"}}}}, **told}
    schema, example = ANSWERS[path]
    return {"200": {"description": "The answer.", "content": _content(schema, example)}, **told}


def _content(schema: Schema, example: Schema | None = None) -> Schema:
    return {"application/json": {"schema": schema} | ({} if example is None else {"example": example})}
