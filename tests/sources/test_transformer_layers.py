"""Class token and patches of vision transformers in ONNX, against timm's own account of the same network."""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import yoro
from photos import write_folder
from yoro.sources import open_source

pytestmark = pytest.mark.torch

BLOCKS = 6
AT_DEPTH = {"100": 5, "80": 4, "69": 3}  # round(depth * (BLOCKS - 1))
SMALL = {"img_size": 64, "patch_size": 16, "embed_dim": 24, "depth": BLOCKS, "num_heads": 2, "num_classes": 7}


def make_vit(**changes):
    """A small vision transformer with random weights; its norms and embeddings are not those of an untrained one."""
    import torch
    from timm.models.vision_transformer import VisionTransformer

    torch.manual_seed(0)
    module = VisionTransformer(**SMALL | changes).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return module


def write_vit(path, module, *, opset=17, free=(), output="logits"):
    """The network as an ONNX file; before opset 17 a norm is written as arithmetic. `free` are further open axes."""
    import torch

    axes = {0: "n", **{axis: f"axis{axis}" for axis in free}}
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (torch.zeros(2, 3, 64, 64),), str(path), input_names=["pixels"], output_names=[output],
            dynamic_axes={"pixels": axes, output: {0: "n"}}, opset_version=opset, dynamo=False,
        )  # fmt: skip
    return f"onnx:{path}?mean=0,0,0&std=1,1,1&side=64"


def images():
    return np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)


def by_timm(module, names):
    """What timm gives for each reading: the class token or the mean of the patches of a block, under the last norm."""
    import torch

    pixels = torch.from_numpy(images().transpose(0, 3, 1, 2).astype(np.float32) / 255)
    with torch.inference_mode():
        kept = module.forward_intermediates(
            pixels, norm=True, return_prefix_tokens=True, output_fmt="NLC", intermediates_only=True
        )
        whole = module.forward_features(pixels)
        known = {"logits": module(pixels), "features": module.forward_head(whole, pre_logits=True)}
        for name in names:
            kind, _, depth = name.partition("-")
            if depth:
                tokens = kept[AT_DEPTH[depth]]  # of patches and of the others, where there are any
                patches, others = tokens if isinstance(tokens, tuple) else (tokens, None)
                known[name] = others[:, 0] if kind == "class" else patches.mean(dim=1)
    return {name: known[name].numpy() for name in names}


def assert_same(source, module):
    answers = source.respond(images())
    for name, part in zip(source.layout.names, source.layout.slices, strict=True):
        np.testing.assert_allclose(answers[:, part], by_timm(module, [name])[name], atol=1e-5, err_msg=name)


CLASS = ("class-80", "patches-80", "class-69", "patches-69")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ({}, ("logits", "features", "patches-100", *CLASS)),
        ({"reg_tokens": 4}, ("logits", "features", "patches-100", *CLASS)),
        ({"reg_tokens": 4, "global_pool": "avg", "fc_norm": False}, ("logits", "features", "class-100", *CLASS)),
        (
            {"class_token": False, "reg_tokens": 4, "global_pool": "avg", "fc_norm": False},
            ("logits", "features", "patches-80", "patches-69"),
        ),
        (
            {"global_pool": "avg", "fc_norm": False, "final_norm": False},
            ("logits", "features", "class-100", *CLASS),
        ),
        (
            {"class_token": False, "global_pool": "avg", "fc_norm": True},
            ("logits", "features", "patches-100", "patches-80", "patches-69"),
        ),
    ],
)
def test_tokens_of_several_blocks_are_those_of_timm(tmp_path, kind, names):
    """The features are not read twice; registers are part of no reading; without a class token there is none."""
    module = make_vit(**kind)
    source = open_source(write_vit(tmp_path / "vit.onnx", module), read="all")
    assert source.layout.names == names
    assert [reading.transform for reading in source.layout.readings] == ["plain", *["unit"] * (len(names) - 1)]
    assert_same(source, module)


@pytest.mark.parametrize("kind", [{}, {"reg_tokens": 4, "init_values": 0.1, "dynamic_img_size": True}])
def test_shapes_that_the_file_leaves_open_and_norms_written_as_arithmetic_change_nothing(tmp_path, kind):
    """As many hub conversions are: an old opset, every axis dynamic."""
    module = make_vit(**kind)
    name = write_vit(tmp_path / "vit.onnx", module, opset=14, free=(2, 3))
    assert not any(node.op_type == "LayerNormalization" for node in onnx.load(tmp_path / "vit.onnx").graph.node)
    source = open_source(name, read="all")
    assert source.layout.names == ("logits", "features", "patches-100", *CLASS)
    assert_same(source, module)


