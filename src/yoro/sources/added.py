"""Names of your own for ONNX files: what `yoro models add` recorded on this machine.

A name stands for `onnx:PATH` with options, and for the digest of the file. A model that is fitted on it records what it
stands for, since nobody else knows the name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from platformdirs import user_config_path

from yoro import limits
from yoro.errors import SourceError, StoreError, did_you_mean
from yoro.files.atomic import write_file
from yoro.files.reading import read_table, refuse_damaged
from yoro.sources.names import SourceName, parse_name

KIND, FORMAT = "added network", 1
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


@dataclass(frozen=True)
class AddedNetwork:
    """An ONNX file under a name; `options` are those of `onnx:PATH`."""

    name: str
    path: str  # absolute
    options: Mapping[str, str]
    digest: str = ""  # sha256; empty before it is known
    side: int = 0
    width: int = 0  # of its logits

    @property
    def source(self) -> SourceName:
        """What the name stands for."""
        query = "&".join(f"{key}={value}" for key, value in self.options.items())
        text = f"onnx:{self.path}{'?' if query else ''}{query}"
        parsed = parse_name(text, ("onnx",), ())
        if (parsed.rest, parsed.options) != (self.path, self.options):
            raise SourceError(f"{text!r} does not name one file: a '?' or '&' in it has a meaning. Rename the file.")
        return SourceName(text, "onnx", self.path, self.options, self.digest)


def added_names() -> list[str]:
    """The names that were added, sorted."""
    return sorted(path.stem for path in _folder().glob("*.json") if NAME.fullmatch(path.stem))


def added_source(name: str) -> SourceName | None:
    """What a name stands for that was added on this machine; None if it was not."""
    return read_added(name).source if NAME.fullmatch(name) and _record(name).exists() else None


def read_added(name: str) -> AddedNetwork:
    """The network that was added under a name; a record that makes no sense is a StoreError."""
    path = _record(name)
    table = cast(Any, read_table(path, KIND, FORMAT, limits.ADDED_FILE_BYTES))
    with refuse_damaged(path):
        options = {str(key): str(value) for key, value in table["options"].items()}
        where, digest, side, width = str(table["path"]), str(table["digest"]), int(table["side"]), int(table["width"])
        return AddedNetwork(name, where, options, digest, side, width)


def check_new(name: str, *, force: bool) -> None:
    """Raise if a name cannot be given to a network, or is taken and `force` does not replace it."""
    if not NAME.fullmatch(name):
        raise SourceError(f"A network cannot be named {name!r}; use at most 40 of a-z, 0-9, '-' and '_'.")
    if _record(name).exists() and not force:
        raise SourceError(f"There is a network {name!r} already. Choose another name, or replace it with --force.")


def write_added(network: AddedNetwork) -> None:
    """Record a network under its name."""
    path = _record(network.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps({"kind": KIND, "format": FORMAT, **asdict(network)}, indent=1).encode())
    except (OSError, StoreError) as error:
        raise SourceError(f"Cannot write {str(path)!r}: {error}. Set YORO_CONFIG to another directory.") from error


def remove_network(name: str) -> None:
    """Forget a name that was added; the file it stands for stays."""
    known = added_names()
    if name not in known:
        raise SourceError(f"No network was added as {name!r}. {did_you_mean(name, known)}")
    _record(name).unlink()


def _folder() -> Path:
    """Of the records: in `$YORO_CONFIG`, else in the user's configuration directory of the platform."""
    own = os.environ.get("YORO_CONFIG")
    return (Path(own).expanduser() if own else user_config_path("yoro", appauthor=False)) / "networks"


def _record(name: str) -> Path:
    return _folder() / f"{name}.json"
