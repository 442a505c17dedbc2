"""Parquet and WebDataset files of photographs, as others write them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image


def photos_of(folder: Path) -> list[tuple[Path, str]]:
    """Files and labels in the order in which a fit finds them."""
    return [(path, path.parent.name) for path in sorted(folder.glob("*/*.jpg"))]


def write_parquet(path: Path, rows: list[dict[str, object]], group: int = 1000) -> Path:
    import pyarrow as arrow
    from pyarrow import parquet

    parquet.write_table(arrow.Table.from_pylist(rows), path, row_group_size=group)
    return path


def write_tar(path: Path, photos: list[tuple[Path, str]], label: str = "cls") -> Path:
    """A WebDataset shard: an image and its label beside it."""
    with tarfile.open(path, "w") as archive:
        for i, (photo, name) in enumerate(photos):
            told = f'{{"label": "{name}"}}' if label == "json" else name
            for ending, content in (("jpg", photo.read_bytes()), (label, told.encode())):
                info = tarfile.TarInfo(f"part/{i:05d}.{ending}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def pixels_of(photo: Path) -> dict[str, object]:
    """The columns of an image that is decoded already."""
    pixels = np.asarray(Image.open(photo))
    return {"pixels": pixels.tobytes(), "height": pixels.shape[0], "width": pixels.shape[1]}
