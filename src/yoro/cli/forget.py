"""`yoro forget`: take labelled data back out of a model."""

from __future__ import annotations

from yoro.cli.talk import data_verb

run = data_verb("forget", "Take labelled data back out of a model, as if they had never been fitted.")
