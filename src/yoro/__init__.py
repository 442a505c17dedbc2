"""A frozen pretrained model and labelled images in, a classifier out, in one forward-only pass."""

from yoro.version import __version__

__all__ = ["__version__"]
