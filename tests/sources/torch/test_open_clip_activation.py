"""Networks that were trained with QuickGELU get it, in both towers, wherever their weights come from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest

from clip_models import CONFIG, write_clip
from yoro.sources import open_source
from yoro.sources.open import torch_network

if TYPE_CHECKING:
    import torch

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(find_spec("open_clip") is None, reason="the extra clip is not installed"),
]
SMALL = "ViT-S-32-alt"  # the smallest architecture that open_clip lists
SIZES = {"input_resolution": 224, "context_length": 77, "vocab_size": 49408}


def by_hand(architecture: str, quick: bool, seed: int = 0) -> torch.nn.Module:
    """The network with random weights and the activation that is asked for."""
    import open_clip
    import torch

    torch.manual_seed(seed)
    config = {**open_clip.get_model_config(architecture), "quick_gelu": quick}
    model = open_clip.CLIP(**config).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # they start at zero, where the two activations hardly differ
            parameter.normal_(std=0.5)
    return model


def answers(model: torch.nn.Module, side: int = 224) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors of an image and of a sentence."""
    import open_clip
    import torch

    pixels = torch.linspace(-1, 1, 3 * side * side).reshape(1, 3, side, side)
    tokens = open_clip.get_tokenizer(SMALL)(["a photo of a pug"])
    with torch.inference_mode():
        return model.encode_image(pixels), model.encode_text(tokens)


@pytest.mark.parametrize("form", ["state", pytest.param("archive", marks=pytest.mark.long)])
def test_a_file_of_openai_is_recognised(form, tmp_path):
    import torch

    right, wrong = by_hand(SMALL, quick=True), by_hand(SMALL, quick=False)
    file = tmp_path / "ViT.pt"
    if form == "state":
        sizes = {name: torch.tensor(size) for name, size in SIZES.items()}
        torch.save({key: value.half() for key, value in right.state_dict().items()} | sizes, file)
        right.load_state_dict({key: value.half().float() for key, value in right.state_dict().items()})
    else:
        for name, size in SIZES.items():
            vars(right).pop(name, None)
            right.register_buffer(name, torch.tensor(size))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tokens = torch.zeros(1, 77, dtype=torch.int64)
            torch.jit.save(torch.jit.trace(right, (torch.zeros(1, 3, 224, 224), tokens), check_trace=False), file)
    _, network = torch_network(f"open_clip:{SMALL}?weights={file}", "logits")
    found, expected, other = (answers(model) for model in (network.module.model, right, wrong))
    for tower in range(2):
        torch.testing.assert_close(found[tower], expected[tower], rtol=1e-4, atol=1e-4)
        assert (found[tower] - other[tower]).abs().max() > 0.01


def test_other_files_keep_the_activation_of_their_architecture(tmp_path):
    import torch

    model = by_hand(SMALL, quick=False)
    torch.save(model.state_dict(), tmp_path / "mine.pt")
    _, network = torch_network(f"open_clip:{SMALL}?weights={tmp_path / 'mine.pt'}", "logits")
    for found, expected in zip(answers(network.module.model), answers(model), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.long
def test_the_activation_is_part_of_what_a_source_is(tmp_path, monkeypatch):
    monkeypatch.setenv("YORO_CACHE", str(tmp_path / "cache"))
    digests, vectors = [], []
    for quick in (False, True):
        folder = write_clip(tmp_path / f"clip-{quick}")
        facts = {"model_cfg": {**CONFIG, "quick_gelu": quick}, "preprocess_cfg": {"size": 64}}
        (folder / "open_clip_config.json").write_text(json.dumps(facts))
        source = open_source(f"open_clip:local-dir:{folder}")
        digests.append(source.describe()["digest"])
        vectors.append(source.encode_texts(["a photo of a pug"]))
    assert digests[0] != digests[1]
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-4


def test_every_tag_says_which_activation_it_wants():
    from open_clip.pretrained import get_pretrained_cfg

    for model in ("RN50", "RN101", "ViT-B-32", "ViT-B-16"):
        assert get_pretrained_cfg(model, "openai")["quick_gelu"], model
    assert not get_pretrained_cfg("ViT-B-32", "laion2b_s34b_b79k").get("quick_gelu")


FETCHED = """
import json, sys, torch, open_clip
from yoro.sources.open import torch_network
name = sys.argv[1]
_, network = torch_network(f"open_clip:{name}/openai", "logits")
config = open_clip.get_model_config(name) | {"quick_gelu": True}
right = open_clip.CLIP(**config).eval()
right.load_state_dict(network.module.model.state_dict())
wrong = open_clip.CLIP(**config | {"quick_gelu": False}).eval()
wrong.load_state_dict(right.state_dict())
pixels = torch.linspace(-1, 1, 3 * 224 * 224).reshape(1, 3, 224, 224)
tokens = open_clip.get_tokenizer(name)(["a photo of a pug"])
with torch.inference_mode():
    gaps = {
        kind: [(ours(x) - theirs(x)).abs().max().item() for ours, theirs, x in (
            (network.module.model.encode_image, other.encode_image, pixels),
            (network.module.model.encode_text, other.encode_text, tokens),
        )] for kind, other in (("right", right), ("wrong", wrong))
    }
print(json.dumps(gaps))
"""


@pytest.mark.long
@pytest.mark.parametrize(("name", "repository"), [("RN50", "resnet50_clip"), ("ViT-B-32", "vit_base_patch32_clip_224")])
def test_the_weights_of_a_tag_get_the_activation_it_was_published_with(name, repository, tmp_path):
    from safetensors.torch import save_file

    place = tmp_path / "hub" / f"models--timm--{repository}.openai"
    snapshot = place / "snapshots" / "0" / "open_clip_model.safetensors"  # as the hub's client keeps a download
    snapshot.parent.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0")
    save_file({key: value.half() for key, value in by_hand(name, quick=True).state_dict().items()}, snapshot)
    env = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", FETCHED, name], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    gaps = json.loads(done.stdout.splitlines()[-1])
    assert max(gaps["right"]) == 0
    assert gaps["wrong"][1] > 0.01
    assert gaps["wrong"][0] == 0 if name == "RN50" else gaps["wrong"][0] > 0.01  # a ResNet has no GELU
