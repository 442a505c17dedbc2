"""A classifier as an ONNX file that has shown that it answers as the classifier does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import log_probabilities
from yoro.model.classifier import Classifier
from yoro.model.onnx_export import export_onnx, verify_export
from yoro.version import __version__

TRIALS = 8  # images that the graph must answer like the classifier


def checked_export(classifier: Classifier) -> tuple[bytes, float]:
    """The serialised graph, and its largest difference in probability from the classifier's own answers.

    The trial images are smooth random pictures: they need no data set, and they excite every
    part of the network.
    """
    pipeline, model = classifier.pipeline, classifier.model
    card = {
        "yoro.version": __version__,
        "yoro.source": model.origin.name,
        "yoro.licence_of_source": str(model.origin.source.get("licence") or "unknown"),
    }
    graph = export_onnx(
        pipeline.source, pipeline.prompt, pipeline.geometry, model.mapping, model.choice.temperature, card=card
    )
    images = _trial_images(pipeline.prompt.image_side)
    responses = pipeline.source.respond(pipeline.prompt.compose(images))
    expected = np.exp(log_probabilities(model.mapping(responses), model.choice.temperature))
    difference = verify_export(graph, images, expected)
    return graph.SerializeToString(), difference


def _trial_images(side: int) -> NDArray[np.uint8]:
    """Coloured noise at several scales, uint8 (TRIALS, side, side, 3)."""
    rng = np.random.default_rng(0)
    images = np.empty((TRIALS, side, side, 3), dtype=np.uint8)
    for i in range(TRIALS):
        cells = min(2 ** (i % 4 + 2), side)
        coarse = rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8)
        index = np.arange(side) * cells // side
        images[i] = coarse[index][:, index]
    return images
