"""An image-text model as a folder of ONNX files, without torch: `onnx:FOLDER?scale=..`.

The folder has `vision_model.onnx` and `text_model.onnx` (or has them in `onnx/`), `tokenizer.json`,
`preprocessor_config.json` and `config.json`, as conversions of CLIP and SigLIP on model hubs do.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import onnx
from onnx import helper, numpy_helper

from yoro import limits
from yoro.discriminant.readings import unit_rows
from yoro.environment import install
from yoro.errors import InputError, SourceError, explaining
from yoro.files.reading import read_bounded, read_json
from yoro.sources.graph_builder import GraphBuilder, rename_output, set_output
from yoro.sources.hub_onnx import CONFIG, TEXT, TOKENIZER, VISION
from yoro.sources.names import SourceName, check_options, layers_option, parse_number
from yoro.sources.onnx_file import OnnxFile, OnnxFileSource, load_graph, open_file, open_onnx
from yoro.sources.preprocessing_file import FILE, read_preprocessing
from yoro.sources.protocol import IdentifiedSource, Identity, Images, Reading, Responses, check_responses
from yoro.sources.runtime import open_session

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Tokenizer

OPTIONS = ("scale", "layers")
UNTRAINED_SCALE = 2.6592  # where every CLIP begins: configurations of trained ones still say it
MOST_SCALE = 100.0  # which training holds it to, and which released models reach
LENGTHS = {"clip": 77, "siglip": 64}  # tokens, where a configuration leaves out what is usual
QUICK_GELU = 1.702  # x * sigmoid(1.702 x)
BATCH_SIZE = 64  # sentences

Table = Mapping[str, object]


class OnnxPairSource(IdentifiedSource):
    """See `DualEncoder`; both towers run in ONNX Runtime."""

    def __init__(
        self,
        identity: Identity,
        images: OnnxFileSource,
        texts: TextTower,
        scale: float,
        *,
        layers: bool,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(identity)
        self.width = self.dimension = images.width
        self.logit_scale = scale
        self._images, self._texts, self._layers, self._notes = images, texts, layers, notes

    @property
    def notes(self) -> Sequence[str]:
        return self._notes

    def read_all(self) -> Self:
        if self._layers:
            self.layout = self._images.read_all("features").layout
            self.width = self._images.width
            self._identity = replace(self._identity, read="all")
        return self

    def encode_images(self, images: Images) -> Responses:
        return unit_rows(self.respond(images)[:, : self.dimension])

    def encode_texts(self, sentences: Sequence[str]) -> Responses:
        if not sentences:
            return np.empty((0, self.dimension), np.float32)
        vectors = self._texts.encode(sentences)
        if vectors.shape[1] != self.dimension:
            raise SourceError(
                f"{self.name!r} gives text vectors of width {vectors.shape[1]} and image vectors of width "
                f"{self.dimension}; its two files are not of one model, or lack their projections."
            )
        return check_responses(unit_rows(vectors), len(sentences), self.dimension, self.name)

    def onnx_model(self) -> onnx.ModelProto:
        model = self._images.onnx_model()
        if self.layout is not None:  # whose readings are scaled afterwards, each by itself
            return model
        own, builder = rename_output(model.graph), GraphBuilder(prefix="unit_")
        unit = builder.node("LpNormalization", own, axis=1, p=2)
        set_output(model.graph, builder, helper.make_node("Identity", [unit], ["responses"]), self.width)
        return model

    def _ask(self, images: Images) -> object:
        responses = self._images.respond(images)
        return unit_rows(responses) if self.layout is None else responses


class TextTower:
    """Sentences to vectors (n, dimension) by a graph and its tokenizer.

    A graph that takes any number of tokens gets sentences of one length together, so that none is padded. One that
    takes a fixed number, and SigLIP, which was trained so, get all of them padded to that.
    """

    def __init__(self, graph: onnx.ModelProto, folder: Path, config: Table, name: str) -> None:
        weights = {tensor.name for tensor in graph.graph.initializer}
        self._inputs = {value.name: value.type.tensor_type for value in graph.graph.input if value.name not in weights}
        if not {"input_ids"} <= set(self._inputs) <= {"input_ids", "attention_mask"}:
            raise SourceError(
                f"{name!r}: {TEXT} takes {', '.join(self._inputs)}; expected input_ids, and perhaps attention_mask."
            )
        dims = [dim.dim_value if dim.dim_value > 0 else None for dim in self._inputs["input_ids"].shape.dim]
        self._batch, fixed = (dims[0], dims[1]) if len(dims) == 2 else (None, None)
        self.longest = fixed or _longest(config, name)
        self._padded = fixed is not None or _kind(config) == "siglip"
        self._output = _embedding(graph, "text_embeds", TEXT, config, name)
        self._graph, self._folder, self._config, self._name = graph, folder, config, name

    def encode(self, sentences: Sequence[str]) -> Responses:
        """Vectors of sentences, not yet of unit length."""
        tokens = [self._tokens(sentence) for sentence in sentences]
        lengths = [self.longest if self._padded else len(ids) for ids in tokens]
        order = sorted(range(len(tokens)), key=lambda i: lengths[i])
        parts = list[Responses]()
        for length in sorted(set(lengths)):
            same = [tokens[i] for i in order if lengths[i] == length]
            step = self._batch or BATCH_SIZE
            parts += [self._run(same[start : start + step], length) for start in range(0, len(same), step)]
        return np.concatenate(parts)[np.argsort(order)]

    def _tokens(self, sentence: str) -> list[int]:
        """The numbers of the tokens of a sentence that the graph can read whole."""
        ids: list[int] = self._tokenizer[0].encode(sentence).ids
        if len(ids) > self.longest:
            said = f"The sentence {sentence[:60]!r}... has {len(ids)} tokens"
            raise InputError(f"{said}; {self._name!r} reads at most {self.longest}. Shorten it.")
        return ids

    def _run(self, tokens: list[list[int]], length: int) -> Responses:
        full = [*tokens, *[tokens[-1]] * (-len(tokens) % (self._batch or 1))]  # the last one fills a fixed batch
        padding = self._tokenizer[1]
        given = {
            "input_ids": [ids + [padding] * (length - len(ids)) for ids in full],
            "attention_mask": [[1] * len(ids) + [0] * (length - len(ids)) for ids in full],
        }
        feed = {
            key: np.array(given[key], helper.tensor_dtype_to_np_dtype(tensor.elem_type))
            for key, tensor in self._inputs.items()
        }
        with explaining(SourceError, f"{self._name!r}: {TEXT} failed on sentences"):
            vectors = self._session.run([self._output], feed)[0]
        return check_responses(vectors, len(full), None, self._name)[: len(tokens)]

    @cached_property
    def _tokenizer(self) -> tuple[Tokenizer, int]:
        """The tokenizer, and the token that pads: its own, else that of the configuration, else the first."""
        from tokenizers import Tokenizer

        with explaining(SourceError, f"{self._name!r}: {TOKENIZER} cannot be read"):
            tokenizer = Tokenizer.from_str(read_tokenizer(self._folder).decode())
        said = (tokenizer.padding or {}).get("pad_id", _part(self._config, "text_config").get("pad_token_id"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer, said if isinstance(said, int) and not isinstance(said, bool) else 0

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        return open_session(self._graph, None, self._name)


def open_file_or_folder(name: SourceName, read: Reading, threads: int | None) -> OnnxFileSource | OnnxPairSource:
    """Open `onnx:PATH`: a network in a file, or an image-text model in a folder."""
    folder = Path(name.rest).expanduser()
    return open_pair(folder, name, read, threads) if folder.is_dir() else open_onnx(name, read, threads)


def open_pair(folder: Path, name: SourceName, read: Reading, threads: int | None) -> OnnxFileSource | OnnxPairSource:
    """The image-text model in a folder, or with `?layers=yes` its image tower alone; the name is recorded."""
    check_options(name, OPTIONS)
    if importlib.util.find_spec("tokenizers") is None:
        raise SourceError(f"{name.text!r} needs the package tokenizers: {install('clip-onnx')}.")
    graphs = folder / "onnx" if (folder / "onnx" / VISION).is_file() else folder
    missing = [file for file in (VISION, TEXT) if not (graphs / file).is_file()]
    missing += [file for file in (TOKENIZER, FILE, CONFIG) if not (folder / file).is_file()]
    if missing:
        raise SourceError(
            f"{name.text!r} is a folder without {', '.join(missing)}. An image-text model is a folder with {VISION}, "
            f"{TEXT} (or both in onnx/), {TOKENIZER}, {FILE} and {CONFIG}; of any other network, name the ONNX file."
        )
    with explaining(SourceError, f"{name.text!r} is not a usable image-text model"):
        return _read_pair(folder, graphs, name, read, threads)


def _read_pair(
    folder: Path, graphs: Path, name: SourceName, read: Reading, threads: int | None
) -> OnnxFileSource | OnnxPairSource:
    config = _table(read_json(folder / CONFIG, limits.HUB_SMALL_FILE_BYTES), name)
    prepared = read_preprocessing(folder / FILE)
    if prepared is None or prepared.channels != "rgb":
        raise SourceError(f"{name.text!r}: {FILE} asks for images of an unsupported kind.")
    tower = OnnxFile(graphs / VISION, fit=prepared.fit, interpolation=prepared.interpolation)
    vision, _ = load_graph(tower, name)
    _check_activation(vision, _part(config, "vision_config").get("hidden_act"), VISION, name)
    options = {
        "mean": ",".join(map(repr, prepared.mean)), "std": ",".join(map(repr, prepared.std)), "layout": "nchw",
        "side": str(prepared.side), "output": _embedding(vision, "image_embeds", VISION, config, name.text),
    }  # fmt: skip
    alone = layers_option(name)
    given = SourceName(name.text, name.prefix, str(graphs / VISION), options)
    images = open_file(tower, given, "features" if alone else read, threads)
    if alone:
        return images
    text, text_digest = load_graph(OnnxFile(graphs / TEXT), name)
    _check_activation(text, _part(config, "text_config").get("hidden_act"), TEXT, name)
    texts = TextTower(text, folder, config, name.text)
    scale, notes = _logit_scale(name, config, (vision, text))
    facts = [images.describe()["digest"], text_digest, hashlib.sha256(read_tokenizer(folder)).hexdigest()]
    digest = hashlib.sha256(json.dumps([*facts, scale, texts.longest]).encode()).hexdigest()
    identity = Identity(
        name.text, read, prepared.side, prepared.mean, prepared.std, digest,
        fit=prepared.fit, interpolation=prepared.interpolation,
    )  # fmt: skip
    return OnnxPairSource(identity, images, texts, scale, layers=alone is None, notes=notes)


def read_tokenizer(folder: Path) -> bytes:
    """The tokenizer's file, which is not held once it was read."""
    return read_bounded(folder / TOKENIZER, limits.TOKENIZER_BYTES)


