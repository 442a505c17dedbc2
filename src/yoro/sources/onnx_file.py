"""Any network in an ONNX file: `onnx:PATH?mean=..&std=..&side=..&layout=..&channels=..&output=..`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from onnx import numpy_helper

from yoro import limits
from yoro.errors import InputError, SourceError, explaining
from yoro.sources.graph_builder import GraphInput, with_preprocessing
from yoro.sources.layer_outputs import with_pooled_output
from yoro.sources.names import SourceName, check_options, parse_colour, parse_side
from yoro.sources.protocol import IMAGENET_COLOURS, Colour, Identity, Images, Reading, Responses, check_responses
from yoro.sources.runtime import GraphSource, open_session, run_session

OPTIONS = ("mean", "std", "side", "layout", "channels", "output")
METADATA = ("yoro.side", "yoro.mean", "yoro.std", "yoro.licence")
DEFAULT_SIDE = 224  # where the file leaves the side open and nothing else says it
FEATURE_NAMES = ("features", "feature", "embeddings", "embedding", "pooled", "pooler_output", "penultimate")
LARGEST_COLOUR, SMALLEST_FACTOR = 10, 0.05  # of constants that normalise colours from 0 to 1
ELEMENTS: dict[int, bool] = {onnx.TensorProto.FLOAT: False, onnx.TensorProto.UINT8: True}


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX file, and what is known of it from elsewhere.

    said : side, mean, std, licence, layout and channels, as text; it counts for more than the file's metadata, and
        less than the options of the name. The layout is for a graph that leaves all axes open.
    weights : the files of its external weights by the names in the graph; None looks for them beside it.
    fit, interpolation : how an image becomes a square, see `data.geometry.Geometry`.
    """

    path: Path
    said: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, Path] | None = None
    fit: str = "squash"
    interpolation: str = "bilinear"
    notes: Sequence[str] = ()


class OnnxFileSource(GraphSource):
    """A network from an ONNX file; one with a fixed batch is fed in pieces of that size.

    An output with positions, such as the last hidden state of a transformer, is pooled. `assumed` names those of side,
    mean and std that neither the file nor an option says.
    """

    notes: Sequence[str] = ()

    def __init__(
        self,
        identity: Identity,
        inner: onnx.ModelProto,
        form: GraphInput,
        *,
        batch: int | None,
        assumed: tuple[str, ...],
        threads: int | None,
    ) -> None:
        self.form, self.inner, self.batch, self.assumed = form, inner, batch, assumed
        grey = np.full((batch or 1, identity.side, identity.side, 3), 127, np.uint8)
        session = open_session(with_preprocessing(inner, form, np.uint8), threads, identity.name)
        output = np.asarray(run_session(session, grey, identity.name))
        width = output.shape[2 if output.ndim == 3 else 1] if output.ndim > 1 else 0
        pooled = output.ndim in (3, 4) and len(output) == len(grey) and width > 1
        if not pooled:
            try:
                check_responses(output, len(grey), None, identity.name)
            except SourceError as error:
                raise SourceError(f"{error} The option output=TENSOR names another tensor of the graph.") from None

        def build(pixels: type[np.generic]) -> onnx.ModelProto:
            whole = with_preprocessing(inner, form, pixels, width)
            return with_pooled_output(whole, output.shape) if pooled else whole

        super().__init__(identity, build, width=width, threads=threads, batch=batch)
        if not pooled:
            self._sessions[np.uint8] = session

    def _ask(self, images: Images) -> Responses:
        """A model that takes bytes gets float images rounded to them."""
        if self.form.takes_bytes and images.dtype == np.float32:
            low, high = float(images.min()), float(images.max())
            if not (low >= 0 and high <= 1):
                raise InputError(
                    f"{self.name!r} takes bytes, but the images reach from {low:g} to {high:g}, outside [0, 1]. "
                    "Use a prompt that stays inside, or a model that takes float32."
                )
        n, missing = len(images), -len(images) % (self._batch or 1)
        filling = np.repeat(images[-1:], missing, axis=0)  # the last image fills up the last batch
        return super()._ask(np.concatenate([images, filling]) if missing else images)[:n]

    def onnx_model(self) -> onnx.ModelProto:
        """See `ResponseSource.onnx_model`; only for a dynamic batch."""
        if self._batch is not None:
            raise SourceError(
                f"{self.name!r} has a fixed batch size of {self._batch}, so a classifier with it cannot be exported. "
                "Export it again with a dynamic batch axis."
            )
        return super().onnx_model()


def open_onnx(name: SourceName, read: Reading, threads: int | None) -> OnnxFileSource:
    """Open `onnx:PATH` with what the file, its metadata and the options say."""
    return open_file(OnnxFile(Path(name.rest).expanduser()), name, read, threads)


