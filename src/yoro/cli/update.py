"""`yoro update`: add labelled data to a model."""

from __future__ import annotations

from yoro.cli.talk import data_verb

run = data_verb("update", "Add labelled data to a model, exactly; new classes may appear.")
