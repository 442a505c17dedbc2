"""`yoro models`, and networks of one's own added there."""

from __future__ import annotations

import json

import onnx
import pytest

from command_line import run
from photos import write_folder
from yoro.sources import open_source


@pytest.fixture
def network(tmp_path, monkeypatch):
    monkeypatch.setenv("YORO_CONFIG", str(tmp_path / "config"))
    onnx.save(open_source("embedded:mobilenet-v2?side=32").onnx_model(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_a_network_is_added_used_listed_and_removed(network, tmp_path):
    photos = write_folder(tmp_path / "photos", 3)
    done = run("models", "add", network, "--name", "mine", "--try", photos)
    assert f"mine: {network}\n  input          32 x 32 pixels, channels last, float32\n" in done.stdout
    assert "the graph's own; it gets colours from 0 to 1" in done.stdout
    assert "logits 1000, features 1280, layer-100 960" in done.stdout
    assert "ms per image, measured on 5 photos" in done.stdout
    assert len(done.stdout.splitlines()) < 10
    run("fit", photos, "--out", tmp_path / "m.yoro", "--source", "mine")
    run("predict", tmp_path / "m.yoro", photos, "--out", tmp_path / "rows.csv", "--source", "mine")
    listed = {row["name"]: row for row in json.loads(run("models", "--json").stdout)}
    assert (listed["mine"]["installed"], listed["mine"]["side"]) == (True, 32)
    network.rename(tmp_path / "moved.onnx")
    assert "yoro models remove mine" in run("models").stdout
    assert run("models").stdout.startswith("recommended")
    run("models", "remove", "mine")
    assert "\nmine " not in run("models").stdout
    assert (tmp_path / "moved.onnx").is_file()
    run("models", "remove", "mine", code=1)


def test_options_say_what_the_file_does_not(network, tmp_path):
    found = json.loads(run("models", "add", network, "--name", "mine", "--mean", "0.5,0.5,0.5", "--json").stdout)
    assert (found["options"], found["mean"], found["assumed"]) == ({"mean": "0.5,0.5,0.5"}, [0.5, 0.5, 0.5], ["std"])
    said = run("models", "add", network, "--name", "mine", "--mean", "1,2", "--force", code=1).stderr
    assert "must be three numbers" in said
    assert "--name NAME is missing" in run("models", "add", network, code=2).stderr