def open_file(file: OnnxFile, name: SourceName, read: Reading, threads: int | None) -> OnnxFileSource:
    """Open an ONNX file; the name gives the options, and is recorded."""
    check_options(name, OPTIONS)
    with explaining(SourceError, f"{name.text!r} is not a usable ONNX graph"):
        return _open(file, name, read, threads)


def _open(file: OnnxFile, name: SourceName, read: Reading, threads: int | None) -> OnnxFileSource:
    inner, digest = load_graph(file, name)
    metadata = {item.key.removeprefix("yoro."): item.value for item in inner.metadata_props if item.key in METADATA}
    said = {**metadata, **file.said}
    facts = {**said, **name.options}
    flipped = facts.get("channels", "rgb") == "bgr"
    if not flipped and facts.get("channels", "rgb") != "rgb":
        raise SourceError(f"{name.text!r}: option 'channels' must be rgb or bgr; got {facts['channels']!r}.")
    if flipped:  # the same weights mean something else
        digest = hashlib.sha256(f"bgr {digest}".encode()).hexdigest()
    if name.digest not in ("", digest):
        raise SourceError(
            f"{name.rest!r} has changed since it was added: its sha256 is {digest[:12]}..., not {name.digest[:12]}.... "
            "Put the old file back, or add the new one under another name."
        )
    constants = {tensor.name for tensor in inner.graph.initializer}
    inputs = [value for value in inner.graph.input if value.name not in constants]
    if len(inputs) != 1:
        raise SourceError(
            f"{name.text!r} has {len(inputs)} inputs; a classifier of images has one. Export it with one."
        )
    given_side = parse_side(facts["side"], _where(name, "side")) if "side" in facts else None
    batch, side, channels_first, takes_bytes = _input_form(inputs[0], name, given_side, said)
    mean, std = _normalisation(facts, name, takes_bytes)
    output, read = _choose_output(inner, name, read)
    given = {*facts, *(("mean", "std") if takes_bytes else ())}
    if any(dim.dim_value == side for dim in inputs[0].type.tensor_type.shape.dim):
        given.add("side")
    assumed = tuple(key for key in ("side", "mean", "std") if key not in given)
    form = GraphInput(inputs[0].name, output, side, channels_first, takes_bytes, mean, std, flipped)
    geometry = {"fit": file.fit, "interpolation": file.interpolation}
    identity = Identity(name.text, read, side, mean, std, digest, said.get("licence"), **geometry)
    source = OnnxFileSource(identity, inner, form, batch=batch, assumed=assumed, threads=threads)
    source.notes = file.notes
    return source


def load_graph(file: OnnxFile, name: SourceName) -> tuple[onnx.ModelProto, str]:
    """The model with its external weights, and a digest of both."""
    path = file.path
    if not path.is_file():
        raise SourceError(
            f"{name.text!r}: {str(path)!r} does not exist. If it moved, give its place: --source onnx:PATH."
        )
    if path.stat().st_size > limits.ONNX_FILE_BYTES:
        raise SourceError(
            f"{name.text!r}: {str(path)!r} has {path.stat().st_size:,} bytes, more than an ONNX file can have."
        )
    with explaining(SourceError, f"{name.text!r}: {str(path)!r} is not a readable ONNX file"):
        data = path.read_bytes()
        model = onnx.load_model_from_string(data)
        if not model.graph.node or not model.opset_import:
            raise ValueError("it contains no graph")
        _check_text(model)
        digest = hashlib.sha256(data)
        outside = external_tensors(model)
        if outside and file.weights is None:
            onnx.load_external_data_for_model(model, str(path.parent))
        for tensor in outside:
            if file.weights is not None:
                _load_weights(tensor, file.weights)
            digest.update(tensor.raw_data)
        return model, digest.hexdigest()


def external_tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """The weights of a graph that lie in other files."""
    return [tensor for tensor in model.graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]


def _load_weights(tensor: onnx.TensorProto, files: Mapping[str, Path]) -> None:
    """Read a tensor from the file that stands for the one it names; onnx itself opens no links."""
    for entry in tensor.external_data:
        if entry.key == "location":
            real = files[entry.value].resolve()
            entry.value = real.name
    onnx.external_data_helper.load_external_data_for_tensor(tensor, str(real.parent))


