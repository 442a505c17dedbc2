"""The input of a bench method: the images, responses and sentences of one cell."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.geometry import Augmentation, Looks
from yoro.discriminant.evidence import Validation
from yoro.model.model import Model
from yoro.model.pipeline import Pipeline
from yoro.model.settings import STRICT
from yoro.refining.images import LabelledImages
from yoro.research.bench.cells import BenchCell
from yoro.research.bench.datasets.attribute_files import read_templates
from yoro.research.bench.datasets.dataset import BenchDataset
from yoro.research.bench.datasets.drawing import Drawn
from yoro.research.bench.response_cache import ResponseCache
from yoro.research.peers.method import FitTask, make_task
from yoro.sources.protocol import DualEncoder, is_dual
from yoro.text.banks import Bank, fill_template, match_classes, read_sentences
from yoro.text.encoded_bank import EncodedBank, encode_bank, make_encoded_bank
from yoro.text.settings import SentenceSettings

# "templates", "names", one template with {name} in it, a bank {class: [sentences]} in JSON, or templates in a text file
Origin = str | Path
CROPS = Augmentation(scale=(0.5, 1.0), ratio=(3 / 4, 4 / 3))  # published with Tip-Adapter
CROPS_AT_ONCE = 64
SEED = 0  # of the draw of sentences: a plan has the same bank for every seed


@dataclass(frozen=True)
class Context:
    """One cell with everything it needs."""

    cell: BenchCell
    dataset: BenchDataset
    drawn: Drawn
    pipeline: Pipeline
    cache: ResponseCache  # responses of all its images
    sentences: tuple[Origin, ...]  # texts of an image-text source; several where a method reads several banks
    scratch: Path  # a folder for training checkpoints, possibly of an interrupted run
    device: str = "auto"
    progress: bool = False

    @cached_property
    def classes(self) -> tuple[str, ...]:
        return tuple(sorted({example.label or "" for example in self.drawn.train}))

    @cached_property
    def words(self) -> EncodedBank | None:
        """The sentences of an image-text source, with their vectors; None for any other source."""
        source, inputs = self.pipeline.source, self.cell.inputs
        if not is_dual(source) or inputs.read == "features" or not self.sentences:
            return None
        return make_sentences(source, self.classes, self.sentences, inputs.sentences, self.progress)

    def task(self) -> FitTask:
        """The cell as a task for the methods of `yoro.research.peers`."""
        words, drawn = self.words, self.drawn
        return make_task(
            self.cache.responses(drawn.train), labels(drawn.train), validation=self.validation,
            texts=None if words is None else words.by_class(), scale=100.0 if words is None else words.scale,
            seed=self.cell.seed,
        )  # fmt: skip

    @property
    def validation(self) -> Validation | None:
        held = self.drawn.val
        return (self.cache.responses(held), labels(held)) if held else None

    @property
    def pass_seconds(self) -> float:
        """Seconds of one forward pass over the training images: their share of the passes that all methods share.

        A timed cell makes the pass once more, by itself.
        """
        if not self.cell.inputs.timed:
            return self.cache.seconds_of(self.drawn.train)
        started = time.perf_counter()
        for _ in self.pipeline.stream(self.drawn.train, STRICT):
            pass
        return time.perf_counter() - started

    def viewed(self, views: int) -> NDArray[np.floating]:
        """The mean response (n, width) of so many random views of each training image, as Tip-Adapter makes them."""
        images = LabelledImages(self.drawn.train, self.classes, self.pipeline.geometry)

        def one_pass(number: int) -> NDArray[np.floating]:
            looks: Looks = lambda image: partial(CROPS.draw, (self.cell.seed, number, image))  # noqa: E731
            batches = images.batches(CROPS_AT_ONCE, looks=looks)
            return np.concatenate([self.pipeline.respond(pixels) for pixels, _ in batches])

        mean: NDArray[np.floating] = np.mean([one_pass(number) for number in range(views)], axis=0)
        return mean

    def right(self, model: Model, examples: Sequence[Example]) -> int:
        """How many images the model classifies correctly, by their cached responses."""
        return int((model.mapping.predict(self.cache.responses(examples)) == labels(examples)).sum())


def labels(examples: Sequence[Example]) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """The labels (n,)."""
    return np.array([example.label or "" for example in examples], dtype=np.str_)


def is_list(origin: Origin) -> bool:
    """Whether this is a text file of templates."""
    return isinstance(origin, Path) and origin.suffix.lower() == ".txt"


def make_sentences(
    source: DualEncoder, classes: Iterable[str], origins: Sequence[Origin], each: int, progress: bool
) -> EncodedBank:
    """Sentences of the classes with their vectors.

    From a bank alone `each` are drawn per class. Templates, and a bank beside them, are used whole and in order.
    """
    first, names = origins[0], sorted(classes)
    if not is_list(first) and not (isinstance(first, str) and "{name}" in first):  # neither templates nor one template
        settings = SentenceSettings(first, each, zero_shot=False)
        return make_encoded_bank(source, names, settings, seed=SEED, progress=progress)[0]
    parts = [_whole(origin, names) for origin in origins]
    filled = {name: tuple(sentence for part in parts for sentence in part[name]) for name in names}
    told = " and ".join(origin.name if isinstance(origin, Path) else origin for origin in origins)
    bank = Bank(filled, told, max(map(len, filled.values())), SEED)
    return EncodedBank(bank, encode_bank(source, bank, progress=progress), source.logit_scale, votes=False)


def _whole(origin: Origin, names: Sequence[str]) -> dict[str, list[str]]:
    """Every sentence of an origin for each class."""
    if isinstance(origin, Path) and not is_list(origin):
        bank = read_sentences(origin)
        return {name: bank[key] for name, key in match_classes(names, bank).items()}
    templates = [origin] if isinstance(origin, str) else read_templates(origin)
    return {name: [fill_template(template, name) for template in templates] for name in names}
