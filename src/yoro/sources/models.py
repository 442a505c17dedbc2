"""Which sources there are, and how one is opened by its name."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from yoro.errors import SourceError
from yoro.sources.contract import ResponseSource, check_reading
from yoro.sources.names import parse_name

TORCH_EXTRA = "pip install 'yoro-vr[torch]'"
CLIP_EXTRA = "pip install 'yoro-vr[clip]'"


@dataclass(frozen=True)
class CatalogueRow:
    """One source that can be had. `width` is that of its logits."""

    name: str
    what: str
    width: int | None
    side: int | None
    installed: bool
    how: str
    licence: str


def open_source(name: str, *, read: str = "logits", device: str = "auto", threads: int | None = None) -> ResponseSource:
    """Open the source of that name, read at its "logits" or its pooled "features".

    >>> open_source("embedded:lite0").width
    1000
    """
    parsed = parse_name(name, list_sources())
    reading = check_reading(read)
    if threads is not None and threads < 1:
        raise SourceError(f"threads must be at least 1, not {threads}.")
    if parsed.prefix == "embedded" and parsed.rest == "conse":
        from yoro.sources.conse import open_conse

        return open_conse(parsed, read=reading, device=device, threads=threads)
    if parsed.prefix == "embedded":
        from yoro.sources.embedded import open_embedded

        return open_embedded(parsed, read=reading, device=device, threads=threads)
    if parsed.prefix == "onnx":
        from yoro.sources.onnx_file import open_onnx

        return open_onnx(parsed, read=reading, device=device, threads=threads)
    if parsed.prefix == "callable":
        from yoro.sources.callable import open_callable

        return open_callable(parsed, read=reading, device=device, threads=threads)
    need_torch(parsed.prefix, name)
    if parsed.prefix == "open_clip":
        from yoro.sources.torch.open_clip_models import open_open_clip

        return open_open_clip(parsed, read=reading, device=device, threads=threads)
    if parsed.prefix == "timm":
        from yoro.sources.torch.timm_models import open_timm

        return open_timm(parsed, read=reading, device=device, threads=threads)
    from yoro.sources.torch.torchvision_models import open_torchvision

    return open_torchvision(parsed, read=reading, device=device, threads=threads)


def list_sources() -> list[str]:
    """The names of the catalogue."""
    return [row.name for row in catalogue()]


def catalogue() -> list[CatalogueRow]:
    """Sources worth naming, found without importing any of them; timm and torchvision have many more."""
    return [*_embedded_rows(), *_torch_rows(), *_dual_rows(), *_open_rows()]


def runs_code(name: str) -> bool:
    """Whether opening the name runs the user's own code; a name from a file must not be trusted with that."""
    return name.startswith("callable:")


def _embedded_rows() -> list[CatalogueRow]:
    from yoro.sources.embedded import LICENCE, SIDES, package_of, weight_file

    return [
        CatalogueRow(
            name=f"embedded:{variant}",
            what=f"EfficientNet-{variant.capitalize()}, ImageNet-1K, no torch",
            width=1000,
            side=side,
            installed=weight_file(variant) is not None,
            how=f"pip install {package_of(variant)}",
            licence=LICENCE,
        )
        for variant, side in SIDES.items()
    ]


def _torch_rows() -> list[CatalogueRow]:
    timm, torchvision = _installed("timm"), _installed("torchvision")
    instagram = "timm:resnext101_32x8d.fb_wsl_ig1b_ft_in1k"
    return [
        CatalogueRow("timm:resnet18", "ResNet-18, timm's default weights", 1000, 224, timm, TORCH_EXTRA, "Apache-2.0"),
        CatalogueRow(
            instagram,
            "ResNeXt-101 32x8d, Instagram hashtags, fine-tuned on ImageNet-1K",
            1000,
            224,
            timm,
            TORCH_EXTRA,
            "CC-BY-NC-4.0: not for commercial use",
        ),
        CatalogueRow(
            "torchvision:resnet18/IMAGENET1K_V1",
            "ResNet-18, the paper's",
            1000,
            224,
            torchvision,
            TORCH_EXTRA,
            "BSD-3-Clause",
        ),
        CatalogueRow("timm:NAME", "any classifier of timm", None, None, timm, TORCH_EXTRA, "the weights' own"),
        CatalogueRow(
            "torchvision:NAME/WEIGHTS",
            "any classifier of torchvision",
            None,
            None,
            torchvision,
            TORCH_EXTRA,
            "the weights' own",
        ),
    ]


def _dual_rows() -> list[CatalogueRow]:
    """Image-text models; `width` is the dimension of their vectors."""
    from yoro.sources.minilm import model_folder

    there = _installed("open_clip")
    clip = [
        CatalogueRow(f"open_clip:{model}/openai", f"CLIP {model}, the paper's", width, 224, there, CLIP_EXTRA, "MIT")
        for model, width in (("RN50", 1024), ("RN101", 512), ("ViT-B-32", 512), ("ViT-B-16", 512))
    ]
    conse = "ImageNet's class names as sentences, weighted by EfficientNet-Lite0; not CLIP, no torch"
    return [
        CatalogueRow("embedded:conse", conse, 384, 224, model_folder() is not None, CLIP_EXTRA, "Apache-2.0"),
        *clip,
        CatalogueRow(
            "open_clip:MODEL/TAG",
            "any image-text model of open_clip",
            None,
            None,
            there,
            CLIP_EXTRA,
            "the weights' own",
        ),
    ]


def _open_rows() -> list[CatalogueRow]:
    own = "your own"
    return [
        CatalogueRow("onnx:PATH", "any classifier in an ONNX file", None, None, True, "a file of yours", own),
        CatalogueRow(
            "callable:module:function",
            "any Python function, images to responses",
            None,
            None,
            True,
            "code of yours",
            own,
        ),
    ]


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None and importlib.util.find_spec("torch") is not None


def need_torch(package: str, name: str) -> None:
    """Refuse a source whose packages are not installed, with the command that installs them."""
    if not _installed(package) or not _installed("onnxscript"):
        extra = CLIP_EXTRA if package == "open_clip" else TORCH_EXTRA
        raise SourceError(f"{name!r} needs torch and {package}, which are not installed: {extra}")
