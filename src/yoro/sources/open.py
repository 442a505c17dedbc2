"""Every kind of source in one table, by the prefix of its name, and how one is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from yoro.environment import install, refuse_telemetry
from yoro.errors import SourceError
from yoro.sources.callable import open_callable
from yoro.sources.conse import open_conse
from yoro.sources.embedded import open_embedded
from yoro.sources.models import install_command, installed, list_sources
from yoro.sources.names import SourceName, parse_name, with_side
from yoro.sources.protocol import FREE, Calls, Reading, ResponseSource, check_cpu, check_reading, is_dual
from yoro.sources.runtime import GraphSource

if TYPE_CHECKING:
    from yoro.sources.torch.network import MakeNetwork, Network

Open: TypeAlias = Callable[[SourceName, Reading, int | None], ResponseSource]  # the number is that of threads
Ask: TypeAlias = Callable[[SourceName, str, Calls], ResponseSource]

INSTEAD = (
    "Refinement needs a source with gradients: embedded:lite0, timm:NAME, torchvision:NAME/WEIGHTS or "
    "open_clip:MODEL/TAG. "
    "Fit again on one of these, or use the one-pass model as it is."
)


@dataclass(frozen=True)
class Kind:
    """One kind of source: how it is opened without torch, on the CPU, and its network in torch.

    Where `open` is None, the network is what is opened. It also gives gradients, and needs torch and `package`; where
    it is a string, there is none, and the string says why. What `ask` opens answers from elsewhere.
    """

    open: Open | None
    network: MakeNetwork | str
    package: str = ""
    ask: Ask | None = None


def open_source(
    name: str, *, read: str = "logits", device: str = "auto", threads: int | None = None, calls: Calls = FREE
) -> ResponseSource:
    """Open the source of that name, read at its "logits", its pooled "features", or "all" that one pass can give.

    Where a source gives one vector and no more, "all" is that vector.

    >>> open_source("embedded:lite0").width
    1000
    """
    parsed, kind = find_kind(name)
    if threads is not None and threads < 1:
        raise SourceError(f"threads must be at least 1, not {threads}.")
    one = check_reading("logits" if read == "all" else read)
    if kind.ask is not None:
        check_cpu(device, name)
        return kind.ask(parsed, read, calls)
    if calls != FREE:
        raise SourceError(f"{name!r} runs here and makes no calls; a budget and a dry run are for endpoints.")
    if kind.open is not None:
        check_cpu(device, name)
        source = kind.open(parsed, one, threads)
    else:
        make = _need_network(kind, name)
        from yoro.sources.torch.network import open_network

        source = open_network(parsed, make, read=one, device=device, threads=threads)
    if read == "all" and isinstance(source, GraphSource) and not is_dual(source):
        return source.read_all()
    return source


def torch_network(name: str, read: Reading, side: int | None = None) -> tuple[SourceName, Network]:
    """The torch network of a source, and its name taken apart; `side` asks for another canvas than its own.

    A source that cannot give gradients is a SourceError that says why and what to use instead.
    """
    parsed, kind = find_kind(name if side is None else with_side(name, side))
    return parsed, _need_network(kind, name)(parsed, read)


def needs_consent(name: str) -> str | None:
    """What opening the name would do that a name in a stranger's file must not be trusted with; None if nothing."""
    if name.startswith("callable:"):
        return "runs code"
    if name.startswith(("http:", "https:", "endpoint:")):
        return "asks a host on the network"
    parsed, kind = find_kind(name)
    if kind.open is not None or not installed(kind.package):  # what is not installed is refused when it is opened
        return None
    local = "weights" in parsed.options or parsed.rest.startswith("local-dir:")
    if local and not (parsed.prefix == "open_clip" and _asks_hub(parsed.rest)):
        return None
    return "may ask a hub on the network"


def _asks_hub(rest: str) -> bool:
    from yoro.sources.torch.open_clip_models import asks_hub

    return asks_hub(rest)


def need_torch(package: str, name: str) -> None:
    """Refuse a source whose packages are not installed, with the command that installs them."""
    if not installed(package) or not installed("onnxscript"):
        raise SourceError(f"{name!r} needs torch and {package}, which are not installed: {install_command(package)}")


def find_kind(name: str) -> tuple[SourceName, Kind]:
    """A source's name taken apart, and its kind; a name that is none is a SourceError."""
    refuse_telemetry()  # before any engine is imported
    parsed = parse_name(name, KINDS, list_sources(), _networks)
    return parsed, KINDS.get(f"{parsed.prefix}:{parsed.rest}") or KINDS[parsed.prefix]


def _networks() -> list[str]:
    """The names of networks, where torch is there to tell them."""
    if not (installed("timm") and installed("torchvision")):
        return []
    from yoro.sources.torch.zoo import network_names

    return network_names()


def _need_network(kind: Kind, name: str) -> MakeNetwork:
    if isinstance(kind.network, str):
        raise _no_gradients(name, kind.network)
    need_torch(kind.package, name)
    return kind.network


def _no_gradients(name: str, why: str) -> SourceError:
    return SourceError(f"{name!r} gives no gradients: {why}. {INSTEAD}")


# An engine is imported when a source of its kind is opened, not before.


def _open_onnx(name: SourceName, read: Reading, threads: int | None) -> ResponseSource:
    from yoro.sources.onnx_file import open_onnx

    return open_onnx(name, read, threads)


def _open_endpoint(name: SourceName, read: str, calls: Calls) -> ResponseSource:
    try:
        from yoro.sources.endpoint.source import open_endpoint
    except ModuleNotFoundError as error:
        raise SourceError(f"{name.text!r} needs {error.name}, which is not installed: {install('endpoint')}.") from None
    return open_endpoint(name, read, calls)


def _lite(name: SourceName, read: Reading) -> Network:
    from yoro.sources.torch.embedded import lite_network

    return lite_network(name, read)


def _conse(name: SourceName, read: Reading) -> Network:
    from yoro.sources.torch.embedded import conse_network

    return conse_network(name, read)


def _timm(name: SourceName, read: Reading) -> Network:
    from yoro.sources.torch.timm_models import timm_network

    return timm_network(name, read)


def _torchvision(name: SourceName, read: Reading) -> Network:
    from yoro.sources.torch.torchvision_models import torchvision_network

    return torchvision_network(name, read)


def _open_clip(name: SourceName, read: Reading) -> Network:
    from yoro.sources.torch.open_clip_models import open_clip_network

    return open_clip_network(name, read)


ENDPOINT = Kind(None, "a service answers with numbers alone", ask=_open_endpoint)
KINDS = {
    "embedded:conse": Kind(open_conse, _conse, "timm"),  # a whole name comes before its prefix
    "embedded": Kind(open_embedded, _lite, "timm"),
    "onnx": Kind(_open_onnx, "ONNX Runtime runs a graph forwards only"),
    "callable": Kind(open_callable, "a Python function answers with numbers and keeps no record of how it found them"),
    "http": ENDPOINT,
    "https": ENDPOINT,
    "endpoint": ENDPOINT,
    "timm": Kind(None, _timm, "timm"),
    "torchvision": Kind(None, _torchvision, "torchvision"),
    "open_clip": Kind(None, _open_clip, "open_clip"),
}
