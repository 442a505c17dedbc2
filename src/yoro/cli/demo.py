"""`yoro demo`: fit photographs and digits that come with the installation, and compare with logistic regression."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.options import WriteOptions
from yoro.cli.output import print_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from yoro.api.classifier import Classifier
    from yoro.data.examples import Example
    from yoro.data.python_data import Data

FOLDER = Path("yoro-demo")
HELD_OUT = 0.3  # of the digits
SIDE = 64  # pixels per side of the digits as pictures; the originals have 8 x 8
PIECE = 48  # pixels, the side of a piece of a photograph
FITTED_PIECES, NEW_PIECES = 8, 20  # of each kind
# What scikit-learn's two photographs show: which of them, and the boxes (left, top, right, bottom) that pieces to fit
# and new ones are cut from. The two boxes of a kind do not overlap.
KINDS = {
    "flower": (1, (190, 110, 300, 340), (310, 110, 430, 340)),
    "lake": (0, (345, 222, 450, 290), (460, 215, 550, 285)),
    "leaves": (1, (0, 0, 160, 427), (460, 0, 640, 350)),
    "pagoda": (0, (95, 90, 205, 330), (210, 90, 325, 330)),
    "sky": (0, (0, 0, 90, 130), (340, 0, 640, 130)),
    "trees": (0, (0, 345, 200, 427), (340, 310, 640, 427)),
}


@dataclass(frozen=True)
class Measured:
    """Test accuracy of a fit and of logistic regression on the same features, and their seconds with the pass."""

    data: str
    fitted: int
    tested: int
    ours: tuple[float, float]
    logistic: tuple[float, float]


@dataclass(frozen=True)
class Demonstration:
    """Two measured fits, and the predictions of the first for some new pieces."""

    measured: tuple[Measured, Measured]
    answers: dict[Path, str]


def demo(
    *,
    out: Annotated[Path, Parameter(metavar="FOLDER", help="Where to write the model and its photographs.")] = FOLDER,
    output: WriteOptions = WriteOptions(),
) -> None:
    """Fit photographs and digits, compare with logistic regression."""
    if not output.force:
        output.check(out)
    output.tell("Reading pieces of photographs, then 1,797 handwritten digits ...")
    print_text(text(demonstrate(out, progress=not output.quiet), out))


def demonstrate(folder: Path, *, progress: bool = False) -> Demonstration:
    """Fit and test on photographs and on digits; `folder` gets the photographs and `photos.yoro`, fitted to them."""
    from yoro.data.find import find
    from yoro.data.splits import hold_out

    new = write_pieces(folder)
    classifier, photographs = measure("photographs", folder / "photos", find(new).examples, progress)
    classifier.save(folder / "photos.yoro", force=True)
    pictures, labels = digits()
    kept, held = hold_out(labels, HELD_OUT, 0)
    fitted, test = ([(pictures[i], labels[i]) for i in part] for part in (kept, held))
    _, written = measure("digits", fitted, find(test).examples, progress)
    shown = [path for path, _ in new[::NEW_PIECES]]
    return Demonstration((photographs, written), dict(zip(shown, map(str, classifier.predict(shown)), strict=True)))


def measure(name: str, data: Data, test: Sequence[Example], progress: bool) -> tuple[Classifier, Measured]:
    """Fit one dataset, and logistic regression on the responses that the fit has read."""
    import numpy as np

    from yoro.data.response_streams import collect
    from yoro.fit import fit
    from yoro.model.settings import USUAL
    from yoro.research.peers.method import make_task
    from yoro.research.peers.scikit_learn import fit_logistic

    started = time.perf_counter()
    classifier = fit(data, progress=progress)
    seconds = time.perf_counter() - started
    assert classifier.model.reservoir is not None
    members = classifier.model.reservoir.members()
    started = time.perf_counter()
    task = make_task(members.responses, members.labels)
    logistic = fit_logistic(task)
    more = time.perf_counter() - started
    seen = collect(classifier.pipeline.stream(test, USUAL), "testing")
    responses = seen.responses.astype(np.float64)
    ours = float(np.mean(classifier.model.mapping.predict(responses) == seen.labels))
    theirs = float(np.mean(np.array(task.classes)[logistic(responses).argmax(axis=1)] == seen.labels))
    return classifier, Measured(name, len(members.labels), len(test), (ours, seconds), (theirs, seconds + more))


def write_pieces(folder: Path) -> list[tuple[Path, str]]:
    """Write `photos/KIND/NUMBER.jpg` to fit and `new/KIND-NUMBER.jpg` to predict; the new ones, with their kinds."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_sample_images

    photographs, draw = load_sample_images().images, np.random.default_rng(0)
    new = []
    for kind, (which, *boxes) in KINDS.items():
        (folder / "photos" / kind).mkdir(parents=True, exist_ok=True)
        (folder / "new").mkdir(exist_ok=True)
        for number in range(FITTED_PIECES + NEW_PIECES):
            held = number >= FITTED_PIECES
            left, top, right, bottom = boxes[held]
            x, y = draw.integers(left, right - PIECE), draw.integers(top, bottom - PIECE)
            path = folder / (f"new/{kind}-{number:02d}.jpg" if held else f"photos/{kind}/{number:02d}.jpg")
            Image.fromarray(photographs[which][y : y + PIECE, x : x + PIECE]).save(path, quality=95)
            new += [(path, kind)] if held else []
    return new


def digits() -> tuple[list[NDArray[np.uint8]], list[str]]:
    """Pictures (SIDE, SIDE, 3) of handwritten digits, and their labels."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    found, pictures = load_digits(), []
    for image in found.images:
        small = Image.fromarray(np.round(image * 255 / 16).astype(np.uint8))
        pictures.append(np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BILINEAR).convert("RGB")))
    return pictures, [str(label) for label in found.target]


def activation() -> list[str]:
    """The command that puts `yoro` on the PATH, if it is not."""
    script = Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin") / "activate"
    if shutil.which("yoro") is not None or not script.is_file():
        return []
    near = script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script
    return [f"  {'' if os.name == 'nt' else 'source '}{near}      (once, to put yoro on the PATH of this shell)"]


def text(shown: Demonstration, out: Path) -> str:
    """The table, the predictions, and the next commands."""
    rows = [
        f"{one.data:<12}{one.fitted:>7,}{one.tested:>10,}{one.ours[0]:>9.1%}{one.ours[1]:>9.1f}"
        f"{one.logistic[0]:>14.1%}{one.logistic[1]:>9.1f}"
        for one in shown.measured
    ]
    return "\n".join(
        [
            "",
            "Accuracy on held-out images, after one pass over the others; no training, no torch:",
            "",
            f"{'data':<12}{'fitted':>7}{'held out':>10}{'YORO':>9}{'seconds':>9}{'logistic*':>14}{'seconds':>9}",
            *rows,
            "",
            "* scikit-learn's logistic regression on the same features, read in the same pass.",
            "",
            *(f"{path}  ->  {answer}" for path, answer in shown.answers.items()),
            "",
            f"Model saved in {out / 'photos.yoro'}. Try next:",
            *activation(),
            f"  yoro predict {out / 'photos.yoro'} {out / 'new'} --html {out / 'new.html'}",
            "  yoro fit YOUR_PHOTOS/ --out mine.yoro      (one subfolder of images per class)",
        ]
    )
