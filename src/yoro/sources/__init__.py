"""Frozen pretrained models, each behind the same small contract: images in, responses out."""

from yoro.sources.models import CatalogueRow, catalogue, list_sources
from yoro.sources.open import needs_consent, open_source
from yoro.sources.protocol import DualEncoder, ResponseSource, is_dual

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
