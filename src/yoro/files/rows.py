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
    if path is None:
        shown = map(_tamed, rows) if sys.stdout.isatty() else rows
        return FORMATS[kind](iter(shown), sys.stdout)
    with drafted_file(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        return FORMATS[kind](rows, file)


def data_frame(rows: Sequence[Row]) -> DataFrame:
    """Rows as a table of pandas."""
    try:
        import pandas
    except ImportError:
        raise StoreError(f"A pandas DataFrame needs pandas: {install('plot')}") from None
    return pandas.DataFrame(list(rows))


def _tamed(row: Row) -> Row:
    """A row for a terminal, which must not obey what a stranger named a file."""
    return {key: plain(value) if isinstance(value, str) else value for key, value in row.items()}


def _csv(rows: Iterator[Row], file: TextIO) -> int:
    count, writer = 0, None
    for row in rows:
        count += 1
        if writer is None:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow({key: _cell(value) for key, value in row.items()})
    return count


def _cell(value: object) -> object:
    """A cell that a spreadsheet shows as text: what begins like a formula gets an apostrophe in front of it."""
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULA else value


def _json(rows: Iterator[Row], file: TextIO) -> int:
    count = 0
    file.write("[")
    for row in rows:
        count += 1
        file.write(("\n" if count == 1 else ",\n") + json.dumps(row, ensure_ascii=False))
    file.write("\n]\n")
    return count


def _jsonl(rows: Iterator[Row], file: TextIO) -> int:
    count = 0
    for row in rows:
        count += 1
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return count


def _parquet(rows: Iterator[Row], file: TextIO) -> int:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise StoreError(f"Parquet needs pyarrow: {install('bench')}.") from None
    table = pyarrow.Table.from_pylist(list(rows))
    parquet.write_table(table, file.buffer)
    return int(table.num_rows)


FORMATS: dict[str, Callable[[Iterator[Row], TextIO], int]] = {
    "csv": _csv, "json": _json, "jsonl": _jsonl, "parquet": _parquet,
}  # fmt: skip
