"""Frozen pretrained models, each behind the same small contract: images in, responses out."""

from yoro.sources.contract import DualEncoder, ResponseSource, is_dual
from yoro.sources.models import CatalogueRow, catalogue, list_sources
from yoro.sources.open import needs_consent, open_source

__all__ = [
    "CatalogueRow",
    "DualEncoder",
    "ResponseSource",
    "catalogue",
    "is_dual",
    "list_sources",
    "needs_consent",
    "open_source",
]
