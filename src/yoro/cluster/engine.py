"""Ray as an engine of the one pass: blocks to shards, shards to one; a resumed run reads the missing blocks only."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from yoro import limits
from yoro.cluster.actors import GatherWork, Opening
from yoro.cluster.block_decoding import Decoding, raised, told
from yoro.cluster.blocks import Block, cut, of_parts
from yoro.cluster.ray_data import Crew, run_blocks
from yoro.cluster.session import LOCAL, READ_SHARE, need_ray, ray_session, refuse_endpoint
from yoro.cluster.storage import RUN, Storage, storage_at
from yoro.cluster.tree import TreeNode, grow, left_over, missing, parent, ready
from yoro.data.examples import Example
from yoro.data.remote_files import patiently
from yoro.data.roles import Rows
from yoro.data.row_files import FilePart, RowFiles, response_places
from yoro.errors import InputError, StoreError, YoroError, counted
from yoro.files.atomic import remove_folder, write_file
from yoro.files.reading import read_bounded
from yoro.model.gathered import Gathered
from yoro.model.model import Origin
from yoro.model.one_pass import DataPart, ThisProcess, facts_of, origin_of
from yoro.model.pipeline import Pipeline
from yoro.model.settings import FitSettings, Tell
from yoro.model.shards import Shard, merged_from
from yoro.model.views import BothViews

PLAN = "plan.json"


class RayEngine:
    """The engine that reads data in blocks, on a Ray that runs as long as the pass."""

    lists_files = False

    def __init__(self, settings: FitSettings) -> None:
        """Refuse what no Ray can do, before anything is read."""
        need_ray()
        refuse_endpoint(settings.pipeline.source)
        if settings.refine:
            raise InputError("A prompt is trained on one machine: use --refine or --ray, not both.")

    def gather(self, parts: Sequence[DataPart], read_by: Pipeline | Origin, settings: FitSettings) -> Gathered:
        """See `Engine`; responses that are in no Parquet file are added up here."""
        facts = facts_of(read_by, settings)
        blocks = blocks_of(parts, whole_batches(settings), facts)
        if blocks is None:
            return ThisProcess().gather(parts, read_by, settings)
        solving, threads, opening = settings.solve, settings.cluster.ray_threads, None
        geometry: dict[str, object] | None = None
        if isinstance(read_by, Pipeline):
            both, batch = isinstance(read_by, BothViews), settings.loading.batch_size
            opening = Opening(settings.pipeline, threads, batch, read_by.describe(), both_views=both)
            geometry = dict(read_by.geometry.config())
        work = GatherWork(origin_of(read_by), read_by.layout, solving.reservoir, solving.seed, settings.ledger)
        decoding = Decoding(geometry, settings.loading.strict)
        with kept_in(settings) as storage:
            run = RunBlocks(blocks, storage, settings)  # refuses what cannot be done before Ray is started
            with ray_session(settings.cluster, settings.pipeline.source, settings.tell) as actors:
                return run.gather(Crew(actors, threads, opening, work, run.storage, decoding))


def whole_batches(settings: FitSettings) -> int:
    """Images of a block: whole batches, so that images are read together that one machine reads together."""
    batch = settings.loading.batch_size
    return max(1, settings.cluster.ray_block // batch) * batch


def blocks_of(parts: Sequence[DataPart], size: int, facts: Mapping[str, object]) -> list[Block] | None:
    """The blocks of images, or of files that are not listed; None of what has none."""
    if not parts:
        return None
    files, examples = list[FilePart](), list[Example]()
    for part in parts:
        if isinstance(part, list):
            examples += part
            continue
        if isinstance(part, Rows):
            places = response_places(part.data)
            if places is None or part.between is not None:
                return None
            part = RowFiles(tuple(places), None if part.marks is None else tuple(sorted(part.marks)))
        files += part.parts(size)
    return of_parts(files, facts) if files else cut(examples, size, facts)


@contextmanager
def kept_in(settings: FitSettings) -> Iterator[Storage]:
    """The place of the shards: as asked, the checkpoint, or for a Ray of this machine a folder that is then removed."""
    chosen = settings.cluster
    if chosen.ray_storage is not None or settings.checkpoint is not None:
        yield storage_at(chosen.ray_storage or str(settings.checkpoint))
        return
    if chosen.ray != LOCAL:
        raise InputError("A Ray cluster needs storage that all machines can write to: give ray_storage or checkpoint.")
    with tempfile.TemporaryDirectory(prefix="yoro-shards-") as folder:
        yield Storage(folder)


def begin(storage: Storage, note: Path | None, run: str, *, resume: bool, shared: bool = False) -> Storage:
    """The place of a run's files; in shared storage it is a folder of its own, which is noted beside the output.

    What another run of this output left is removed; with `resume` it is an error. Blocks that this run finished before
    are never thrown away without a word: without `resume` they are an error.
    """
    folder, mine = None, storage
    if note is not None and note.exists():
        known, folder = _known_run(note)
        mine = storage.inside(folder) if shared and folder else storage
        if resume and known is None:
            raise StoreError(
                f"{note} belongs to a run without --ray, or is damaged. Resume it without --ray, or start over without "
                "--resume."
            )
        if resume and known != run:
            raise StoreError(
                f"{note} belongs to another run: other images, settings or backbone. Start over without --resume."
            )
        if not resume and known == run and (done := len(mine.names())):
            raise StoreError(
                f"An interrupted run of this command left {counted(done, 'finished file')} behind. Add --resume to "
                f"keep them, or remove {note} to start over."
            )
    if not resume:
        if note is not None:
            remove_folder(note)
        if not shared:
            storage.clear()
        elif folder:
            mine.discard()
        folder = None
    if shared:
        folder = folder or (storage.run_folder(run) if resume else None) or f"{run[:20]}-{secrets.token_hex(4)}"
        storage = storage.inside(folder)
    if note is not None:
        note.mkdir(exist_ok=True)
        write_file(note / PLAN, json.dumps({"kind": "yoro-cluster", "run": run, "folder": folder}).encode())
    return storage


def _known_run(note: Path) -> tuple[object, str | None]:
    """The run that a folder belongs to, None if it is not of Ray, or damaged; and its folder in shared storage."""
    try:
        plan = json.loads(read_bounded(note / PLAN, limits.MODEL_CONFIG_BYTES))
        folder = str(plan.get("folder"))
        return plan["run"], folder if RUN.fullmatch(folder) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, None


def left_in_storage(place: str, note: Path) -> Storage | None:
    """The folder in shared storage of the run that is noted beside an output."""
    _, folder = _known_run(note)
    return None if folder is None else storage_at(place).inside(folder)


def finished_before(done: int, of: int, tell: Tell) -> None:
    """Report the blocks that are not read again."""
    if done:
        tell(f"{counted(done, 'block')} of {of:,} already finished; only the rest is read.")


class RunBlocks:
    """The blocks of one run: which of them are finished, and the sum of their shards."""

    def __init__(self, blocks: Sequence[Block], storage: Storage, settings: FitSettings) -> None:
        self._blocks, self._settings = blocks, settings
        self._levels = grow([block.digest for block in blocks])
        self._root = self._levels[-1][0]
        self._shared = settings.cluster.ray_storage is not None
        self.storage = storage = begin(
            storage, settings.checkpoint, self._root.digest, resume=settings.resume, shared=self._shared
        )
        names = storage.names()
        storage.remove(left_over(self._root, names))
        self._names = names - left_over(self._root, names)
        self._todo = missing(self._root, self._names)
        finished_before(len(blocks) - len(self._todo), len(blocks), settings.tell)

    def gather(self, crew: Crew) -> Gathered:
        """What was gathered of all blocks, added up in their order."""
        merging = Merging(self._levels, self.storage, self._names)
        todo = [self._blocks[i] for i in self._todo]
        total, hidden = sum(len(block.examples) for block in todo) or None, None if self._settings.progress else True
        with tqdm(total=total, desc="fitting", unit="img", disable=hidden, leave=False) as bar:
            for finished in run_blocks(todo, crew):
                bar.update(finished.images)
                merging.finished(self._levels[0][finished.index])
        merging.complete()
        gathered = read_whole(self.storage, self._root.name).gathered
        if self._shared and self._settings.checkpoint is None:  # nobody could find it again
            self.storage.discard()
        return gathered


class Merging:
    """Adds up shards in the background, as soon as all that belong together are there."""

    def __init__(self, levels: list[list[TreeNode]], storage: Storage, names: set[str]) -> None:
        self._levels, self._storage, self._names = levels, storage, set(names)
        self._running: dict[Any, TreeNode] = {}
        for node in ready(levels, self._names):
            self._start(node)

    def finished(self, node: TreeNode) -> None:
        """Note that a shard is there."""
        self._names.add(node.name)
        above = parent(self._levels, node)
        if above is not None and all(child.name in self._names for child in above.children):
            self._start(above)
        self._collect(0.0)

    def complete(self) -> None:
        """Wait until everything is added up."""
        while self._running:
            self._collect(None)

    def _start(self, node: TreeNode) -> None:
        import ray

        task = ray.remote(add_up).options(num_cpus=READ_SHARE)
        self._running[task.remote(self._storage, [child.name for child in node.children], node.name)] = node

    def _collect(self, patience: float | None) -> None:
        import ray

        done, _ = ray.wait(list(self._running), timeout=patience) if self._running else ([], [])
        for one in done:
            if problem := ray.get(one):
                raise raised(*problem)
            self.finished(self._running.pop(one))


def read_whole(storage: Storage, name: str) -> Shard:
    """A shard of the storage; a damaged one is removed, so that a resumed run makes it again."""
    content = storage.read(name)
    try:
        return Shard.from_bytes(content, name)
    except StoreError as error:
        storage.remove({name})
        raise StoreError(
            f"{error} It was removed from {storage.place}; run the same command with --resume to make it again."
        ) from error


def add_up(storage: Storage, children: list[str], name: str) -> tuple[str, str] | None:
    """Write the sum of shards, then remove them; returns the kind and text of an error, if there was one.

    Repeated after a kill between the two steps, it finds the sum and only removes.
    """
    try:
        if name not in patiently(storage.names):
            whole = merged_from(children, partial(read_whole, storage))
            storage.write(name, whole.to_bytes())
        storage.remove(set(children))
    except (YoroError, OSError) as error:
        return told(error)
    return None