def _check_text(message: onnx.ModelProto) -> None:
    """Raise if a name is not valid text, about which ONNX Runtime would print messages instead of raising."""
    for kind, value in message.ListFields():
        inner = kind.type == kind.TYPE_MESSAGE
        if not inner and kind.type != kind.TYPE_STRING:
            continue
        for item in [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value:
            if inner:
                _check_text(item)
            elif isinstance(item, bytes):
                raise ValueError(f"it has a name that is not valid text: {item[:40]!r}")


def _input_form(
    value: onnx.ValueInfoProto, name: SourceName, given: int | None, said: Mapping[str, str]
) -> tuple[int | None, int, bool, bool]:
    """Batch (None if dynamic), side, channels first, takes bytes."""
    tensor = value.type.tensor_type
    dims = [dim.dim_value if dim.dim_value > 0 else None for dim in tensor.shape.dim]  # None: dynamic
    if tensor.elem_type not in ELEMENTS or len(dims) != 4:
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
        raise SourceError(
            f"{name.text!r} takes {kind} {dims}; expected float32 or uint8 images with four axes. Export it so."
        )
    shown = "nchw" if dims[1] == 3 else "nhwc" if dims[3] == 3 else said.get("layout", "")
    layout = name.options.get("layout") or shown
    if layout not in ("nchw", "nhwc"):
        if None in (dims[1], dims[3]):
            todo = "Add layout=nchw or layout=nhwc, as in onnx:PATH?layout=nchw (--layout of `yoro models add`)."
        else:
            todo = "Export a network for RGB images, (n, 3, side, side) or (n, side, side, 3)."
        raise SourceError(f"{name.text!r} takes {dims}, where no axis has three colours. {todo}")
    height, width = dims[2:] if layout == "nchw" else dims[1:3]
    side = given or height or width or DEFAULT_SIDE
    if height not in (None, side) or width not in (None, side):
        raise SourceError(f"{name.text!r} takes images of {height} x {width}; expected a square of side {side}.")
    return dims[0], side, layout == "nchw", ELEMENTS[tensor.elem_type]


def _where(name: SourceName, key: str) -> str:
    """What a value is called in errors: an option of the name, or what the file or its repository says."""
    return f"{name.text!r}: {'option' if key in name.options else 'metadata'} {key!r}"


def _normalisation(facts: Mapping[str, str], name: SourceName, takes_bytes: bool) -> tuple[Colour, Colour]:
    """Mean and standard deviation that are given, else ImageNet's."""
    if takes_bytes and {"mean", "std"} & set(name.options):
        raise SourceError(f"{name.text!r} takes raw bytes; remove mean and std.")
    mean, std = (
        parse_colour(facts[key], _where(name, key), positive=key == "std") if key in facts else usual
        for key, usual in IMAGENET_COLOURS.items()
    )
    return mean, std


def own_white(model: onnx.ModelProto, tensor: str) -> Literal[1, 255] | None:
    """The value of white (1 or 255) in the input of a graph that normalises it itself; None if it does not.

    Such a graph begins by adding or multiplying constants, of the size of colours in these units.
    """
    values = {item.name: item for item in model.graph.initializer}
    values |= {node.output[0]: node.attribute[0].t for node in model.graph.node if node.op_type == "Constant"}
    white: Literal[1, 255] | None = None
    while len(users := [node for node in model.graph.node if tensor in node.input]) == 1:
        kind, tensor = users[0].op_type, users[0].output[0]
        if kind in ("Add", "Sub", "Mul", "Div"):
            constants = [values[name] for name in users[0].input if name in values]
            if len(constants) != 1:
                break
            size = float(np.abs(numpy_helper.to_array(constants[0])).max(initial=0))
            in_bytes = 0 < size < SMALLEST_FACTOR if kind == "Mul" else size > LARGEST_COLOUR
            white = 255 if in_bytes or white == 255 else 1
        elif kind not in ("Transpose", "Cast", "Identity"):
            break
    return white


def _choose_output(model: onnx.ModelProto, name: SourceName, read: Reading) -> tuple[str, Reading]:
    """The output to read, and what it is: logits, or features where a network has no classifier.

    It is the one asked for, the one named for features, or the first with two axes; else the first with positions.
    """
    axes: dict[str, int] = {value.name: _count_axes(value) for value in model.graph.output}
    asked = name.options.get("output")
    if asked is not None:
        if asked not in axes and not any(asked in node.output for node in model.graph.node):
            raise SourceError(f"{name.text!r} has no output {asked!r}; it has {', '.join(axes)}.")
        return asked, read if axes.get(asked) == 2 else "features"
    named = [output for output in axes if output.lower() in FEATURE_NAMES]
    logits = [output for output, count in axes.items() if output not in named and count == 2]
    if read == "logits" and logits:
        return logits[0], "logits"
    if named:
        return named[0], "features"
    if logits:
        raise SourceError(
            f"{name.text!r} has the outputs {', '.join(axes)}; none is named 'features'. "
            "Read its logits, or name the output, as in onnx:PATH?output=NAME."
        )
    positions = [output for output, count in axes.items() if count in (3, 4)]
    if positions:
        return positions[0], "features"
    shapes = [f"{output} with {count} axes" for output, count in axes.items()]
    raise SourceError(
        f"{name.text!r} gives {', '.join(shapes)}; expected an output of shape (n, width), or (n, tokens, width)."
    )


def _count_axes(value: onnx.ValueInfoProto) -> int:
    """Axes of an output; two where the file does not say."""
    tensor = value.type.tensor_type
    return len(tensor.shape.dim) if tensor.HasField("shape") else 2