def _embedding(graph: onnx.ModelProto, wanted: str, file: str, config: Table, name: str) -> str:
    """The output that both towers share a space in; the pooled state of a CLIP before its projection is none."""
    names = [value.name for value in graph.graph.output]
    if wanted in names:
        return wanted
    if _kind(config) == "siglip" and "pooler_output" in names:
        return "pooler_output"
    two = [value.name for value in graph.graph.output if len(value.type.tensor_type.shape.dim) == 2]
    if len(two) == 1 and two[0] != "pooler_output":
        return str(two[0])
    raise SourceError(
        f"{name!r}: {file} gives {', '.join(names)}; expected {wanted}. Export it with its projection "
        "(in transformers: CLIPVisionModelWithProjection, CLIPTextModelWithProjection)."
    )


def _check_activation(graph: onnx.ModelProto, said: object, file: str, name: SourceName) -> None:
    """Refuse a graph with another activation than its configuration names: its vectors would be wrong throughout."""
    constants = [*graph.graph.initializer]
    constants += [item.t for node in graph.graph.node if node.op_type == "Constant" for item in node.attribute]
    single = (numpy_helper.to_array(tensor) for tensor in constants if math.prod(tensor.dims) == 1)
    quick = any(value.dtype.kind == "f" and abs(float(value.flat[0]) - QUICK_GELU) < 1e-3 for value in single)
    quick = quick or any(node.op_type == "QuickGelu" for node in graph.graph.node)
    if said in ("quick_gelu", "gelu") and quick != (said == "quick_gelu"):
        raise SourceError(
            f"{name.text!r}: {CONFIG} names the activation {said}, but {file} computes "
            f"{'quick_gelu' if quick else 'another one'}. It was exported with another configuration; export it again."
        )


