"""Labelled images that a client sends: added to the model, which is saved before the client is told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from yoro.data.response_streams import Collected
from yoro.errors import InputError
from yoro.files.atomic import locked
from yoro.model.ledger import Ledger
from yoro.model.model import Json
from yoro.serve.hot_reload import Current
from yoro.serve.served_model import Answered, Served


def learn(current: Current, read_by: Served, images: Sequence[tuple[str, str, Answered]], label: str) -> Json:
    """Add images (name, digest, answer) under a label; those that the model has under it already do not count again.

    The model is read, changed and written under its lock, so that beside other writers nothing is lost.
    """
    with locked(current.path):
        served = current.reopened()
        if served.pipeline is not read_by.pipeline:
            raise InputError("The model was replaced by one with another network meanwhile. Send the images again.")
        classifier = served.classifier
        new: dict[bytes, tuple[str, Answered]] = {}
        for name, digest, answered in images:
            content = bytes.fromhex(digest)
            if not _known(classifier.model.ledger, content, label):
                new[content] = name, answered
        if new:
            classifier.exchange("feedback", _collected(served, {}, label), _collected(served, new, label), passes=1)
            classifier.save(current.path, force=True)
            served = Served(classifier)
            current.saved(served)
    total = round(classifier.model.statistics.total)
    return {"added": len(new), "known": len(images) - len(new), "examples": total, "version": served.version}


def _known(ledger: Ledger, content: bytes, label: str) -> bool:
    one = Ledger()
    one.add([content], [label])
    return ledger.shared(one) > 0


def _collected(served: Served, images: dict[bytes, tuple[str, Answered]], label: str) -> Collected:
    width = served.classifier.model.mapping.width
    responses = [answered.response for _, answered in images.values()]
    return Collected(
        np.stack(responses) if responses else np.empty((0, width), dtype=np.float32),
        np.array([label] * len(images), dtype=np.str_),
        ("",) * len(images),
        tuple(name for name, _ in images.values()),
        tuple(images),
    )
