from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from photos import crops
from yoro.errors import InputError
from yoro.prompts.prompt import make_prompt

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the torch extra is not installed"),
]
COLOURS = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
PROMPTS = [
    make_prompt("padding", 224, **COLOURS),
    make_prompt("legacy-padding", 224, **COLOURS),
    make_prompt("legacy-padding", 224, image_side=32, **COLOURS),
    make_prompt("watermark", 224, **COLOURS),
    make_prompt("watermark", 224, pad=30, **COLOURS),
    make_prompt("padding", 65, image_side=32, frame=0.25, **COLOURS),
]


def trained(prompt):
    program = np.random.default_rng(0).normal(size=(prompt.side, prompt.side, 3)).astype(np.float32)
    return prompt.with_program(program)


def in_torch(images):
    import torch

    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255


@pytest.mark.parametrize("prompt", [*PROMPTS, *map(trained, PROMPTS)])
def test_both_halves_compose_the_same_pixels(prompt):
    from yoro.prompts.trainable import TrainablePrompt

    images = np.stack(crops("cat", 2, side=prompt.image_side))
    composed = prompt.compose(images)
    expected = composed.astype(np.float32) / (255 if composed.dtype == np.uint8 else 1)
    found = TrainablePrompt(prompt).compose(in_torch(images)).detach().permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)  # one rounding of sigmoid in float32


@pytest.mark.parametrize(
    ("prompt", "count"), list(zip(PROMPTS, (39_936, 101_376, 147_456, 150_528, 69_840, 9_603), strict=True))
)
def test_only_what_shows_is_trained(prompt, count):
    from yoro.prompts.trainable import TrainablePrompt

    half = TrainablePrompt(prompt)
    half.compose(in_torch(np.stack(crops("cat", 1, side=prompt.image_side)))).sum().backward()
    moved = half.program.grad.permute(1, 2, 0).numpy() != 0
    assert moved.sum() == prompt.n_values == count
    assert (moved == np.broadcast_to(prompt.mask(), moved.shape)).all()


def test_a_program_comes_back_as_it_went_in():
    from yoro.prompts.trainable import TrainablePrompt

    prompt = trained(PROMPTS[0])
    assert (TrainablePrompt(prompt).to_prompt().program == prompt.program).all()
    assert TrainablePrompt(PROMPTS[0]).to_prompt().config()["trained"]


@pytest.mark.parametrize("name", ["padding", "watermark"])
def test_gradients_agree_with_finite_differences(name):
    import torch

    from yoro.prompts.trainable import TrainablePrompt

    prompt = make_prompt(name, 8, **COLOURS, **({"image_side": 4} if name == "padding" else {}))
    half = TrainablePrompt(trained(prompt), dtype=torch.float64)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(144, 3))
    net = net.double().requires_grad_(False)
    images = torch.rand(2, 3, prompt.image_side, prompt.image_side, dtype=torch.float64)

    def loss(program):
        with torch.no_grad():
            half.program.copy_(program)
        return torch.nn.functional.cross_entropy(net(half.compose(images)), torch.tensor([0, 2]))

    start = half.program.detach().clone()
    loss(start).backward()
    found, step = half.program.grad.clone(), 1e-6
    mask = torch.from_numpy(prompt.mask()).permute(2, 0, 1).expand_as(start)
    for place in mask.nonzero()[::17].tolist():
        moved = torch.zeros_like(start)
        moved[tuple(place)] = step
        slope = (loss(start + moved) - loss(start - moved)).item() / (2 * step)
        assert slope == pytest.approx(found[tuple(place)].item(), rel=1e-5, abs=1e-9)


def test_a_black_frame_is_refused():
    from yoro.prompts.trainable import TrainablePrompt

    with pytest.raises(InputError, match=r"black frame has no gradient.*--frame 0\.01"):
        TrainablePrompt(make_prompt("padding", 64, frame="black", **COLOURS))
