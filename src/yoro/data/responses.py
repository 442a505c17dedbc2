"""Response files: `.npz` archives of responses, labels, groups and splits, never held whole."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from yoro import limits
from yoro.data.examples import SPLITS, class_name, storable
from yoro.errors import InputError, one_line
from yoro.files.atomic import drafted_file
from yoro.mappings.batches import refuse_non_finite, row_digests

ROWS = 2048  # responses read at a time


@dataclass(frozen=True)
class ResponseBatch:
    """Some responses in order: (b, width) with what is known of each."""

    responses: NDArray[np.floating]
    labels: list[str] | None
    groups: list[str] | None
    digests: list[bytes]
    names: list[str]  # what a person calls each: a path, or a row of a file
    splits: list[str] | None = None  # train, val or test; "" for none

    def __len__(self) -> int:
        return len(self.names)

    def take(self, rows: Sequence[int]) -> ResponseBatch:
        labels, groups, splits = (c and [c[i] for i in rows] for c in (self.labels, self.groups, self.splits))
        digests, names = [self.digests[i] for i in rows], [self.names[i] for i in rows]
        return ResponseBatch(self.responses[rows], labels, groups, digests, names, splits)

    def marked(self, marks: Collection[str]) -> ResponseBatch:
        """Those of some splits, "" for those without one."""
        splits: Sequence[str] = self.splits or [""] * len(self)
        return self.take([i for i, split in enumerate(splits) if split in marks])

    def of_classes(self, classes: Collection[str]) -> ResponseBatch:
        """Those whose label is one of some classes."""
        return self.take([i for i, label in enumerate(self.labels or []) if label in classes])


@contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    """Turn whatever goes wrong within into an error that names the file."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # Python's readers of archives, arrays and their headers raise a dozen kinds
        if "pickle" in str(error) or "Object arrays" in str(error):
            reason = f"{what} are Python objects, which are not read for safety; save them as strings or numbers"
            raise InputError(f"{path}: {reason}.") from None
        raise InputError(f"{path}: the array {what!r} is damaged ({one_line(error)}).") from None


