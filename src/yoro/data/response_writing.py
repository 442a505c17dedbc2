"""Writing response files: rows go to disk as they come, so that memory does not grow with them."""

from __future__ import annotations

import io
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from yoro.data.responses import ResponseBatch
from yoro.errors import InputError
from yoro.files.atomic import drafted_file


def write_responses(path: Path, batches: Iterable[ResponseBatch], width: int, *, labelled: bool = True) -> int:
    """Write `responses`, `labels`, `groups` and `names`; the number of rows. The file appears whole or not at all."""
    labels: list[str] = []
    groups: list[str] = []
    names: list[str] = []
    with drafted_file(path) as draft, tempfile.TemporaryFile(dir=path.parent) as rows:
        for batch in batches:
            rows.write(np.ascontiguousarray(batch.responses, dtype=np.float32).tobytes())
            labels += batch.labels or []
            groups += batch.groups or []
            names += batch.names
        if not names:
            raise InputError("No image could be read, so there are no responses to write.")
        columns = (
            {"names": names} | ({"labels": labels} if labelled else {}) | ({"groups": groups} if any(groups) else {})
        )
        rows.seek(0)
        with zipfile.ZipFile(draft, "x", zipfile.ZIP_STORED, allowZip64=True) as archive:
            _copy(archive, rows, (len(names), width))
            for name, column in columns.items():
                _add(archive, name, np.array(column, dtype=np.str_))
    return len(names)


def _copy(archive: zipfile.ZipFile, rows: IO[bytes], shape: tuple[int, int]) -> None:
    with archive.open("responses.npy", "w", force_zip64=True) as member:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(member, header)
        shutil.copyfileobj(rows, member, 1 << 20)


def _add(archive: zipfile.ZipFile, name: str, column: NDArray[np.str_]) -> None:
    content = io.BytesIO()
    npy.write_array(content, column, allow_pickle=False)
    archive.writestr(f"{name}.npy", content.getvalue())
