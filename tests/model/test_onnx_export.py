from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import yoro.model.onnx_export
from yoro.data.decoding import decode
from yoro.data.geometry import Geometry
from yoro.discriminant.calibration import log_probabilities
from yoro.discriminant.readings import Layout
from yoro.discriminant.solve import solve_mapping
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import SourceError
from yoro.mappings.affine import AffineMapping
from yoro.model.onnx_export import TOLERANCE, export_onnx, verify_export
from yoro.model.pipeline import Pipeline
from yoro.prompts.prompt import make_prompt
from yoro.sources import open_source
from yoro.sources.protocol import layout_of

LITE0 = "embedded:lite0?side=96"  # a fifth of the work of its usual side
# What a stranger would write who has the file and its metadata, and nothing of this package.
READER = """
import json, sys
import numpy as np, onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
told = session.get_modelmeta().custom_metadata_map
assert told["yoro.format"] == "1"
classes, form = json.loads(told["yoro.classes"]), json.loads(told["yoro.input"])
assert (form["dtype"], form["layout"], form["channels"], form["exif"]) == ("uint8", "NHWC", "RGB", "upright first")
side, method = form["side"], getattr(Image.Resampling, form["interpolation"].upper())

def prepare(path):
    with Image.open(path) as image:
        width, height = image.size
        asked = form["jpeg_draft"]
        drafted = image.draft(None, (asked, asked)) if asked else None
        box = drafted[1] if drafted else None
        if image.mode == "RGBA":
            ground = Image.new("RGBA", image.size, (*form["background"], 255))
            image = Image.alpha_composite(ground, image)
        upright = ImageOps.exif_transpose(image).convert("RGB")
        if image.getexif().get(0x0112, 1) >= 5:
            width, height, box = height, width, box and (box[1], box[0], box[3], box[2])
    if form["fit"] == "squash":
        return np.asarray(upright.resize((side, side), method, box=box))
    longer = int(side * max(width, height) / min(width, height))
    start = round((longer - side) / 2)
    if width <= height:
        return np.asarray(upright.resize((side, longer), method, box=box).crop((0, start, side, start + side)))
    return np.asarray(upright.resize((longer, side), method, box=box).crop((start, 0, start + side, side)))

images = np.stack([prepare(path) for path in sys.argv[2:]])
probabilities, labels = session.run(["probabilities", "label"], {form["tensor"]: images})
assert "yoro" not in sys.modules and "onnx" not in sys.modules
print(json.dumps({"names": [classes[i] for i in labels], "probabilities": probabilities.tolist()}))
"""


@pytest.fixture(autouse=True)
def no_network(socket_disabled):
    """Every test of the export runs with sockets blocked."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Crops of photographs, a class for each photograph, as files of several kinds."""
    from skimage import data

    folder, random, found = tmp_path_factory.mktemp("photos"), np.random.default_rng(0), {}
    for name in ("astronaut", "cat", "coffee", "rocket", "grass", "gravel"):
        picture = Image.fromarray(getattr(data, name)()).convert("RGB")
        for index in range(6):
            side = int(min(picture.size) * 0.6)
            left, top = (int(random.integers(0, length - side + 1)) for length in picture.size)
            path = folder / f"{name}-{index}.png"
            picture.crop((left, top, left + side, top + side)).save(path)
            found[path] = name
    return found


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory):
    """Photographs that ask something of the reader: large, narrow, rotated, transparent, grey."""
    from skimage import data

    folder = tmp_path_factory.mktemp("odd")
    astronaut, coffee = Image.fromarray(data.astronaut()), Image.fromarray(data.coffee())
    astronaut.resize((2001, 1303)).save(folder / "large.jpg")
    turned = Image.Exif()
    turned[0x0112] = 6
    coffee.resize((1600, 1200)).save(folder / "rotated.jpg", exif=turned)
    coffee.resize((301, 207)).save(folder / "small-rotated.jpg", exif=turned)
    clear = astronaut.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(clear.size))
    clear.save(folder / "clear.png")
    astronaut.convert("L").resize((190, 600)).save(folder / "grey.png")
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def lite0():
    return open_source(LITE0)


def squares(paths, side, **form):
    return np.stack([decode(path, Geometry(side, **form)) for path in paths])


def plain(source, name="watermark", **form):
    return make_prompt(name, source.side, mean=source.mean, std=source.std, **form)


def trained(prompt, scale=0.3):
    program = np.random.default_rng(3).normal(scale=scale, size=(prompt.side, prompt.side, 3))
    return prompt.with_program(program.astype(np.float32))


