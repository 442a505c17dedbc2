"""Files of a page, held in memory and given at fixed addresses."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import Response


def add_file(app: FastAPI, path: str, content: bytes, kind: str) -> None:
    """Give a file at an address."""

    async def file() -> Response:
        return Response(content, media_type=kind)

    app.get(path, include_in_schema=False)(file)
