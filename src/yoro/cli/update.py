"""`yoro update`: add labelled data to a model."""

from __future__ import annotations

from yoro.cli.talk import Data, Force, ModelPath, Out, Quiet, change_model


def run(model: ModelPath, data: Data, out: Out = None, force: Force = False, quiet: Quiet = False) -> None:
    """Add labelled data to a model, exactly; new classes may appear."""
    change_model(model, out, force, quiet, lambda classifier: classifier.update(data, progress=not quiet))
