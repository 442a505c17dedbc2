"""Responses of labelled images: from the model where it stores them, otherwise read again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from yoro.data.decoding import digest
from yoro.data.examples import Example
from yoro.data.response_streams import Collected, collect
from yoro.errors import InputError
from yoro.model.open_model import OpenModel, Skipped
from yoro.model.settings import Loading


def responses_of(
    classifier: OpenModel,
    examples: Sequence[Example],
    loading: Loading,
    *,
    digests: Sequence[bytes] = (),
    progress: bool = False,
) -> tuple[Collected, Skipped]:
    """The responses, in the order of the examples, and which images could not be read.

    `digests` are image hashes where they are known (b"" where not): a response that is stored needs no file.
    """
    members, known = classifier.model.members(), digests or [b""] * len(examples)
    kept = {content: row for row, content in enumerate(members.digests)} if members else {}
    if kept:
        known = [content or image_digest(example) for content, example in zip(known, examples, strict=True)]
    rest = [example for example, content in zip(examples, known, strict=True) if content not in kept]
    if rest and not classifier.model.origin.images:
        raise InputError(
            f"The model does not store the response of {rest[0].name!r} and was fitted on responses, so it cannot read "
            "images. Give the responses to `yoro forget` and `yoro update` instead."
        )
    stream = classifier.pipeline.stream(rest, loading) if rest else None
    read = collect(stream, "reading", progress=progress) if stream else None
    again = {name: row for row, name in enumerate(read.names)} if read else {}
    found = list[tuple[Example, bytes, str, NDArray[np.floating]]]()
    for example, content in zip(examples, known, strict=True):
        if members and content in kept:
            row = kept[content]
            found.append((example, content, example.group or str(members.groups[row]), members.responses[row]))
        elif read and example.name in again:
            row = again[example.name]
            found.append((example, read.digests[row], example.group or "", read.responses[row]))
    there, contents, groups, responses = zip(*found, strict=True) if found else ((), (), (), ())
    rows = np.stack(responses) if found else np.empty((0, classifier.model.statistics.width))
    labels = np.array([example.label or "" for example in there], dtype=np.str_)
    names = tuple(example.name for example in there)
    return Collected(rows, labels, groups, names, contents), stream.skipped if stream else []


def image_digest(example: Example) -> bytes:
    """The digest of an image's content; b"" if it cannot be read, which is reported when it is decoded."""
    try:
        return bytes.fromhex(digest(example.image))
    except Exception:  # as in decoding: whatever is wrong with a stranger's file
        return b""
