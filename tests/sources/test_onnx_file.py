from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.model.test_onnx_export import write_linear

from yoro.errors import InputError, SourceError
from yoro.sources import open_source

SIDE, WIDTH = 12, 5
KERNEL = np.random.default_rng(0).normal(size=(3, WIDTH)).astype(np.float32)


def write_model(path, *, layout="nchw", element="float", batch="n", side=SIDE, metadata=(), names=("x", "y"), axes=2):
    """A linear classifier of the mean colour, written in the form asked for."""
    shape = [batch, 3, side, side] if layout == "nchw" else [batch, side, side, 3]
    spatial = [2, 3] if layout == "nchw" else [1, 2]
    kind = TensorProto.FLOAT if element == "float" else TensorProto.UINT8
    nodes = [
        helper.make_node("Cast", [names[0]], ["number"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["number"], ["features"], axes=spatial, keepdims=0),
        helper.make_node("MatMul", ["features", "kernel"], ["product"]),
    ]
    if axes == 2:
        nodes.append(helper.make_node("Identity", ["product"], [names[1]]))
    else:
        nodes.append(helper.make_node("Unsqueeze", ["product", "last"], [names[1]]))
    outputs = [helper.make_tensor_value_info(names[1], TensorProto.FLOAT, [batch, WIDTH] + [1] * (axes - 2))]
    if axes == 2:
        outputs.insert(0, helper.make_tensor_value_info("features", TensorProto.FLOAT, [batch, 3]))
    constants = [numpy_helper.from_array(KERNEL, "kernel"), numpy_helper.from_array(np.array([2]), "last")]
    inputs = [helper.make_tensor_value_info(names[0], kind, shape)]
    graph = helper.make_graph(nodes, "linear", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, dict(metadata))
    onnx.save(model, path)
    return f"onnx:{path}"


def expected(images, mean, std):
    pixels = images.astype(np.float64) / 255
    return ((pixels - np.array(mean)) / np.array(std)).mean(axis=(1, 2)) @ KERNEL


@pytest.fixture
def images():
    return np.random.default_rng(1).integers(0, 256, (7, SIDE, SIDE, 3), dtype=np.uint8)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("batch", ["n", 1, 4])
def test_every_layout_and_batch_gives_the_same_responses(tmp_path, images, layout, batch):
    source = open_source(write_model(tmp_path / "m.onnx", layout=layout, batch=batch))
    assert (source.side, source.width, source.class_names) == (SIDE, WIDTH, None)
    wanted = expected(images, source.mean, source.std)
    np.testing.assert_allclose(source.respond(images), wanted, atol=1e-5)
    np.testing.assert_allclose(source.respond(images.astype(np.float32) / 255), wanted, atol=1e-5)
    assert source.respond(images[:0]).shape == (0, WIDTH)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8])
