"""The names of all networks that timm and torchvision know, for guesses."""

from __future__ import annotations

import timm
from torchvision import models


def network_names() -> list[str]:
    """Names of sources, as they are typed."""
    mine = [f"timm:{name}" for name in timm.list_models()]
    return [*mine, *(f"torchvision:{name}" for name in models.list_models(module=models))]
