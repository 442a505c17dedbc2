"""The model that work starts from: loading it, checking it, and what is known of its training images."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from yoro import limits
from yoro.errors import InputError, YoroError, one_line
from yoro.http.uploads import Upload
from yoro.model.model import Model
from yoro.model.store import OWN, read_model
from yoro.studio.state import Brought


@dataclass(frozen=True)
class Base:
    """A model to start from, and what is known of its training images."""

    key: str
    model: Model
    brought: Brought
    whole: bool  # whether the response of every image is kept, each by itself


def base_of(key: str, model: Model) -> Base:
    """A model with what is known of its training images."""
    members, statistics = model.members(), model.statistics
    counts = {name: round(count) for name, count in zip(statistics.classes, statistics.counts.tolist(), strict=True)}
    kept = Counter([] if members is None else members.labels.tolist())
    removable = frozenset(name for name, count in counts.items() if kept[name] == count)
    labels = {content.hex(): label for content, label in reversed(model.ledger.entries())}  # of several the first
    alone = members is not None and not any(members.groups) and bool((members.weights == 1.0).all())
    whole = alone and len(labels) == len(model.ledger) == kept.total() == statistics.total
    return Base(key, model, Brought(labels, counts, removable), whole)


def check_openable(model: Model, name: str) -> None:
    """Raise if the studio cannot start from a model."""
    wrong = (
        (not model.origin.images, "was fitted on responses, not on images"),
        (model.words is not None, "uses class descriptions"),
        (not isinstance(model.prior, str), "has a custom class prior"),
        (model.statistics.total == 0, "was fitted without images (zero-shot)"),
    )
    said = next((why for odd, why in wrong if odd), "")
    if said:
        raise InputError(f"The studio cannot open the model {name!r}: it {said}. Use `yoro update`.")


def sent_model(uploads: Sequence[Upload]) -> tuple[Model, str]:
    """The model in uploaded files (those of its directory, or a zip archive of it), and its name."""
    parts = {_last(upload.name): upload.content for upload in uploads}
    named = uploads[0].name.rpartition("/")[0]
    if len(uploads) == 1 and uploads[0].name.lower().endswith(".zip"):
        parts, named = _unzipped(uploads[0]), uploads[0].name.removesuffix(".zip")
    name = _last(named).removesuffix(".yoro")[: limits.TAUGHT_LABEL] or "model"
    if "config.json" not in parts:
        raise InputError("No model found; expected the files of a .yoro directory, or a zip archive of it.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.yoro"
        path.mkdir()
        for part in OWN & set(parts):
            (path / part).write_bytes(parts[part])
        try:
            return read_model(path), name
        except YoroError as error:
            raise InputError(one_line(error).replace(str(path), name)) from None


def _unzipped(upload: Upload) -> dict[str, bytes]:
    """The files of a model in an archive, in whatever folder; nothing else is unpacked."""
    room, parts = limits.STUDIO_MODEL_BYTES, dict[str, bytes]()
    try:
        with zipfile.ZipFile(io.BytesIO(upload.content)) as archive:
            for member in archive.infolist():
                if (name := _last(member.filename)) in OWN:
                    with archive.open(member) as stream:
                        parts[name] = stream.read(room + 1)
                    room -= len(parts[name])
                    if room < 0:
                        most = limits.STUDIO_MODEL_BYTES
                        raise InputError(f"The model has more than {most:,} bytes; open it with `yoro studio M.yoro`.")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise InputError(f"'{upload.name}' cannot be read as an archive: {one_line(error)}") from None
    return parts


def _last(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]
