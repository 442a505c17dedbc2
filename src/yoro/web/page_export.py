"""Export as a static web page: the page, the ONNX graph, the runtime, and the facts about the model."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import onnx
import PIL
from onnx import helper, numpy_helper

from yoro import limits
from yoro.environment import __version__
from yoro.errors import InputError, SourceError, StoreError
from yoro.files.atomic import check_writable, drafted_folder
from yoro.model.answers import log_answers
from yoro.model.onnx_export import checked_export, draft_side, run_graph, trial_images, verify_export
from yoro.model.open_model import OpenModel
from yoro.trust.out_of_distribution import OutOfDistributionScore, out_of_distribution_score
from yoro.web.browser_runtime import FILES, LICENCES, Runtime
from yoro.web.out_of_distribution_graph import OUTPUT, add_strangeness

FORMAT = 2  # of model.json
# Packed with gzip, which the page undoes itself: many static hosts do not compress. The ending is one that no server
# takes for an encoding, which the browser would undo before the page does.
FACTS, GRAPH = "model.json", "model.packed"
FEWEST = 4096  # values of a tensor worth halving; the first layers are smaller, and their rounding is felt the most
WIDEST = 6e4  # value that float16 holds
ROUNDING = 1e-3  # of a tensor's length; float16 rounds by 3e-4, and by more where values are too small for it
FORMER = ("model.onnx", "ort.wasm")  # of pages of format 1, which are replaced
PAGE = (  # files of the folder `page`
    *("index.html", "style.css", "icon.svg", "service.js"),
    *("app.js", "list.js", "answer.js", "files.js", "camera.js"),
    *("local.js", "worker.js", "pixels.js", "resize.js"),
)
TOLERANCE = 1e-3  # of an out-of-distribution score; its standard deviation among the training images is about one
HALF_TOLERANCE = 1e-2  # of a probability where weights are stored in float16; 5e-3 was seen
HALF_SCORE_TOLERANCE = 5e-2  # of a score likewise, or its share; 0.15 of 4.4 was seen, of a photo unlike all others


@dataclass(frozen=True)
class WebExport:
    """Size and accuracy of an exported page."""

    size: int  # bytes of all files
    difference: float  # the largest in a probability on trial images
    halved: bool  # whether the weights are stored in float16
    unknown: bool  # whether the page can reject out-of-distribution images


def check_web_target(folder: Path, *, force: bool) -> None:
    """Raise if the folder cannot be written, or contains something else; called before any work."""
    check_writable(folder)
    if folder.is_file():
        raise StoreError(f"{folder} is a file; expected the name of a folder to write the page to.")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not _is_ours(folder):
        raise StoreError(f"{folder} is not empty and not an exported page. Choose another folder, or empty it.")
    if not force:
        raise StoreError(f"{folder} already exists. Choose another folder, or replace it with --force.")


def export_web(classifier: OpenModel, folder: Path, runtime: Runtime, *, force: bool = False) -> WebExport:
    """Write the page, after comparing its graph with the answers of the classifier."""
    check_web_target(folder, force=force)
    if classifier.pipeline.geometry.published:
        raise InputError(
            "This model reads pixels as published, without EXIF rotation, and a browser turns photos upright. "
            "For a page, fit without --protocol paper."
        )
    graph, difference = checked_export(classifier)
    measure = _measure(classifier)
    if measure is not None:
        graph = _with_strangeness(classifier, graph, measure)
    half = _halved(classifier, graph, measure)
    if half is not None:
        graph, difference = half
    own = {*PAGE, *FILES, *LICENCES, FACTS, GRAPH, *FORMER}
    with drafted_folder(folder, own=own.__contains__) as draft:
        (draft / GRAPH).write_bytes(gzip.compress(graph, mtime=0))
        for name, file in runtime.files.items():
            content = file.read_bytes()
            (draft / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith(".packed") else content)
        for name in PAGE:
            (draft / name).write_bytes(resources.files("yoro.web").joinpath("page", name).read_bytes())
        sizes = {file.name: file.stat().st_size for file in sorted(draft.iterdir())}
        facts = {"yoro_web": FORMAT, "runtime": runtime.version, "files": sizes} | described_model(classifier, measure)
        content = json.dumps(facts, ensure_ascii=False, allow_nan=False).encode()
        (draft / FACTS).write_bytes(content)
        for name, (package, licence) in LICENCES.items():  # for people; the page does not load them
            (draft / name).write_bytes((resources.files(package) / licence).read_bytes())
    return WebExport(sum(sizes.values()) + len(content), difference, half is not None, measure is not None)


def _is_ours(folder: Path) -> bool:
    """Whether a folder contains an exported page."""
    try:
        with (folder / FACTS).open("rb") as file:
            facts = json.loads(file.read(limits.MODEL_CONFIG_BYTES))
        return "yoro_web" in facts
    except (OSError, ValueError, TypeError):
        return False


def _measure(classifier: OpenModel) -> OutOfDistributionScore | None:
    """The out-of-distribution measure, if the model has one."""
    try:
        return out_of_distribution_score(classifier.model)
    except InputError:  # it keeps no responses, or too few
        return None


def _with_strangeness(classifier: OpenModel, graph: bytes, measure: OutOfDistributionScore) -> bytes:
    """The graph with the out-of-distribution score as a further output, compared with the measure itself."""
    model = onnx.load_from_string(graph)
    add_strangeness(model, measure)
    if model.ByteSize() > limits.ONNX_FILE_BYTES:
        raise SourceError("The graph is too large for one file together with the out-of-distribution score.")
    difference = _score_difference(classifier, model, measure)
    if not difference <= TOLERANCE:  # so that NaN is refused too
        raise SourceError(
            f"The exported graph's out-of-distribution scores are off by {difference:.1e}; "
            f"at most {TOLERANCE:.0e} was expected. Nothing was written."
        )
    return bytes(model.SerializeToString())


def _score_difference(classifier: OpenModel, model: onnx.ModelProto, measure: OutOfDistributionScore) -> float:
    """The largest difference of a score on trial images, relative where scores are large."""
    images = trial_images(classifier.pipeline.prompt.image_side)
    expected = measure(classifier.answering.respond(images))
    (found,) = run_graph(model, images, [OUTPUT])
    return float((np.abs(found - expected) / np.maximum(1.0, np.abs(expected))).max())


def _halved(classifier: OpenModel, graph: bytes, measure: OutOfDistributionScore | None) -> tuple[bytes, float] | None:
    """The graph with its weights in float16, and its largest difference in a probability; None if that is too large."""
    model, pipeline = onnx.load_from_string(graph), classifier.answering
    halve_weights(model)
    images = trial_images(pipeline.prompt.image_side)
    expected = np.exp(log_answers(classifier.model, pipeline.respond(images)))
    try:
        difference = verify_export(model, images, expected, HALF_TOLERANCE)
    except SourceError:
        return None
    if measure is not None and not _score_difference(classifier, model, measure) <= HALF_SCORE_TOLERANCE:
        return None
    return bytes(model.SerializeToString()), difference


def described_model(classifier: OpenModel, measure: OutOfDistributionScore | None) -> dict[str, object]:
    """What a page needs to know, and shows, about the model."""
    model, geometry = classifier.model, classifier.pipeline.geometry
    licence = model.origin.source.get("licence")
    return {
        "version": __version__,
        "classes": list(model.mapping.classes),
        "examples": round(model.statistics.total),
        "source": model.origin.name,
        "licence": None if licence is None else str(licence),
        "input": {
            "side": geometry.side,
            "fit": geometry.fit,
            "interpolation": geometry.interpolation,
            "jpeg_draft": draft_side(geometry),
            "most_pixels": limits.IMAGE_PIXELS,
            "columns_first": int(PIL.__version__.split(".")[0]) >= 13,  # see page/resize.js
        },
        "most_bytes": limits.IMAGE_FILE_BYTES,
        "fitted": None if measure is None else [float(f"{value:.7g}") for value in measure.fitted],
    }


def halve_weights(model: onnx.ModelProto) -> None:
    """Store every large float32 tensor in float16; a Cast, which the runtime does once, makes it float32 again."""
    casts, kept = [], []
    for tensor in model.graph.initializer:
        half = _half(tensor)
        if half is None:
            kept.append(tensor)
            continue
        stored = f"{tensor.name}_half"
        kept.append(numpy_helper.from_array(half, stored))
        casts.append(helper.make_node("Cast", [stored], [tensor.name], to=tensor.data_type, name=f"{tensor.name}_cast"))
    nodes = [*casts, *model.graph.node]
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(kept)
    model.graph.node.extend(nodes)


def _half(tensor: onnx.TensorProto) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]] | None:
    """A tensor's values in float16; None if it is small, of another type, or would lose too much."""
    if tensor.data_type != onnx.TensorProto.FLOAT or np.prod(tensor.dims, dtype=np.int64) < FEWEST:
        return None
    values = numpy_helper.to_array(tensor)
    if not np.abs(values).max() <= WIDEST:  # so that NaN is kept too
        return None
    half = values.astype(np.float16)
    lost = np.linalg.norm((half.astype(np.float32) - values).ravel())
    return half if lost <= ROUNDING * np.linalg.norm(values.ravel()) else None
