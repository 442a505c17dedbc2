"""open_clip's image-text models: `open_clip:MODEL/TAG`, `open_clip:MODEL?weights=FILE`, `open_clip:local-dir:FOLDER`.

OpenAI's CLIP and some others were trained with a quick approximation of GELU. A tag that says so gets it, and so do
OpenAI's own files; for other weights in a file of yours, name the architecture that has it, as in
`open_clip:ViT-B-32-quickgelu?weights=FILE`.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import open_clip
import torch
from open_clip.pretrained import get_pretrained_cfg
from open_clip.transformer import QuickGELU

from yoro.errors import InputError, SourceError, did_you_mean, explaining
from yoro.sources.names import SourceName, check_options, layers_option, side_option
from yoro.sources.protocol import IdentifiedSource, Identity, Images, Reading, Responses, as_colour, check_responses
from yoro.sources.runtime import GraphSource
from yoro.sources.torch.export import quiet_logging
from yoro.sources.torch.network import Network, State, state_digest
from yoro.sources.torch.zoo import weights_at_hand

if TYPE_CHECKING:
    import onnx

    from yoro.sources.torch.network import TorchSource

OPTIONS = ("weights", "side", "layers")
FOLDER_CONFIG = "open_clip_config.json"
HUB = re.compile(r"hf[-_]|pretrained': (?!False)")  # in a configuration
OPENAI = frozenset({"input_resolution", "context_length", "vocab_size"})  # numbers that OpenAI keeps beside weights
SCHEMAS = ("local-dir:", "hf-hub:")
FITS = {"shortest": "crop", "squash": "squash"}
BATCH_SIZE = 64  # sentences
LICENCES = {"openai": "MIT"}


class ImageTower(torch.nn.Module):  # type: ignore[misc]  # torch is not read by the checker
    """Normalised pixels (n, 3, side, side) to unit vectors (n, dimension)."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(self.model.encode_image(pixels), dim=-1)


class OpenClipSource(IdentifiedSource):
    """See `DualEncoder`. On the CPU the image tower runs as a checked ONNX graph."""

    def __init__(
        self,
        images: TorchSource | GraphSource,
        model: torch.nn.Module,
        tokenizer: Callable[[list[str]], torch.Tensor],
        device: str,
        *,
        layers: bool,
    ) -> None:
        super().__init__(images._identity)
        self.width = self.dimension = images.width
        self.logit_scale = min(float(model.logit_scale.detach().exp()), 100.0)  # as CLIP was trained
        self._images, self._model = images, model.to(device)
        self._tokenizer, self._device, self._layers = tokenizer, device, layers

    def read_all(self) -> Self:
        if self._layers and isinstance(self._images, GraphSource):
            self.layout = self._images.read_all("features").layout
            self.width = self._images.width
            self._identity = replace(self._identity, read="all")
        return self

    def encode_images(self, images: Images) -> Responses:
        return self.respond(images)[:, : self.dimension]

    def encode_texts(self, sentences: Sequence[str]) -> Responses:
        longest = int(self._model.context_length)
        for sentence in sentences:
            count = _count_tokens(self._tokenizer, sentence)
            if count > longest:
                raise InputError(
                    f"The sentence {sentence[:60]!r}... has {count} tokens; {self.name!r} reads at most "
                    f"{longest}. Shorten it."
                )
        parts = [np.empty((0, self.dimension), np.float32)]
        for start in range(0, len(sentences), BATCH_SIZE):
            with torch.inference_mode():
                tokens = self._tokenizer(list(sentences[start : start + BATCH_SIZE])).to(self._device)
                vectors = torch.nn.functional.normalize(self._model.encode_text(tokens).float(), dim=-1)
            parts.append(check_responses(vectors.cpu().numpy(), len(tokens), self.dimension, self.name))
        return np.concatenate(parts)

    def onnx_model(self) -> onnx.ModelProto:
        return self._images.onnx_model()

    def _ask(self, images: Images) -> Responses:
        return self._images.respond(images)


def open_clip_network(name: SourceName, read: Reading) -> Network:
    """The image tower, frozen, with the transform that its weights were made for."""
    check_options(name, OPTIONS)
    with quiet_logging():  # open_clip logs every step
        model = _create(name)
    if not hasattr(model, "encode_text") or not hasattr(model, "encode_image"):
        raise SourceError(f"{name.text!r} has no text tower, so it cannot compare images with text.")
    model = model.eval().requires_grad_(False)
    transform = model.visual.preprocess_cfg
    size = transform["size"]
    side = size if isinstance(size, int) else size[0]
    fit, interpolation = FITS.get(transform["resize_mode"]), str(transform["interpolation"])
    square = isinstance(size, int) or size[0] == size[-1]
    if fit is None or interpolation not in ("bicubic", "bilinear") or not square:
        raise SourceError(f"{name.text!r} uses an unsupported image transform: {transform}.")
    if side_option(name, side) != side:
        raise SourceError(f"{name.text!r} takes images of side {side}; remove side={name.options['side']}.")
    mean, std = (as_colour(transform[key]) for key in ("mean", "std"))
    licence = LICENCES.get(name.rest.partition("/")[2])
    alone = layers_option(name)
    read = "features" if alone else read
    identity = Identity(name.text, read, side, mean, std, _digest(model), licence, fit=fit, interpolation=interpolation)

    def with_texts(images: TorchSource | GraphSource, device: str) -> OpenClipSource:
        return OpenClipSource(images, model, _tokenizer(name), device, layers=alone is None)

    return Network(ImageTower(model), identity, None, None if alone else with_texts)