def fitted(source, prompt, files, rho=0.1):
    """Mapping, and a temperature that leaves doubt: the median distance of the two best scores."""
    responses = source.respond(prompt.compose(squares(files, prompt.image_side)))
    statistics = ResponseStatistics()
    statistics.update(responses, list(files.values()))
    mapping = solve_mapping(statistics, rho)
    best = np.sort(mapping(responses), axis=1)
    return mapping, float(np.median(best[:, -1] - best[:, -2]))


def answers(source, prompt, images, mapping, temperature):
    return np.exp(log_probabilities(mapping(source.respond(prompt.compose(images))), temperature))


def read_by_a_stranger(model, folder, paths):
    """Names and probabilities from the file and its metadata, by a program without this package."""
    file, reader = folder / "classifier.onnx", folder / "reader.py"
    onnx.save(model, file)
    reader.write_text(READER)
    done = subprocess.run(
        [sys.executable, reader, file, *paths], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return told["names"], np.array(told["probabilities"])


def make_source(kind, folder, lite0):
    if kind == "features":
        return open_source(LITE0, read="features")
    if kind == "onnx file":
        onnx.save(lite0.onnx_model(), folder / "source.onnx")
        return open_source(f"onnx:{folder / 'source.onnx'}?mean=0,0,0&std=1,1,1")
    return lite0


def make_case(kind, source):
    if kind == "grey frame":
        return plain(source, "padding")
    if kind == "black frame":
        return plain(source, "legacy-padding", frame="black", image_side=55)
    if kind == "trained watermark":
        return trained(plain(source))
    if kind == "trained frame":
        return trained(plain(source, "padding", image_side=65))
    return plain(source)


@pytest.mark.parametrize(
    "kind",
    ["watermark", "grey frame", "black frame", "trained watermark", "trained frame", "features", "onnx file"],
)
def test_a_stranger_with_the_file_alone_gets_the_same_answers(tmp_path, files, lite0, kind):
    source = make_source(kind, tmp_path, lite0)
    prompt = make_case(kind, source)
    mapping, temperature = fitted(source, prompt, files)
    model = export_onnx(Pipeline(source, prompt, Geometry(prompt.image_side), layout_of(source)), mapping, temperature)
    onnx.checker.check_model(model, full_check=True)
    paths = list(files)[::2]
    images = squares(paths, prompt.image_side)
    expected = answers(source, prompt, images, mapping, temperature)
    assert (expected.max(axis=1) < 0.9).sum() > 3  # else every probability would be 0 or 1 and nothing shown
    names, probabilities = read_by_a_stranger(model, tmp_path, paths)
    np.testing.assert_allclose(probabilities, expected, atol=TOLERANCE)
    assert names == [mapping.classes[i] for i in expected.argmax(axis=1)]
    assert verify_export(model, images, expected) == pytest.approx(np.abs(probabilities - expected).max(), abs=1e-5)


@pytest.mark.parametrize("fit", ["squash", "crop"])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("reduced", [True, False])
def test_the_metadata_tell_how_any_image_is_prepared(tmp_path, odd_files, fit, interpolation, reduced):
    source = open_source(write_linear(tmp_path / "linear.onnx", side=96))
    form = {"fit": fit, "interpolation": interpolation, "reduced": reduced}
    prompt, mapping = plain(source), linear_mapping()
    model = export_onnx(Pipeline(source, prompt, Geometry(96, **form), layout_of(source)), mapping, 1.0)
    expected = answers(source, prompt, squares(odd_files, 96, **form), mapping, 1.0)
    _, probabilities = read_by_a_stranger(model, tmp_path, odd_files)
    np.testing.assert_allclose(probabilities, expected, atol=2e-6)  # the mean colour sees every pixel


def write_linear(path, *, side=12, opset=17, element=TensorProto.FLOAT, metadata=(), batch="n"):
    """A linear classifier of the mean colour; its tensors are named like ours on purpose."""
    nodes = [
        helper.make_node("Cast", ["images"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["pixels"], ["canvas"], axes=[1, 2], keepdims=0),
        helper.make_node("MatMul", ["canvas", "scores"], ["probabilities"]),
    ]
    kernel = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("images", element, [batch, side, side, 3])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [batch, 5])],
        [numpy_helper.from_array(kernel, "scores")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    helper.set_model_props(model, dict(metadata))
    onnx.save(model, path)
    return f"onnx:{path}"


def linear_mapping(classes=("a", "b", "c"), bias=None, scale=1.0):
    weights = scale * np.random.default_rng(1).normal(size=(5, len(classes)))
    return AffineMapping(weights, np.zeros(len(classes)) if bias is None else np.array(bias), classes)


def noise(n, side):
    return np.random.default_rng(2).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("opset", "element"),
    # Bytes from opset 11 on: before it there is no operator that rounds the prompted image to them.
    [(opset, TensorProto.FLOAT) for opset in (9, 11, 13, 17)] + [(opset, TensorProto.UINT8) for opset in (11, 17)],
)
@pytest.mark.parametrize("image_side", [7, 8])
def test_every_opset_and_element_of_a_source_can_be_exported(tmp_path, opset, element, image_side):
    source = open_source(write_linear(tmp_path / "m.onnx", opset=opset, element=element))
    prompt, images = plain(source, "padding", image_side=image_side), noise(9, image_side)
    mapping, temperature = linear_mapping(scale=0.01), 0.3
    model = export_onnx(Pipeline(source, prompt, Geometry(image_side), layout_of(source)), mapping, temperature)
    assert verify_export(model, images, answers(source, prompt, images, mapping, temperature)) < 1e-5


