"""`yoro.compare`: every method that does the same job, on the same responses, in one table."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from yoro.data.python_data import Data, joined
from yoro.errors import InputError, did_you_mean
from yoro.model.settings import PipelineSettings

if TYPE_CHECKING:
    from yoro.research.peers.compare import Comparison


class CompareOptions(TypedDict, total=False):
    """The options of `compare`."""

    val: object
    test: object
    methods: Sequence[str]
    seeds: int
    shots: int


def compare(
    data: Data,
    labels: object = None,
    *,
    source: str = PipelineSettings.source,
    read: str = PipelineSettings.read,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Fit and test label mappings, ablations and training-free peers on responses that are read once.

    Parameters
    ----------
    data, labels
        As in `fit`.
    source, read
        Which frozen model reads the images, and where.
    val, test
        Data to choose settings on, and to test on; without, three tenths of each class are held out by each seed.
    methods, seeds, shots
        Only these methods, by name; repetitions, each with its own draws; training images a class.
    """
    from yoro.research.peers.compare import SEEDS, compare
    from yoro.research.peers.methods import find_methods
    from yoro.research.peers.shared_responses import read_responses

    known = CompareOptions.__annotations__
    for name in options:
        if name not in known:
            raise InputError(f"There is no option {name!r}. {did_you_mean(name, known)}")
    methods, seeds, shots = options.get("methods"), options.get("seeds", SEEDS), options.get("shots")
    find_methods(methods)  # a misspelt name is told before the images are read
    if seeds < 1 or (shots is not None and shots < 1):
        raise InputError(f"{seeds} seeds and {shots} shots were asked for; expected at least 1.")
    log = logging.getLogger("yoro")
    shared = read_responses(
        joined(data, labels),
        val=options.get("val"),
        test=options.get("test"),
        pipeline=PipelineSettings(source=source, read=read),
    )
    for note in shared.notes:
        log.info(note)
    return compare(shared, methods=methods, seeds=seeds, shots=shots, tell=log.info)
