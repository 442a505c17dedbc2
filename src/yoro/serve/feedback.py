"""Labelled images that a client sends: added to the model, which is saved before the client gets its answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from yoro.data.responses import ResponseBatch
from yoro.errors import InputError
from yoro.files.atomic import locked
from yoro.model.model import Json
from yoro.serve.hot_reload import Current
from yoro.serve.served_model import Answered, Served


def learn(current: Current, read_by: Served, images: Sequence[tuple[str, str, Answered]], label: str) -> Json:
    """Add images (name, hex digest, answer) under a label; those already in the model under it are not added again.

    The model is read, changed and written under its lock, so that beside other writers nothing is lost.
    """
    with locked(current.path):
        served = current.reopened()
        if served.classifier.pipeline is not read_by.classifier.pipeline:
            raise InputError("The model was just replaced by one with another backbone. Send the images again.")
        classifier = served.classifier
        sent = {bytes.fromhex(digest): (name, answered) for name, digest, answered in images}
        known = classifier.model.gathered.contains([(content, label) for content in sent])
        new = {content: one for (content, one), there in zip(sent.items(), known, strict=True) if not there}
        if new:
            responses, names = np.stack([one.response for _, one in new.values()]), [name for name, _ in new.values()]
            batch = ResponseBatch(responses, [label] * len(new), None, list(new), names)
            classifier.change("feedback", add=batch, passes=1)
            classifier.save(current.path, force=True)
            served = Served(classifier)
            current.saved(served)
    counts = {"added": len(new), "known": len(images) - len(new), "examples": classifier.model.gathered.images}
    return {**counts, "version": served.version}