def test_nodes_that_do_nothing_are_left_out(tmp_path):
    source = open_source(write_linear(tmp_path / "m.onnx"))
    kinds = {}
    for prompt in (plain(source), plain(source, "padding", image_side=8, frame="black"), trained(plain(source))):
        model = export_onnx(
            Pipeline(source, prompt, Geometry(prompt.image_side), layout_of(source)), linear_mapping(), 1.0
        )
        kinds[prompt.name, prompt.program is None] = [n.op_type for n in model.graph.node if "/" not in n.output[0]]
    assert kinds["watermark", True][:2] == ["Cast", "Div"]
    assert not {"Pad", "Add"} & set(kinds["watermark", True][:3])
    assert kinds["padding", True][:3] == ["Cast", "Div", "Pad"]
    assert kinds["watermark", False][:3] == ["Cast", "Div", "Add"]


def test_an_offset_of_the_responses_costs_no_accuracy(lite0, files):
    # The same classifier with responses shifted by 1e4: weights are kept, the bias takes the shift back.
    prompt, images = plain(lite0), squares(list(files)[::3], lite0.side)
    mapping, temperature = fitted(lite0, prompt, files, rho=0.01)
    shift = 1e4 * np.random.default_rng(4).normal(size=lite0.width).round()
    shifted = AffineMapping(mapping.weights, mapping.bias - shift @ mapping.weights, mapping.classes)
    inner = lite0.onnx_model()
    chain = yoro.model.onnx_export._back(Layout.of(lite0.width), shifted, temperature)
    values = [
        helper.make_tensor_value_info("backbone/responses", TensorProto.DOUBLE, ["n", lite0.width]),
        helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", 6]),
    ]
    graph = helper.make_graph(chain.nodes, "back", values[:1], values[1:], chain.constants)
    back = helper.make_model(graph, opset_imports=list(inner.opset_import), ir_version=inner.ir_version)
    session = onnxruntime.InferenceSession(back.SerializeToString(), providers=["CPUExecutionProvider"])
    responses = lite0.respond(images).astype(np.float64)
    got = session.run(None, {"backbone/responses": responses + shift})[0]
    np.testing.assert_allclose(got, np.exp(log_probabilities(mapping(responses), temperature)), atol=1e-6)


def test_a_class_of_which_nothing_is_known_gets_exactly_zero(tmp_path):
    source = open_source(write_linear(tmp_path / "m.onnx"))
    prompt, images = plain(source), noise(6, 12)
    mapping = linear_mapping(bias=[0.0, -np.inf, 1.0])
    mapping.weights[:, 1] = np.nan  # what is unknown may be anything
    model = export_onnx(Pipeline(source, prompt, Geometry(12), layout_of(source)), mapping, 0.5)
    clean = AffineMapping(np.where(np.isnan(mapping.weights), 0, mapping.weights), mapping.bias, mapping.classes)
    expected = answers(source, prompt, images, clean, 0.5)
    assert verify_export(model, images, expected) < 1e-6
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    probabilities, labels = session.run(None, {"images": images})
    assert (probabilities[:, 1] == 0).all()
    assert np.isfinite(probabilities).all()
    assert (labels == probabilities.argmax(axis=1)).all()


