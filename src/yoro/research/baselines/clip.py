"""The published reprogramming baselines for image-text models, ready to train in the loop of `yoro.refining.loop`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from yoro.data.geometry import Augmentation, Geometry
from yoro.errors import InputError, SourceError
from yoro.option import check_choice
from yoro.prompts.prompt import Prompt, make_prompt
from yoro.prompts.trainable import PromptSet, TrainablePrompt, VisualPrompt
from yoro.refining.heads import MappingHead, TrainingHead
from yoro.refining.images import LabelledImages
from yoro.refining.loop import PromptTraining
from yoro.refining.recipe import Recipe
from yoro.research.baselines.autovp import CLIP, FullMapping, RawPadding, ResizedPadding
from yoro.research.baselines.clip_heads import (
    SOURCE_TEMPLATES,
    AttributeHead,
    Similarities,
    Vectors,
    bank_vectors,
    label_head,
    label_vectors,
    source_vectors,
)
from yoro.research.baselines.dga import GranularHead, GranularPrompts, super_classes
from yoro.research.baselines.dvp import caused, clustered, dvp_head
from yoro.research.baselines.label_mappings import baseline_head
from yoro.research.baselines.published import CLIP_METHODS, ClipOptions
from yoro.sources.protocol import DualEncoder
from yoro.sources.torch.gradients import DifferentiableSource, Twin
from yoro.text.settings import EACH, Attributes

BATCH = 64
BATCH_ONE_SHOT = 16
CANVAS = 224  # that widths are given for
WATERMARK = 30 / CANVAS  # of the canvas
STRONG = Augmentation(scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), shorter_first=True)  # torchvision's own numbers
WATERMARKED = ("vp", "blm", "blm+")
UNAUGMENTED = ("blm", "blm+", "autovp")  # as in their public code
SEVERAL = "dvp-cls", "dvp-cse"
PUBLISHED = ClipOptions()


@dataclass(frozen=True)
class ClipSettings:
    """A method, the sentences that it is given, and its numbers.

    Banks are attribute sentences, as `make_bank` takes them: describing ones (DVP-cls), describing and distinguishing
    ones (AttrVR, DGA), one bank for each prompt (DVP-cse); none for the others. Without any, where one bank is
    enough, our templates stand in.
    """

    method: str
    banks: Sequence[Attributes] = ()
    sentences: int = EACH  # a class
    bank_seed: int = 0  # by which sentences are drawn, apart from the seed of the training
    templates: tuple[str, ...] = SOURCE_TEMPLATES  # of BLM and AutoVP; published with ImageNet's 80 after the first
    options: ClipOptions = PUBLISHED


@dataclass(frozen=True)
class _ClipTask:
    """What a method is built from."""

    settings: ClipSettings
    texts: DualEncoder
    source: Twin
    prompt: Prompt
    train: LabelledImages
    banks: list[Vectors]
    seed: int

    @property
    def options(self) -> ClipOptions:
        return self.settings.options

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes

    @property
    def device(self) -> torch.device:
        return self.source.device

    @property
    def scale(self) -> float:
        """At most 100, as CLIP was trained."""
        return min(self.texts.logit_scale, 100.0)

    def trainable(self) -> TrainablePrompt:
        return TrainablePrompt(self.prompt, self.device)

    def similarities(self) -> Similarities:
        """The source as a classifier whose classes are the texts of every template."""
        return Similarities(self.source, source_vectors(self.texts, self.classes, self.settings.templates), self.scale)


_Parts = tuple[VisualPrompt, DifferentiableSource, TrainingHead]


def clip_recipe(
    method: str, options: ClipOptions = PUBLISHED, *, shots: int | None = None, flip: bool = True, seed: int = 0
) -> Recipe:
    """The published recipe with these options: SGD 40 with momentum 0.9, a cosine that falls with every step, fp32.

    Batches are of 64, of 16 for one shot. DVP counts an epoch that trains nothing among its epochs; its cosine begins
    after that one and is laid out for all.
    """
    check_choice("baseline", method, CLIP_METHODS)
    idle = method in SEVERAL  # the first epoch
    again = method == "autovp" and options.again
    return Recipe(
        epochs=max(0, options.epochs - 1) if idle else options.epochs,
        schedule_epochs=max(1, options.epochs) if idle else None,
        batch_size=BATCH_ONE_SHOT if shots == 1 else BATCH,
        optimiser="sgd",
        learning_rate=options.learning_rate,
        head_learning_rate=options.projection_rate if method == "dga" else options.learning_rate,
        weight_decay=options.weight_decay,
        schedule="cosine",
        augmentation=None if method in UNAUGMENTED else replace(STRONG, flip=flip),
        head_clip=CLIP if method == "autovp" else None,
        clip_scaled=method == "autovp",
        whole_batches=method == "dga",
        mapping_pass=again or method in ("blm", "blm+"),
        mixed_precision=options.mixed_precision,
        epoch_zero=options.select != "test",
        seed=seed,
    )


def clip_prompt(method: str, source: DifferentiableSource, options: ClipOptions = PUBLISHED) -> Prompt:
    """The prompt that a method starts from: a watermark of 30 pixels of 224, or 16 pixels around a smaller image.

    Another width is also in pixels of 224. AutoVP's configuration decides on the size of its image, unless it is that
    of the paper's table of times.
    """
    check_choice("baseline", method, CLIP_METHODS)
    made = partial(make_prompt, side=source.side, mean=source.mean, std=source.std)
    pixels = None if options.width is None else max(1, round(options.width * source.side / CANVAS))
    if method in WATERMARKED:
        pad = max(1, round(WATERMARK * source.side)) if pixels is None else pixels
        return made("watermark", pad=pad)
    if method == "autovp" and (options.scale, options.resize) != (PUBLISHED.scale, PUBLISHED.resize):
        return made("padding", image_side=options.image_side(source.side))
    return made("padding", image_side=pixels and source.side - 2 * pixels)


def clip_geometry(prompt: Prompt, source: Twin) -> Geometry:
    """How images become squares for a prompt, by the transform that the source was made for."""
    fits = cast("Mapping[str, object]", source.describe()["geometry"])
    return Geometry.from_config({"side": prompt.image_side, "reduced": False, "published": True, **fits})


def clip_training(
    settings: ClipSettings, texts: DualEncoder, source: Twin, train: LabelledImages, recipe: Recipe
) -> tuple[PromptTraining, list[str]]:
    """A method ready to run, and notes on its banks of sentences.

    texts, source : the same image-text model, opened by `open_source` and by `open_differentiable`.
    train : images in the geometry of the method's prompt.
    """
    method = settings.method
    prompt = clip_prompt(method, source, settings.options)
    _check_match(texts, source, train, prompt)
    banks, notes = _banks(settings, texts, train.classes)
    prompts, responding, head = BUILDERS[method](_ClipTask(settings, texts, source, prompt, train, banks, recipe.seed))
    training = PromptTraining(prompts, responding, head, recipe)
    if isinstance(head, MappingHead) and method not in ("vp", "ar"):
        training.gather(train)  # of DVP the published epoch that trains nothing
        if method == "autovp" and not settings.options.again:
            head.freeze()
    return training, notes


def _labels(task: _ClipTask) -> _Parts:
    vectors = label_vectors(task.texts, task.classes)
    return task.trainable(), task.source, label_head(vectors, task.classes, task.scale, task.device)


def _attributes(task: _ClipTask) -> _Parts:
    alpha, nearest = task.options.alpha, task.options.nearest
    head = AttributeHead(task.banks, task.classes, task.scale, alpha=alpha, nearest=nearest, device=task.device)
    return task.trainable(), task.source, head


def _routed(task: _ClipTask) -> _Parts:
    if task.settings.method == "dvp-cls":
        sentences = clustered(task.banks[0], task.classes, task.scale, task.options.prompts)
    else:
        sentences = caused(task.banks, task.classes, task.scale)
    prompts = PromptSet([task.trainable() for _ in range(sentences.prompts)])
    return prompts, task.source, dvp_head(sentences, nearest=task.options.nearest, device=task.device)


def _bayesian(task: _ClipTask) -> _Parts:
    source = task.similarities()
    return task.trainable(), source, baseline_head(task.settings.method, source, task.classes, task.seed)


def _autovp(task: _ClipTask) -> _Parts:
    source, chosen = task.similarities(), task.options
    prompt = RawPadding(task.prompt, task.device)
    if chosen.resize == "trained":
        prompt = ResizedPadding(task.prompt, chosen.scale, task.device)
    if chosen.mapping == "full":
        return prompt, source, FullMapping(source.width, task.classes, seed=task.seed, device=task.device)
    return prompt, source, baseline_head("ilm", source, task.classes, task.seed, chosen.sources)


def _dga(task: _ClipTask) -> _Parts:
    tree = super_classes(_prototypes(task), task.options.levels)
    prompts = GranularPrompts(task.prompt, task.options, seed=task.seed, device=task.device)
    head = GranularHead(task.banks, tree, task.classes, task.scale, task.options, device=task.device)
    return prompts, task.source, head


BUILDERS: dict[str, Callable[[_ClipTask], _Parts]] = {
    "vp": _labels, "ar": _labels, "attrvr": _attributes, "dvp-cls": _routed, "dvp-cse": _routed, "autovp": _autovp,
    "dga": _dga, "blm": _bayesian, "blm+": _bayesian,
}  # fmt: skip
BANKS = {  # least, most, and that in words
    "attrvr": (1, 2, "1 or 2"), "dvp-cls": (1, 1, "1"), "dvp-cse": (2, math.inf, "2 or more"), "dga": (1, 2, "1 or 2"),
}  # fmt: skip


def _prototypes(task: _ClipTask) -> NDArray[np.float64]:
    """Mean unit vector (classes, dimension) of the training images of each class, without a prompt.

    Of the published five crops this is the middle one; of a square image they are one and the same.
    """
    images = replace(task.train, geometry=replace(task.train.geometry, side=task.source.side))
    counts = np.bincount(images.codes, minlength=len(task.classes))
    empty = [name for name, count in zip(task.classes, counts, strict=True) if not count]
    if empty:
        raise InputError(f"No training images of {', '.join(map(repr, empty))}; DGA needs at least one of each class.")
    sums = np.zeros((len(task.classes), task.source.width))
    for pixels, codes in images.batches(BATCH):
        np.add.at(sums, codes, task.source.respond(pixels))
    return sums / counts[:, None]


def _banks(settings: ClipSettings, texts: DualEncoder, classes: tuple[str, ...]) -> tuple[list[Vectors], list[str]]:
    """Vectors of a method's banks of sentences, and notes on them."""
    method, given = settings.method, settings.banks
    least, most, expected = BANKS.get(method, (0, 0, "none"))
    wanted: Sequence[Attributes] = ("templates",) if not given and least == 1 else given
    if not least <= len(wanted) <= most:
        raise InputError(f"Number of banks of sentences for {method}: {len(given)}; expected {expected}.")
    vectors, notes = [], []
    for attributes in wanted:
        rows, odd = bank_vectors(texts, classes, attributes, each=settings.sentences, seed=settings.bank_seed)
        vectors.append(rows)
        notes += odd
    if wanted is not given and least:
        notes.append(f"No sentences were given for {method}; our {vectors[0].shape[1]} templates are used instead.")
    if method in ("attrvr", "dga") and len(vectors) == 1:
        notes.append(f"{method} has one bank of sentences; the published runs add a second, distinguishing one.")
    return vectors, notes


def _check_match(texts: DualEncoder, source: Twin, train: LabelledImages, prompt: Prompt) -> None:
    if list(train.classes) != sorted(set(train.classes)):
        raise InputError(f"Classes must be sorted by name and unique, got {', '.join(train.classes[:9])}.")
    one, two = texts.describe()["digest"], source.describe()["digest"]
    if one != two:
        raise SourceError(f"{texts.name!r} and {source.name!r} have different weights; open the same model for both.")
    if train.geometry.side != prompt.image_side:
        raise InputError(
            f"The images have a side of {train.geometry.side}, but the prompt takes {prompt.image_side}; "
            "use `clip_geometry` of the method's prompt."
        )
