"""What is to be learned: labelled photos, and what a model brought; summed up."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from yoro.data.responses import ResponseBatch
from yoro.discriminant.readings import Layout
from yoro.model.gathered import Gathered
from yoro.model.settings import SolveSettings
from yoro.studio.base_model import Base
from yoro.studio.edits import UNSORTED
from yoro.studio.state import State

Rows = Mapping[str, NDArray[np.floating]]  # responses by digest
FEW = 64  # photos that are added to what was gathered


@dataclass(frozen=True)
class Content:
    """Photos and their labels; with a model also what is removed from its sums and how its classes are renamed.

    Two contents are equal if the same is learned from them.
    """

    photos: dict[str, str]  # label by digest; in their order, so that the same photos are the same classifier
    gone: dict[str, str] = field(default_factory=dict)  # the model's label by digest
    names: dict[str, str] = field(default_factory=dict)
    model: str | None = None  # the key of the one whose sums are taken

    def __len__(self) -> int:
        return len(self.photos)


def content_of(state: State, base: Base | None, read: Container[str]) -> Content:
    """What there is to learn of a state, as far as photos are read.

    A photo that the model was fitted on counts in the model, unless it has another label here or is kept for testing:
    then it is taken out.
    """
    photos, gone, labels = dict[str, str](), dict[str, str](), state.brought.labels
    ours = dict(state.model.classes) if state.model is not None else {}
    for digest, photo in state.photos.items():
        label = labels.get(digest)
        counted = label is not None and photo.belongs == ours[label] != UNSORTED and not photo.aside
        if digest not in read or counted:
            continue
        if label is not None:
            gone[digest] = label
        if photo.belongs > UNSORTED and not photo.aside:
            photos[digest] = state.classes[photo.belongs]
    if base is None:
        return Content(dict(sorted(photos.items())))
    gone |= {digest: label for digest, label in labels.items() if ours[label] == UNSORTED}
    names = {label: state.classes[number] for label, number in ours.items() if number != UNSORTED}
    if not base.whole:
        return Content(dict(sorted(photos.items())), gone, names, base.key)
    photos |= {digest: names[label] for digest, label in labels.items() if digest not in gone}
    return Content(dict(sorted(photos.items())))


def test_labels(state: State, read: Container[str]) -> dict[str, str]:
    """The labels of the photos that are kept for testing, by digest, as far as they are read."""
    return {digest: state.classes[state.photos[digest].belongs] for digest in state.test_set() if digest in read}


def grown(
    content: Content, before: Content, gathered: Gathered, rows: Rows, settings: SolveSettings
) -> Gathered | None:
    """What was gathered of a content, with the few photos more that are to be learned; None if that is not all."""
    come, kept = dict(content.photos.items() - before.photos.items()), gathered.reservoir
    others = replace(content, photos={}) == replace(before, photos={})
    alike = others and kept is not None and (kept.capacity, kept.seed) == (settings.reservoir, settings.seed)
    if not alike or len(come) > FEW or before.photos.items() - content.photos.items():
        return None
    result = gathered.copy()
    result.add(_batches(sorted(come.items()), rows))
    return result


def gathered_of(content: Content, base: Base | None, rows: Rows, layout: Layout, settings: SolveSettings) -> Gathered:
    """What is to be learned, gathered: of a model whose sums are taken, these with the changes made here."""
    if base is None or content.model is None:
        result = Gathered.empty(settings.reservoir, settings.seed, layout)
    else:
        result = base.model.gathered.copy()
        # A content may be there more than once, and under several labels: all of it goes.
        gone = [(digest.hex(), label) for digest, label in result.ledger.entries() if digest.hex() in content.gone]
        result.remove(_batches(gone, rows))
        known = result.statistics.classes
        result.rename({label: name for label, name in content.names.items() if label in known and label != name})
    result.add(_batches(list(content.photos.items()), rows), threads=True)
    return result


def _batches(photos: Sequence[tuple[str, str]], rows: Rows) -> list[ResponseBatch]:
    """Photos (digest, label) as a batch; none of none."""
    if not photos:
        return []
    digests, labels = [digest for digest, _ in photos], [label for _, label in photos]
    responses, contents = np.stack([rows[digest] for digest in digests]), list(map(bytes.fromhex, digests))
    return [ResponseBatch(responses, labels, None, contents, digests)]
