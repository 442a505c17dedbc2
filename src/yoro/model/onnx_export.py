"""A whole classifier as one ONNX graph: image in, class probabilities out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, compose, helper

from yoro import limits
from yoro.data.decoding import BACKGROUND, MARGIN
from yoro.data.geometry import Geometry
from yoro.discriminant.readings import Layout
from yoro.environment import __version__
from yoro.errors import SourceError, explaining
from yoro.mappings.affine import AffineMapping
from yoro.model.answers import log_answers
from yoro.model.open_model import OpenModel
from yoro.model.pipeline import Pipeline
from yoro.prompts.prompt import Prompt, image_square
from yoro.sources.graph_builder import GraphBuilder, Tensor, enclose, image_tensor, opset_of
from yoro.sources.runtime import BATCH_SIZE, open_session

FORMAT = "1"  # raise it when the metadata or the tensors change
PREFIX = "backbone/"  # set before every name of the source's graph, so that ours cannot clash with them
RESPONSES = "responses"  # the tensor that the mapping takes, in float64
TOLERANCE = 1e-4  # of a probability: the backbone's float32 noise alone was measured to move it by up to 2e-5


def export_onnx(
    pipeline: Pipeline, mapping: AffineMapping, temperature: float, *, card: Mapping[str, str] | None = None
) -> onnx.ModelProto:
    """The classifier from uint8 "images" (n, s, s, 3) to "probabilities" (n, classes) and "label" (n,).

    s is the prompt's image side; prompt, normalisation, backbone, mapping and temperature are inside.
    The metadata hold the class names, how an image becomes the input, and what `card` gives. The
    metadata of the source's own file are left out: its classes and its input are not the classifier's.
    """
    source, prompt, geometry = pipeline.source, pipeline.prompt, pipeline.geometry
    model = compose.add_prefix(source.onnx_model(), PREFIX)
    front = _front(prompt, opset_of(model), pipeline.layout.views)
    back = _back(pipeline.layout, mapping, temperature)
    outputs = Tensor("probabilities", ("n", len(mapping.classes))), Tensor("label", ("n",), TensorProto.INT64)
    enclose(model.graph, front, back, image_tensor(prompt.image_side, np.uint8), outputs)
    model.graph.name, model.graph.doc_string, model.doc_string = "yoro-classifier", "", ""
    model.producer_name, model.producer_version = "yoro", __version__
    helper.set_model_props(model, {
        **(card or {}),
        "yoro.format": FORMAT,
        "yoro.classes": json.dumps(mapping.classes, ensure_ascii=False),
        "yoro.input": json.dumps(_preparation(geometry)),
    })  # fmt: skip
    _check_size(model, source.name)
    return model


def verify_export(
    model: onnx.ModelProto, images: NDArray[np.uint8], expected: NDArray[np.floating], tolerance: float = TOLERANCE
) -> float:
    """Largest difference between the graph's probabilities and the `expected` ones, (n, classes).

    The graph is run as it is, by ONNX Runtime, on images (n, s, s, 3). A difference above the tolerance, or
    another best class where the two best are further apart than the tolerance could mend, is a SourceError.
    """
    probabilities, labels = run_graph(model, images, ["probabilities", "label"])
    if probabilities.shape != expected.shape:
        raise SourceError(f"The exported graph's output has shape {probabilities.shape}; expected {expected.shape}.")
    difference = float(np.abs(probabilities - expected).max())
    if not difference <= tolerance:  # so that NaN is refused too
        raise SourceError(
            f"The exported graph's probabilities differ by {difference:.1e} from the classifier's on {len(images)} "
            f"images; at most {tolerance:.0e} was expected. The export was discarded."
        )
    own = np.take_along_axis(expected, labels[:, None], axis=1)[:, 0]
    others = int((expected.max(axis=1) - own > 2 * tolerance).sum())
    if others:
        raise SourceError(
            f"The exported graph names another class than the classifier for {others} of {len(images)} images. "
            "The export was discarded."
        )
    return difference


def run_graph(model: onnx.ModelProto, images: NDArray[np.uint8], outputs: list[str]) -> list[NDArray[Any]]:
    """Outputs of an exported graph by name, a few images at a time."""
    session = open_session(model, None, "The exported graph")
    parts = []
    for start in range(0, len(images), BATCH_SIZE):
        with explaining(SourceError, f"The exported graph failed on images of shape {images.shape}"):
            parts.append(session.run(outputs, {"images": images[start : start + BATCH_SIZE]}))
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _front(prompt: Prompt, opset: int, views: int) -> GraphBuilder:
    """From "images" to the source's input: [0, 1] pixel units, zero padding, the prompt's addend.

    Of two views the images come first and then all mirror images.
    """
    builder, pixels = GraphBuilder(prefix="front_"), "images"
    if views == 2:
        mirrored = builder.node("Gather", pixels, np.arange(prompt.image_side - 1, -1, -1, dtype=np.int64), axis=2)
        pixels = builder.node("Concat", pixels, mirrored, axis=0)
    pixels = builder.node("Div", builder.node("Cast", pixels, to=TensorProto.FLOAT), np.array(255, np.float32))
    if prompt.image_side != prompt.side:
        rows, columns = image_square(prompt.side, prompt.image_side)
        pads = [0, rows.start, columns.start, 0, 0, prompt.side - rows.stop, prompt.side - columns.stop, 0]
        if opset >= 11:
            pixels = builder.node("Pad", pixels, np.array(pads, np.int64))
        else:  # there the widths were an attribute
            pixels = builder.node("Pad", pixels, pads=pads)
    addend = prompt.addend()
    if addend.any():
        pixels = builder.node("Add", pixels, addend)
    builder.rename(pixels, f"{PREFIX}images")
    return builder


def _read(builder: GraphBuilder, responses: str, layout: Layout) -> str:
    """From the source's responses to those that are learnt from: every reading transformed, views averaged."""
    if layout.plain:
        return responses
    readings = []
    for reading, part in zip(layout.readings, layout.slices, strict=True):
        read = builder.node("Gather", responses, np.arange(part.start, part.stop, dtype=np.int64), axis=1)
        if reading.transform == "root":
            read = builder.node("Sqrt", builder.node("Relu", read))
        if reading.transform != "plain":
            read = unit_rows(builder, read, reading.width)
        if layout.views == 2:
            views = builder.node("Reshape", read, np.array([2, -1, reading.width], np.int64))
            one, two = (builder.node("Gather", views, np.array(view, np.int64), axis=0) for view in (0, 1))
            read = builder.node("Div", builder.node("Add", one, two), np.array(2, np.float32))
            if reading.transform != "plain":
                read = unit_rows(builder, read, reading.width)
        readings.append(read)
    return builder.node("Concat", *readings, axis=1)


