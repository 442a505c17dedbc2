"""ONNX files of one's own under a name: what is found in them, and what the name stands for."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import yoro
from photos import write_folder
from yoro.errors import SourceError, StoreError
from yoro.model.store import write_model
from yoro.sources import list_sources, needs_consent, open_source
from yoro.sources.added import added_names, remove_network
from yoro.sources.network_trial import add_network

SIDE, WIDTH = 32, 6


@pytest.fixture(autouse=True)
def own_records(tmp_path, monkeypatch):
    monkeypatch.setenv("YORO_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config" / "networks"


def write_network(path, *before, side=SIDE, spread=(2, 3), metadata=()):
    """A linear classifier of the mean colour; `before` are the operators and constants that the input passes first.

    `spread` are the axes that the mean is taken over; with the first, images answer for each other.
    """
    tensor, nodes, constants = "x", [], [numpy_helper.from_array(np.eye(3, WIDTH, dtype=np.float32), "kernel")]
    for i, (kind, value) in enumerate(before):
        constants.append(numpy_helper.from_array(np.float32(value).reshape(-1, 1, 1), f"c{i}"))
        nodes.append(helper.make_node(kind, [tensor, f"c{i}"], [f"t{i}"]))
        tensor = f"t{i}"
    nodes += [
        helper.make_node("ReduceMean", [tensor], ["colour"], axes=[2, 3], keepdims=0),
        helper.make_node("ReduceMean", ["colour"], ["all"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["colour", "all"], ["centred"]),
        helper.make_node("MatMul", ["centred" if 0 in spread else "colour", "kernel"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, side, side])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])]
    graph = helper.make_graph(nodes, "linear", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, dict(metadata))
    onnx.save(model, path)
    return path


def test_a_name_is_a_source_and_a_model_records_what_it_stands_for(tmp_path, monkeypatch):
    network = tmp_path / "net.onnx"
    onnx.save(open_source("embedded:lite0?side=32").onnx_model(), network)
    trial = add_network(network, "mine")
    assert (trial.network.side, trial.network.width, trial.layout, trial.white) == (32, 1000, "nhwc", 1)
    assert list(trial.readings)[:2] == ["logits", "features"]
    assert len(trial.readings) == 5
    assert (trial.assumed, trial.warnings) == ((), ())
    classifier = yoro.fit(write_folder(tmp_path / "photos", 4), source="mine")
    classifier.save(tmp_path / "m.yoro")
    recorded = yoro.load(tmp_path / "m.yoro").model.origin.source
    assert recorded["name"] == f"onnx:{network}?mean=0,0,0&std=1,1,1"
    assert recorded["digest"] == trial.network.digest
    photos = sorted((tmp_path / "photos").rglob("*.jpg"))
    expected = classifier.predict_proba(photos)
    by_name = yoro.load(tmp_path / "m.yoro", source="mine").predict_proba(photos)
    np.testing.assert_array_equal(by_name, expected)
    monkeypatch.setenv("YORO_CONFIG", str(tmp_path / "another-machine"))
    shutil.move(network, tmp_path / "moved.onnx")
    moved = yoro.load(tmp_path / "m.yoro", source=f"onnx:{tmp_path}/moved.onnx?mean=0,0,0&std=1,1,1")
    np.testing.assert_array_equal(moved.predict_proba(photos), expected)


@pytest.mark.parametrize(
    ("before", "white"),
    [
        ((), None),
        ((("Sub", (0.485, 0.456, 0.406)), ("Div", (0.229, 0.224, 0.225))), 1),
        ((("Mul", (2,)), ("Sub", (1,))), 1),
        ((("Sub", (127.5,)), ("Mul", (1 / 127.5,))), 255),
        ((("Div", (255,)), ("Sub", (0.485, 0.456, 0.406)), ("Mul", (4.4,))), 255),
        ((("Mul", (1 / 255,)),), 255),
    ],
)
def test_a_graph_that_normalises_its_input_is_left_to_it(before, white, tmp_path, photos):
    trial = add_network(write_network(tmp_path / "net.onnx", *before), "mine")
    assert trial.white == white
    assert ("mean" in trial.assumed) == (white is None)
    if white is not None:  # the pixels arrive as they are
        tensor = photos(SIDE).astype(np.float64).transpose(0, 3, 1, 2) / (255 / white)
        for kind, value in before:
            constant = np.array(value).reshape(-1, 1, 1)
            tensor = {"Sub": tensor - constant, "Mul": tensor * constant, "Div": tensor / constant}[kind]
        answers = open_source("mine").respond(photos(SIDE))
        np.testing.assert_allclose(answers[:, :3], tensor.mean((2, 3)), rtol=1e-4, atol=1e-4)


def test_what_the_file_and_the_options_do_not_say_is_assumed(tmp_path):
    told = write_network(tmp_path / "told.onnx", metadata={"yoro.mean": "0.5,0.5,0.5", "yoro.std": "1,1,1"})
    assert add_network(told, "told").assumed == ()
    bare = write_network(tmp_path / "bare.onnx", side="s")
    trial = add_network(bare, "bare")
    assert (trial.network.side, trial.assumed) == (224, ("side", "mean", "std"))
    trial = add_network(bare, "given", {"side": "40", "std": "1,1,1"})
    assert (trial.network.side, trial.std, trial.assumed) == (40, (1, 1, 1), ("mean",))
    with pytest.raises(SourceError, match="no output 'z'"):
        add_network(bare, "third", {"output": "z"})
    assert added_names() == ["bare", "given", "told"]


@pytest.mark.parametrize("folder", ["", "onnx"])
def test_a_preprocessing_file_beside_the_network_is_read(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    network = write_network(tmp_path / folder / "net.onnx")
    said = {
        "size": SIDE,
        "image_mean": [0.5, 0.25, 0.125],
        "image_std": [0.5, 0.5, 0.25],
        "do_flip_channel_order": False,
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
    found = add_network(network, "mine")
    assert (found.mean, found.std, found.assumed) == ((0.5, 0.25, 0.125), (0.5, 0.5, 0.25), ())
    assert found.preprocessing == str(tmp_path / "preprocessor_config.json")
    assert open_source("mine").mean == found.mean
    given = add_network(network, "other", {"mean": "0,0,0"})
    assert (given.mean, given.std) == ((0, 0, 0), found.std)  # an option wins
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(SourceError, match="--mean, --std and --side"):
        add_network(network, "third")
    assert add_network(network, "third", {"mean": "0,0,0", "std": "1,1,1", "side": str(SIDE)}).preprocessing is None


def test_what_looks_wrong_is_said(tmp_path):
    (mixed,) = add_network(write_network(tmp_path / "a.onnx", spread=(0, 2, 3)), "a").warnings
    assert "model.eval()" in mixed
    (alike,) = add_network(write_network(tmp_path / "b.onnx", ("Mul", (0,)), ("Add", (1,))), "b").warnings
    assert "answers all photos alike" in alike
    with pytest.raises(SourceError, match="not finite"):
        add_network(write_network(tmp_path / "c.onnx", ("Div", (0,))), "c")
    assert added_names() == ["a", "b"]


def test_a_changed_file_is_refused(tmp_path):
    add_network(write_network(tmp_path / "net.onnx"), "mine")
    write_network(tmp_path / "net.onnx", ("Mul", (0.9,)))
    with pytest.raises(SourceError, match="has changed since it was added"):
        open_source("mine")
    with pytest.raises(SourceError, match="already"):
        add_network(tmp_path / "net.onnx", "mine")
    add_network(tmp_path / "net.onnx", "mine", force=True)
    assert open_source("mine").width == WIDTH


@pytest.mark.parametrize("name", ["", "../up", "a/b", "a:b", "embedded:lite0", "A", "a+b", "a?side=3", "x" * 41, "-a"])
def test_a_name_that_could_be_anything_else_is_refused(name, tmp_path):
    with pytest.raises(SourceError, match="cannot be named"):
        add_network(write_network(tmp_path / "net.onnx"), name)


def test_a_file_that_no_source_name_can_name_is_refused(tmp_path):
    with pytest.raises(SourceError, match="Rename the file"):
        add_network(write_network(tmp_path / "net?a=b.onnx"), "mine")
    with pytest.raises(SourceError, match="does not exist"):
        add_network(tmp_path / "absent.onnx", "mine")


def test_a_model_of_a_stranger_cannot_use_a_name_of_this_machine(tmp_path):
    add_network(write_network(tmp_path / "net.onnx"), "mine")
    model = yoro.fit(write_folder(tmp_path / "photos", 3), source="mine").model
    origin = replace(model.origin, source={**model.origin.source, "name": "mine"})
    write_model(replace(model, origin=origin), tmp_path / "m.yoro")
    assert needs_consent("mine") == "is a name for a file on this machine"
    with pytest.raises(SourceError, match=r"file on this machine\. Name it to allow that: --source mine"):
        yoro.load(tmp_path / "m.yoro").predict([tmp_path / "photos" / "cat" / "000.jpg"])


def test_a_damaged_record_harms_no_other_source(own_records, tmp_path):
    add_network(write_network(tmp_path / "net.onnx"), "mine")
    (own_records / "broken.json").write_text("{")
    assert {"mine", "broken"} <= set(list_sources())
    assert open_source("mine").width == WIDTH
    with pytest.raises(StoreError, match="damaged"):
        open_source("broken")
    remove_network("broken")
    assert added_names() == ["mine"]
    with pytest.raises(SourceError, match="Did you mean 'mine'"):
        remove_network("mina")
    with pytest.raises(SourceError, match="Did you mean 'mine'"):
        open_source("mina")


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_the_page_tells_a_torch_user_works(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "sources.md").read_text()
    (code,) = re.findall(r"^```py\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    with chdir(tmp_path):
        exec(compile(code, "sources.md", "exec"), {})
    trial = add_network(tmp_path / "mine.onnx", "mine")
    assert (trial.network.side, trial.batch, trial.layout, trial.assumed) == (224, None, "nchw", ("mean", "std"))
    assert (trial.readings["logits"], trial.readings["features"]) == (1000, 1024)
    assert all("alike" in warning for warning in trial.warnings)  # an untrained network hardly tells photos apart
