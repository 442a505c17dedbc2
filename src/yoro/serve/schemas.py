"""What the service accepts and returns, as FastAPI describes it in /openapi.json."""

from __future__ import annotations

from typing import (
    Annotated,
    Any,
    NotRequired,  # pydantic needs these before Python 3.12
)

from pydantic import Field
from typing_extensions import TypedDict

from yoro.http.settings import ServeSettings

Version = Annotated[str, Field(description="Version of the model that answered.")]
Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class Error(TypedDict):
    """A refusal: what came, what was expected, what to do."""

    error: str


class Best(TypedDict):
    """One of the best classes of an image."""

    label: str
    probability: Probability


class Prediction(TypedDict):
    """The prediction for one image, or why it could not be read."""

    name: str
    error: NotRequired[str]
    label: NotRequired[str | None]
    probability: NotRequired[Probability]
    top: NotRequired[list[Best]]
    typicality: NotRequired[Probability]
    labels: NotRequired[list[str]]


class Predictions(TypedDict):
    """Predictions in the order of the images."""

    version: Version
    predictions: list[Prediction]


class ImageResponse(TypedDict):
    """The response of the network to one image, or why it could not be read."""

    name: str
    error: NotRequired[str]
    response: NotRequired[list[float]]


class Responses(TypedDict):
    """Responses in the order of the images."""

    version: Version
    width: Count
    responses: list[ImageResponse]


class Feedback(TypedDict):
    """How many images were added, and how many the model already had."""

    added: Count
    known: Count
    examples: Count
    version: Version


class ModelFacts(TypedDict):
    """The model in use."""

    version: Version
    classes: list[str]
    counts: dict[str, Count]
    examples: Count
    source: str
    width: Count
    side: Count
    shrinkage: float
    temperature: float
    feedback: bool
    error: NotRequired[Annotated[str | None, Field(description="Why the changed model on disk is not in use.")]]


class SourceFacts(TypedDict):
    """The backbone in use."""

    version: Version
    source: dict[str, Any]
    width: Count
    readings: dict[str, Any]


class Health(TypedDict):
    """That the service answers."""

    status: str


VERSION = "5d41402abc4b2a76"
EXAMPLES: dict[Any, dict[str, Any]] = {
    Predictions: {
        "version": VERSION,
        "predictions": [{"name": "a.jpg", "label": "tulip", "probability": 0.98}, {"name": "b", "error": "..."}],
    },
    Responses: {"version": VERSION, "width": 3, "responses": [{"name": "a.jpg", "response": [0.5, -1.25, 3]}]},
    Feedback: {"added": 1, "known": 0, "examples": 121, "version": VERSION},
    ModelFacts: {
        "version": VERSION, "classes": ["rose", "tulip"], "counts": {"rose": 60, "tulip": 60}, "examples": 120,
        "source": "embedded:lite0", "width": 1000, "side": 224, "shrinkage": 0.1, "temperature": 1.0,
        "feedback": False,
    },
    SourceFacts: {"version": VERSION, "source": {"side": 224}, "width": 1000, "readings": {"views": 1}},
    Health: {"status": "ok"},
}  # fmt: skip
REFUSALS = {
    400: "Not a valid HTTP request.",
    401: "The token is missing or wrong.",
    403: "Wrong host (DNS rebinding), or a cross-site request.",
    408: "The body did not arrive in time.",
    413: "The body is too large, or has too many images.",
    415: "The content type is not supported.",
    422: "No image of the request can be read, or a parameter is out of range.",
    429: "The queue is full; the header Retry-After says when to try again.",
    503: "The model cannot answer now.",
}
ONE_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"  # of a red PNG
)


def described(answer: Any = None, images: ServeSettings | None = None) -> dict[str, Any]:
    """Arguments of a route that returns `answer` as JSON (None: text) and may take images, within those settings."""
    statuses = REFUSALS if images else (400, 401, 403)
    responses: dict[int, Any] = {status: {"description": REFUSALS[status], "model": Error} for status in statuses}
    responses[200] = {
        "content": {"text/plain": {"schema": {"type": "string"}}}
        if answer is None
        else {"application/json": {"example": EXAMPLES[answer]}}
    }
    body = {} if images is None else {"openapi_extra": {"requestBody": _images_body(images.most_images)}}
    return {"response_model": answer, "responses": responses, **body}


def _images_body(most: int) -> dict[str, Any]:
    """The content types in which images may be sent; requests are parsed by `http.uploads`, not by FastAPI."""

    def several(item: dict[str, str]) -> dict[str, Any]:
        images = {"type": "array", "minItems": 1, "maxItems": most, "items": item}
        return {"type": "object", "properties": {"images": images}, "required": ["images"]}

    binary = {"type": "string", "format": "binary"}
    text = {"type": "string", "contentEncoding": "base64"}
    return {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": several(binary)},
            "application/json": {"schema": several(text), "example": {"images": [ONE_PIXEL]}},
            **{kind: {"schema": binary} for kind in ("image/jpeg", "image/png", "application/octet-stream")},
        },
    }