def _logit_scale(name: SourceName, config: Table, graphs: Sequence[onnx.ModelProto]) -> tuple[float, tuple[str, ...]]:
    """The scale of similarities, from the name, a graph's metadata or the configuration; a note if none says it."""
    metadata = [item.value for graph in graphs for item in graph.metadata_props if item.key == "yoro.logit_scale"]
    for where, text in [("option 'scale'", name.options.get("scale")), *(("metadata", value) for value in metadata)]:
        if text is not None:
            return parse_number(text, f"{name.text!r}: {where}", 0.01, 1000), ()
    said = config.get("logit_scale_init_value")
    if isinstance(said, int | float) and abs(said) < 20 and abs(said - UNTRAINED_SCALE) > 1e-3:
        return min(math.exp(said), MOST_SCALE), ()
    note = (
        f"The logit scale is taken as {MOST_SCALE:g}, which trained CLIP models reach; {CONFIG} has none or that of an "
        "untrained one. It decides how sure zero-shot answers are; set it with ?scale=NUMBER."
    )
    return MOST_SCALE, (note,)


def _longest(config: Table, name: str) -> int:
    said = _part(config, "text_config").get("max_position_embeddings", LENGTHS.get(_kind(config)))
    if isinstance(said, bool) or not isinstance(said, int) or not 1 <= said <= limits.SENTENCE_LENGTH:
        raise SourceError(
            f"{name!r}: {CONFIG} does not say how many tokens a sentence may have; expected "
            f"text_config.max_position_embeddings, found {said!r:.40}."
        )
    return said


def _kind(config: Table) -> str:
    """The kind of model: clip, siglip or another."""
    said = str(config.get("model_type"))
    return "siglip" if said.startswith("siglip") else said


def _part(config: Table, key: str) -> Table:
    part = config.get(key)
    return part if isinstance(part, Mapping) else {}


def _table(value: object, name: SourceName) -> Table:
    if not isinstance(value, Mapping):
        raise SourceError(f"{name.text!r}: {CONFIG} is not a table of settings.")
    return value
