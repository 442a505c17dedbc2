"""Input size of the preset "fast": the smallest at which leave-one-out on a sample shows no loss.

The sample is small beside the data, and its draw depends on names and labels alone: the same data give the same choice.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import parse_qsl

import numpy as np

from yoro.data.examples import Example
from yoro.data.splits import draw_few
from yoro.discriminant.calibration import log_probabilities
from yoro.mappings.batches import Array
from yoro.model.gathered import Gathered
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import FitSettings, PipelineSettings, SolveSettings, fast_sources
from yoro.model.solve import solve

SHARE = 32  # one image in 32 is read again for the choice: about a tenth of the time of the pass
FEWEST, MOST = 96, 256  # images of the sample: with fewer, leave-one-out tells too little
EACH = 8  # images per class in the sample, if the class has as many
WORSE = 1.0  # standard errors by which the loss of a smaller canvas may be larger
COMPARED = "To see what that costs on your images: yoro compare DATA --methods yoro,yoro-fast."


def choose_fast(examples: Sequence[Example], settings: FitSettings) -> tuple[FitSettings, str]:
    """The settings with the source that "fast" reads, and a sentence on the choice; empty where there is none to make.

    A source or a prompt that the user chose stays as it is.
    """
    *smaller, largest = fast_sources()
    chosen, usual = settings.pipeline, PipelineSettings()
    if settings.preset != "fast" or settings.refine or chosen.source != largest:
        return settings, ""
    told = f"Fast: {_described(largest)}"
    if (chosen.prompt, chosen.image_side) != (usual.prompt, usual.image_side):
        return settings, f"{told}. {COMPARED}"
    sample = draw_sample(examples, min(len(examples) // SHARE, MOST), settings.solve.seed)
    reference = _left_out(largest, sample, settings) if len(sample) >= FEWEST else None
    if reference is None:
        return settings, f"{told}; from {SHARE * FEWEST:,} images on, leave-one-out may choose fewer. {COMPARED}"
    for source in smaller:
        found = _left_out(source, sample, settings)
        if found is not None and not significantly_worse(found[0], reference[0]):
            told = (
                f"Fast: {_described(source)}: leave-one-out of {len(found[0])} images shows no loss beyond noise "
                f"(accuracy {found[1]:.1%}, on the largest canvas {reference[1]:.1%})"
            )
            return replace(settings, pipeline=replace(chosen, source=source)), f"{told}. {COMPARED}"
    return settings, f"{told}: on fewer, leave-one-out of {len(reference[0])} images shows a loss. {COMPARED}"


def draw_sample(examples: Sequence[Example], size: int, seed: int) -> list[Example]:
    """This many examples, several per class; with many classes, those chosen by a seeded digest of their names."""
    by_class: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        by_class[example.label or ""].append(example)
    each, drawn = max(EACH, size // max(len(by_class), 1)), list[Example]()
    for label in sorted(by_class, key=lambda label: hashlib.sha256(f"{seed} {label}".encode()).digest()):
        if (count := min(each, size - len(drawn))) < 1:
            break
        drawn += draw_few(by_class[label], count, seed)
    return drawn


def significantly_worse(losses: Array, reference: Array) -> bool:
    """Whether losses (n,) exceed those of the same images under the reference beyond noise."""
    more = losses - reference
    return bool(more.mean() > WORSE * more.std(ddof=1) / np.sqrt(len(more)))


def _left_out(source: str, sample: Sequence[Example], settings: FitSettings) -> tuple[Array, float] | None:
    """Leave-one-out loss (n,) of each image of the sample, and the accuracy; None if none can be left out."""
    pipeline = make_pipeline(replace(settings.pipeline, source=source, views=1))
    gathered = Gathered.empty(MOST, settings.solve.seed, pipeline.layout)
    gathered.add(list(pipeline.stream(sample, settings.loading)))
    if len(gathered.statistics.classes) < 2:
        return None
    model = solve(gathered, SolveSettings(seed=settings.solve.seed), pipeline.origin())
    if (found := model.found_left_out) is None:
        return None
    scores, truth = found.scored.scores, found.scored.truth
    logs = log_probabilities(scores, model.choice.temperature)
    return -logs[np.arange(len(truth)), truth], float(np.mean(scores.argmax(axis=1) == truth))


def _described(source: str) -> str:
    """A source of "fast" in words."""
    options = dict(parse_qsl(source.partition("?")[2]))
    return f"{'8-bit' if 'int8' in options else 'single-precision'} arithmetic on {options['side']} pixels"
