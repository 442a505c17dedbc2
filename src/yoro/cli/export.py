"""`yoro export`: a model as one ONNX file, image in, probabilities out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from yoro.cli.talk import Device, Force, ModelPath, Moved, Quiet, say


def run(
    model: ModelPath,
    onnx: Annotated[Path, typer.Option("--onnx", metavar="FILE", help="Where to write the graph.", show_default=False)],
    source: Moved = None,
    device: Device = "cpu",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write prompt, normalisation, source and mapping as one ONNX graph, checked against `predict` first."""
    from yoro.files.atomic import write_file
    from yoro.model.checked_export import checked_export
    from yoro.model.classifier import load
    from yoro.model.store import refuse_existing

    refuse_existing(onnx, force=force)
    graph, difference = checked_export(load(model, source=source, device=device))
    write_file(onnx, graph)
    say(f"{onnx}: {len(graph) / 1e6:.1f} MB; probabilities equal those of `predict` within {difference:.1g}.", quiet)
