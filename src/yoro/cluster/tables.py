"""Answers and responses of blocks as Parquet: one file a block, whole or not there; it says what could not be read."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from yoro.cluster.block_decoding import BlockRows
from yoro.data.parquet_files import IDENTITY
from yoro.data.responses import ResponseBatch
from yoro.errors import InputError
from yoro.files.atomic import drafted_file
from yoro.model.question import Question
from yoro.trust.answering import Answerer

SKIPPED = b"yoro.skipped"


def table_name(index: int, digest: str) -> str:
    """The name of the file of a block, with its digest, so that a file of other data is not mistaken for it."""
    return f"{index:09d}-{digest[:20]}.parquet"


@dataclass(frozen=True)
class AnswerWork:
    """The work of a prediction: rows of answers."""

    answerer: Answerer

    def digest(self) -> str:
        """Of all that the rows depend on besides the responses."""
        mapping, choice = self.answerer.model.mapping, self.answerer.model.choice
        asked = {f.name: getattr(self.answerer.question, f.name) for f in fields(Question)}
        told = [asked, self.answerer.sets and self.answerer.sets.n, choice.temperature, mapping.classes]
        hasher = hashlib.sha256(json.dumps(told, default=str).encode())
        for array in (mapping.weights, mapping.bias):
            hasher.update(np.ascontiguousarray(array).tobytes())
        return hasher.hexdigest()

    def file_of(self, facts: BlockRows, batches: Iterator[ResponseBatch]) -> tuple[str, bytes]:
        """The answers to a block."""
        import pyarrow as arrow

        answerer, question = self.answerer, self.answerer.question
        rows = [answer.row() for batch in batches for answer in answerer.answer(batch.responses, batch.names)]
        columns: list[tuple[str, Any]] = [("path", arrow.string())]
        for rank in range(1, min(question.top, len(answerer.model.mapping.classes)) + 1):
            suffix = "" if rank == 1 else f"_{rank}"
            columns += [(f"label{suffix}", arrow.string()), (f"probability{suffix}", arrow.float64())]
        columns += [("typicality", arrow.float64())] if answerer.measure is not None else []
        columns += [("labels", arrow.list_(arrow.string()))] if answerer.sets is not None else []
        table = arrow.Table.from_pylist(rows, schema=arrow.schema(columns))
        return table_name(facts.index, facts.digest), _bytes(table, facts, {})


@dataclass(frozen=True)
class ResponseWork:
    """The work of `respond`: rows of responses, which a fit takes as data."""

    width: int
    identity: Mapping[str, object] = field(default_factory=dict)
    labelled: bool = True

    def file_of(self, facts: BlockRows, batches: Iterator[ResponseBatch]) -> tuple[str, bytes]:
        """The responses to a block."""
        import pyarrow as arrow

        found = [np.asarray(batch.responses, dtype=np.float32) for batch in batches]
        values = np.concatenate(found) if found else np.empty((0, self.width), dtype=np.float32)
        columns = {
            "name": arrow.array(facts.names, arrow.string()),
            "response": arrow.FixedSizeListArray.from_arrays(arrow.array(values.ravel()), self.width),
            "group": arrow.array([group or None for group in facts.groups], arrow.string()),
            "split": arrow.array([split or None for split in facts.splits], arrow.string()),
        }
        if self.labelled:
            columns["label"] = arrow.array(facts.labels, arrow.string())
        told = {IDENTITY: json.dumps(self.identity, ensure_ascii=False).encode()}
        return table_name(facts.index, facts.digest), _bytes(arrow.table(columns), facts, told)


def _bytes(table: Any, facts: BlockRows, told: Mapping[bytes, bytes]) -> bytes:
    from pyarrow import parquet

    content = io.BytesIO()
    skipped = json.dumps(facts.failures, ensure_ascii=False).encode()
    parquet.write_table(table.replace_schema_metadata({**told, SKIPPED: skipped}), content, compression="zstd")
    return content.getvalue()


def counted_rows(files: list[Path]) -> tuple[int, list[tuple[str, str]]]:
    """How many rows files have, and what could not be read, in their order."""
    from pyarrow import parquet

    count, skipped = 0, list[tuple[str, str]]()
    for file in files:
        facts = parquet.read_metadata(file)
        count += facts.num_rows
        skipped += [(name, why) for name, why in json.loads((facts.metadata or {}).get(SKIPPED, b"[]"))]
    if not count:
        raise InputError(f"No image could be read{f'; the first: {skipped[0][1]}' if skipped else '.'}")
    return count, skipped


def join_tables(files: list[Path], out: Path) -> None:
    """One file of the rows of many, which appears whole or not at all."""
    from pyarrow import parquet

    schema = parquet.read_schema(files[0])
    told = {key: value for key, value in (schema.metadata or {}).items() if key != SKIPPED}
    schema = schema.with_metadata(told)
    with drafted_file(out) as draft, parquet.ParquetWriter(draft, schema, compression="zstd") as writer:
        for file in files:
            writer.write_table(parquet.read_table(file).replace_schema_metadata(told))
