"""What plans cost on a device: hours by the operations of their networks, and money."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yoro.errors import InputError
from yoro.option import check_choice
from yoro.research.bench.plan import Plan
from yoro.research.bench.results import Results
from yoro.research.bench.run_forecast import forecast
from yoro.research.bench.speed_probe import Speed
from yoro.sources.names import network_name

# Floating-point operations of one image forward, at 224 pixels; tests count them again.
OPERATIONS = {
    "resnet18": 3.6e9, "resnext101_32x8d": 32.8e9, "RN50": 12.2e9, "RN101": 19.5e9, "ViT-B-32": 8.7e9,
    "ViT-B-16": 33.7e9,
}  # fmt: skip
REACHED = 0.4  # share of a card's peak in float32 that such networks reach; an assumption: measure yours
TRAINING = 2.0  # operations of an image in training, in forward passes: no gradient of a weight is needed


@dataclass(frozen=True)
class Device:
    """A graphics card: its peak in float32 without TF32, as its maker states it, and a price to rent it."""

    title: str
    peak: float  # operations a second
    price: float  # dollars an hour; an assumption, `--price` gives another


DEVICES = {
    "a100": Device("NVIDIA A100", 19.5e12, 2.0),
    "h100": Device("NVIDIA H100 SXM", 67e12, 4.0),
    "v100": Device("NVIDIA V100", 15.7e12, 1.0),
    "rtx4090": Device("NVIDIA RTX 4090", 82.6e12, 0.7),
    "t4": Device("NVIDIA T4", 8.1e12, 0.4),
}


@dataclass(frozen=True)
class CostPart:
    """A part of the paper: its cells, each once, and the hours that they take."""

    title: str
    cells: int
    hours: float


def find_device(name: str) -> Device:
    """The device of a name."""
    check_choice("device", name, DEVICES)
    return DEVICES[name]


def device_speed(device: Device, measured: Mapping[str, Speed]) -> Callable[[str], Speed]:
    """The speed of a source on a device: as measured, or by its operations."""

    def speed(source: str) -> Speed:
        if source in measured:
            return measured[source]
        operations = OPERATIONS.get(network_name(source))
        if operations is None:
            raise InputError(f"The operations of {source!r} are not known; measure it with `yoro bench measure`.")
        forward = operations / (REACHED * device.peak)
        return Speed(forward, TRAINING * forward)

    return speed


def cost_parts(plans: Sequence[Plan], speed: Callable[[str], Speed]) -> list[CostPart]:
    """The whole paper, what its authors ran themselves, and of that the tables in the text; or plans of one's own."""
    text = [plan for plan in plans if plan.purpose == "text"]
    paper = [plan for plan in plans if plan.purpose != "beyond"]
    if not paper:
        return [_part("These plans, none of the paper", plans, ("own", "cited"), speed)]
    return [
        _part("Whole paper, cited baselines included", paper, ("own", "cited"), speed),
        _part("Whole paper, the authors' own runs", paper, ("own",), speed),
        _part("Tables in the text only, the authors' own runs", text, ("own",), speed),
    ]


def _part(title: str, plans: Sequence[Plan], kinds: tuple[str, ...], speed: Callable[[str], Speed]) -> CostPart:
    seconds: dict[str, float] = {}  # by cell: plans share them
    for plan in plans:
        for one in forecast(plan.of_counterparts(*kinds), Results(Path()), [], usual=speed, anew=True):
            seconds[one.entry.cell.name] = max(one.seconds, seconds.get(one.entry.cell.name, 0.0))
    return CostPart(title, len(seconds), sum(seconds.values()) / 3600)


def cost_lines(parts: Sequence[CostPart], device: Device, price: float | None) -> list[str]:
    """A line for each part, and what the estimate assumes."""
    each = device.price if price is None else price
    width = max(len(part.title) for part in parts)
    lines = [
        f"{part.title.ljust(width)}  {part.cells:5,} cells  {part.hours:8,.0f} h  {each * part.hours:10,.0f} $"
        for part in parts
    ]
    assumed = (
        f"On one {device.title} at {each:g} $ an hour, {device.peak / 1e12:g} TFLOPS in float32 (no TF32, no half "
        f"precision), of which {REACHED:.0%} are assumed to be reached; an image in training "
        f"takes the operations of {TRAINING:g} forward passes. Decoding is assumed to keep up. Sources in a file of "
        "measured rates count as measured."
    )
    return [*lines, assumed]
