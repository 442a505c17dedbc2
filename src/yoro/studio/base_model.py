"""A model that work begins with: read, checked, and what it brings along."""

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
    """A model to begin with, and what is known of its images."""

    key: str
    model: Model
    brought: Brought
    whole: bool  # whether the response of every image is kept, each by itself


def base_of(key: str, model: Model) -> Base:
    """What a model brings along."""
    members, statistics = model.members(), model.statistics
    counts = {name: round(count) for name, count in zip(statistics.classes, statistics.counts.tolist(), strict=True)}
    kept = Counter([] if members is None else members.labels.tolist())
    removable = frozenset(name for name, count in counts.items() if kept[name] == count)
    labels = {content.hex(): label for content, label in reversed(model.ledger.entries())}  # of several the first
    alone = members is not None and not any(members.groups) and bool((members.weights == 1.0).all())
    whole = alone and len(labels) == len(model.ledger) == kept.total() == statistics.total
    return Base(key, model, Brought(labels, counts, removable), whole)


def check_openable(model: Model, name: str) -> None:
    """Raise if the studio cannot go on with a model."""
    wrong = (
        (not model.origin.images, "was fitted on responses, not on images"),
        (model.words is not None, "answers by sentences, too"),
        (not isinstance(model.prior, str), "answers by shares of classes that were given to it"),
        (model.statistics.total == 0, "was fitted on no image"),
    )
    said = next((why for odd, why in wrong if odd), "")
    if said:
        raise InputError(f"The model {name!r} {said}, which the studio cannot go on with; use `yoro update`.")


def sent_model(uploads: Sequence[Upload]) -> tuple[Model, str]:
    """The model of the files of its directory, or of a zip archive of it as the studio makes one; and its name."""
    parts = {_last(upload.name): upload.content for upload in uploads}
    named = uploads[0].name.rpartition("/")[0]
    if len(uploads) == 1 and uploads[0].name.lower().endswith(".zip"):
        parts, named = _unzipped(uploads[0]), uploads[0].name.removesuffix(".zip")
    name = _last(named).removesuffix(".yoro")[: limits.TAUGHT_LABEL] or "model"
    if "config.json" not in parts:
        raise InputError("There is no model in this: expected the files of a .yoro directory, or a zip archive of it.")
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
    """The files of a model in an archive, whatever folder they lie in; nothing else is unpacked."""
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
                        raise InputError(f"The model has more than {most:,} bytes; give it on the command line.")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise InputError(f"'{upload.name}' cannot be read as an archive: {one_line(error)}") from None
    return parts


def _last(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]
