"""Source names: `prefix:rest?option=value&option=value`."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from yoro import limits
from yoro.environment import install
from yoro.errors import SourceError, did_you_mean
from yoro.sources.protocol import Colour

NETWORK = re.compile(r"[A-Za-z][\w.-]*\d[\w.-]*")  # such as resnet50 and vit_base_patch16_224
NETWORK_NAME = 20  # characters of the name of a network in the names of its readings
WEIGHTS = (".pt", ".pth", ".bin", ".safetensors")
SEPARATOR = "+"  # between the names of several sources
NO_OPTIONS = ("callable", "http", "https", "endpoint")  # a Python name, an address, a file


@dataclass(frozen=True)
class SourceName:
    """A parsed source name; `text` is what the user typed, or what a name that was added stands for."""

    text: str
    prefix: str
    rest: str
    options: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""  # sha256 of the file that was added under a name; any other is refused


def parse_name(
    text: str, prefixes: Container[str], known: Sequence[str], networks: Callable[[], Sequence[str]] = tuple
) -> SourceName:
    """Parse a source name; `known` are names to suggest when it has none of the prefixes.

    `networks` gives many more, and is called only for what looks like the name of a network.
    """
    prefix, colon, rest = text.partition(":")
    if not colon or prefix not in prefixes or not rest:
        raise SourceError(f"Unknown source {text!r}. {_guess(text, known, networks)}")
    if prefix in NO_OPTIONS:
        return SourceName(text, prefix, rest)
    rest, question, query = rest.partition("?")
    options: dict[str, str] = {}
    for item in query.split("&") if question else []:
        key, equals, value = item.partition("=")
        if not equals or not value or key in options:
            raise SourceError(f"{text!r}: options are written name=value, each once, joined by '&'; got {item!r}.")
        options[key] = value
    return SourceName(text, prefix, rest, options)


def split_names(text: str, prefixes: Iterable[str], own: Iterable[str] = ()) -> list[str]:
    """The names of several sources, joined by "+"; a "+" elsewhere, as in a path, is part of a name.

    `own` are names without a prefix.

    >>> split_names("embedded:lite0+onnx:a+b.onnx", ["embedded", "onnx"])
    ['embedded:lite0', 'onnx:a+b.onnx']
    """
    joiner = re.escape(SEPARATOR)
    known = [f"{re.escape(prefix)}:" for prefix in prefixes] + [f"{re.escape(name)}(?:{joiner}|$)" for name in own]
    return re.split(rf"\s*{joiner}\s*(?={'|'.join(known)})", text.strip())


def short_names(names: Sequence[str]) -> list[str]:
    """What each of several networks is called: short, and different from the others.

    >>> short_names(["embedded:lite0", "embedded:lite0?side=320", "onnx:nets/mine.onnx", "hf:acme/vit@main/model.onnx"])
    ['lite0', 'lite0-320', 'mine', 'vit']
    """
    made: list[str] = []
    for name in names:
        prefix, _, rest = name.partition(":")
        head, _, query = rest.partition("?")
        side = re.search(r"(?:^|&)side=(\d+)", query)
        parts = re.split(r"[:/\\]", head.rstrip("/\\"))
        if prefix == "hf":  # OWNER/NAME@REVISION/FILE, where most files are called model.onnx
            last = parts[1].partition("@")[0]
        elif prefix in ("torchvision", "open_clip") and ":" not in head:  # NAME/WEIGHTS, not a local folder
            last = parts[0]
        else:
            last = parts[-1].removesuffix(".onnx")
        base = re.sub(r"[^\w.-]", "-", last)
        short = base[-NETWORK_NAME:] + (f"-{side[1]}" if side else "")
        again = sum(other == short or other.rpartition("~")[0] == short for other in made)
        made.append(f"{short}~{again + 1}" if again else short)
    return made


def network_name(name: str) -> str:
    """The network of a source, without its weights and options.

    >>> network_name("open_clip:ViT-B-32/openai"), network_name("embedded:lite0?side=64")
    ('ViT-B-32', 'lite0')
    """
    return name.partition(":")[2].partition("?")[0].partition("/")[0].partition(".")[0]


def check_options(name: SourceName, allowed: Sequence[str]) -> None:
    """Raise if a name has an option that this kind of source does not know."""
    for key in name.options:
        if key not in allowed:
            raise SourceError(
                f"{name.text!r}: unknown option {key!r}; {name.prefix} sources take {', '.join(allowed)}."
            )


def colour_option(name: SourceName, key: str, default: Colour) -> Colour:
    """Three numbers from an option such as mean=0.485,0.456,0.406; std must be positive."""
    if key not in name.options:
        return default
    return parse_colour(name.options[key], f"{name.text!r}: option {key!r}", positive=key == "std")


def parse_colour(text: str, where: str, *, positive: bool = False) -> Colour:
    """Three finite numbers separated by commas."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != 3 or not all(math.isfinite(v) and (v > 0 or not positive) for v in values):
        kind = "positive numbers" if positive else "numbers"
        raise SourceError(f"{where} must be three {kind} such as 0.485,0.456,0.406; got {text!r}.")
    return values[0], values[1], values[2]


