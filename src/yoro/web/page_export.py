"""Export as a static web page: the page, the ONNX graph, the runtime, and the facts about the model."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import onnx
import PIL

from yoro import limits
from yoro.environment import __version__
from yoro.errors import InputError, SourceError, StoreError
from yoro.files.atomic import check_writable, drafted_folder
from yoro.model.onnx_export import checked_export, draft_side, run_graph, trial_images
from yoro.model.open_model import OpenModel
from yoro.trust.out_of_distribution import OutOfDistributionScore, out_of_distribution_score
from yoro.web.browser_runtime import FILES, Runtime
from yoro.web.out_of_distribution_graph import OUTPUT, add_strangeness

FORMAT = 1  # of model.json
FACTS, GRAPH = "model.json", "model.onnx"
PAGE = (  # files of the folder `page`
    *("index.html", "style.css", "icon.svg", "service.js"),
    *("app.js", "list.js", "answer.js", "files.js", "camera.js"),
    *("worker.js", "pixels.js", "resize.js"),
)
TOLERANCE = 1e-3  # of an out-of-distribution score; its standard deviation among the training images is about one


@dataclass(frozen=True)
class WebExport:
    """Size and accuracy of an exported page."""

    size: int  # bytes of all files
    difference: float  # the largest in a probability on trial images
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
    graph, difference = checked_export(classifier)
    measure = _measure(classifier)
    if measure is not None:
        graph = _with_strangeness(classifier, graph, measure)
    own = {*PAGE, *FILES, FACTS, GRAPH}
    with drafted_folder(folder, own=own.__contains__) as draft:
        (draft / GRAPH).write_bytes(graph)
        for name, file in runtime.files.items():
            shutil.copyfile(file, draft / name)
        for name in PAGE:
            (draft / name).write_bytes(resources.files("yoro.web").joinpath("page", name).read_bytes())
        sizes = {file.name: file.stat().st_size for file in sorted(draft.iterdir())}
        facts = _facts(classifier, measure, runtime) | {"files": sizes}
        content = json.dumps(facts, ensure_ascii=False, allow_nan=False).encode()
        (draft / FACTS).write_bytes(content)
    return WebExport(sum(sizes.values()) + len(content), difference, measure is not None)


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
    images = trial_images(classifier.pipeline.prompt.image_side)
    expected = measure(classifier.answering.respond(images))
    (found,) = run_graph(model, images, [OUTPUT])
    difference = np.abs(found - expected) / np.maximum(1.0, np.abs(expected))
    if not difference.max() <= TOLERANCE:  # so that NaN is refused too
        raise SourceError(
            f"The exported graph's out-of-distribution scores are off by {difference.max():.1e}; "
            f"at most {TOLERANCE:.0e} was expected. Nothing was written."
        )
    return bytes(model.SerializeToString())


def _facts(classifier: OpenModel, measure: OutOfDistributionScore | None, runtime: Runtime) -> dict[str, object]:
    """What the page needs to know, and shows, about the model."""
    model, geometry = classifier.model, classifier.pipeline.geometry
    licence = model.origin.source.get("licence")
    return {
        "yoro_web": FORMAT,
        "version": __version__,
        "runtime": runtime.version,
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
