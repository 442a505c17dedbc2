"""The responses that methods are compared on: those of all images, read once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from yoro.data.response_streams import Collected, ResponseStream, collect, identity_of
from yoro.data.roles import ROLES, Rows, find_roles, refuse_one_class
from yoro.data.splits import few_shot, hold_out
from yoro.discriminant.readings import Layout
from yoro.errors import InputError, WidthError
from yoro.model.model import Origin, difference
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import USUAL, Loading, PipelineSettings
from yoro.model.views import BothViews
from yoro.text.encoded_bank import EncodedBank, encoded_bank_of
from yoro.text.settings import SentenceSettings

if TYPE_CHECKING:
    from yoro.research.presets import Preset

HELD_OUT = 0.3  # of each class to test on, where no test data are given


@dataclass(frozen=True)
class SharedResponses:
    """Training data, and validation and test data if given."""

    train: Collected
    val: Collected | None = None
    test: Collected | None = None
    source: str = "responses"
    seconds: float = 0.0  # that the one pass took
    skipped: list[tuple[str, str]] = field(default_factory=list)  # images that could not be read, and why
    words: EncodedBank | None = None  # the sentences of an image-text source, and their vectors
    notes: tuple[str, ...] = ()  # on data that were found or ignored, and on the sentences
    layout: Layout | None = None  # the readings of a response, where that is known
    both_views: bool = False  # whether responses hold those of one view and then those of two
    presets: tuple[Preset, ...] = ()  # our own fits, with responses of their own to the same images

    @property
    def width(self) -> int:
        return int(self.train.responses.shape[1])

    def reading(self, name: str) -> SharedResponses:
        """One layer of the responses alone, as it came from the networks; all, where they are a single one."""
        layout = self.layout
        if layout is None or layout.plain or not layout.places(name):
            return self
        parts = [layout.slices[i] for i in layout.places(name)]
        columns = np.concatenate([np.arange(part.start, part.stop) for part in parts])

        train, val, test = (
            part and replace(part, responses=part.responses[:, columns]) for part in (self.train, self.val, self.test)
        )
        return replace(self, train=train or self.train, val=val, test=test, layout=None)

    @property
    def images(self) -> int:
        return sum(len(part) for part in (self.train, self.val, self.test) if part is not None)

    def draw(self, seed: int, shots: int | None = None) -> tuple[Collected, Collected]:
        """Training and test data of one repetition.

        Without test data, three tenths of each class are held out by the seed, in whole groups. With `shots`, so many
        training images per class are drawn from the rest.
        """
        train, test = self.train, self.test
        if test is None:
            names = train.names if len(set(train.names)) == len(train.names) else None
            groups = [group or None for group in train.groups]
            kept, out = hold_out(train.labels.tolist(), HELD_OUT, seed, groups, names=names)
            if not len(out):
                raise InputError("Too few images to hold out test data; give some with --test (test=...).")
            train, test = train.take(kept), train.take(out)
        if shots is not None:
            train = train.take(few_shot(train.labels.tolist(), shots, seed))
        return train, test


@dataclass(frozen=True)
class Reader:
    """How the responses of a comparison are read.

    Splits of the data are used unless `val` or `test` are given. For an image-text source that is read at its logits,
    `sentences` are the bank and its size, drawn with seed 0.
    """

    val: object | None = None
    test: object | None = None
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    sentences: SentenceSettings = field(default_factory=SentenceSettings)
    loading: Loading = USUAL
    progress: bool = False

    def read(self, data: object) -> SharedResponses:
        """Read every image once."""
        started = time.perf_counter()
        roles = find_roles("compare", data, val=self.val, test=self.test)
        parts = {role: part for role in ROLES if len(part := getattr(roles, role))}
        images = {role: part for role, part in parts.items() if not isinstance(part, Rows)}
        streams = {role: part.stream() for role, part in parts.items() if isinstance(part, Rows)}
        _check_identities([identity_of(given) for given in (data, self.val, self.test)])
        asked = self.sentences.asked()
        if asked and "train" not in images:
            raise InputError(f"{asked} applies to images; responses are compared as they are.")
        encoded, notes, layout, both = None, list(roles.notes), Origin(made_by=identity_of(data)).layout, False
        names = {example.label or "" for example in images.get("train", ())}
        if names:
            refuse_one_class(names, data)
        if images:
            made = make_pipeline(self.pipeline)
            both = made.layout.views == 2
            made = BothViews(made) if both else made
            layout = made.layout
            if names:
                encoded, odd = encoded_bank_of(made.source, names, self.sentences, asked=asked, progress=self.progress)
                notes += odd
            streams |= {role: made.stream(mine, self.loading) for role, mine in images.items()}
        read = {role: _read(stream, role, self.progress) for role, stream in streams.items()}
        _check_widths(read)
        return SharedResponses(
            read["train"], read.get("val"), read.get("test"), self.pipeline.source if images else "responses",
            time.perf_counter() - started, [each for stream in streams.values() for each in stream.skipped],
            encoded, tuple(notes), layout, both,
        )  # fmt: skip


def read_responses(data: object, **how: object) -> SharedResponses:
    """Read every image once; `how` are the fields of `Reader`."""
    return Reader(**how).read(data)  # type: ignore[arg-type]


def _check_identities(known: Sequence[dict[str, object] | None]) -> None:
    """Raise if response files come from different sources."""
    told = [identity for identity in known if identity is not None]
    for other in told[1:]:
        if odd := difference(told[0], other):
            raise InputError(f"The response files come from different sources: they differ in {odd}.")


def _check_widths(parts: Mapping[str, Collected]) -> None:
    expected = parts["train"].responses.shape[1]
    for role, part in parts.items():
        if (width := part.responses.shape[1]) != expected:
            raise WidthError(f"The {role} responses have width {width}, the training responses {expected}.")


def _read(stream: ResponseStream, role: str, progress: bool) -> Collected:
    part = collect(stream, f"reading {role}", progress=progress)
    if not len(part):
        reason = f"; the first: {stream.skipped[0][1]}" if stream.skipped else "."
        raise InputError(f"None of the {role} data could be read{reason}")
    return part
