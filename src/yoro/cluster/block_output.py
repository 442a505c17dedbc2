"""`predict` and `respond` on Ray: every block becomes a file of rows; a resumed run reads the missing blocks only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from yoro.cluster.actors import BlockWork, Opening
from yoro.cluster.block_decoding import Decoding
from yoro.cluster.blocks import Block, cut, of_parts
from yoro.cluster.engine import begin, finished_before, whole_batches
from yoro.cluster.ray_data import Crew, run_blocks
from yoro.cluster.session import ray_session
from yoro.cluster.storage import is_ours, storage_at
from yoro.cluster.tables import AnswerWork, ResponseWork, counted_rows, join_tables, table_name
from yoro.cluster.tree import joined
from yoro.data.examples import SPLITS, Dataset
from yoro.data.find import find
from yoro.data.row_files import RowFiles, places_of, response_places
from yoro.errors import InputError, StoreError
from yoro.files.atomic import drafted_folder, remove_folder, write_file
from yoro.model.open_model import OpenModel
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import ClusterSettings, FitSettings, Loading, PipelineSettings, Tell
from yoro.trust.answering import Answerer


@dataclass(frozen=True)
class Written:
    """How many rows were written, and what could not be read."""

    rows: int
    skipped: list[tuple[str, str]]
    width: int = 0  # of a response


@dataclass(frozen=True)
class BlockOutput:
    """Where rows are written, and how images are read for them."""

    out: Path  # a file, if it ends in .parquet; else a folder of one file a block
    cluster: ClusterSettings
    loading: Loading
    resume: bool
    progress: bool
    tell: Tell

    @property
    def unfinished(self) -> Path:
        """The folder of the files that are not finished yet."""
        return self.out.with_name(f".{self.out.name}.part")


def predict_on_ray(
    classifier: OpenModel, data: object, task: BlockOutput, answerer: Answerer, source: str | None = None
) -> Written:
    """Rows of answers to images; `source` is the location of the backbone, if it has moved."""
    pipeline, origin = classifier.pipeline, classifier.model.origin
    work = AnswerWork(answerer)
    described: dict[str, object] = {**pipeline.describe(), "work": work.digest()}
    settings = PipelineSettings(source=source or origin.name)
    threads, batch = task.cluster.ray_threads, task.loading.batch_size
    opening = Opening(settings, threads, batch, pipeline.describe(), origin=origin, networks=classifier.model.answering)
    blocks = _blocks(data, task, described, labelled=False, from_here=True)
    return _write(blocks, task, opening, work, Decoding(dict(pipeline.geometry.config()), task.loading.strict, False))


def respond_on_ray(
    data: object, task: BlockOutput, chosen: PipelineSettings, *, labelled: bool, split: str | None
) -> Written:
    """Rows of responses to images."""
    pipeline = make_pipeline(chosen)
    opening = Opening(chosen, task.cluster.ray_threads, task.loading.batch_size, pipeline.describe())
    work = ResponseWork(pipeline.source.width, pipeline.origin().identity() or {}, labelled)
    described: dict[str, object] = {**pipeline.describe(), "labelled": labelled}
    blocks = _blocks(data, task, described, labelled=labelled, split=split)
    decoding = Decoding(dict(pipeline.geometry.config()), task.loading.strict, labelled)
    written = _write(blocks, task, opening, work, decoding)
    return Written(written.rows, written.skipped, pipeline.source.width)


def _write(blocks: list[Block], task: BlockOutput, opening: Opening, work: BlockWork, decoding: Decoding) -> Written:
    """Write a file for each block that has none yet, then put them in place."""
    unfinished, elsewhere = task.unfinished, task.cluster.ray_storage
    storage = begin(
        storage_at(elsewhere or str(unfinished)), unfinished, joined([block.digest for block in blocks]),
        resume=task.resume, shared=elsewhere is not None,
    )  # fmt: skip
    names = [table_name(block.index, block.digest) for block in blocks]
    there = storage.names()
    storage.remove(there - set(names))
    todo = [block for block, name in zip(blocks, names, strict=True) if name not in there]
    finished_before(len(blocks) - len(todo), len(blocks), task.tell)
    total = sum(len(block.examples) for block in todo) or None
    shown = tqdm(total=total, desc="reading", unit="img", disable=None if task.progress else True, leave=False)
    with shown as bar, ray_session(task.cluster, opening.settings.source, task.tell) as actors:
        crew = Crew(actors, task.cluster.ray_threads, opening, work, storage, decoding)
        for done in run_blocks(todo, crew):
            bar.update(done.images)
    if elsewhere is not None:
        for name in names:
            write_file(unfinished / name, storage.read(name))
    written = _put_in_place([unfinished / name for name in names], task)
    if elsewhere is not None:
        storage.discard()
    return written


def _blocks(
    data: object, task: BlockOutput, described: dict[str, object], *, labelled: bool, split: str | None = None,
    from_here: bool = False,
) -> list[Block]:  # fmt: skip
    """The data in blocks; `from_here` names files so that they can be found from here."""
    size = whole_batches(FitSettings(loading=task.loading, cluster=task.cluster))
    places = places_of(data)
    if places is None:
        found = find(data, labelled=labelled)
        chosen: Dataset = found if split is None else found.select(split)
        for note in found.notes:
            task.tell(note)
        return cut((chosen.from_here() if from_here else chosen).examples, size, described)
    if response_places(data) is not None:
        raise InputError(f"{places[0]} holds responses, not images.")
    marks = None if split is None else (SPLITS.get(split, split),)
    return of_parts(RowFiles(tuple(places), marks).parts(size), described)


def _put_in_place(files: list[Path], task: BlockOutput) -> Written:
    """Give the files their name: one file, or the folder."""
    if missing := [file for file in files if not file.exists()]:
        raise StoreError(
            f"{len(missing):,} of {len(files):,} files are not in {task.unfinished}: the machines that wrote them have "
            "it elsewhere. Name a place that all can write to: --ray-storage URL --resume."
        )
    count, skipped = counted_rows(files)
    if task.out.suffix.lower() == ".parquet":
        join_tables(files, task.out)
    else:
        with drafted_folder(task.out, own=is_ours) as draft:
            for file in files:
                (draft / file.name).hardlink_to(file)
    remove_folder(task.unfinished)
    return Written(count, skipped)
