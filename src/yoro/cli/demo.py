"""`yoro demo`: the main job on data that come with the installation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yoro.cli.talk import Force, Quiet, say

if TYPE_CHECKING:
    from yoro.cli.demonstration import Demonstration


def run(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to put the model and some pictures.")] = Path(
        "yoro-demo"
    ),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Fit handwritten digits in one pass, compare with other label mappings, and predict a few."""
    from yoro.cli.demonstration import demonstrate
    from yoro.model.store import refuse_existing

    if not force:
        refuse_existing(out, force=False)
    say("Reading 1,797 handwritten digits with a network that knows only photographs ...", quiet)
    typer.echo(text(demonstrate(out, progress=not quiet), out))


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
