from __future__ import annotations

import numpy as np
import onnx
import pytest

from yoro.errors import SourceError
from yoro.sources import open_source

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One cache for the whole module: an export takes seconds."""
    return tmp_path_factory.mktemp("torch")


@pytest.fixture(autouse=True)
def cache(folder, monkeypatch):
    monkeypatch.setenv("YORO_CACHE", str(folder / "cache"))
    return folder / "cache" / "exports"


@pytest.fixture(scope="module")
def tiny(folder):
    """timm's smallest ResNet with seven classes and random weights, saved in both formats."""
    import timm
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    network = timm.create_model("test_resnet", pretrained=False, num_classes=7).eval()
    torch.save(network.state_dict(), folder / "tiny.pth")
    save_file(network.state_dict(), folder / "tiny.safetensors")
    return network


@pytest.fixture(scope="module")
def shuffle(folder):
    """A small torchvision network with its thousand classes and random weights."""
    import torch
    from torchvision import models

    torch.manual_seed(0)
    network = models.get_model("shufflenet_v2_x0_5", weights=None).eval()
    with torch.no_grad():  # random weights alone let the signal die out
        network.fc.bias.normal_()
    torch.save({"state_dict": network.state_dict()}, folder / "shuffle.pth")
    return network


def normalised(images, source):
    import torch

    pixels = (images.astype(np.float32) / 255 - np.float32(source.mean)) / np.float32(source.std)
    return torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_a_timm_network_from_a_local_file_answers_like_torch(suffix, tiny, folder, photos):
    import torch

    source = open_source(f"timm:test_resnet.r160_in1k?weights={folder}/tiny.{suffix}")
    assert (source.side, source.width, source.class_names) == (160, 7, None)
    assert (source.mean, source.std) == ((0.5,) * 3, (0.5,) * 3)
    images = photos(160)
    with torch.inference_mode():
        wanted = tiny(normalised(images, source)).numpy()
    np.testing.assert_allclose(source.respond(images), wanted, atol=1e-5 * np.abs(wanted).max())
    np.testing.assert_allclose(source.respond(images / np.float32(255)), wanted, atol=1e-5 * np.abs(wanted).max())


def test_timm_features_are_what_the_classifier_reads(tiny, folder, photos):
    import torch

    name = f"timm:test_resnet.r160_in1k?weights={folder}/tiny.pth"
    features = open_source(name, read="features")
    logits = open_source(name)
    assert features.describe()["digest"] == logits.describe()["digest"]
    images = photos(160)
    with torch.inference_mode():
        wanted = tiny.get_classifier()(torch.from_numpy(features.respond(images))).numpy()
    np.testing.assert_allclose(logits.respond(images), wanted, atol=1e-5)


@pytest.mark.long
def test_a_real_torchvision_network_answers_as_the_embedded_one(photos):
    from yoro.sources.embedded import weight_file

    name = f"torchvision:mobilenet_v2/IMAGENET1K_V1?weights={weight_file('mobilenet-v2')}"
    exported, embedded = open_source(name, read="all"), open_source("embedded:mobilenet-v2", read="all")
    assert exported.layout == embedded.layout
    ours, theirs = embedded.respond(photos(224)), exported.respond(photos(224))
    np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max(), rtol=0)


def test_torchvision_features_are_what_the_classifier_reads(shuffle, folder, photos):
    import torch

    name = f"torchvision:shufflenet_v2_x0_5/IMAGENET1K_V1?weights={folder}/shuffle.pth"
    features, logits = open_source(name, read="features"), open_source(name)
    assert (features.width, logits.width, logits.side) == (1024, 1000, 224)
    images = photos(224)
    with torch.inference_mode():
        wanted = shuffle(normalised(images, logits)).numpy()
        again = shuffle.fc(torch.from_numpy(features.respond(images))).numpy()
    np.testing.assert_allclose(logits.respond(images), wanted, atol=1e-4)
    np.testing.assert_allclose(again, wanted, atol=1e-4)


def test_the_source_run_by_torch_equals_the_graph(tiny, folder, photos):
    from yoro.sources.protocol import Identity
    from yoro.sources.torch.network import Network, TorchSource, state_digest

    graph = open_source(f"timm:test_resnet.r160_in1k?weights={folder}/tiny.pth")
    digest = state_digest(tiny.state_dict())
    identity = Identity(graph.name, "logits", graph.side, graph.mean, graph.std, digest)
    torch_source = TorchSource(Network(tiny, identity, None), "cpu")
    images = photos(160)
    np.testing.assert_allclose(torch_source.respond(images), graph.respond(images), atol=1e-5)
    assert torch_source.describe() == graph.describe()
    onnx.checker.check_model(torch_source.onnx_model())


