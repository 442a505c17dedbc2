"""Hours and money of the paper, by operations that are counted a second time here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run
from yoro.errors import InputError
from yoro.research.bench.cost import OPERATIONS, REACHED, TRAINING, cost_parts, device_speed, find_device
from yoro.research.bench.plan import read_plan
from yoro.research.bench.speed_probe import Speed, read_rates

CONFIGS = Path(__file__).parents[3] / "configs"
A100 = find_device("a100")


@pytest.mark.torch
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_operations_of_a_network_are_those_that_torch_counts(name: str) -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        if name == "resnet18":
            network = pytest.importorskip("torchvision").models.resnet18()
        elif name.startswith("resnext"):
            network = pytest.importorskip("timm").create_model(name)
        else:
            network = pytest.importorskip("open_clip").create_model(name, device="meta").visual
        images = torch.zeros(1, 3, 224, 224, requires_grad=True)
    network.eval().requires_grad_(False)
    with FlopCounterMode(display=False) as forward:
        answers = network(images)
    with FlopCounterMode(display=False) as backward:
        answers.sum().backward()
    assert forward.get_total_flops() == pytest.approx(OPERATIONS[name], rel=0.05)
    both = forward.get_total_flops() + backward.get_total_flops()
    assert both / forward.get_total_flops() == pytest.approx(TRAINING, rel=0.05), "gradients of the image alone"


def test_the_tables_in_the_text_cost_what_the_page_says() -> None:
    plans = [read_plan(CONFIGS / f"{name}.toml", "published", fall_back=True) for name in ("watermark", "clip-timing")]
    whole, own, text = cost_parts(plans, device_speed(A100, {}))
    assert whole.hours > 10 * own.hours > 0, "cited baselines train for 200 epochs"
    assert (text.cells, text.hours) == (own.cells, own.hours)
    watermark = [e for e in plans[0].entries() if e.method in ("yoro", "yoro-fp")]
    assert own.cells == len(watermark) + len(plans[1].entries())
    assert cost_parts([*plans, plans[0]], device_speed(A100, {}))[0] == whole, "a cell of two plans counts once"


def test_plans_of_your_own_are_counted() -> None:
    plan = read_plan(CONFIGS / "shots.toml")
    (part,) = cost_parts([plan], device_speed(A100, {}))
    assert part.cells == len(plan.entries())
    assert part.hours > 0


def test_measured_rates_take_the_place_of_operations(tmp_path: Path) -> None:
    source = "torchvision:resnet18/IMAGENET1K_V1"
    speed = device_speed(A100, {source: Speed(0.5, 2.0)})
    assert speed(source) == Speed(0.5, 2.0)
    guessed = device_speed(A100, {})(source)
    assert guessed.forward == OPERATIONS["resnet18"] / (REACHED * A100.peak)
    with pytest.raises(InputError, match="yoro bench measure"):
        speed("onnx:mine.onnx")
    with pytest.raises(InputError, match="a100"):
        find_device("a10")


@pytest.mark.torch
def test_this_machine_is_measured_and_missing_weights_are_named(tmp_path: Path) -> None:
    for name, source in (("here", "embedded:lite0?side=32"), ("gone", "torchvision:resnet18/gone.safetensors")):
        (tmp_path / f"{name}.toml").write_text(
            f'title = "A"\ndatasets = ["digits"]\nmethods = ["yoro"]\nseeds = [0]\n[[settings]]\nname = "a"\n'
            f'source = "{source}"\nprompt = "watermark"\n'
        )
    done = run("bench", "measure", "here.toml", "gone.toml", cwd=tmp_path)
    assert "images per second forward" in done.stdout
    assert "1 of 2 backbones" in done.stderr
    assert "gone" in done.stderr
    speeds = read_rates(tmp_path / "rates.json")
    assert speeds["embedded:lite0?side=32"].training > speeds["embedded:lite0?side=32"].forward > 0
    assert "device_name" in json.loads((tmp_path / "rates.json").read_text())["machine"]
    (tmp_path / "rates.json").write_text("[]")
    with pytest.raises(InputError, match="not a file of rates"):
        read_rates(tmp_path / "rates.json")
