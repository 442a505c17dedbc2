"""Opens sources by name, from one table of prefixes, or says why one cannot be opened on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yoro.environment import install, refuse_telemetry
from yoro.errors import SourceError, one_line
from yoro.sources.added import added_names, added_source
from yoro.sources.embedded import NETWORKS, weight_file
from yoro.sources.minilm import model_folder
from yoro.sources.models import install_command, installed, list_sources, places_of
from yoro.sources.names import SEPARATOR, SourceName, parse_name, split_names, with_side
from yoro.sources.protocol import FREE, Calls, Reading, ResponseSource, check_cpu, check_reading, is_dual, with_defaults
from yoro.sources.weight_caches import need_weights

if TYPE_CHECKING:
    from yoro.sources.torch.network import MakeNetwork, Network

INSTEAD = (
    "Refinement needs a source with gradients: embedded:lite0, timm:NAME, torchvision:NAME/WEIGHTS or "
    "open_clip:MODEL/TAG. Fit again on one of these, or use the one-pass model as it is."
)
NOT_CACHED = "its weights are not on this machine and would be downloaded; or give a file with ?weights=FILE"


@dataclass(frozen=True)
class Kind:
    """One kind of source, by functions written "module:function", so that an engine is imported only when needed.

    `open` opens it on the CPU without torch; `ask` opens an endpoint. With neither, the torch `network` is what is
    opened, which needs torch and `package`. Without a `network` there are no gradients; `black_box` says why.
    """

    open: str = ""
    network: str = ""
    package: str = ""
    black_box: str = ""
    ask: str = ""

    @property
    def needs_torch(self) -> bool:
        return not self.open and not self.ask


ENDPOINT = Kind(ask="endpoint.source:open_endpoint", black_box="a service returns numbers only")
KINDS = {
    "embedded:conse": Kind("conse:open_conse", "torch.embedded:conse_network", "timm"),  # whole names before prefixes
    "embedded:pplcnet-v2": Kind("embedded:EmbeddedSource", black_box="timm and torchvision have no such network"),
    "embedded": Kind("embedded:EmbeddedSource", "torch.embedded:embedded_network", "timm"),
    "onnx": Kind("onnx_pair:open_file_or_folder", black_box="ONNX Runtime runs a graph forwards only"),
    "hf": Kind("hub_onnx:open_hub", black_box="ONNX Runtime runs a graph forwards only"),
    "callable": Kind("callable:open_callable", black_box="a Python function returns numbers only"),
    "http": ENDPOINT,
    "https": ENDPOINT,
    "endpoint": ENDPOINT,
    "timm": Kind(network="torch.zoo:timm_network", package="timm"),
    "torchvision": Kind(network="torch.zoo:torchvision_network", package="torchvision"),
    "open_clip": Kind(network="torch.open_clip_models:open_clip_network", package="open_clip"),
}


def open_source(
    name: str, *, read: str = "logits", device: str = "auto", threads: int | None = None, calls: Calls = FREE
) -> ResponseSource:
    """Open the source of that name, read at its "logits", its pooled "features", or "all" layers of one pass.

    For a source with a single output, "all" is that output.

    >>> open_source("embedded:lite0").width
    1000
    """
    names = member_names(name)
    if len(names) > 1:
        return _open_ensemble(names, read, device, threads, calls)
    source = _open_one(name, read, device, threads, calls)
    return with_defaults(source).read_all() if read == "all" else source


def _open_one(name: str, read: str, device: str, threads: int | None, calls: Calls) -> ResponseSource:
    """The source of that name at one layer; of all, at its logits."""
    parsed, kind = find_kind(name)
    if threads is not None and threads < 1:
        raise SourceError(f"threads must be at least 1, not {threads}.")
    one = check_reading("logits" if read == "all" else read)
    if not kind.needs_torch:
        check_cpu(device, name)
    if kind.ask:
        return _open_endpoint(parsed, kind, read, calls)
    if calls != FREE:
        raise SourceError(f"{name!r} runs here and makes no calls; a budget and a dry run are for endpoints.")
    if kind.open:
        source: ResponseSource = _imported(kind.open)(parsed, one, threads)
        return source
    make = _need_network(kind, name)
    from yoro.sources.torch.network import open_network

    return open_network(parsed, make, read=one, device=device, threads=threads)


def member_names(name: str) -> list[str]:
    """The names of the sources that a name joins by "+"."""
    return split_names(name, KINDS, added_names() if SEPARATOR in name else ())


def _open_ensemble(names: Sequence[str], read: str, device: str, threads: int | None, calls: Calls) -> ResponseSource:
    from yoro.sources.ensemble import Ensemble

    kinds = {name: find_kind(name)[1] for name in names}
    for name, kind in kinds.items():
        if kind.ask:
            raise SourceError(
                f"{name!r} is asked over the network and cannot be combined with others. Use it alone; where networks "
                "are served by `yoro serve --responses A+B`, they can be combined there."
            )
    members = []
    for name in names:
        here = device if kinds[name].needs_torch else "auto"
        member = with_defaults(_open_one(name, read, here, threads, calls))
        members.append(member.read_all() if read == "all" and not is_dual(member) else member)
    return Ensemble(members, threads)


def _open_endpoint(name: SourceName, kind: Kind, read: str, calls: Calls) -> ResponseSource:
    try:
        ask = _imported(kind.ask)
    except ModuleNotFoundError as error:
        raise SourceError(f"{name.text!r} needs {error.name}, which is not installed: {install('endpoint')}.") from None
    source: ResponseSource = ask(name, read, calls)
    return source


def torch_network(name: str, read: Reading, side: int | None = None) -> tuple[SourceName, Network]:
    """The parsed name of a source, and its torch network; `side` asks for another input size than its own.

    A source that cannot give gradients is a SourceError that says why and what to use instead.
    """
    refuse_several(name)
    parsed, kind = find_kind(name if side is None else with_side(name, side))
    return parsed, _need_network(kind, name)(parsed, read)


def check_gradients(name: str) -> None:
    """Raise if the source of that name cannot give gradients; nothing is opened."""
    refuse_several(name)
    _need_network(find_kind(name)[1], name)


def refuse_several(name: str) -> None:
    """Raise if the name is that of several networks, where a visual prompt is to be trained through one."""
    if len(member_names(name)) > 1:
        raise SourceError(f"{name!r} is several networks; a visual prompt is trained through one. Name one of them.")


def needs_consent(name: str) -> str | None:
    """What opening the source would do that needs the user's consent; None if it is harmless."""
    names = member_names(name)
    if len(names) > 1:
        return next(filter(None, map(needs_consent, names)), None)
    if name.startswith("callable:"):
        return "runs code"
    if name.startswith(("http:", "https:", "endpoint:")):
        return "asks a host on the network"
    if added_source(name):  # a model records what such a name stands for, never the name
        return "is a name for a file on this machine"
    parsed, kind = find_kind(name)
    if parsed.prefix == "hf" and _imported("hub_onnx:asks_hub")(parsed):
        return "may ask a hub on the network"
    if kind.open or not installed(kind.package):  # what is not installed is refused when it is opened
        return None
    local = "weights" in parsed.options or parsed.rest.startswith("local-dir:")
    if local and not (parsed.prefix == "open_clip" and _imported("torch.open_clip_models:asks_hub")(parsed.rest)):
        return None
    return "may ask a hub on the network"


