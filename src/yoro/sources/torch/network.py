"""A frozen torch network as a response source, on a graphics card or as a graph on the CPU."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch

from yoro.errors import SourceError, explaining
from yoro.sources.names import SourceName, colour_option, side_option
from yoro.sources.protocol import IdentifiedSource, Identity, Images, Reading, ResponseSource
from yoro.sources.runtime import GraphSource
from yoro.sources.torch.export import as_graph

if TYPE_CHECKING:
    import onnx

OPTIONS = ("weights", "mean", "std", "side")  # of a library's classifier
State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Network:
    """A torch module from normalised (n, 3, side, side) to (n, width), and what is known of it.

    The digest is that of the whole network, also where its classifier was dropped to read the features. `with_texts`
    gives the source of an image-text model from that of its image tower, on a device.
    """

    module: torch.nn.Module
    identity: Identity
    class_names: list[str] | None
    with_texts: Callable[[TorchSource | GraphSource, str], ResponseSource] | None = None


MakeNetwork: TypeAlias = Callable[[SourceName, Reading], Network]


class TorchSource(IdentifiedSource):
    """A frozen network run by torch itself."""

    memory_format = torch.contiguous_format

    def __init__(self, network: Network, device: str) -> None:
        super().__init__(network.identity, network.class_names)
        self.device = torch.device(device)
        whole_float32(self.device)
        self._network = network
        self._module = network.module.eval().requires_grad_(False).to(self.device, memory_format=self.memory_format)
        self._mean = torch.tensor(self.mean, device=self.device).view(1, 3, 1, 1)
        self._std = torch.tensor(self.std, device=self.device).view(1, 3, 1, 1)
        self.width = self._probe()

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """Responses (n, width) to pixels (n, 3, side, side) in [0, 1] units."""
        normalised = (pixels - self._mean) / self._std
        return self._module(normalised.contiguous(memory_format=self.memory_format))

    def onnx_model(self) -> onnx.ModelProto:
        """See `ResponseSource.onnx_model`: exported on the CPU and checked there."""
        on_cpu = TorchSource(self._network, "cpu")
        try:
            return as_graph(on_cpu, threads=None).onnx_model()
        finally:
            self._module.to(self.device)  # the module was moved, not copied

    def _ask(self, images: Images) -> object:
        with torch.inference_mode():
            pixels = torch.from_numpy(np.array(images)).to(self.device).permute(0, 3, 1, 2)
            output = self(pixels.float() / 255 if images.dtype == np.uint8 else pixels)
        if not isinstance(output, torch.Tensor):
            raise SourceError(f"{self.name!r} answered with {type(output).__name__}; expected one tensor (n, width).")
        return output.float().cpu().numpy()


def open_network(
    name: SourceName, make: MakeNetwork, *, read: Reading, device: str, threads: int | None
) -> ResponseSource:
    """The network on the device asked for; on the CPU it runs as a checked ONNX graph."""
    device = choose_device(device)
    network = make(name, read)
    in_torch = TorchSource(network, device)
    source = as_graph(in_torch, threads=threads) if device == "cpu" else in_torch
    return source if network.with_texts is None else network.with_texts(source, device)


def whole_float32(device: torch.device) -> None:
    """Switch TF32 off, with which a card's convolutions have 10 bits of mantissa, by torch's own default."""
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def choose_device(device: str) -> str:
    """`auto` means CUDA, else MPS, else the CPU."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind = device.partition(":")[0]
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if kind not in there:
        raise SourceError(f"{device!r} is not a device; use 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'.")
    if not there[kind]:
        raise SourceError(f"Torch finds no device {device!r} on this machine. Use 'cpu' or 'auto'.")
    return device


def load_network(
    name: SourceName, create: Callable[..., torch.nn.Module], fetch: Callable[[], torch.nn.Module], file: str
) -> torch.nn.Module:
    """The module with the weights of the local file in the name, or else those of the hub.

    `create` makes it untrained, with as many classes as `num_classes` says, `fetch` with the hub's weights; `file` is
    an example for the error where these cannot be had.
    """
    if "weights" not in name.options:
        advice = f"Use a local file: {name.prefix}:{name.rest}?weights={file}"
        with explaining(SourceError, f"{name.text!r}: its weights cannot be downloaded", advice):
            return fetch()
    state = read_state(name.options["weights"], name)
    module = create()
    classes = count_classes(module, state)
    if classes is not None and classes != count_classes(module, module.state_dict()):
        module = create(num_classes=classes)
    with explaining(SourceError, f"{name.text!r}: the weights do not fit the network"):
        module.load_state_dict(state, strict=True)
    return module


def with_options(network: Network, name: SourceName) -> Network:
    """The network with the side and colours given in the name, if any.

    A local file's licence and classes are unknown.
    """
    local, known = "weights" in name.options, network.identity
    identity = replace(
        known,
        side=side_option(name, known.side),
        mean=colour_option(name, "mean", known.mean),
        std=colour_option(name, "std", known.std),
        licence=None if local else known.licence,
    )
    names = None if local or known.read == "features" else network.class_names
    return replace(network, identity=identity, class_names=names)


def state_digest(state: State) -> str:
    """sha256 over names, types, shapes and bytes of all weights."""
    digest = hashlib.sha256()
    for key in sorted(state):
        tensor = state[key].detach().cpu().contiguous()
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def read_state(path: str, name: SourceName) -> State:
    """Weights from a local .safetensors or torch file; a torch file is read without running it."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise SourceError(f"{name.text!r}: there is no weight file {path!r}.")
    with explaining(SourceError, f"{name.text!r}: {path!r} is not a readable weight file"):
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: object = load_file(file)
        else:
            state = torch.load(file, map_location="cpu", weights_only=True)
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise SourceError(f"{name.text!r}: {path!r} contains no dictionary of tensors.")
    return {str(key): value for key, value in state.items()}


def last_linear(module: torch.nn.Module) -> str | None:
    """The name of the last linear layer, which is the classifier of nearly every network."""
    names = [key for key, part in module.named_modules() if isinstance(part, torch.nn.Linear)]
    return names[-1] if names else None


def count_classes(module: torch.nn.Module, state: State) -> int | None:
    """How many classes the weights have, read off the last linear layer."""
    weight = state.get(f"{last_linear(module)}.weight")
    return len(weight) if weight is not None and weight.ndim == 2 else None


def device_facts(device: str) -> dict[str, str]:
    """What `device` stands for here; of a graphics card also its name, and what decides its numbers."""
    chosen = choose_device(device)
    exact = torch.are_deterministic_algorithms_enabled()
    facts = {"torch": torch.__version__, "device": chosen, "deterministic": str(exact)}
    if not chosen.startswith("cuda"):
        return facts
    return facts | {
        "device_name": torch.cuda.get_device_name(chosen),
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
        "tf32": str(torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32),
    }


def make_deterministic() -> None:
    """Let torch use only operations that give the same bits every time; one that cannot is an error."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without, cuBLAS refuses
    torch.use_deterministic_algorithms(True)


def forget_card_peak() -> None:
    """Let the peak of a card's memory begin anew."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def card_peak() -> dict[str, int]:
    """The most bytes that tensors took on a card since then; nothing without one."""
    return {"cuda": torch.cuda.max_memory_allocated()} if torch.cuda.is_available() else {}
