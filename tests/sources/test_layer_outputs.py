"""Several readings of one pass: against the network taken apart by torch, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from yoro.sources import open_source

SMALL = "embedded:lite0?side=64"


def test_logits_and_features_are_those_of_their_own_graphs(photos):
    images = photos(64)
    every = open_source(SMALL, read="all")
    answers = every.respond(images)
    names = every.layout.names
    assert names == ("logits", "features", "layer-100", "layer-80", "layer-69")
    assert [reading.transform for reading in every.layout.readings] == ["plain", *["root"] * 4]
    for read in ("logits", "features"):
        part = every.layout.slices[names.index(read)]
        np.testing.assert_array_equal(answers[:, part], open_source(SMALL, read=read).respond(images))


def test_batch_mates_do_not_matter_to_any_reading(photos):
    images, every = photos(64), open_source(SMALL, read="all")
    together = every.respond(np.concatenate([images, images[::-1], images, images]))
    alone = np.concatenate([every.respond(image[None]) for image in images])
    np.testing.assert_array_equal(together[:3], alone)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_layers_are_the_pooled_depthwise_activations_of_the_torch_network(photos):
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    from yoro.sources.embedded import weight_file

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(weight_file("lite0"), weights_only=True))
    network.eval()
    seen = {}
    for number in (15, 12, 10):
        block = network._blocks[number]
        block._bn1.register_forward_hook(
            lambda _, __, output, number=number: seen.__setitem__(number, output.clamp(0, 6).mean(dim=(2, 3)))
        )
    every = open_source("embedded:lite0", read="all")
    images = photos(224)
    with torch.inference_mode():
        network(torch.from_numpy(((images.astype(np.float32) - 127) / 128).transpose(0, 3, 1, 2)))
    answers = every.respond(images)
    for number, name in ((15, "layer-100"), (12, "layer-80"), (10, "layer-69")):
        part = every.layout.slices[every.layout.names.index(name)]
        np.testing.assert_allclose(answers[:, part], seen[number].numpy(), atol=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("library", "name", "widths", "transform"),
    [
        ("torchvision", "resnet18/DEFAULT", (1000, 512, 512, 256, 256), "root"),
        pytest.param("timm", "vit_tiny_patch16_224", (1000, *[192] * 6), "unit", marks=pytest.mark.long),
        pytest.param("timm", "convnext_atto", (1000, 320, 320, 160, 160), "unit", marks=pytest.mark.long),
        pytest.param("timm", "efficientnet_b0", (1000, 1280, 1152, 1152, 672), "unit", marks=pytest.mark.long),
    ],
)
def test_the_rule_finds_features_and_layers_in_any_network(library, name, widths, transform, photos, tmp_path):
    import timm
    import torch
    import torchvision
    from safetensors.torch import save_file

    torch.manual_seed(0)
    make = timm.create_model if library == "timm" else torchvision.models.get_model
    module = make(name.partition("/")[0]).eval()
    save_file({key: value.contiguous() for key, value in module.state_dict().items()}, tmp_path / "w.safetensors")
    source = f"{library}:{name}?weights={tmp_path / 'w.safetensors'}"
    every = open_source(source, read="all", device="cpu")
    assert tuple(reading.width for reading in every.layout.readings) == widths
    assert {reading.transform for reading in every.layout.readings[1:]} == {transform}
    images = photos(every.side)
    answers = every.respond(images)
    features = open_source(source, read="features", device="cpu").respond(images)
    np.testing.assert_allclose(answers[:, 1000 : 1000 + widths[1]], features, rtol=1e-3, atol=1e-4)


def test_a_graph_with_one_matrix_has_its_input_as_features_and_no_layers(tmp_path):
    from tests.model.test_onnx_export import write_linear

    every = open_source(write_linear(tmp_path / "m.onnx"), read="all")
    assert every.layout.names == ("logits", "features")
    images = np.random.default_rng(0).integers(0, 256, (3, 12, 12, 3), dtype=np.uint8)
    np.testing.assert_allclose(every.respond(images)[:, 5:].shape, (3, 3))


def test_a_black_box_keeps_what_it_has(tmp_path, monkeypatch):
    (tmp_path / "box_of_taps.py").write_text("def f(images):\n    return images.mean(axis=(1, 2))\n")
    monkeypatch.syspath_prepend(tmp_path)
    source = open_source("callable:box_of_taps:f", read="all")
    assert source.respond(np.zeros((2, source.side, source.side, 3), np.uint8)).shape == (2, 3)
    assert source.describe()["read"] == "logits"
