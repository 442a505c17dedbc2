"""Actors: each holds a copy of the backbone, reads blocks of pixels, and writes one file per block."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from yoro.cluster.block_decoding import BlockRows, Columns, failed, unpacked
from yoro.cluster.storage import Storage
from yoro.cluster.tree import TreeNode
from yoro.data.responses import ResponseBatch
from yoro.discriminant.readings import Layout
from yoro.environment import refuse_telemetry
from yoro.errors import SourceError, YoroError
from yoro.mappings.batches import refuse_non_finite
from yoro.model.gathered import Gathered
from yoro.model.model import Origin
from yoro.model.pipeline import Pipeline, make_pipeline, reopen_pipeline
from yoro.model.settings import PipelineSettings
from yoro.model.shards import Shard
from yoro.model.views import BothViews


@dataclass(frozen=True)
class Opening:
    """How an actor opens the source: by the same name, and with the identity that it must then have."""

    settings: PipelineSettings
    threads: int
    batch_size: int
    described: Mapping[str, object]  # as the calling process describes its pipeline; that of an actor must be the same
    both_views: bool = False
    origin: Origin | None = None  # of a model, where that says how images are read
    networks: Collection[str] | None = None  # that are run; None is all

    def open(self) -> Pipeline:
        """The pipeline; one that differs from that of the calling process is an error."""
        refuse_telemetry()
        if self.origin is not None:
            chosen = self.settings
            opened = reopen_pipeline(self.origin, chosen.source, device=chosen.device, threads=self.threads)
            return opened if self.networks is None else opened.only(self.networks)
        pipeline = make_pipeline(self.settings, threads=self.threads)
        if self.both_views:
            pipeline = BothViews(pipeline)
        if json.dumps(pipeline.describe(), sort_keys=True) != json.dumps(self.described, sort_keys=True):
            raise SourceError(
                f"{self.settings.source!r} is another model on a machine of the cluster than here: its weights, its "
                "package or its code differ. Install the same everywhere."
            )
        return pipeline


class BlockWork(Protocol):
    """What an actor computes from the responses to a block."""

    def file_of(self, facts: BlockRows, batches: Iterator[ResponseBatch]) -> tuple[str, bytes]:
        """The name and content of the file of one block."""


@dataclass(frozen=True)
class GatherWork:
    """The work of a fit: a shard a block."""

    origin: Origin
    layout: Layout | None  # of the responses; None if that is known with the first of them
    reservoir: int
    seed: int
    noting: bool

    def file_of(self, facts: BlockRows, batches: Iterator[ResponseBatch]) -> tuple[str, bytes]:
        """The statistics, ledger and sample of a block."""
        gathered = Gathered.empty(self.reservoir, self.seed, self.layout, noting=self.noting)
        gathered.add(list(batches))
        gathered.skipped = [(name, why) for name, why in facts.failures]
        return TreeNode(0, facts.index, facts.digest).name, Shard(gathered, self.origin, (facts.digest,)).to_bytes()


class Actor:
    """One copy of the source, opened with the first block; without an opening, responses are taken as they are."""

    def __init__(self, opening: Opening | None, work: BlockWork, storage: Storage) -> None:
        self._opening, self._work, self._storage = opening, work, storage
        self._pipeline: Pipeline | None = None

    def __call__(self, columns: Columns) -> Columns:
        """Compute the responses of one block and write its file; only a small row is returned."""
        facts, array = unpacked(columns)
        error = facts.error
        if error is None:
            try:
                with threadpool_limits(1, user_api="blas"):  # the cores belong to the forward pass
                    name, content = self._work.file_of(facts, self._batches(facts, array))
                self._storage.write(name, content)
            except (YoroError, OSError) as problem:
                error = failed(facts.index, facts.digest, problem).error
        told = {"index": facts.index, "images": len(facts.positions) + len(facts.failures), "error": error}
        return {"told": np.array([json.dumps(told)])}

    def _batches(self, facts: BlockRows, array: NDArray[np.generic]) -> Iterator[ResponseBatch]:
        if self._pipeline is None and self._opening is not None:
            self._pipeline = self._opening.open()
        size = self._opening.batch_size if self._opening is not None else max(1, len(array))
        for part in facts.batches(size):
            rows: NDArray[Any] = array[part]
            responses = rows if self._pipeline is None else self._pipeline.respond(rows)
            names = facts.names[part]
            refuse_non_finite(responses, names)
            digests = [bytes.fromhex(digest) for digest in facts.digests[part]]
            yield ResponseBatch(responses, facts.labels[part], facts.groups[part], digests, names, facts.splits[part])