class ResponseFile:
    """An open response file; `batches` reads it from front to back.

    Uncompressed responses are read by offset and compressed ones streamed: memory does not
    grow with the number of rows. Nothing in the file is executed; object arrays are refused.
    """

    def __init__(self, path: str | Path, *, labelled: bool = True) -> None:
        self.path = Path(path)
        self._archive = _open_archive(self.path)
        try:
            self._member = self._find("responses")
            with _reading(self.path, "responses"), self._archive.open(self._member) as stream:
                self._header = _read_header(stream, self.path)
            self._check_size()
            self.labels = self._column("labels", required=labelled)
            self.groups = self._column("groups", required=False)
            self.names = self._column("names", required=False)
            self.splits = self._splits()
            self.identity = self._identity()
        except BaseException:
            self._archive.close()
            raise

    def __len__(self) -> int:
        return self._header.rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    @property
    def width(self) -> int:
        return self._header.width

    def batches(self, rows: int = ROWS) -> Iterator[ResponseBatch]:
        """The file in order; a response with NaN or infinity is an error that names its row."""
        start = 0
        for block in self._blocks(rows):
            stop = start + len(block)
            try:
                refuse_non_finite(block)
            except InputError as error:
                raise type(error)(f"{self.path}, rows {start} to {stop - 1}: {error}") from None
            columns = (self.labels, self.groups, self.splits, self.names)
            labels, groups, splits, named = (None if c is None else c[start:stop].tolist() for c in columns)
            names = named or [f"{self.path.name}#{i}" for i in range(start, stop)]
            yield ResponseBatch(block, labels, groups, row_digests(block), names, splits)
            start = stop

    def _blocks(self, rows: int) -> Iterator[NDArray[np.floating]]:
        head = self._header
        with _reading(self.path, "responses"), self._archive.open(self._member) as stream:
            _read_header(stream, self.path)
            if head.fortran:
                yield from _rows_of_columns(stream, head, rows, self.path)
                return
            for start in range(0, head.rows, rows):
                count = min(rows, head.rows - start)
                content = _read_exactly(stream, count * head.width * head.dtype.itemsize, self.path)
                block = np.frombuffer(content, dtype=head.dtype).reshape(count, head.width)
                yield block if block.dtype.isnative else block.astype(head.dtype.newbyteorder("="))

    def _find(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._archive.getinfo(f"{name}.npy")
        except KeyError:
            inside = ", ".join(sorted(n.removesuffix(".npy") for n in self._archive.namelist())[:8]) or "nothing"
            raise InputError(
                f"{self.path} has no array {name!r}; it holds {inside}. "
                "A response file is made by numpy.savez(path, responses=..., labels=...)."
            ) from None

    def _column(self, name: str, *, required: bool) -> NDArray[np.str_] | None:
        if not required and f"{name}.npy" not in self._archive.namelist():
            return None
        info = self._find(name)
        if info.file_size > limits.ARCHIVE_COLUMN_BYTES:
            raise InputError(f"{self.path}: the array {name!r} has {info.file_size:,} bytes, which is too large.")
        with _reading(self.path, name), self._archive.open(info) as stream:
            column = npy.read_array(stream, allow_pickle=False)
        if column.dtype.kind not in "USiu":
            raise InputError(f"{self.path}: {name} have type {column.dtype}; expected names or integers.")
        if column.shape != (len(self),):
            raise InputError(
                f"{self.path} holds {len(self)} responses but {name} of shape {column.shape}; expected one each."
            )
        with _reading(self.path, name):
            text = np.char.decode(column, "utf-8") if column.dtype.kind == "S" else column.astype(np.str_)
            text.tolist()  # numpy itself accepts invalid code points
        if name == "labels":
            return checked_labels(text, str(self.path))
        return np.array([storable(item) for item in text.tolist()], dtype=np.str_)

    def _identity(self) -> dict[str, object] | None:
        """Where the responses come from, if the file says so."""
        if "identity.npy" not in self._archive.namelist():
            return None
        info = self._archive.getinfo("identity.npy")
        with _reading(self.path, "identity"), self._archive.open(info) as stream:
            if info.file_size > limits.ARCHIVE_IDENTITY_BYTES:
                raise ValueError(f"it has {info.file_size:,} bytes")
            value = json.loads(str(npy.read_array(stream, allow_pickle=False)))
        if not isinstance(value, dict):
            raise InputError(f"{self.path}: the description of its source is not a JSON object.")
        return value

    def _splits(self) -> NDArray[np.str_] | None:
        """The split of each row by its one spelling, where the file tells."""
        column = self._column("splits", required=False)
        if column is None:
            return None
        odd = sorted(set(column.tolist()) - {*SPLITS, ""})
        if odd:
            raise InputError(f"{self.path}: a split is {odd[0]!r}; expected one of {', '.join(SPLITS)}, or nothing.")
        return np.array([SPLITS.get(name, "") for name in column.tolist()], dtype=np.str_)

    def _check_size(self) -> None:
        head = self._header
        if self._member.file_size - head.length != head.rows * head.width * head.dtype.itemsize:
            raise InputError(f"{self.path} is truncated: its responses do not fill the shape {head.rows, head.width}.")


@dataclass(frozen=True)
class _Header:
    rows: int
    width: int
    dtype: np.dtype[np.generic]
    fortran: bool
    length: int


def _open_archive(path: Path) -> zipfile.ZipFile:
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    try:
        return zipfile.ZipFile(path)
    except Exception as error:  # see `_reading`
        reason = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        raise InputError(
            f"{path} is not a response file{reason}; expected an .npz archive with the arrays 'responses' and 'labels'."
        ) from None


def _read_header(stream: IO[bytes], path: Path) -> _Header:
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.kind not in "fiu" or dtype.itemsize > 8:
        raise InputError(f"{path}: responses have type {dtype}; expected float16, float32 or float64.")
    if len(shape) != 2 or shape[1] == 0:
        raise InputError(f"{path}: responses have shape {shape}; expected (n, width).")
    if shape[1] > limits.RESPONSE_WIDTH:
        raise InputError(f"{path}: responses have width {shape[1]:,}; at most {limits.RESPONSE_WIDTH:,} are read.")
    return _Header(shape[0], shape[1], dtype, fortran, stream.tell())


def _rows_of_columns(stream: IO[bytes], head: _Header, rows: int, path: Path) -> Iterator[NDArray[np.floating]]:
    """Blocks of rows of an array whose columns lie together: laid out on disk, then picked column by column."""
    size = head.dtype.itemsize
    with tempfile.TemporaryFile() as file:
        for _ in range(head.width):
            file.write(_read_exactly(stream, head.rows * size, path))
        for start in range(0, head.rows, rows):
            count = min(rows, head.rows - start)
            block = np.empty((count, head.width), dtype=head.dtype.newbyteorder("="))
            for column in range(head.width):
                file.seek((column * head.rows + start) * size)
                block[:, column] = np.frombuffer(file.read(count * size), dtype=head.dtype)
            yield block


def _read_exactly(stream: IO[bytes], count: int, path: Path) -> bytes:
    content = stream.read(count)
    if len(content) != count:
        raise InputError(f"{path} is truncated: it ends in the middle of its responses.")
    return content


def checked_labels(labels: NDArray[np.str_], where: str) -> NDArray[np.str_]:
    """Labels by the one spelling of each class; an empty one is an error."""
    spelling = {name: class_name(name) for name in set(labels.tolist())}
    if "" in spelling.values():
        row = next(i for i, name in enumerate(labels.tolist()) if not spelling[name])
        raise InputError(f"{where}: the label of row {row} is empty.")
    if all(name == spelled for name, spelled in spelling.items()):
        return labels
    return np.array([spelling[name] for name in labels.tolist()], dtype=np.str_)


def write_responses(
    path: Path,
    batches: Iterable[ResponseBatch],
    width: int,
    *,
    labelled: bool = True,
    identity: Mapping[str, object] | None = None,
) -> int:
    """Write `responses`, `names`, and `labels`, `groups` and `splits` where there are any; the number of rows.

    `identity` says where the responses come from, so that they are not taken for those of another source.

    Rows go to disk as they come, so that memory does not grow with them. The file appears whole or not at all.
    """
    columns: dict[str, list[str]] = {"names": [], "labels": [], "groups": [], "splits": []}
    with drafted_file(path) as draft, tempfile.TemporaryFile(dir=path.parent) as rows:
        for batch in batches:
            rows.write(np.ascontiguousarray(batch.responses, dtype=np.float32).tobytes())
            for name, column in columns.items():
                column += getattr(batch, name) or []
        count = len(columns["names"])
        if not count:
            raise InputError("No image could be read, so there are no responses to write.")
        told = [name for name, column in columns.items() if any(column) and (labelled or name != "labels")]
        rows.seek(0)
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            with archive.open("responses.npy", "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": (count, width)})
                shutil.copyfileobj(rows, member, 1 << 20)
            for name in told:
                _add(archive, name, np.array(columns[name], dtype=np.str_))
            if identity is not None:
                _add(archive, "identity", np.array(json.dumps(identity, ensure_ascii=False), dtype=np.str_))
    return count


def _add(archive: zipfile.ZipFile, name: str, column: NDArray[np.str_]) -> None:
    content = io.BytesIO()
    npy.write_array(content, column, allow_pickle=False)
    archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())  # without the time: equal data, equal bytes