def test_a_graph_with_a_fixed_batch_never_sees_a_part_of_it(tmp_path, images, n):
    """As many images as a batch has were once shared among the lanes, and the graph got half of what it takes."""
    path = tmp_path / "fixed.onnx"
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "fixed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3 * SIDE * SIDE])],
        [numpy_helper.from_array(np.array([4, 3 * SIDE * SIDE]), "shape")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    many = np.concatenate([images, images])[:n]
    source = open_source(f"onnx:{path}?mean=0,0,0&std=1,1,1", threads=2)
    wanted = (many.astype(np.float32) / 255).transpose(0, 3, 1, 2).reshape(n, -1)
    np.testing.assert_allclose(source.respond(many), wanted, atol=1e-6)


def test_the_name_beats_the_metadata_beats_imagenet(tmp_path, images):
    told = {"yoro.mean": "0.5,0.5,0.5", "yoro.std": "0.25,0.25,0.25"}
    assert open_source(write_model(tmp_path / "a.onnx")).mean == (0.485, 0.456, 0.406)
    name = write_model(tmp_path / "b.onnx", metadata=told)
    assert (open_source(name).mean, open_source(name).std) == ((0.5,) * 3, (0.25,) * 3)
    source = open_source(name + "?mean=0,0,0")
    np.testing.assert_allclose(source.respond(images), expected(images, (0,) * 3, (0.25,) * 3), atol=1e-5)


def test_a_model_of_bytes_gets_raw_pixels(tmp_path, images):
    source = open_source(write_model(tmp_path / "m.onnx", layout="nhwc", element="uint8"))
    wanted = images.astype(np.float64).mean(axis=(1, 2)) @ KERNEL
    np.testing.assert_allclose(source.respond(images), wanted, rtol=1e-4)
    np.testing.assert_allclose(source.respond(images.astype(np.float32) / 255), wanted, rtol=1e-4)
    with pytest.raises(InputError, match=r"outside \[0, 1\]"):
        source.respond(np.full((1, SIDE, SIDE, 3), 1.5, np.float32))
    with pytest.raises(SourceError, match="raw bytes"):
        open_source(source.name + "?mean=0,0,0")


def test_an_open_side_comes_from_the_name_the_metadata_or_224(tmp_path):
    assert open_source(write_model(tmp_path / "a.onnx", side="s")).side == 224
    name = write_model(tmp_path / "b.onnx", side="s", metadata={"yoro.side": "20"})
    assert open_source(name).side == 20
    assert open_source(name + "?side=30").side == 30
    with pytest.raises(SourceError, match="12 x 12"):
        open_source(write_model(tmp_path / "c.onnx") + "?side=30")


def test_features_are_read_where_an_output_is_named_so(tmp_path, images):
    source = open_source(write_model(tmp_path / "m.onnx"), read="features")
    assert source.width == 3
    assert open_source(source.name + "?output=features").width == 3
    with pytest.raises(SourceError, match="no output 'z'; it has features, y"):
        open_source(source.name + "?output=z")
    with pytest.raises(SourceError, match="none is named 'features'"):
        open_source(write_linear(tmp_path / "n.onnx"), read="features")
    assert open_source(source.name + "?output=number").width == 3  # any tensor of the graph, pooled over positions


def test_names_like_ours_do_not_clash(tmp_path, images):
    source = open_source(write_model(tmp_path / "m.onnx", names=("images", "responses")))
    np.testing.assert_allclose(source.respond(images), expected(images, source.mean, source.std), atol=1e-5)


def test_the_exported_graph_answers_like_the_source(tmp_path, images):
    source = open_source(write_model(tmp_path / "m.onnx"))
    model = source.onnx_model()
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (responses,) = session.run(["responses"], {"images": images.astype(np.float32) / 255})
    np.testing.assert_allclose(responses, source.respond(images), atol=1e-5)
    with pytest.raises(SourceError, match="fixed batch size of 4"):
        open_source(write_model(tmp_path / "f.onnx", batch=4)).onnx_model()


def test_batch_mates_do_not_matter(tmp_path, images):
    for batch in ("n", 4):
        source = open_source(write_model(tmp_path / "m.onnx", batch=batch))
        alone = np.concatenate([source.respond(image[None]) for image in images])
        np.testing.assert_allclose(source.respond(images), alone, atol=1e-6)  # a matrix product may reorder its sum


def test_weights_beside_the_file_are_part_of_its_digest(tmp_path, images):
    name = write_model(tmp_path / "m.onnx")
    inside = open_source(name).respond(images)
    model = onnx.load(tmp_path / "m.onnx")
    onnx.save(model, tmp_path / "e.onnx", save_as_external_data=True, location="e.bin", size_threshold=0)
    outside = open_source(f"onnx:{tmp_path}/e.onnx")
    np.testing.assert_array_equal(outside.respond(images), inside)
    data = bytearray((tmp_path / "e.bin").read_bytes())
    data[3] ^= 1
    (tmp_path / "e.bin").write_bytes(data)
    assert open_source(outside.name).describe()["digest"] != outside.describe()["digest"]


def test_files_that_are_no_classifier_are_refused(tmp_path):
    with pytest.raises(SourceError, match="does not exist"):
        open_source(f"onnx:{tmp_path}/absent.onnx")
    for content in (b"", b"not onnx at all", bytes(range(256))):
        (tmp_path / "noise.onnx").write_bytes(content)
        with pytest.raises(SourceError, match="not a readable ONNX file"):
            open_source(f"onnx:{tmp_path}/noise.onnx")
    with pytest.raises(SourceError, match=r"of shape \(1, 5, 1\); expected numbers of shape \(1, width\).*output="):
        open_source(write_model(tmp_path / "m.onnx", axes=3))


def test_a_network_of_grey_images_is_not_asked_for_its_layout(tmp_path):
    name = write_model(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(SourceError, match="RGB") as refused:
        open_source(name)
    assert "layout=" not in str(refused.value)


def test_open_axes_need_the_layout_said(tmp_path, images):
    name = write_model(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "colours"
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(SourceError, match="no axis has three colours"):
        open_source(name)
    source = open_source(name + "?layout=nchw")
    np.testing.assert_allclose(source.respond(images), expected(images, source.mean, source.std), atol=1e-5)