def asks_hub(rest: str) -> bool:
    """Whether a tower or a vocabulary would be downloaded although the weights are local."""
    folder = rest.removeprefix("local-dir:")
    if folder != rest:
        try:
            config = json.loads((Path(folder).expanduser() / FOLDER_CONFIG).read_bytes())
        except (OSError, ValueError, RecursionError):
            return False  # opening it says what is wrong
    elif rest in open_clip.list_models():
        config = open_clip.get_model_config(rest)
    else:
        return True
    return HUB.search(str(config)) is not None


def _create(name: SourceName) -> torch.nn.Module:
    """The model with its weights, from a file, a folder or the hub; never with random ones."""
    architecture, _, tag = name.rest.partition("/")
    if name.rest.startswith(SCHEMAS):
        if name.rest.startswith("local-dir:"):
            _check_folder(name)
        return _made(name, name.rest, None)
    if architecture not in open_clip.list_models():
        guess = did_you_mean(architecture, open_clip.list_models(), most=3, alike=0.6, else_all=False)
        raise SourceError(f"{name.text!r}: unknown open_clip architecture {architecture!r}. {guess}")
    if "weights" in name.options:
        file = Path(name.options["weights"]).expanduser()
        if tag:
            raise SourceError(f"{name.text!r} has both the tag {tag!r} and a weight file; remove one of them.")
        if not file.is_file():
            raise SourceError(f"{name.text!r}: there is no weight file {name.options['weights']!r}.")
        return _from_file(name, architecture, file)
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if tag not in tags:
        known = ", ".join(tags) or "none: give ?weights=FILE"
        raise SourceError(f"{name.text!r}: {architecture} has no weights {tag!r}; choose one of {known}.")
    with weights_at_hand(name):
        return _made(name, architecture, tag, quick=bool(get_pretrained_cfg(architecture, tag).get("quick_gelu")))


def _made(name: SourceName, architecture: str, weights: str | None, *, quick: bool = False) -> torch.nn.Module:
    advice = "Point to a local file: open_clip:MODEL?weights=FILE, or to a folder: open_clip:local-dir:FOLDER"
    with explaining(SourceError, f"{name.text!r}: its weights cannot be read", advice):
        model: torch.nn.Module = open_clip.create_model(
            architecture, pretrained=weights, precision="fp32", device="cpu", weights_only=True,
            require_pretrained=True, force_quick_gelu=quick,
        )  # fmt: skip
    return model


def _from_file(name: SourceName, architecture: str, file: Path) -> torch.nn.Module:
    """The model with the weights of a file; OpenAI's own files get the activation they were trained with."""
    state = _openai_state(file)
    if state is None:
        return _made(name, architecture, str(file))
    model: torch.nn.Module = open_clip.create_model(architecture, precision="fp32", device="cpu", force_quick_gelu=True)
    try:
        model.load_state_dict({key: state[key].float() for key in model.state_dict()})
    except (KeyError, RuntimeError) as error:
        raise SourceError(f"{name.text!r}: its OpenAI weights do not fit {architecture}.") from error
    return model


def _openai_state(file: Path) -> State | None:
    """The weights in one of OpenAI's files: a TorchScript archive, or its state with three sizes among the tensors."""
    try:
        with zipfile.ZipFile(file) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript archives are deprecated
            if any("/code/" in member for member in archive.namelist()):
                state = torch.jit.load(file, map_location="cpu").state_dict()
            else:
                state = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except Exception:  # some other kind of file, which open_clip reads or refuses
        return None
    return state if isinstance(state, dict) and state.keys() >= OPENAI else None


def _digest(model: torch.nn.Module) -> str:
    """Of the weights, and of the activation where it is not GELU."""
    digest = state_digest(model.state_dict())
    quick = any(isinstance(module, QuickGELU) for module in model.modules())
    return hashlib.sha256(f"{digest} quick-gelu".encode()).hexdigest() if quick else digest


def _check_folder(name: SourceName) -> None:
    folder = Path(name.rest.partition(":")[2]).expanduser()
    if not (folder / FOLDER_CONFIG).is_file():
        raise SourceError(f"{name.text!r}: there is no {FOLDER_CONFIG!r} in that folder.")
    if not any(path.suffix in (".safetensors", ".bin", ".pth") for path in folder.iterdir()):
        raise SourceError(f"{name.text!r}: there are no weights (.safetensors, .bin, .pth) in that folder.")


def _tokenizer(name: SourceName) -> Callable[[list[str]], torch.Tensor]:
    architecture = name.rest if name.rest.startswith(SCHEMAS) else name.rest.partition("/")[0]
    with explaining(SourceError, f"{name.text!r}: its vocabulary cannot be read"), quiet_logging():
        tokenizer: Callable[[list[str]], torch.Tensor] = open_clip.get_tokenizer(architecture)  # perhaps of the hub
    return tokenizer


def _count_tokens(tokenizer: object, sentence: str) -> int:
    """Tokens of a sentence with start and end; open_clip itself would truncate it silently."""
    if isinstance(tokenizer, open_clip.SimpleTokenizer):
        return len(tokenizer.encode(sentence)) + 2
    inner = getattr(tokenizer, "tokenizer", None)
    return len(inner(sentence)["input_ids"]) if inner is not None else 0
