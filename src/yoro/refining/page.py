"""The page about a refinement."""

from __future__ import annotations

from yoro.refining.refinement import Refinement
from yoro.store import Model


def refinement_page(refinement: Refinement, given: Model, refined: Model) -> str:
    """placeholder"""
    return ""