def side_option(name: SourceName, default: int) -> int:
    """The input size from the option side=224."""
    return parse_side(name.options["side"], f"{name.text!r}: option 'side'") if "side" in name.options else default


def layers_option(name: SourceName) -> bool | None:
    """Whether layers of an image-text model's image tower are read: alone, not at all, or None beside its vectors."""
    said = name.options.get("layers")
    if said not in (None, "yes", "no"):
        raise SourceError(f"{name.text!r}: option 'layers' is 'yes', 'no', or left out.")
    return None if said is None else said == "yes"


def parse_number(text: str, where: str, low: float, high: float) -> float:
    """A number between two others, as an option of a source name or a graph's metadata has it."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise SourceError(f"{where} must be a number from {low} to {high}; got {text[:40]!r}.")
    return value


def with_side(text: str, side: int) -> str:
    """The source name with another input size.

    >>> with_side("timm:resnet18?weights=a.pth", 128)
    'timm:resnet18?weights=a.pth&side=128'
    """
    head, _, query = text.partition("?")
    options = [item for item in query.split("&") if item and not item.startswith("side=")]
    return f"{head}?{'&'.join([*options, f'side={side}'])}"


def parse_side(text: str, where: str) -> int:
    """A whole number of pixels."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:8]) <= limits.CANVAS_SIDE:
        raise SourceError(f"{where} must be a whole number from 1 to {limits.CANVAS_SIDE}; got {text!r}.")
    return int(text[:8])


def _guess(text: str, known: Sequence[str], networks: Callable[[], Sequence[str]]) -> str:
    """A suggestion: the nearest names, or the kinds of names there are."""
    bare = text.partition("?")[0].rpartition(":")[2]
    same = [name for name in known if bare and name.partition(":")[2].partition("/")[0].lower() == bare.lower()]
    if text.endswith(".onnx"):
        same = [f"onnx:{text}"]
    if same:
        return f"Did you mean {' or '.join(map(repr, same))}?"
    if text.endswith(WEIGHTS):
        return f"Weights need the name of their network: timm:NAME?weights={text}."
    if NETWORK.fullmatch(text) and not text.startswith("lite"):
        return _guess_network(text, networks())
    if within := [name for name in known if bare and bare.lower() in name.lower()][:2]:
        return f"Did you mean {' or '.join(map(repr, within))}? `yoro models` lists more."
    return (
        did_you_mean(text, known, most=2, alike=0.7, else_all=False)
        or did_you_mean(f"embedded:{bare}", known, alike=0.9, else_all=False)
        or "Names look like embedded:lite0, onnx:PATH, hf:OWNER/NAME, timm:NAME, torchvision:NAME/WEIGHTS, "
        "open_clip:MODEL/TAG, callable:module:function, https://HOST, endpoint:FILE.toml; `yoro models` lists them."
    )


def _guess_network(text: str, networks: Sequence[str]) -> str:
    """The networks of that or the nearest name; without torch, what to type."""
    if not networks:
        return f"Networks need a prefix, such as timm:{text} or torchvision:{text}, and torch: {install('torch')}."
    names = {name.partition(":")[2]: name for name in reversed(networks)}
    near = [text] if text in names else difflib.get_close_matches(text.lower(), list(names), n=1, cutoff=0.6)
    same = [name for name in networks if name.partition(":")[2] in near]
    guess = f"Did you mean {' or '.join(map(repr, same))}? " if same else ""
    return f"{guess}`yoro models` lists more."
