"""What a method of the bench is given: the images, responses and sentences of one cell; and what it hands back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from yoro.bench.cells import Cell
from yoro.bench.datasets.contract import BenchDataset
from yoro.bench.datasets.drawing import Drawn
from yoro.bench.methods.options import NoOptions
from yoro.bench.response_cache import Shelf
from yoro.bench.results import Epoch
from yoro.bench.sentences import Origin, make_sentences
from yoro.data.examples import Example
from yoro.discriminant.selection import Validation
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError
from yoro.mappings.batches import class_codes
from yoro.model.ledger import Ledger
from yoro.model.one_pass import Gathered
from yoro.model.pipeline import Pipeline
from yoro.model.solve import solve
from yoro.model.store import Model
from yoro.peers.contract import Method, Task, check_scores, make_ready, make_task
from yoro.sources.contract import is_dual
from yoro.text.encoded_bank import Wording


@dataclass(frozen=True)
class Answer:
    """What a method found out; the fields are those of `Result`."""

    correct: int
    seconds: float
    passes: int
    validation: tuple[int, int] | None = None
    depth: int | None = None
    shrinkage: float | None = None
    selected_on: Literal["validation", "test"] | None = None
    epochs: tuple[Epoch, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ground:
    """One cell with everything it needs.

    shelf : responses of all its images.
    sentences : what an image-text source compares images with; more than one where a method reads several banks.
    scratch : a folder for the checkpoints of a training, which may have been interrupted before.
    """

    cell: Cell
    dataset: BenchDataset
    drawn: Drawn
    pipeline: Pipeline
    shelf: Shelf
    sentences: tuple[Origin, ...]
    scratch: Path
    device: str = "auto"
    progress: bool = False

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, sorted."""
        return tuple(sorted({example.label or "" for example in self.drawn.train}))

    @cached_property
    def wording(self) -> Wording | None:
        """The sentences of an image-text source, with their vectors; None for any other source."""
        source, reading = self.pipeline.source, self.cell.reading
        if not is_dual(source) or reading.read == "features" or not self.sentences:
            return None
        return make_sentences(source, self.classes, self.sentences[0], reading.sentences, self.progress)

    def task(self) -> Task:
        """The cell as the methods of `yoro.peers` take it."""
        words, drawn = self.wording, self.drawn
        return make_task(
            self.shelf.responses(drawn.train), labels(drawn.train), validation=self.validation,
            texts=None if words is None else words.by_class(), scale=100.0 if words is None else words.scale,
            seed=self.cell.seed,
        )  # fmt: skip

    @property
    def validation(self) -> Validation | None:
        """Responses and labels to validate on."""
        held = self.drawn.val
        return (self.shelf.responses(held), labels(held)) if held else None

    @property
    def pass_seconds(self) -> float:
        """What one forward pass over the training images takes: their share of the pass that all methods share."""
        return self.shelf.seconds_an_image * len(self.drawn.train)

    def right(self, model: Model, examples: Sequence[Example]) -> int:
        """How many images the model answers rightly, by their responses on the shelf."""
        return int((model.mapping.predict(self.shelf.responses(examples)) == labels(examples)).sum())


def labels(examples: Sequence[Example]) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """The labels (n,)."""
    return np.array([example.label or "" for example in examples], dtype=np.str_)


def fit_one_pass(ground: Ground) -> tuple[Model, float]:
    """The paper's one-pass predictor by the product's own path, and the seconds that it took after the pass."""
    validation, wording = ground.validation, ground.wording  # texts are encoded before the clock starts
    if validation is None:
        raise InputError("There are no validation images to choose the shrinkage by.")
    started = time.perf_counter()
    gathered = Gathered(ResponseStatistics(), Ledger(), None)
    with threadpool_limits(1, user_api="blas"):
        gathered.absorb(ground.shelf.stream(ground.drawn.train))
        model = solve(gathered, "validation", "empirical", "paper", validation=validation, wording=wording)
    described = ground.pipeline.describe()
    model.source, model.prompt, model.transform = described["source"], described["prompt"], described["transform"]
    model.prompt_arrays = dict(ground.pipeline.prompt.arrays())
    return model, time.perf_counter() - started


def run_one_pass(ground: Ground, _: NoOptions) -> Answer:
    """YORO: one pass, the shrinkage by validation."""
    model, seconds = fit_one_pass(ground)
    held, test = ground.drawn.val, ground.drawn.test
    return Answer(
        ground.right(model, test), ground.pass_seconds + seconds, 1,
        (ground.right(model, held), len(held)), shrinkage=model.choice.shrinkage,
    )  # fmt: skip


def fit_responses(method: Method, ground: Ground, _: NoOptions) -> Answer:
    """A method of `yoro.peers` on the shared responses."""
    task = ground.task()
    make_ready(method, task)
    with threadpool_limits(1, user_api="blas"):
        started = time.perf_counter()
        scorer = method.fit(task)
        seconds = time.perf_counter() - started
        test = ground.drawn.test
        scores = scorer(ground.shelf.responses(test).astype(np.float64))
    check_scores(scores, len(test), len(task.classes))
    correct = int((scores.argmax(axis=1) == class_codes(labels(test).tolist(), task.classes)).sum())
    return Answer(correct, ground.pass_seconds + seconds, method.passes)
