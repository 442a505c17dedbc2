"""The catalogue of sources for `yoro models` and suggestions; timm, torchvision and open_clip have many more."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from yoro.environment import install
from yoro.sources.embedded import LICENCE, SIDES, package_of, weight_file
from yoro.sources.minilm import model_folder

EXTRAS = {"timm": "torch", "torchvision": "torch", "open_clip": "clip"}
OWN = "the weights' own"
INSTAGRAM = "ResNeXt-101 32x8d, Instagram hashtags, fine-tuned on ImageNet-1K"
CONSE = "ImageNet's class names as sentences, weighted by EfficientNet-Lite0; not CLIP"
# What needs torch: name, what it is, width of its responses, side, licence.
CLASSIFIERS = (
    ("timm:resnet18", "ResNet-18, timm's default weights", 1000, 224, "Apache-2.0"),
    ("timm:resnext101_32x8d.fb_wsl_ig1b_ft_in1k", INSTAGRAM, 1000, 224, "CC-BY-NC-4.0: not for commercial use"),
    ("torchvision:resnet18/IMAGENET1K_V1", "ResNet-18, the paper's", 1000, 224, "BSD-3-Clause"),
    ("timm:NAME", "any classifier of timm", None, None, OWN),
    ("torchvision:NAME/WEIGHTS", "any classifier of torchvision", None, None, OWN),
)
IMAGE_TEXT = (
    ("open_clip:RN50/openai", "CLIP RN50, the paper's", 1024, 224, "MIT"),
    ("open_clip:RN101/openai", "CLIP RN101, the paper's", 512, 224, "MIT"),
    ("open_clip:ViT-B-32/openai", "CLIP ViT-B-32, the paper's", 512, 224, "MIT"),
    ("open_clip:ViT-B-16/openai", "CLIP ViT-B-16, the paper's", 512, 224, "MIT"),
    ("open_clip:MODEL/TAG", "any image-text model of open_clip", None, None, OWN),
)


@dataclass(frozen=True)
class CatalogueRow:
    """One source. `width` is that of its logits, or of the vectors of an image-text model."""

    name: str
    what: str
    width: int | None
    side: int | None
    installed: bool
    how: str
    licence: str


def list_sources() -> list[str]:
    """The names of the catalogue."""
    return [row.name for row in catalogue()]


def catalogue() -> list[CatalogueRow]:
    """The sources and whether they are installed; none is imported."""
    conse = model_folder() is not None
    function, service = "any Python function, images to responses", "any HTTP API that returns a vector"
    there = importlib.util.find_spec("httpx") is not None
    return [
        *(_embedded_row(variant, side) for variant, side in SIDES.items()),
        *(_torch_row(*row) for row in CLASSIFIERS),
        CatalogueRow("embedded:conse", CONSE, 384, 224, conse, install_command("open_clip"), LICENCE),
        *(_torch_row(*row) for row in IMAGE_TEXT),
        CatalogueRow("onnx:PATH", "any classifier in an ONNX file", None, None, True, "a file of yours", "your own"),
        CatalogueRow("callable:module:function", function, None, None, True, "code of yours", "your own"),
        CatalogueRow("https://HOST", "a `yoro serve --responses`", None, None, there, install("endpoint"), "its own"),
        CatalogueRow("endpoint:FILE.toml", service, None, None, there, install("endpoint"), "its own"),
    ]


def installed(package: str) -> bool:
    """Whether a package and torch are installed; neither is imported."""
    return importlib.util.find_spec(package) is not None and importlib.util.find_spec("torch") is not None


def install_command(package: str) -> str:
    """The command that installs a package of the torch sources, and all they need beside it."""
    return install(EXTRAS[package])


def _embedded_row(variant: str, side: int) -> CatalogueRow:
    what, there = f"EfficientNet-{variant.capitalize()}, ImageNet-1K, no torch", weight_file(variant) is not None
    return CatalogueRow(f"embedded:{variant}", what, 1000, side, there, f"pip install {package_of(variant)}", LICENCE)


def _torch_row(name: str, what: str, width: int | None, side: int | None, licence: str) -> CatalogueRow:
    package = name.partition(":")[0]
    return CatalogueRow(name, what, width, side, installed(package), install_command(package), licence)