def test_one_image_and_many_are_answered(tmp_path):
    source = open_source(write_linear(tmp_path / "m.onnx"))
    model = export_onnx(Pipeline(source, plain(source), Geometry(12), layout_of(source)), linear_mapping(), 1.0)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    form = [(value.name, value.type, value.shape) for value in (*session.get_inputs(), *session.get_outputs())]
    assert form == [
        ("images", "tensor(uint8)", ["n", 12, 12, 3]),
        ("probabilities", "tensor(float)", ["n", 3]),
        ("label", "tensor(int64)", ["n"]),
    ]
    images = noise(40, 12)
    many, labels = session.run(None, {"images": images})
    np.testing.assert_allclose(many.sum(axis=1), 1, atol=1e-6)
    assert labels.shape == (40,)
    for index in (0, 39):
        np.testing.assert_allclose(
            session.run(None, {"images": images[index : index + 1]})[0][0], many[index], atol=1e-6
        )


def test_the_card_is_told_and_the_metadata_of_the_source_are_not(tmp_path):
    source = open_source(write_linear(tmp_path / "m.onnx", metadata={"yoro.side": "12", "names": "its own"}))
    classes = ('quo"te', "naïve", "日本")
    card = {"yoro.source": "m", "licence": "CC0-1.0"}
    model = export_onnx(
        Pipeline(source, plain(source), Geometry(12), layout_of(source)), linear_mapping(classes), 1.0, card=card
    )
    told = {item.key: item.value for item in model.metadata_props}
    assert set(told) == {"yoro.format", "yoro.classes", "yoro.input", "yoro.source", "licence"}
    assert tuple(json.loads(told["yoro.classes"])) == classes
    assert told["licence"] == "CC0-1.0"


def test_a_source_without_a_graph_says_so_itself(tmp_path, monkeypatch):
    (tmp_path / "black_box_of_export.py").write_text("def f(images): return images.mean(axis=(1, 2))\nf.side = 12\n")
    monkeypatch.syspath_prepend(tmp_path)
    mapping = AffineMapping(np.eye(3), np.zeros(3), ("a", "b", "c"))
    source = open_source("callable:black_box_of_export:f")
    with pytest.raises(SourceError, match="cannot be exported"):
        export_onnx(Pipeline(source, plain(source), Geometry(12), layout_of(source)), mapping, 1.0)
    fixed = open_source(write_linear(tmp_path / "m.onnx", batch=2))
    with pytest.raises(SourceError, match="fixed batch"):
        export_onnx(Pipeline(fixed, plain(fixed), Geometry(12), layout_of(fixed)), linear_mapping(), 1.0)


def test_a_graph_too_large_for_one_file_is_refused(tmp_path, monkeypatch):
    source = open_source(write_linear(tmp_path / "m.onnx"))
    monkeypatch.setattr(yoro.limits, "ONNX_FILE_BYTES", 100)
    with pytest.raises(SourceError, match="too large for one ONNX file"):
        export_onnx(Pipeline(source, plain(source), Geometry(12), layout_of(source)), linear_mapping(), 1.0)


@pytest.fixture
def small(tmp_path):
    """An exported graph, images and what they should be answered with."""
    source = open_source(write_linear(tmp_path / "m.onnx"))
    prompt, images, mapping = plain(source), noise(11, 12), linear_mapping()
    model = export_onnx(Pipeline(source, prompt, Geometry(12), layout_of(source)), mapping, 1.0)
    return model, images, answers(source, prompt, images, mapping, 1.0)


def test_an_export_that_gives_other_probabilities_is_refused(small):
    model, images, expected = small
    assert verify_export(model, images, expected) < 1e-6
    with pytest.raises(SourceError, match="differ by"):
        verify_export(model, images, expected + 2e-4)
    with pytest.raises(SourceError, match="differ by nan"):
        verify_export(model, images, expected * np.nan)
    with pytest.raises(SourceError, match=r"expected \(11, 2\)"):
        verify_export(model, images, expected[:, :2])
    with pytest.raises(SourceError, match="failed on images"):
        verify_export(model, images[:, :5], expected)


def test_an_export_that_names_another_class_is_refused_but_a_tie_is_not(small):
    model, images, expected = small
    wrong = onnx.ModelProto()
    wrong.CopyFrom(model)
    node = next(node for node in wrong.graph.node if node.op_type == "ArgMax")
    node.op_type = "ArgMin"
    with pytest.raises(SourceError, match=r"another class .* for 11 of 11"):
        verify_export(wrong, images, expected)
    last = next(tensor for tensor in wrong.graph.initializer if list(tensor.dims) == [5, 3])
    last.CopyFrom(numpy_helper.from_array(np.zeros((5, 3)), last.name))
    tied = np.full((11, 3), 1 / 3) + np.array([-1e-5, 0, 1e-5])  # no class stands out
    assert verify_export(wrong, images, tied) < 2e-5
