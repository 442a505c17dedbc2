"""Weights on this machine, and hubs that cannot be reached."""

from __future__ import annotations

import pytest

from yoro.errors import SourceError
from yoro.sources import catalogue
from yoro.sources.embedded import read_catalogue
from yoro.sources.names import SourceName
from yoro.sources.open import open_source
from yoro.sources.weight_caches import is_cached, need_weights

CLOSED = "http://127.0.0.1:9"  # where nobody listens


@pytest.fixture(autouse=True)
def empty_caches(tmp_path, monkeypatch):
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("HF_ENDPOINT", CLOSED)
    return tmp_path


def keep(folder, repository):
    file = folder / "hf" / "hub" / f"models--{repository.replace('/', '--')}" / "snapshots" / "1" / "model.safetensors"
    file.parent.mkdir(parents=True)
    file.touch()


def test_the_catalogue_tells_the_library_from_the_weights(empty_caches):
    def weights():
        return {row.name: row.weights for row in catalogue()}

    assert weights()["timm:resnet18"] is False
    assert weights()["timm:NAME"] is None
    assert weights()["embedded:lite0"] is True
    keep(empty_caches, "timm/resnet18.a1_in1k")
    assert weights()["timm:resnet18"] is True
    assert weights()["open_clip:RN50/openai"] is False


def test_a_file_of_a_url_is_looked_for_in_torch_s_cache(empty_caches):
    address = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
    assert not is_cached([address])
    folder = empty_caches / "torch" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "resnet18-f37072fd.pth").touch()
    assert is_cached([address])


def test_without_a_hub_missing_weights_are_an_error_at_once_and_cached_ones_are_none(empty_caches, socket_enabled):
    with pytest.raises(SourceError, match=r"'timm:a': its weights are not on this machine, and 127.0.0.1:9 cannot be"):
        need_weights("timm:a", ["timm/a"])
    keep(empty_caches, "timm/a")
    assert need_weights("timm:a", ["timm/a"]) == ["127.0.0.1:9"]


@pytest.mark.torch
def test_a_source_of_the_catalogue_is_refused_before_torch_is_asked(socket_enabled):
    with pytest.raises(SourceError, match=r"give a file \(timm:resnet18\?weights=FILE\)"):
        open_source("timm:resnet18")


@pytest.mark.torch
def test_the_catalogue_knows_where_the_libraries_find_weights():
    from yoro.sources.torch.zoo import weight_places

    rows = [*read_catalogue()["classifier"], *read_catalogue()["image-text"]]
    placed = {row["name"]: row["place"] for row in rows if "place" in row}
    assert len(placed) == 7
    for name, place in placed.items():
        prefix, _, rest = name.partition(":")
        assert place in [found.rstrip("/") for found in weight_places(SourceName(name, prefix, rest))]
