"""`yoro demo`: fit, compare and predict on data that come with the installation."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.options import WriteOptions
from yoro.cli.output import print_text, say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from yoro.mappings.affine import AffineMapping
    from yoro.model.open_model import OpenModel

FOLDER = Path("yoro-demo")
HELD_OUT = 0.3
SIDE = 64  # of the pictures written; the digits themselves have 8 x 8 pixels


@dataclass(frozen=True)
class Demonstration:
    """The classifier, methods with accuracy and seconds, the number of pictures, and predictions for new ones."""

    classifier: OpenModel
    methods: list[tuple[str, float, float]]
    images: int
    answers: dict[Path, str]


def demo(
    *,
    out: Annotated[Path, Parameter(metavar="FOLDER", help="Where to write the model and some pictures.")] = FOLDER,
    output: WriteOptions = WriteOptions(),
) -> None:
    """Fit handwritten digits, compare label mappings, predict a few."""
    if not output.force:
        output.check(out)
    say("Reading 1,797 handwritten digits with a network trained on photographs only ...", output.quiet)
    print_text(text(demonstrate(out, progress=not output.quiet), out))


def demonstrate(folder: Path, *, progress: bool = False) -> Demonstration:
    """Fit, compare, save `digits.yoro` and a few new pictures in `folder`, and predict those."""
    import numpy as np

    from yoro.data.find import find
    from yoro.data.response_streams import collect
    from yoro.data.splits import hold_out
    from yoro.fit import fit
    from yoro.model.settings import HERE

    pictures, labels = digits()
    kept, held = hold_out(labels, HELD_OUT, 0)
    started = time.perf_counter()
    classifier = fit([(pictures[i], labels[i]) for i in kept], progress=progress)
    seconds = time.perf_counter() - started
    test = find([(pictures[i], labels[i]) for i in held]).examples
    seen = collect(classifier.pipeline.stream(test, HERE), "testing")
    logits = seen.responses[:, classifier.model.statistics.layout.slices[0]]
    lines = [("YORO", np.mean(classifier.model.mapping.predict(seen.responses) == seen.labels), 0.0)]
    for name, mapping, extra in label_mappings(classifier):
        lines.append((name, np.mean(mapping.predict(logits) == seen.labels), extra))
    folder.mkdir(parents=True, exist_ok=True)
    classifier.save(folder / "digits.yoro", force=True)
    first = {labels[i]: pictures[i] for i in reversed(held.tolist())}  # the first held-out picture of each digit
    new = write_pictures(folder / "new", {label: first[label] for label in sorted(first)[::2]})
    told = [(name, float(accuracy), seconds + extra) for name, accuracy, extra in lines]
    return Demonstration(
        classifier, told, len(pictures), dict(zip(new, map(str, classifier.predict(new)), strict=True))
    )


def digits() -> tuple[list[NDArray[np.uint8]], list[str]]:
    """Pictures (SIDE, SIDE, 3) large enough to look at, and their labels."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    found, pictures = load_digits(), []
    for image in found.images:
        small = Image.fromarray(np.round(image * 255 / 16).astype(np.uint8))
        pictures.append(np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BILINEAR).convert("RGB")))
    return pictures, [str(label) for label in found.target]


def label_mappings(classifier: OpenModel) -> list[tuple[str, AffineMapping, float]]:
    """One discriminant and the label mappings of the literature, on the logits alone, and their seconds."""
    from yoro.mappings.cooccurrence import CoOccurrence, bayesian_mapping, frequency_mapping, plus_table

    assert classifier.model.reservoir is not None
    members = classifier.model.reservoir.members()
    one, choice = classifier.model.evidence().evidences[0], classifier.model.choice.parts[0]
    results = [("BDM on logits", one.mapping(choice), 0.0)]
    logits = members.responses[:, classifier.model.statistics.layout.slices[0]]
    for method, table, solve in (
        ("FLM", CoOccurrence(classifier.names), frequency_mapping),
        ("BLM+", plus_table(classifier.names), bayesian_mapping),
    ):
        started = time.perf_counter()
        table.update(logits, members.labels)
        results.append((method, solve(table), time.perf_counter() - started))
    return results


def write_pictures(folder: Path, pictures: dict[str, NDArray[np.uint8]]) -> list[Path]:
    """A file `a-LABEL.png` for each label."""
    from PIL import Image

    folder.mkdir(exist_ok=True)
    paths = [folder / f"a-{label}.png" for label in pictures]
    for path, picture in zip(paths, pictures.values(), strict=True):
        Image.fromarray(picture).save(path)
    return paths


def activation() -> list[str]:
    """The command that puts `yoro` on the PATH, if it is not."""
    script = Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin") / "activate"
    if shutil.which("yoro") is not None or not script.is_file():
        return []
    near = script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script
    return [f"  {'' if os.name == 'nt' else 'source '}{near}      (once, to put yoro on the PATH of this shell)"]


def text(shown: Demonstration, out: Path) -> str:
    """The table, the predictions, and the next commands."""
    from yoro.environment import peak_memory

    fitted, memory = int(shown.classifier.model.statistics.total), peak_memory()
    rows = [
        f"{method:<14}{accuracy:>9.1%}{1:>8}{seconds:>9.1f}{fitted / seconds:>11.0f}{memory:>11.0f}"
        for method, accuracy, seconds in shown.methods
    ]
    return "\n".join(
        [
            "",
            f"{fitted:,} images fitted, {shown.images - fitted:,} held out, no training, no torch.",
            "",
            f"{'mapping':<14}{'accuracy':>9}{'passes':>8}{'seconds':>9}{'images/s':>11}{'memory MB':>11}",
            *rows,
            "",
            *(f"{path}  ->  {answer}" for path, answer in shown.answers.items()),
            "",
            f"Model saved in {out / 'digits.yoro'}. Try next:",
            *activation(),
            f"  yoro predict {out / 'digits.yoro'} {out / 'new'} --top 3",
            "  yoro fit YOUR_PHOTOS/ --out mine.yoro      (one subfolder of images per class)",
        ]
    )
