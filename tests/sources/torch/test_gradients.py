from __future__ import annotations

import numpy as np
import pytest

from yoro.errors import SourceError
from yoro.sources import open_source

pytestmark = pytest.mark.torch


NAMES = [
    "embedded:lite0?side=128",
    "embedded:mobilenet-v2",
    *(pytest.param(f"embedded:{name}", marks=pytest.mark.long) for name in ("lite0", "lite1", "lite2")),
]


@pytest.mark.parametrize("name", NAMES)
def test_the_embedded_network_in_torch_answers_as_its_graph_does(name, photos):
    from yoro.sources.torch.gradients import open_differentiable

    twin, source = open_differentiable(name, device="cpu"), open_source(name)
    np.testing.assert_allclose(twin.respond(photos(twin.side)), source.respond(photos(twin.side)), atol=1e-4)
    assert twin.describe() == source.describe()
    assert (twin.side, twin.width) == (source.side, source.width)


@pytest.mark.parametrize("name", ["embedded:lite0", "embedded:mobilenet-v2"])
def test_features_too(name, photos):
    from yoro.sources.torch.gradients import open_differentiable

    twin, source = (open_(name, read="features") for open_ in (open_differentiable, open_source))
    assert twin.width == 1280
    np.testing.assert_allclose(twin.respond(photos(224)), source.respond(photos(224)), atol=1e-4)


def test_gradients_reach_the_pixels_and_no_weight(photos):
    import torch

    from yoro.sources.torch.gradients import open_differentiable

    twin = open_differentiable("embedded:lite0", side=64, device="cpu")
    pixels = torch.from_numpy(photos(64)).permute(0, 3, 1, 2).float().div(255).requires_grad_()
    twin(pixels)[:, 0].sum().backward()
    assert pixels.grad is not None
    assert float(pixels.grad.abs().max()) > 0
    assert not any(weight.requires_grad for weight in twin._module.parameters())
    assert not twin._module.training


def test_timm_and_torchvision_networks_open_for_training(tmp_path, photos):
    import timm
    import torch
    from torchvision import models

    from yoro.sources.torch.gradients import open_differentiable

    torch.manual_seed(0)
    small = timm.create_model("test_resnet", pretrained=False, num_classes=7)
    torch.save(small.state_dict(), tmp_path / "small.pth")
    shuffle = models.get_model("shufflenet_v2_x0_5", weights=None)
    torch.save(shuffle.state_dict(), tmp_path / "shuffle.pth")
    one = open_differentiable(f"timm:test_resnet?weights={tmp_path / 'small.pth'}", side=64, device="cpu")
    two = open_differentiable(f"torchvision:shufflenet_v2_x0_5?weights={tmp_path / 'shuffle.pth'}", device="cpu")
    assert (one.side, one.width, two.side, two.width) == (64, 7, 224, 1000)
    pixels = (photos(64).astype(np.float32) / 255 - np.float32(one.mean)) / np.float32(one.std)
    with torch.no_grad():
        expected = small.eval()(torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())).numpy()
    np.testing.assert_allclose(one.respond(photos(64)), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "why"),
    [("onnx:a.onnx", "forwards only"), ("callable:a:b", "Python function"), ("https://a.example", "a service")],
)
def test_a_black_box_says_why_it_gives_no_gradients_and_what_to_use(name, why):
    from yoro.sources.torch.gradients import open_differentiable

    with pytest.raises(SourceError, match=f"gives no gradients: .*{why}.* embedded:lite0, timm:NAME"):
        open_differentiable(name)


def test_a_network_made_for_one_canvas_says_so(tmp_path):
    import timm
    import torch

    from yoro.sources.torch.gradients import open_differentiable

    torch.save(timm.create_model("vit_tiny_patch16_224", pretrained=False).state_dict(), tmp_path / "vit.pth")
    with pytest.raises(SourceError, match="does not take a canvas of 96"):
        open_differentiable(f"timm:vit_tiny_patch16_224?weights={tmp_path / 'vit.pth'}", side=96)


def test_a_canvas_too_small_for_the_network_is_refused():
    with pytest.raises(SourceError, match="side 16 is too small"):
        open_source("embedded:lite0?side=16")