def unit_rows(builder: GraphBuilder, rows: str, width: int, kind: type[np.floating] = np.float32) -> str:
    """Rows divided by their length."""
    square = builder.node("MatMul", builder.node("Mul", rows, rows), np.ones((width, 1), kind))
    length = builder.node("Max", builder.node("Sqrt", square), np.array(np.finfo(kind).tiny, kind))
    return builder.node("Div", rows, length)


def _back(layout: Layout, mapping: AffineMapping, temperature: float) -> GraphBuilder:
    """From the responses to "probabilities" and "label".

    In float64, as the classifier itself: scores are differences of large terms. Measured on real photos, float32
    moved probabilities by up to 8e-2 where the responses share an offset of 1000, and by up to 8e-5 even after
    subtracting a centre; in float64 only the backbone's noise is left, at most 2e-5. It costs 0.01 ms an image
    with 100 classes and 0.05 ms with 1000, where Lite0 takes 8 ms of one core.
    """
    known = np.isfinite(mapping.bias)
    builder = GraphBuilder(prefix="back_")
    builder.rename(builder.node("Cast", _read(builder, f"{PREFIX}responses", layout), to=TensorProto.DOUBLE), RESPONSES)
    # A class of which nothing is known scores minus infinity whatever its weights are.
    products = builder.node("MatMul", RESPONSES, np.where(known, mapping.weights, 0.0) / temperature)
    shares = builder.node("Softmax", builder.node("Add", products, mapping.bias / temperature), axis=1)
    builder.rename(builder.node("Cast", shares, to=TensorProto.FLOAT), "probabilities")
    builder.rename(builder.node("ArgMax", "probabilities", axis=1, keepdims=0), "label")
    return builder