def test_frozen_means_no_gradient_and_no_training_mode(tiny, folder, photos):
    from yoro.sources.protocol import Identity
    from yoro.sources.torch.network import Network, TorchSource

    tiny.train()
    identity = Identity("timm:tiny", "logits", 160, (0.5,) * 3, (0.5,) * 3, "0" * 64)
    source = TorchSource(Network(tiny, identity, None), "cpu")
    assert not any(parameter.requires_grad for parameter in tiny.parameters())
    images = photos(160)
    alone = np.concatenate([source.respond(image[None]) for image in images])
    np.testing.assert_allclose(source.respond(images), alone, atol=1e-6)


def test_batch_mates_do_not_matter(folder, tiny, photos):
    source = open_source(f"timm:test_resnet.r160_in1k?weights={folder}/tiny.pth")
    images = photos(160)
    alone = np.concatenate([source.respond(image[None]) for image in images])
    np.testing.assert_allclose(source.respond(images), alone, atol=1e-6)


def test_an_export_is_made_once(folder, tiny, cache, monkeypatch):
    name = f"timm:test_resnet.r160_in1k?weights={folder}/tiny.pth"
    open_source(name)
    monkeypatch.setattr("yoro.sources.torch.export.export_graph", lambda *_: pytest.fail("exported again"))
    open_source(name)
    assert all(file.suffix == ".onnx" for file in cache.iterdir())  # nothing half-written is left


@pytest.mark.long
@pytest.mark.parametrize("damage", ["noise", "other numbers"])
def test_a_damaged_export_is_made_anew(damage, folder, tiny, tmp_path, monkeypatch, photos):
    monkeypatch.setenv("YORO_CACHE", str(tmp_path))
    name = f"timm:test_resnet.r160_in1k?weights={folder}/tiny.pth"
    before = open_source(name).respond(photos(160))
    (path,) = (tmp_path / "exports").iterdir()
    if damage == "noise":
        path.write_bytes(b"noise")
    else:
        model = onnx.load(path)
        largest = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
        largest.raw_data = bytes(len(largest.raw_data))
        onnx.save(model, path)
    np.testing.assert_array_equal(open_source(name).respond(photos(160)), before)


def test_an_export_that_changes_numbers_is_refused(folder, tiny, cache, monkeypatch):
    from yoro.sources.torch import export as torch_export

    monkeypatch.setattr(torch_export, "LARGEST_DIFFERENCE", 0.0)
    with pytest.raises(SourceError, match="differs from torch"):
        open_source(f"timm:test_resnet.r160_in1k?weights={folder}/tiny.pth")


def test_weights_that_cannot_be_fetched_point_to_a_local_file(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(SourceError, match=r"torchvision:resnet18\?weights=FILE"):
        open_source("torchvision:resnet18/IMAGENET1K_V1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(SourceError, match=r"timm:resnet18\?weights=FILE"):
        open_source("timm:resnet18")


def test_wrong_networks_and_weights_are_refused(folder, tiny, shuffle, tmp_path):
    (tmp_path / "noise.pth").write_bytes(b"noise")
    for name, answer in {
        "timm:resnt18": "Did you mean 'timm:resnet18'",
        "torchvision:resnt18": "Did you mean 'torchvision:resnet18'",
        "torchvision:resnet18/V9": "no weights 'V9'; choose one of IMAGENET1K_V1, DEFAULT",
        f"timm:resnet18?weights={folder}/tiny.pth": "do not fit the network",
        f"timm:resnet18?weights={folder}/absent.pth": "there is no weight file",
        f"timm:resnet18?weights={tmp_path}/noise.pth": "not a readable weight file",
        "timm:resnet18?wieghts=a.pth": "option 'wieghts'",
    }.items():
        with pytest.raises(SourceError, match=answer.replace("(", r"\(")):
            open_source(name)


def test_a_pickle_with_code_is_not_run(tmp_path):
    import pickle

    class Hostile:
        def __reduce__(self):
            return (tmp_path.joinpath("ran").touch, ())

    (tmp_path / "hostile.pth").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(SourceError, match="not a readable weight file"):
        open_source(f"timm:resnet18?weights={tmp_path}/hostile.pth")
    assert not (tmp_path / "ran").exists()


def test_an_absent_device_is_refused(folder, tiny):
    import torch

    name = f"timm:test_resnet.r160_in1k?weights={folder}/tiny.pth"
    with pytest.raises(SourceError, match="not a device"):
        open_source(name, device="abacus")
    if not torch.cuda.is_available():
        with pytest.raises(SourceError, match="no device 'cuda'"):
            open_source(name, device="cuda")


@pytest.mark.long
def test_the_instagram_network_says_its_licence(folder, monkeypatch):
    """The 350 MB network itself is not built: the licence hangs on its name."""
    import timm
    import torch

    from yoro.sources.torch import zoo

    network = timm.create_model("test_resnet", pretrained=False, num_classes=7)
    torch.save(network.state_dict(), folder / "instagram.pth")
    monkeypatch.setattr(zoo, "_create_timm", lambda name, **_: network)
    name = f"timm:resnext101_32x8d.fb_wsl_ig1b_ft_in1k?weights={folder}/instagram.pth"
    assert open_source(name).describe()["licence"] == "CC-BY-NC-4.0"
