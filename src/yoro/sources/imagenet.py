"""The thousand classes that most image classifiers were trained on."""

from __future__ import annotations

from importlib import resources


def imagenet_names() -> list[str]:
    """The 1000 class names of ILSVRC 2012, unique, in the order of the challenge.

    >>> imagenet_names()[281]
    'tabby'
    """
    return [nouns[0] for nouns in imagenet_synonyms()]


def imagenet_synonyms() -> list[list[str]]:
    """For each class every noun of its synset, the class name first."""
    text = resources.files("yoro.sources").joinpath("imagenet_classes.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [line.partition("\t")[2].split(", ") for line in lines]
