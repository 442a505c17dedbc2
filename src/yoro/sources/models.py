"""The catalogue of sources for `yoro models` and suggestions; timm, torchvision, open_clip and hubs have many more."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path

from yoro.environment import install
from yoro.errors import StoreError, one_line
from yoro.sources.added import added_names, read_added
from yoro.sources.embedded import NETWORKS, EmbeddedNetwork, weight_file
from yoro.sources.minilm import model_folder
from yoro.sources.weight_caches import is_cached

EXTRAS = {"timm": "torch", "torchvision": "torch", "open_clip": "clip"}
OWN = "the weights' own"
VIT = "timm/vit_base_patch{}_clip_224.openai"
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
    ("open_clip:ViT-B-32/openai", "CLIP ViT-B-32, the paper's", 512, 224, "MIT", VIT.format(32)),
    ("open_clip:ViT-B-16/openai", "CLIP ViT-B-16, the paper's", 512, 224, "MIT", VIT.format(16)),
    ("open_clip:MODEL/TAG", "any image-text model of open_clip", None, None, OWN, ""),
)
# Networks of a hub, read without torch: name, what it is, width, side, licence of the original, megabytes, and billions
# of multiply-adds for an image.
HUB_NETWORKS = (
    (
        "hf:onnx-community/mobilenetv4_conv_small.e2400_r224_in1k",
        "MobileNetV4 small, ImageNet-1K",
        1000,
        224,
        "Apache-2.0",
        15,
        0.19,
    ),
    ("hf:Xenova/resnet-50", "ResNet-50, ImageNet-1K", 1000, 224, "Apache-2.0", 102, 4.1),
    ("hf:Xenova/vit-base-patch16-224", "ViT-B/16, ImageNet-21K, then 1K", 1000, 224, "Apache-2.0", 346, 16.9),
    ("hf:Xenova/clip-vit-base-patch32", "CLIP ViT-B/32, image-text", 512, 224, "MIT", 606, 4.4),
)
MULTIPLY_ADDS = {
    "lite0": 0.41,
    "lite1": 0.63,
    "lite2": 0.90,
    "mobilenet-v2": 0.30,
    "pplcnet-v2": 0.60,
}  # billions for an image, as published
PURPOSES = {  # what to take for what; of those that were not measured here, by their published accuracy
    "embedded:lite0": "to begin with: small and fast, the default",
    "hf:onnx-community/mobilenetv4_conv_small.e2400_r224_in1k": "smaller and faster, less accurate",
    "embedded:lite2": "more accurate; `--best` combines it with others",
    "embedded:pplcnet-v2": "the most accurate of these alone; `--best` uses it where it is installed",
    "hf:Xenova/vit-base-patch16-224": "more accurate still without torch, and slow",
    "open_clip:ViT-B-16/openai": "image-text: classes described in words",
    "hf:Xenova/clip-vit-base-patch32": "image-text without torch",
    "embedded:conse": "image-text without a download, weaker",
}


@dataclass(frozen=True)
class CatalogueRow:
    """One source. `width` is that of its logits, or of the vectors of an image-text model.

    `installed` is said of the packages that it needs, `weights` of its weights; None where they depend on its name.
    `purpose` is set for those that are recommended. `multiply_adds` are billions for an image, `speed` images a second
    on this machine, `measured` or forecast; both are None until `speeds.with_speeds` finds them out.
    """

    name: str
    what: str
    width: int | None
    side: int | None
    installed: bool
    how: str
    licence: str
    weights: bool | None = None
    purpose: str = ""
    megabytes: float | None = None
    multiply_adds: float | None = None
    speed: float | None = None
    measured: bool | None = None

    @property
    def to_do(self) -> str:
        """What is left to do before it can be used; empty if nothing is."""
        if not self.installed:
            return self.how
        if self.weights is not False:
            return ""
        return "downloaded at first use" + ("" if self.name.startswith("hf:") else "; or a file, ?weights=FILE")


def list_sources() -> list[str]:
    """The names of the catalogue."""
    return [row.name for row in catalogue()]


def catalogue() -> list[CatalogueRow]:
    """The sources and whether they are installed; none is imported."""
    conse = model_folder() is not None
    function, service = "any Python function, images to responses", "any HTTP API that returns a vector"
    there, pair = (importlib.util.find_spec(package) is not None for package in ("httpx", "tokenizers"))
    rows = [
        *(_embedded_row(*item) for item in NETWORKS.items()),
        *(_added_row(name) for name in added_names()),
        *(_torch_row(*row) for row in CLASSIFIERS),
        CatalogueRow("embedded:conse", CONSE, 384, 224, conse, install_command("open_clip"), "Apache-2.0", conse),
        *(_torch_row(*row) for row in IMAGE_TEXT),
        *(_hub_row(*row) for row in HUB_NETWORKS),
        CatalogueRow("hf:OWNER/NAME", "any classifier in ONNX on a hub, no torch", None, None, True, "", OWN),
        CatalogueRow("onnx:FOLDER", PAIR, None, None, pair, install("clip-onnx"), "your own"),
        CatalogueRow("onnx:PATH", "any network in an ONNX file", None, None, True, "a file of yours", "your own"),
        CatalogueRow("callable:module:function", function, None, None, True, "code of yours", "your own"),
        CatalogueRow("https://HOST", "a `yoro serve --responses`", None, None, there, install("endpoint"), "its own"),
        CatalogueRow("endpoint:FILE.toml", service, None, None, there, install("endpoint"), "its own"),
    ]
    return [replace(row, purpose=PURPOSES.get(row.name, "")) for row in rows]


def places_of(name: str) -> list[str]:
    """Where the weights of a source of the catalogue come from; none for any other, which its library knows."""
    return [row[-1] for row in (*CLASSIFIERS, *IMAGE_TEXT) if row[0] == name and row[-1]]


def installed(package: str) -> bool:
    """Whether a package and torch are installed; neither is imported."""
    return importlib.util.find_spec(package) is not None and importlib.util.find_spec("torch") is not None


def install_command(package: str) -> str:
    """The command that installs a package of the torch sources, and all they need beside it."""
    return install(EXTRAS[package])


def _embedded_row(variant: str, network: EmbeddedNetwork) -> CatalogueRow:
    what, how = f"{network.what}, ImageNet-1K, no torch", network.install
    file = weight_file(variant)
    there, size = file is not None, None if file is None else round(file.stat().st_size / 1e6, 1)
    row = CatalogueRow(f"embedded:{variant}", what, 1000, network.side, there, how, network.licence, there)
    return replace(row, megabytes=size, multiply_adds=MULTIPLY_ADDS.get(variant))


def _added_row(name: str) -> CatalogueRow:
    gone = f"forget it with `yoro models remove {name}`"
    try:
        added = read_added(name)
    except StoreError as error:
        return CatalogueRow(name, one_line(error), None, None, False, gone, "your own")
    there, how = Path(added.path).is_file(), f"its file is not there: put it back, or {gone}"
    what = f"added by you: {added.path}"
    return CatalogueRow(name, what, added.width, added.side, there, how, "your own", there)


def _torch_row(name: str, what: str, width: int | None, side: int | None, licence: str, place: str) -> CatalogueRow:
    package = name.partition(":")[0]
    weights = is_cached([place]) if place else None
    return CatalogueRow(name, what, width, side, installed(package), install_command(package), licence, weights)


def _hub_row(
    name: str, what: str, width: int, side: int, licence: str, megabytes: float, multiply_adds: float
) -> CatalogueRow:
    repository, _, file = name.removeprefix("hf:").partition("/onnx/")
    weights = is_cached([f"{repository}/onnx/{file or 'model.onnx'}"])
    row = CatalogueRow(name, f"{what}, no torch", width, side, True, "", f"{licence}, of the original", weights)
    return replace(row, megabytes=megabytes, multiply_adds=multiply_adds)
