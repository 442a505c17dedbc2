"""CSV and JSONL lists of images: columns path (or file_name), label, split, group."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from yoro.data.examples import SPLITS, Dataset, Example, class_name, shown
from yoro.errors import InputError

DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = frozenset({".jsonl", ".ndjson"})
LONGEST_LINE = 1 << 16  # characters; a longer line is no list of ours, and must not fill the memory

Row = Mapping[str, object]


def is_list(path: Path) -> bool:
    """Whether a file name has the suffix of a list."""
    return path.suffix.lower() in DELIMITERS or path.suffix.lower() in JSON_LINES


def find_listed(path: Path, *, labelled: bool = True) -> Dataset:
    """Examples of a list file, sorted by class, then path; paths are relative to the list's own folder."""
    rows = _json_rows if path.suffix.lower() in JSON_LINES else _csv_rows
    examples = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for where, row in rows(file, path):
                examples.append(_example(row, where, path.parent, labelled))
    except (UnicodeDecodeError, csv.Error, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"'{shown(path)}' cannot be read as a list: {error}. Expected UTF-8 CSV or JSONL.") from error
    if not examples:
        raise InputError(f"'{shown(path)}' lists no image; expected a header path,label[,split][,group] and rows.")
    examples.sort(key=lambda example: (example.label or "", example.name))
    return Dataset(tuple(examples))


def _csv_rows(file: TextIO, path: Path) -> Iterator[tuple[str, Row]]:
    """Each row as column name to text, with its place; the header is row 1."""
    reader = csv.reader(_lines(file, path), delimiter=DELIMITERS[path.suffix.lower()], strict=True)
    header = [name.strip().lower() for name in next(reader, [])]
    for number, fields in enumerate(reader, start=2):
        where = f"'{shown(path)}', row {number}"
        if not fields:
            continue
        if len(fields) != len(header):
            raise InputError(f"{where} has {len(fields)} fields, the header {len(header)}: {', '.join(header)}.")
        yield where, dict(zip(header, fields, strict=True))


def _json_rows(file: TextIO, path: Path) -> Iterator[tuple[str, Row]]:
    for number, line in enumerate(_lines(file, path), start=1):
        where = f"'{shown(path)}', line {number}"
        if not line.strip():
            continue
        row = json.loads(line)
        if not isinstance(row, dict):
            raise InputError(f"{where} is {type(row).__name__}, expected an object with path and label.")
        yield where, {str(key).strip().lower(): value for key, value in row.items()}


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise InputError(f"'{shown(path)}', line {number} is longer than {LONGEST_LINE} characters; is it a list?")
        yield line


def _example(row: Row, where: str, folder: Path, labelled: bool) -> Example:
    columns = ", ".join(row) or "none"
    key = "path" if "path" in row else "file_name"
    if key not in row:
        raise InputError(f"{where}: there is no column 'path' (or 'file_name'); columns seen: {columns}.")
    path = row[key]
    if not isinstance(path, str) or not path.strip():
        raise InputError(f"{where} has no path.")
    if labelled and "label" not in row:
        raise InputError(f"{where}: there is no column 'label'; columns seen: {columns}.")
    label = _text(row.get("label"), "label", where) if labelled else None
    if labelled and label is None:
        raise InputError(f"{where} ('{path}') has no label; give one or remove the row.")
    return Example(
        folder / path,
        None if label is None else class_name(label),
        shown(path),
        group=_text(row.get("group"), "group", where),
        split=_split(_text(row.get("split"), "split", where), where),
    )


def _text(value: object, column: str, where: str) -> str | None:
    """The text of a cell; None if it is empty. Integers become text, anything else is refused."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{where}: {column} is {value!r}, expected text or an integer.")
    return str(value).strip() or None


def _split(name: str | None, where: str) -> str | None:
    if name is None:
        return None
    if name.lower() not in SPLITS:
        raise InputError(f"{where}: split is '{name}', expected one of {', '.join(SPLITS)}.")
    return SPLITS[name.lower()]