class LastHiddenState:
    """The tokens of a network without its head, as a torch module."""

    def __new__(cls, module):
        import torch

        class Tokens(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = module

            def forward(self, pixels):
                return self.inner.forward_features(pixels)

        return Tokens().eval()


@pytest.mark.parametrize("opset", [14, 17])
def test_a_network_without_a_classifier_gives_its_class_token(tmp_path, opset):
    module = make_vit(reg_tokens=4)
    name = write_vit(tmp_path / "vit.onnx", LastHiddenState(module), opset=opset, output="last_hidden_state")
    for read in ("logits", "features"):
        plain = open_source(name, read=read)
        assert plain.describe()["read"] == "features"
        np.testing.assert_allclose(plain.respond(images()), by_timm(module, ["features"])["features"], atol=1e-5)
    source = open_source(name, read="all")
    assert source.layout.names == ("features", "patches-100", *CLASS)
    assert source.layout.readings[0].transform == "unit"
    assert_same(source, module)
    floats = source.respond(images().astype(np.float32) / 255)
    np.testing.assert_allclose(floats, source.respond(images()), atol=1e-5)


def test_a_classifier_on_tokens_is_saved_and_exported(tmp_path):
    """The export is compared with the answers before it is written."""
    folder = write_folder(tmp_path / "photos", count=4)
    name = write_vit(tmp_path / "vit.onnx", make_vit(reg_tokens=4), opset=14, free=(2, 3))
    classifier = yoro.fit(folder, source=name)
    assert [part.name for part in classifier.model.choice.parts][2:] == ["patches-100", *CLASS]
    classifier.save(tmp_path / "m.yoro")
    assert yoro.load(tmp_path / "m.yoro").predict(folder) == classifier.predict(folder)
    classifier.export(tmp_path / "m.onnx")


def test_batch_mates_do_not_matter_to_tokens(tmp_path):
    source = open_source(write_vit(tmp_path / "vit.onnx", make_vit(), opset=14, free=(2, 3)), read="all")
    alone = np.concatenate([source.respond(image[None]) for image in images()])
    np.testing.assert_allclose(source.respond(images()), alone, atol=1e-5)


def test_sums_inside_of_a_block_are_not_blocks(tmp_path):
    """A rotary position embedding adds tensors of equal shape within the attention."""
    import torch
    from timm.models.eva import Eva

    torch.manual_seed(0)
    module = Eva(**SMALL, use_rot_pos_emb=True, swiglu_mlp=True, global_pool="token").eval()
    for block in module.blocks:
        block.attn.fused_attn = False  # torch's fused attention cannot be traced there
    source = open_source(write_vit(tmp_path / "eva.onnx", module), read="all")
    assert source.layout.names == ("logits", "features", "patches-100", *CLASS)
    assert_same(source, module)


def test_tokens_before_images_are_not_read_as_layers(tmp_path):
    """(tokens, n, width), as in OpenAI's own code: a mean over the second axis would be one over the batch."""
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("Conv", ["x", "patch"], ["grid"], strides=[8, 8])]
    nodes += [helper.make_node("Reshape", ["grid", "flat"], ["nwl"])]
    nodes += [helper.make_node("Transpose", ["nwl"], ["sum0"], perm=[2, 0, 1])]
    for i in range(4):
        nodes += [helper.make_node("MatMul", [f"sum{i}", "square"], [f"product{i}"])]
        nodes += [helper.make_node("Add", [f"sum{i}", f"product{i}"], [f"sum{i + 1}"])]
    nodes += [helper.make_node("ReduceMean", ["sum4"], ["features"], axes=[0], keepdims=0)]
    nodes += [helper.make_node("MatMul", ["features", "head"], ["y"])]
    constants = {
        "patch": rng.normal(size=(6, 3, 8, 8)), "square": rng.normal(size=(6, 6)), "head": rng.normal(size=(6, 4))
    }  # fmt: skip
    initial = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()]
    initial.append(numpy_helper.from_array(np.array([0, 0, -1]), "flat"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        initial,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "lnd.onnx"
    )
    source = open_source(f"onnx:{tmp_path / 'lnd.onnx'}", read="all")
    assert source.layout.names == ("logits", "features")
    few = np.random.default_rng(1).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    alone = np.concatenate([source.respond(image[None]) for image in few])
    np.testing.assert_allclose(source.respond(few), alone, atol=1e-5)
