"""Writing response files: rows go to disk as they come, so that memory does not grow with them."""

from __future__ import annotations

import io
import secrets
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from yoro.data.responses import ResponseBatch
from yoro.errors import InputError, StoreError


def write_responses(path: Path, batches: Iterable[ResponseBatch], width: int, *, labelled: bool = True) -> int:
    """Write `responses`, `labels`, `groups` and `names`; the number of rows. The file appears whole or not at all."""
    token = secrets.token_hex(4)
    rows, draft = (path.with_name(f".{path.name}.{token}.{part}") for part in ("rows", "tmp"))
    labels: list[str] = []
    groups: list[str] = []
    names: list[str] = []
    try:
        with rows.open("xb") as file:
            for batch in batches:
                file.write(np.ascontiguousarray(batch.responses, dtype=np.float32).tobytes())
                labels += batch.labels or []
                groups += batch.groups or []
                names += batch.names
        if not names:
            raise InputError("No image could be read, so there are no responses to write.")
        columns = (
            {"names": names} | ({"labels": labels} if labelled else {}) | ({"groups": groups} if any(groups) else {})
        )
        with zipfile.ZipFile(draft, "x", zipfile.ZIP_STORED, allowZip64=True) as archive:
            _copy(archive, rows, (len(names), width))
            for name, column in columns.items():
                _add(archive, name, np.array(column, dtype=np.str_))
        draft.replace(path)
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror or error}.") from error
    finally:
        rows.unlink(missing_ok=True)
        draft.unlink(missing_ok=True)
    return len(names)


def _copy(archive: zipfile.ZipFile, rows: Path, shape: tuple[int, int]) -> None:
    with archive.open("responses.npy", "w", force_zip64=True) as member, rows.open("rb") as content:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(member, header)
        shutil.copyfileobj(content, member, 1 << 20)


def _add(archive: zipfile.ZipFile, name: str, column: NDArray[np.str_]) -> None:
    content = io.BytesIO()
    npy.write_array(content, column, allow_pickle=False)
    archive.writestr(f"{name}.npy", content.getvalue())
