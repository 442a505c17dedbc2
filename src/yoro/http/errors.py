"""Errors as HTTP responses: a status, and one sentence on what came, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from yoro.errors import InputError, YoroError, one_line


class RefusedError(Exception):
    """A request that is refused, with the HTTP status that says so."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})

    def response(self) -> Response:
        return JSONResponse({"error": self.sentence}, status_code=self.status, headers=self.headers)


def busy(what: str, seconds: int) -> RefusedError:
    """Backpressure: there is no room now, and the client is told when to retry."""
    return RefusedError(429, f"{what}; try again in {seconds} s.", {"retry-after": str(seconds)})


def handle_errors(app: FastAPI) -> None:
    """Answer every error of an application with JSON."""

    async def handle(_: Request, error: Exception) -> Response:
        return refusal_of(error).response()

    expected = (RefusedError, YoroError, TimeoutError, ClientDisconnect, RequestValidationError, HTTPException)
    for kind in (*expected, Exception):
        app.add_exception_handler(kind, handle)


def refusal_of(error: Any) -> RefusedError:
    """The status and the sentence for an error: 4xx if the client can fix it, 5xx if only we can."""
    match error:
        case RefusedError():
            return error
        case YoroError():
            return RefusedError(422 if isinstance(error, InputError) else 503, one_line(error))
        case ClientDisconnect():
            return RefusedError(499, "The client closed the connection.")
        case TimeoutError():
            return RefusedError(503, "The answer took too long; try again later.", {"retry-after": "5"})
        case RequestValidationError():
            first = error.errors()[0]
            return RefusedError(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}.")
        case HTTPException():
            return RefusedError(error.status_code, f"{error.detail}.", error.headers)
        case _:  # a bug, ours or of a backbone; the guard logs the traceback
            return RefusedError(500, f"The server failed ({type(error).__name__}); its log says more.")
