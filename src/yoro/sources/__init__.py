"""Frozen pretrained models, each behind the same small contract: images in, responses out."""

from yoro.sources.contract import ResponseSource
from yoro.sources.registry import CatalogueRow, catalogue, list_sources, open_source, runs_code

__all__ = ["CatalogueRow", "ResponseSource", "catalogue", "list_sources", "open_source", "runs_code"]