UPRIGHT = (
    "Convert to 8-bit RGB: transparency laid on the background, 16-bit grey divided by 257.",
    "Turn upright as the EXIF orientation says.",
)
AS_STORED = ("Convert to 8-bit RGB as Pillow's convert('RGB') does; do not turn it, whatever EXIF says.",)


def _preparation(geometry: Geometry) -> dict[str, object]:
    """How an image becomes the graph's input: values for programs, and the same in words."""
    side, draft = geometry.side, draft_side(geometry)
    decode = "Open the file; of an animation, take the first frame. Ignore colour profiles."
    if draft is not None:
        decode += (
            f" A JPEG is decoded at the smallest of the scales 1/8, 1/4, 1/2 and 1 that leaves both sides at least "
            f"{draft} pixels (Pillow: box = image.draft(None, ({draft}, {draft}))[1], and resize that box)."
        )
    if geometry.fit == "squash":
        fit = f"Resize to {side} x {side}, whatever the proportions."
    else:
        fit = (
            f"Resize the shorter side to {side} and the longer to int({side} * longer / shorter), both taken before "
            f"any reduced decoding; of that length, keep the central {side} pixels, from round((length - {side}) / 2)."
        )
    return {
        "tensor": "images",
        "dtype": "uint8",
        "layout": "NHWC",
        "channels": "RGB",
        "side": side,
        "fit": geometry.fit,
        "interpolation": geometry.interpolation,
        "antialias": True,
        "exif": "ignored" if geometry.published else "upright first",
        "background": None if geometry.published else list(BACKGROUND),
        "jpeg_draft": draft,
        "steps": [
            decode,
            *(AS_STORED if geometry.published else UPRIGHT),
            f"{fit} Interpolation {geometry.interpolation}, antialiased, as Pillow's Image.resize.",
            f"Stack as uint8 (n, {side}, {side}, 3), values 0 to 255; everything else is inside the graph.",
        ],
    }


def draft_side(geometry: Geometry) -> int | None:
    """The side that a JPEG decoded reduced must keep; None if none is decoded so."""
    return MARGIN * geometry.side if geometry.reduced else None


def _check_size(model: onnx.ModelProto, name: str) -> None:
    """Refuse a graph that does not fit one file."""
    try:
        size = model.ByteSize()
    except Exception:  # protobuf's own limit, reached while it measures
        size = limits.ONNX_FILE_BYTES + 1
    outside = any(tensor.data_location == TensorProto.EXTERNAL for tensor in model.graph.initializer)
    if size > limits.ONNX_FILE_BYTES or outside:
        raise SourceError(
            f"{name!r} is too large for one ONNX file: its weights would need separate files (external data), and "
            f"an export has only one, of at most {limits.ONNX_FILE_BYTES / 1e9:.1f} GB. Use a smaller model."
        )


TRIALS = 8  # images that the graph must answer like the classifier


def checked_export(classifier: OpenModel) -> tuple[bytes, float]:
    """The serialised graph, and its largest difference in probability from the classifier's own answers.

    The trial images are smooth random pictures: they need no data set, and they excite every
    part of the network.
    """
    pipeline, model = classifier.answering, classifier.model
    card = {
        "yoro.version": __version__,
        "yoro.source": model.origin.name,
        "yoro.licence_of_source": str(model.origin.source.get("licence") or "unknown"),
    }
    graph = export_onnx(pipeline, model.mapping, model.choice.temperature, card=card)
    images = trial_images(pipeline.prompt.image_side)
    expected = np.exp(log_answers(model, pipeline.respond(images)))
    difference = verify_export(graph, images, expected)
    return graph.SerializeToString(), difference


def trial_images(side: int) -> NDArray[np.uint8]:
    """Coloured noise at several scales, uint8 (TRIALS, side, side, 3)."""
    rng = np.random.default_rng(0)
    images = np.empty((TRIALS, side, side, 3), dtype=np.uint8)
    for i in range(TRIALS):
        cells = min(2 ** (i % 4 + 2), side)
        coarse = rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8)
        index = np.arange(side) * cells // side
        images[i] = coarse[index][:, index]
    return images
