"""Rows written as CSV, JSON, JSON lines or Parquet, to a file or to stdout."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from yoro.environment import install
from yoro.errors import StoreError, plain
from yoro.files.atomic import drafted_file

if TYPE_CHECKING:
    from pandas import DataFrame

Row = dict[str, object]
FORMULA = frozenset("=+-@\t\r")  # with these a spreadsheet begins to compute


def write_rows(rows: Iterator[Row], kind: str, path: Path | None) -> int:
    """Write every row and return their number; a file appears whole or not at all."""
    count = 0

    def counted() -> Iterator[Row]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    if path is None:
        FORMATS[kind](map(_tamed, counted()) if sys.stdout.isatty() else counted(), sys.stdout)
    else:
        with drafted_file(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
            FORMATS[kind](counted(), file)
    return count


def data_frame(rows: Sequence[Row]) -> DataFrame:
    """Rows as a table of pandas."""
    try:
        import pandas
    except ImportError:
        raise StoreError(f"A pandas DataFrame needs pandas: {install('plot')}") from None
    return pandas.DataFrame(list(rows))


def _tamed(row: Row) -> Row:
    """A row that is safe to print on a terminal: control characters in file names are escaped."""
    return {key: plain(value) if isinstance(value, str) else value for key, value in row.items()}


def _csv(rows: Iterator[Row], file: TextIO) -> None:
    writer = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow({key: _cell(value) for key, value in row.items()})


def _cell(value: object) -> object:
    """A cell that a spreadsheet shows as text: what begins like a formula gets an apostrophe in front of it."""
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULA else value


def _json(rows: Iterator[Row], file: TextIO) -> None:
    before = "[\n"
    for row in rows:
        file.write(before + json.dumps(row, ensure_ascii=False))
        before = ",\n"
    file.write("[\n]\n" if before == "[\n" else "\n]\n")


def _jsonl(rows: Iterator[Row], file: TextIO) -> None:
    for row in rows:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _parquet(rows: Iterator[Row], file: TextIO) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise StoreError(f"Parquet needs pyarrow: {install('bench')}.") from None
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), file.buffer)


FORMATS: dict[str, Callable[[Iterator[Row], TextIO], None]] = {
    "csv": _csv, "json": _json, "jsonl": _jsonl, "parquet": _parquet,
}  # fmt: skip