def need_torch(package: str, name: str) -> None:
    """Raise, with the command to install them, if the packages of a source are missing."""
    if not installed(package) or not installed("onnxscript"):
        raise SourceError(f"{name!r} needs torch and {package}, which are not installed: {install_command(package)}")


def find_kind(name: str) -> tuple[SourceName, Kind]:
    """The parsed name of a source, and its kind."""
    refuse_telemetry()  # before any engine is imported
    parsed = added_source(name) or parse_name(name, KINDS, list_sources(), _networks)
    return parsed, KINDS.get(f"{parsed.prefix}:{parsed.rest}") or KINDS[parsed.prefix]


def _networks() -> list[str]:
    """Names of all networks of timm and torchvision, if they are installed."""
    if not (installed("timm") and installed("torchvision")):
        return []
    names: list[str] = _imported("torch.zoo:network_names")()
    return names


def _need_network(kind: Kind, name: str) -> MakeNetwork:
    """The function that makes the torch network of a source; a black box is an error."""
    rounded = "int8=yes" in name.partition("?")[2].split("&")
    if rounded or not kind.network:
        why = "8-bit arithmetic has none" if rounded else kind.black_box
        raise SourceError(f"{name!r} gives no gradients: {why}. {INSTEAD}")
    need_torch(kind.package, name)
    if places := places_of(name):
        need_weights(name, places)  # before torch is imported, which takes seconds
    return _imported(kind.network)


def _imported(target: str) -> Callable[..., Any]:
    module, _, function = target.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"yoro.sources.{module}"), function)
    return found


def why_unavailable(name: str, gradients: bool = False) -> str:
    """Why a source cannot be opened; empty if it can. `gradients` says that a prompt is trained through it.

    >>> why_unavailable("embedded:lite0"), why_unavailable("onnx:absent.onnx")
    ('', "'onnx:absent.onnx' cannot be opened: there is no file 'absent.onnx'.")
    """
    try:
        parsed, kind = find_kind(name)
        if kind.needs_torch:
            need_torch(kind.package, name)
        if gradients and not installed("torch"):
            return f"{name!r} cannot give gradients without torch: {install_command('timm')}"
        why = _missing_file(parsed) or (_missing_weights(parsed) if kind.needs_torch else _missing_package(parsed))
    except SourceError as error:
        return one_line(error)
    return f"{name!r} cannot be opened: {why}." if why else ""


def _missing_file(name: SourceName) -> str:
    given = name.rest if name.prefix in ("onnx", "endpoint") else name.options.get("weights", "")
    return f"there is no file {given!r}" if given and not Path(given).exists() else ""


def _missing_package(name: SourceName) -> str:
    if name.prefix == "hf":
        return "" if _imported("hub_onnx:is_here")(name) else "it is not on this machine and would be downloaded"
    if name.prefix != "embedded":
        return ""
    if name.rest == "conse":
        return "" if model_folder() is not None else f"its sentence encoder is missing: {install_command('open_clip')}"
    there = name.rest not in NETWORKS or weight_file(name.rest) is not None
    return "" if there else f"its weights are missing: {NETWORKS[name.rest].install}"


def _missing_weights(name: SourceName) -> str:
    if "weights" in name.options or name.rest.startswith("local-dir:"):
        return ""
    from yoro.sources.torch.zoo import weights_cached

    return "" if weights_cached(name) else NOT_CACHED
