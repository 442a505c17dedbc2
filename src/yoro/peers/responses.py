"""What methods are compared on: the responses of all images, read once and shared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.splits import few_shot, hold_out
from yoro.data.streams import ResponseStream, is_response_data, open_responses
from yoro.errors import InputError, WidthError
from yoro.model.one_pass import shown
from yoro.model.pipeline import DEFAULT_SOURCE, Reading, make_pipeline
from yoro.text.banks import EACH, Sentences
from yoro.text.encoded_bank import Wording, wording_of

Indices = NDArray[np.intp]

HELD_OUT = 0.3  # of each class to test on, where no test data are given


@dataclass(frozen=True)
class Part:
    """Responses (n, width) in memory, with labels, group names ("" for none) and names, (n,) each."""

    responses: NDArray[np.floating]
    labels: NDArray[np.str_]
    groups: tuple[str, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Indices) -> Part:
        """Some of it."""
        groups, names = (tuple(column[i] for i in rows.tolist()) for column in (self.groups, self.names))
        return Part(self.responses[rows], self.labels[rows], groups, names)


@dataclass(frozen=True)
class Material:
    """Training data, validation and test data where there are any, and how they came about."""

    train: Part
    val: Part | None = None
    test: Part | None = None
    source: str = "responses"
    seconds: float = 0.0  # that the one pass took
    skipped: list[tuple[str, str]] = field(default_factory=list)  # images that could not be read, and why
    wording: Wording | None = None  # the sentences of an image-text source, and their vectors
    notes: tuple[str, ...] = ()  # what was odd about them

    @property
    def width(self) -> int:
        """Coordinates of a response."""
        return int(self.train.responses.shape[1])

    @property
    def images(self) -> int:
        """Images read in all."""
        return sum(len(part) for part in (self.train, self.val, self.test) if part is not None)

    def draw(self, seed: int, shots: int | None = None) -> tuple[Part, Part]:
        """Training and test data of one repetition.

        Without test data, three tenths of each class are held out by the seed, groups whole. With
        `shots`, so many images of each class are drawn from what is left.
        """
        train, test = self.train, self.test
        if test is None:
            names = train.names if len(set(train.names)) == len(train.names) else None
            groups = [group or None for group in train.groups]
            kept, out = hold_out(train.labels.tolist(), HELD_OUT, seed, groups, names=names)
            if not len(out):
                raise InputError("The classes are too small to hold test images out; give some with --test (test=...).")
            train, test = train.take(kept), train.take(out)
        if shots is not None:
            train = train.take(few_shot(train.labels.tolist(), shots, seed))
        return train, test


def read_material(
    data: object,
    *,
    val: object | None = None,
    test: object | None = None,
    source: str = DEFAULT_SOURCE,
    read: str = "logits",
    attributes: str | Path | Sentences | None = None,
    sentences: int = EACH,
    device: str = "auto",
    reading: Reading | None = None,
    progress: bool = False,
) -> Material:
    """Read every image once; of data with splits, each split serves its purpose unless data are given for it.

    For an image-text source that is read at its logits, `attributes` and `sentences` are the bank
    and its size, as in `fit`; the draw of sentences has seed 0.
    """
    started = time.perf_counter()
    found = _found(data, val, test)
    images = {role: given for role, given in found.items() if isinstance(given, list)}
    streams = {role: given for role, given in found.items() if isinstance(given, ResponseStream)}
    if attributes is not None and "train" not in images:
        raise InputError("--attributes is for images to fit; responses are compared as they are.")
    wording, notes = None, list[str]()
    if images:
        pipeline = make_pipeline(source, read=read, device=device)
        if "train" in images:
            wording, notes = wording_of(
                pipeline.source, {example.label or "" for example in images["train"]}, attributes,
                asked=None if attributes is None else "--attributes", each=sentences, progress=progress,
            )  # fmt: skip
        streams |= {role: pipeline.stream(mine, reading or Reading(workers=0)) for role, mine in images.items()}
    parts = {role: _gather(stream, role, progress) for role, stream in streams.items()}
    _check_widths(parts)
    return Material(
        parts["train"], parts.get("val"), parts.get("test"), source if images else "responses",
        time.perf_counter() - started, [each for stream in streams.values() for each in stream.skipped],
        wording, tuple(notes),
    )  # fmt: skip


def _found(data: object, val: object | None, test: object | None) -> dict[str, list[Example] | ResponseStream]:
    """What there is for each role: images, none of them opened yet, or responses."""
    found: dict[str, list[Example] | ResponseStream] = {}
    for role, given in (("train", data), ("val", val), ("test", test)):
        if given is None:
            continue
        if is_response_data(given):
            found[role] = open_responses(given, labelled=True)  # type: ignore[arg-type]
            continue
        examples = list(find(given))
        if role == "train":
            for split, wanted in (("val", val is None), ("test", test is None)):
                mine = [example for example in examples if example.split == split]
                if wanted and mine:
                    found[split] = mine
            examples = _to_fit(examples)
        found[role] = examples
    return found


def _check_widths(parts: Mapping[str, Part]) -> None:
    width = parts["train"].responses.shape[1]
    for role, part in parts.items():
        if part.responses.shape[1] != width:
            raise WidthError(f"The {role} responses have width {part.responses.shape[1]}, those to fit {width}.")


def _to_fit(found: Sequence[Example]) -> list[Example]:
    """The training split, or all that belongs to no other."""
    train = [example for example in found if example.split == "train"]
    train = train or [example for example in found if example.split not in ("val", "test")]
    if not train:
        raise InputError("The data have a validation or test split but no training images to fit.")
    return train


def _gather(stream: ResponseStream, role: str, progress: bool) -> Part:
    responses: list[NDArray[np.floating]] = []
    labels: list[str] = []
    groups: list[str] = []
    names: list[str] = []
    for batch in shown(stream, f"reading {role}", progress):
        responses.append(np.array(batch.responses))
        labels += batch.labels or []
        groups += batch.groups or [""] * len(batch.names)
        names += batch.names
    if not labels:
        reason = f"; the first: {stream.skipped[0][1]}" if stream.skipped else "."
        raise InputError(f"None of the {role} data could be read{reason}")
    return Part(np.concatenate(responses), np.array(labels, dtype=np.str_), tuple(groups), tuple(names))
