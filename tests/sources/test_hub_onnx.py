"""Networks of a hub as sources: found, pinned, opened offline, and never asked for by a model alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import yoro
from loopback_hub import COMMIT, KERNEL, PREPROCESSING, WIDTH, LoopbackHub, network, repository, serving
from yoro.errors import SourceError
from yoro.sources import needs_consent, open_source
from yoro.sources.open import why_unavailable

NAME = "someone/network"
FILE = "onnx/model.onnx"
PINNED = f"hf:{NAME}@{COMMIT}/{FILE}"
ASKS = "may ask a hub on the network"


@pytest.fixture
def hub(tmp_path, monkeypatch, socket_enabled):
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    with serving(LoopbackHub({NAME: repository()})) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


@pytest.fixture
def images():
    return np.random.default_rng(1).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Photos of two colours."""
    draw = np.random.default_rng(0)
    for name, colour in (("red", (200, 60, 60)), ("blue", (60, 60, 200))):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(6):
            pixels = np.clip(draw.normal(colour, 40, (20, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    return tmp_path / "photos"


def expected(images, colours=slice(None)):
    mean, std = np.array(PREPROCESSING["image_mean"]), np.array(PREPROCESSING["image_std"])
    return ((images[..., colours] / 255 - mean) / std).mean(axis=(1, 2)) @ KERNEL


def test_a_network_is_read_as_its_preprocessing_says_and_pinned(hub, images):
    source = open_source(f"hf:{NAME}")
    np.testing.assert_allclose(source.respond(images), expected(images), atol=1e-5)
    assert (source.name, source.width, source.side) == (PINNED, WIDTH, 16)
    described = source.describe()
    assert described["licence"] == "mit"
    assert described["geometry"] == {"fit": "squash", "interpolation": "bicubic"}
    hub.asked.clear()
    again = open_source(PINNED)
    assert again.describe() == described
    assert not hub.asked


def test_the_options_of_an_onnx_file_are_those_of_a_hub_s(hub, images):
    source = open_source(f"hf:{NAME}?side=20&mean=0,0,0&std=1,1,1")
    assert (source.side, source.mean, source.std) == (20, (0.0,) * 3, (1.0,) * 3)
    assert source.name == PINNED + "?side=20&mean=0,0,0&std=1,1,1"
    with pytest.raises(SourceError, match="unknown option 'weights'"):
        open_source(f"hf:{NAME}?weights=x")


def test_blue_first_is_another_network(hub, images):
    said = {**PREPROCESSING, "image_mean": [0.0] * 3, "image_std": [1.0] * 3, "do_flip_channel_order": True}
    plain = open_source(f"hf:{NAME}?mean=0,0,0&std=1,1,1")
    hub.files[NAME]["preprocessor_config.json"], hub.commits[NAME] = json.dumps(said).encode(), "a" * 40
    flipped = open_source(f"hf:{NAME}")
    np.testing.assert_allclose(flipped.respond(images), plain.respond(images[..., ::-1]), atol=1e-6)
    assert flipped.describe()["digest"] != plain.describe()["digest"]
    same = open_source(f"hf:{NAME}@{COMMIT}/{FILE}?mean=0,0,0&std=1,1,1&channels=bgr")
    assert flipped.describe()["digest"] == same.describe()["digest"]


def test_the_file_is_the_usual_one_or_the_one_named(hub):
    files = hub.files[NAME]
    files["model.onnx"] = network(1)["model.onnx"]
    assert open_source(f"hf:{NAME}").name == PINNED
    assert open_source(f"hf:{NAME}/model.onnx").name == f"hf:{NAME}@{COMMIT}/model.onnx"
    assert open_source(f"hf:{NAME}@main/model.onnx").name == f"hf:{NAME}@{COMMIT}/model.onnx"
    del files[FILE]
    hub.commits[NAME] = "a" * 40
    assert open_source(f"hf:{NAME}").name == f"hf:{NAME}@{'a' * 40}/model.onnx"
    files["onnx/small.onnx"] = files.pop("model.onnx")
    with pytest.raises(SourceError, match=f"Name one of its files, hf:{NAME}/FILE: onnx/small.onnx"):
        open_source(f"hf:{NAME}")
    del files["onnx/small.onnx"]
    with pytest.raises(SourceError, match="has no ONNX file in its repository"):
        open_source(f"hf:{NAME}")


@pytest.mark.parametrize(
    "name", ["hf:name", "hf:a/b/model.safetensors", "hf:a/b@", "hf:/b", "hf:a/b@main@x", "hf:a/b/"]
)
def test_a_name_of_another_form_says_which_is_meant(hub, name):
    with pytest.raises(SourceError, match=r"write hf:OWNER/NAME\[@REVISION\]\[/FILE.onnx\]"):
        open_source(name)
    assert not hub.asked


@pytest.mark.parametrize(
    "name", ["hf:a/../x.onnx", "hf:../b", "hf:a/b/../../x.onnx", "hf:a/b@../x", "hf:a/..", "hf:a/b//x.onnx"]
)
def test_a_name_that_leads_elsewhere_is_refused(hub, name):
    for door in (open_source, needs_consent):
        with pytest.raises(SourceError, match=r"not a repository name|not a revision|not the name of a file|write hf:"):
            door(name)
    assert not hub.asked


def test_without_a_preprocessing_file_the_name_must_say_it(hub, images):
    del hub.files[NAME]["preprocessor_config.json"]
    with pytest.raises(SourceError, match=r"has no preprocessor_config.json .* hf:someone/network\?mean="):
        open_source(f"hf:{NAME}")
    source = open_source(f"hf:{NAME}?mean=0.5,0.4,0.3&std=0.2,0.25,0.5&side=16")
    np.testing.assert_allclose(source.respond(images), expected(images), atol=1e-5)
    assert needs_consent(source.name) is None  # the cache knows that there is no such file
    timm = {"input_size": [3, 16, 16], "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.25, 0.5], "interpolation": "bilinear"}
    hub.files[NAME]["config.json"] = json.dumps({"pretrained_cfg": timm}).encode()
    hub.commits[NAME] = "a" * 40
    np.testing.assert_allclose(open_source(f"hf:{NAME}").respond(images), expected(images), atol=1e-5)


def test_weights_beside_the_graph_are_fetched(hub, images, tmp_path):
    hub.files[NAME] |= {f"onnx/{name}": content for name, content in network(outside="model.onnx_data").items()}
    source = open_source(f"hf:{NAME}")
    np.testing.assert_allclose(source.respond(images), expected(images), atol=1e-5)
    assert needs_consent(source.name) is None
    digest = source.describe()["digest"]
    weights = tmp_path / "hf/hub/models--someone--network/snapshots" / COMMIT / "onnx/model.onnx_data"
    weights.unlink()
    assert needs_consent(source.name) == ASKS  # it would be fetched again
    assert open_source(source.name).describe()["digest"] == digest
    hub.files[NAME].pop("onnx/model.onnx_data")
    weights.unlink()
    with pytest.raises(SourceError, match=r"has no 'onnx/model.onnx_data' of"):
        open_source(source.name)


@pytest.mark.parametrize("place", ["../secret.bin", "/etc/passwd", "a/../../../secret.bin", "C:\\secret.bin"])
def test_a_graph_cannot_name_weights_elsewhere(hub, tmp_path, place):
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf/secret.bin").write_bytes(bytes(1000))
    hub.files[NAME][FILE] = network(outside=place)["model.onnx"]
    with pytest.raises(SourceError, match="is not the name of a file in a repository"):
        open_source(f"hf:{NAME}")
    assert not [asked for asked in hub.asked if "secret" in asked.path or "passwd" in asked.path]


def test_a_graph_of_too_many_files_is_refused(hub):
    from onnx import TensorProto, load_model_from_string

    graph = load_model_from_string(network(outside="w0.bin")["model.onnx"])
    for i in range(100):
        tensor = graph.graph.initializer.add(name=f"w{i}", dims=[1], data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=f"w{i}.bin")
    hub.files[NAME][FILE] = graph.SerializeToString()
    with pytest.raises(SourceError, match="names 100 files of weights; expected at most 64"):
        open_source(f"hf:{NAME}")


def test_only_what_is_pinned_and_here_needs_no_consent(hub):
    for name in (f"hf:{NAME}", f"hf:{NAME}@main/{FILE}", f"hf:{NAME}@{COMMIT}", PINNED):
        assert needs_consent(name) == ASKS
        assert "would be downloaded" in why_unavailable(name)
    open_source(f"hf:{NAME}")
    assert needs_consent(PINNED) is None
    for name in (f"hf:{NAME}", f"hf:{NAME}@main/{FILE}", f"hf:{NAME}@{COMMIT}", f"hf:{NAME}@{'a' * 40}/{FILE}"):
        assert needs_consent(name) == ASKS
    assert why_unavailable(f"hf:{NAME}") == why_unavailable(PINNED) == ""


def test_a_model_alone_asks_no_hub(hub, folder, tmp_path, monkeypatch):
    yoro.fit(folder, source=f"hf:{NAME}").save(tmp_path / "m.yoro")
    hub.asked.clear()
    hub.commits[NAME] = "a" * 40  # the branch has moved; the model has not
    hub.files[NAME][FILE] = network(3)["model.onnx"]
    assert yoro.load(tmp_path / "m.yoro").predict(folder / "red" / "0.png") == ["red"]
    assert not hub.asked
    with pytest.raises(SourceError, match="its digest differs"):
        yoro.load(tmp_path / "m.yoro", source=f"hf:{NAME}").predict(folder / "red" / "0.png")
    hub.asked.clear()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "another machine"))
    with pytest.raises(SourceError, match=f"fitted on '{PINNED}', which may ask a hub on the network. Name it"):
        yoro.load(tmp_path / "m.yoro").predict(folder / "red" / "0.png")
    assert not hub.asked
    hub.commits.clear()
    hub.files[NAME] = repository()
    assert yoro.load(tmp_path / "m.yoro", source=PINNED).predict(folder / "red" / "0.png") == ["red"]


def test_without_its_hub_what_the_cache_has_is_taken_and_said(hub, monkeypatch):
    open_source(f"hf:{NAME}")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    source = open_source(f"hf:{NAME}")
    assert source.name == PINNED
    assert source.notes[0].startswith(f"Using the cached copy of {NAME}: 127.0.0.1:9 cannot be reached")
    assert not open_source(PINNED).notes


def test_what_the_hubs_own_client_fetched_is_opened_offline(hub, tmp_path, monkeypatch, images):
    client = pytest.importorskip("huggingface_hub")
    for file in (FILE, "preprocessor_config.json"):
        client.hf_hub_download(NAME, file, cache_dir=tmp_path / "theirs", endpoint=hub.url)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "theirs"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    np.testing.assert_allclose(open_source(f"hf:{NAME}").respond(images), expected(images), atol=1e-5)
    assert needs_consent(PINNED) is None


def test_the_command_line_fits_without_torch_and_predicts_offline(hub, folder, tmp_path):
    program = (
        "import sys\n"
        "from yoro.cli.app import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "finally:\n"
        "    heavy = {'torch', 'torchvision', 'timm', 'huggingface_hub', 'transformers', 'httpx'} & set(sys.modules)\n"
        "    assert not heavy, heavy"
    )

    def run(*words: str, **variables: str) -> str:
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("fit", "photos", "--out", "m.yoro", "--source", f"hf:{NAME}")
    assert json.loads(Path(tmp_path, "m.yoro/config.json").read_text())["source"]["name"] == PINNED
    hub.asked.clear()
    answered = run("predict", "m.yoro", "photos/blue", HF_ENDPOINT="http://127.0.0.1:9")
    assert answered.count(",blue,") == 6
    assert not hub.asked
