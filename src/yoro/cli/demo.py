"""`yoro demo`: the main job on data that come with the installation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.options import WriteOptions, Writes
from yoro.cli.output import say

if TYPE_CHECKING:
    from yoro.cli.digits import Demonstration

FOLDER = Path("yoro-demo")


def demo(
    *,
    out: Annotated[Path, Parameter(metavar="FOLDER", help="Where to put the model and some pictures.")] = FOLDER,
    output: Writes = WriteOptions(),
) -> None:
    """Fit handwritten digits in one pass, compare with other label mappings, and predict a few."""
    from yoro.cli.digits import demonstrate
    from yoro.model.store import refuse_existing

    if not output.force:
        refuse_existing(out, force=False)
    say("Reading 1,797 handwritten digits with a network that knows only photographs ...", output.quiet)
    print(text(demonstrate(out, progress=not output.quiet), out))


def text(shown: Demonstration, out: Path) -> str:
    """The table, the predictions, and what to type next."""
    fitted = int(shown.classifier.model.statistics.total)
    rows = [
        f"{line.method:<12}{line.accuracy:>9.1%}{line.passes:>8}{line.seconds:>9.1f}"
        f"{line.images_a_second:>11.0f}{line.memory_mb:>11.0f}"
        for line in shown.lines
    ]
    return "\n".join(
        [
            "",
            f"{fitted:,} images fitted, {shown.images - fitted:,} held out, no training, no torch.",
            "",
            f"{'mapping':<12}{'accuracy':>9}{'passes':>8}{'seconds':>9}{'images/s':>11}{'memory MB':>11}",
            *rows,
            "",
            *(f"{path}  ->  {answer}" for path, answer in zip(shown.new, shown.answers, strict=True)),
            "",
            f"The model is in {out / 'digits.yoro'}. Next, try:",
            f"  yoro predict {out / 'digits.yoro'} {out / 'new'} --top 3",
            "  yoro fit YOUR_PHOTOS/ --out mine.yoro      (a folder with one folder of images a class)",
        ]
    )
