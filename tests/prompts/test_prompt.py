from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.errors import InputError, StoreError
from yoro.prompts.prompt import PROMPTS, make_prompt, restore_prompt

COLOURS = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def random_images(prompt, n=3, seed=0):
    shape = (n, prompt.image_side, prompt.image_side, 3)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def trained(prompt, seed=0):
    shape = (prompt.side, prompt.side, 3)
    return prompt.with_program(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@st.composite
def prompts(draw):
    """Any prompt on a small canvas, as it starts or trained."""
    name, side = draw(st.sampled_from(PROMPTS)), draw(st.integers(2, 40))
    options = {}
    if name == "watermark":
        options["pad"] = draw(st.none() | st.integers(1, (side + 1) // 2))
    else:
        options["image_side"] = draw(st.integers(1, side - 1))
        options["frame"] = draw(st.sampled_from(["grey", "black", "mean", 0.25]))
    prompt = make_prompt(name, side, **COLOURS, **options)
    return trained(prompt, draw(st.integers(0, 9))) if draw(st.booleans()) else prompt


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("padding", {}, 39_936),
        ("legacy-padding", {}, 101_376),
        ("legacy-padding", {"image_side": 32}, 147_456),
        ("watermark", {}, 150_528),
        ("watermark", {"pad": 112}, 150_528),
        ("watermark", {"pad": 30}, 69_840),
    ],
)
def test_the_number_of_values_is_the_papers(name, options, count):
    assert make_prompt(name, 224, **COLOURS, **options).n_values == count


@pytest.mark.parametrize("side", [224, 240, 260, 33])
def test_padding_keeps_sixteen_pixels_at_any_canvas(side):
    prompt = make_prompt("padding", side, **COLOURS)
    assert prompt.image_side == side - 32
    assert not prompt.mask()[16:-16, 16:-16].any()
    assert prompt.mask()[:16].all()


def test_a_fresh_watermark_returns_the_very_images():
    prompt = make_prompt("watermark", 20, **COLOURS)
    images = random_images(prompt)
    assert prompt.compose(images) is images


def test_a_grey_frame_is_one_half_and_the_image_is_untouched():
    prompt = make_prompt("padding", 40, **COLOURS)
    images = random_images(prompt)
    composed = prompt.compose(images)
    assert composed.dtype == np.float32
    np.testing.assert_array_equal(composed[:, 16:24, 16:24], images / np.float32(255))
    assert (composed[:, prompt.mask()[..., 0]] == 0.5).all()


def test_a_black_frame_is_exactly_zero_and_stays_in_bytes():
    prompt = make_prompt("padding", 40, frame="black", **COLOURS)
    composed = prompt.compose(random_images(prompt))
    assert composed.dtype == np.uint8
    assert not composed[:, prompt.mask()[..., 0]].any()
    assert np.isfinite(prompt.current_program()).all()


@pytest.mark.parametrize(("frame", "colour"), [("mean", COLOURS["mean"]), (0.2, (0.2, 0.2, 0.2))])
def test_a_frame_starts_at_the_colour_asked_for(frame, colour):
    prompt = make_prompt("padding", 40, frame=frame, **COLOURS)
    np.testing.assert_allclose(prompt.addend()[0, 0], colour, atol=1e-6)


def test_an_odd_pixel_goes_to_the_top_and_left():
    prompt = make_prompt("legacy-padding", 9, image_side=4, **COLOURS)
    free = ~prompt.mask()[..., 0]
    assert np.flatnonzero(free.any(axis=1)).tolist() == np.flatnonzero(free.any(axis=0)).tolist() == [3, 4, 5, 6]


def test_a_watermark_adds_theta_after_normalisation():
    prompt = trained(make_prompt("watermark", 12, pad=3, **COLOURS))
    images, mean, std = random_images(prompt), np.array(COLOURS["mean"]), np.array(COLOURS["std"])
    theta = prompt.arrays()["program"]
    wanted = (images / 255 - mean) / std + theta  # theta is already zero outside its border
    np.testing.assert_allclose((prompt.compose(images) - mean) / std, wanted, atol=1e-5)


@given(prompts(), st.integers(0, 4))
def test_compose_is_the_padded_image_plus_the_addend(prompt, n):
    images = random_images(prompt, n)
    composed = prompt.compose(images)
    before = (prompt.side - prompt.image_side + 1) // 2
    after = (prompt.side - prompt.image_side) // 2
    edges = [(0, 0), (before, after), (before, after), (0, 0)]
    wanted = np.pad(images / 255, edges) + prompt.addend()
    unit = 255 if composed.dtype == np.uint8 else 1
    np.testing.assert_allclose(composed / unit, wanted, atol=1e-6)


@given(prompts())
def test_the_addend_lies_on_the_mask(prompt):
    assert not prompt.addend()[~np.broadcast_to(prompt.mask(), prompt.addend().shape)].any()
    if prompt.name != "watermark":
        assert prompt.addend().min() >= 0
        assert prompt.addend().max() <= 1


@given(prompts())
def test_a_stored_prompt_comes_back_the_same(prompt):
    config = json.loads(json.dumps(prompt.config()))
    again = restore_prompt(config, prompt.arrays())
    assert again.config() == prompt.config()
    np.testing.assert_array_equal(again.addend(), prompt.addend())


def test_an_untrained_prompt_stores_no_arrays():
    assert make_prompt("watermark", 224, **COLOURS).arrays() == {}
    assert set(trained(make_prompt("padding", 40, **COLOURS)).arrays()) == {"program"}


def test_a_prompt_cannot_be_changed_from_outside():
    prompt = trained(make_prompt("padding", 40, **COLOURS))
    before = prompt.addend()
    prompt.addend()[:] = 7
    prompt.arrays()["program"][:] = 7
    np.testing.assert_array_equal(prompt.addend(), before)


@pytest.mark.parametrize(
    ("name", "side", "options"),
    [
        ("border", 224, {}),
        ("padding", 32, {}),
        ("padding", 224, {"image_side": 224}),
        ("padding", 224, {"image_side": 0}),
        ("padding", 224, {"image_side": 192.0}),
        ("padding", 224, {"frame": "white"}),
        ("padding", 224, {"frame": 0.0}),
        ("padding", 224, {"frame": 1.0}),
        ("padding", 224, {"frame": float("nan")}),
        ("padding", 224, {"frame": True}),
        ("padding", 224, {"pad": 30}),
        ("padding", 0, {}),
        ("padding", 10**9, {}),
        ("legacy-padding", 100, {}),
        ("watermark", 224, {"image_side": 192}),
        ("watermark", 224, {"pad": 0}),
        ("watermark", 224, {"pad": 113}),
        ("watermark", 224, {"frame": "black"}),
        ("watermark", 224, {"std": (0.0, 1.0, 1.0)}),
        ("watermark", 224, {"std": (1.0, 1.0)}),
        ("watermark", 224, {"mean": (float("inf"), 0.0, 0.0)}),
    ],
)
def test_prompts_that_cannot_be_are_refused(name, side, options):
    with pytest.raises(InputError):
        make_prompt(name, side, **{**COLOURS, **options})


def test_images_of_another_form_are_refused():
    prompt = make_prompt("padding", 40, **COLOURS)
    for images in (np.zeros((1, 40, 40, 3), np.uint8), np.zeros((1, 8, 8, 3), np.float32), [1]):
        with pytest.raises(InputError, match=r"takes uint8 images \(n, 8, 8, 3\)"):
            prompt.compose(images)


GOOD = trained(make_prompt("padding", 40, **COLOURS))


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "border"},
        {"prompt": ["padding"]},
        {"side": 10**12},
        {"side": 40.0},
        {"side": True},
        {"image_side": 40},
        {"image_side": None},
        {"mean": [0.5, 0.5]},
        {"mean": "abc"},
        {"mean": [0.5, 0.5, None]},
        {"std": [0.5, 0.5, -1.0]},
        {"std": [0.5, 0.5, float("nan")]},
        {"frame": None},
        {"frame": "white"},
        {"frame": {}},
        {"pad": 3},
        {"pad": "3"},
        {"trained": False},
        {"trained": 1},
        {"more": 1},
        {"prompt": "x" * 10**6},
    ],
)
def test_a_hostile_config_is_refused(change):
    with pytest.raises(StoreError) as caught:
        restore_prompt({**GOOD.config(), **change}, GOOD.arrays())
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"program": GOOD.arrays()["program"], "more": np.zeros(1)},
        {"program": np.zeros((40, 40, 3))},
        {"program": np.zeros((3, 40, 40), np.float32)},
        {"program": np.full((40, 40, 3), np.nan, np.float32)},
        {"program": np.full((40, 40, 3), -np.inf, np.float32)},
    ],
)
def test_hostile_arrays_are_refused(arrays):
    with pytest.raises(StoreError):
        restore_prompt(GOOD.config(), arrays)


def test_a_config_that_is_no_dictionary_is_refused():
    for config in ([], None, {}):
        with pytest.raises(StoreError, match="has the keys"):
            restore_prompt(config, {})
