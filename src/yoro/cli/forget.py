"""`yoro forget`: take labelled data back out of a model."""

from __future__ import annotations

from yoro.cli.talk import Data, Force, ModelPath, Out, Quiet, change_model


def run(model: ModelPath, data: Data, out: Out = None, force: Force = False, quiet: Quiet = False) -> None:
    """Take labelled data back out of a model, as if they had never been fitted."""
    change_model(model, out, force, quiet, lambda classifier: classifier.forget(data, progress=not quiet))
