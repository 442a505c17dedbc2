"""What becomes of errors: a status of HTTP and a sentence."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from yoro.errors import InputError, YoroError, one_line
from yoro.http.refusals import RefusedError


def answer_errors(app: FastAPI) -> None:
    """Have every error of an application answered."""
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(YoroError, _failed)
    app.add_exception_handler(TimeoutError, _late)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _unknown)
    app.add_exception_handler(Exception, _broken)


def _said(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": sentence}, status_code=status, headers=headers)


async def _refused(_: Request, error: Any) -> Response:
    return _said(error.status, error.sentence, error.headers)


async def _failed(_: Request, error: Any) -> Response:
    """What is wrong with the data is the client's to mend; the rest is ours."""
    return _said(422 if isinstance(error, InputError) else 503, one_line(error))


async def _late(_: Request, error: Any) -> Response:
    return _said(503, "The answer took too long; try again later.", {"retry-after": "5"})


async def _invalid(_: Request, error: Any) -> Response:
    odd = error.errors()[0]
    return _said(422, f"{'.'.join(str(part) for part in odd['loc'])}: {odd['msg']}.")


async def _unknown(_: Request, error: Any) -> Response:
    return _said(error.status_code, f"{error.detail}.", dict(error.headers or {}))


async def _broken(_: Request, error: Any) -> Response:
    """A fault of ours or of a source's code; the guard writes it to the log."""
    return _said(500, f"The service failed ({type(error).__name__}); its log says more.")
