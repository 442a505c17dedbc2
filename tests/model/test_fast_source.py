from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import yoro
from photos import crops
from yoro.data.examples import Example
from yoro.model import fast_source
from yoro.model.fast_source import EACH, FEWEST, SHARE, choose_fast, draw_sample, significantly_worse
from yoro.model.settings import FAST_WITH_GRADIENTS, FitSettings, PipelineSettings, fast_sources

SIDE = 208


@pytest.fixture(params=[True, False], ids=["8-bit", "float"])
def any_processor(request, monkeypatch):
    monkeypatch.setattr("yoro.model.settings.has_dot_products", lambda: request.param)


@pytest.fixture
def quick_processor(monkeypatch):
    monkeypatch.setattr("yoro.model.settings.has_dot_products", lambda: True)
    monkeypatch.setattr(fast_source, "SHARE", 1)
    monkeypatch.setattr(fast_source, "FEWEST", 24)


def listed(counts: dict[str, int]) -> list[Example]:
    return [Example(np.zeros((1, 1, 3), np.uint8), name, f"{name} {i}") for name, n in counts.items() for i in range(n)]


def named(examples: list[Example]) -> set[str]:
    return {example.name for example in examples}


def chequered() -> list[tuple[np.ndarray, str]]:
    """Photos, half of them under a chequerboard so fine that a smaller canvas averages it away."""
    board = 12 * (2 * (np.indices((SIDE, SIDE)).sum(axis=0) % 2) - 1)[..., None]
    photos = [crop.astype(np.int16) for crop in crops("coffee", 32, side=SIDE, seed=3)]
    pairs = [(photo + board, "chequered") if i % 2 else (photo, "plain") for i, photo in enumerate(photos)]
    return [(np.clip(photo, 0, 255).astype(np.uint8), name) for photo, name in pairs]


def test_the_sample_has_several_images_of_each_of_its_classes_and_no_more_than_asked_for():
    many = draw_sample(listed({f"class {i}": 20 for i in range(100)}), 128, 0)
    assert len(many) == 128
    assert {sum(e.label == label for e in many) for label in {e.label for e in many}} == {EACH}
    few = draw_sample(listed({"cat": 500, "dog": 500}), 100, 0)
    assert [sum(e.label == label for e in few) for label in ("cat", "dog")] == [50, 50]
    assert len(draw_sample(listed({"cat": 3, "dog": 500}), 100, 0)) == 53
    assert draw_sample([], 0, 0) == []


def test_the_sample_depends_on_the_names_and_the_seed_not_on_the_order():
    examples = listed({f"class {i}": 20 for i in range(40)})
    drawn = named(draw_sample(examples, 128, 0))
    assert named(draw_sample(examples[::-1], 128, 0)) == drawn
    assert named(draw_sample(examples, 128, 1)) != drawn


@pytest.mark.parametrize("shift", [-0.3, 0.0, 0.05, 0.1, 0.3])
def test_a_loss_is_worse_beyond_one_standard_error_of_the_pairs(shift):
    rng = np.random.default_rng(0)
    reference = rng.exponential(size=100)
    losses = reference + rng.normal(shift, 0.7, 100)
    assert significantly_worse(losses, reference) == (stats.ttest_rel(losses, reference).statistic > 1.0)
    assert not significantly_worse(reference, reference)


@pytest.mark.usefixtures("any_processor")
def test_without_a_sample_the_largest_canvas_is_read_and_that_is_said():
    settings = FitSettings(preset="fast")
    chosen, told = choose_fast(listed({"cat": 20, "dog": 20}), settings)
    assert chosen == settings
    assert chosen.pipeline.source == fast_sources()[-1]
    assert f"{SHARE * FEWEST:,} images" in told


@pytest.mark.usefixtures("any_processor")
def test_what_the_user_chose_is_not_chosen_again():
    examples = listed({"cat": 4000})
    for settings in (
        FitSettings(),
        FitSettings(preset="fast", pipeline=PipelineSettings(source="embedded:lite1")),
        FitSettings(preset="fast", refine=1),
    ):
        assert choose_fast(examples, settings) == (settings, "")
    padded = FitSettings(preset="fast", pipeline=PipelineSettings(prompt="padding"))
    assert choose_fast(examples, padded)[0] == padded
    assert FitSettings(preset="fast", refine=1).pipeline.source == FAST_WITH_GRADIENTS


@pytest.mark.usefixtures("any_processor")
def test_a_preset_is_applied_once_however_often_its_settings_are_changed():
    settings = FitSettings(preset="fast")
    assert replace(settings, shots=3).pipeline == settings.pipeline


@pytest.mark.usefixtures("quick_processor")
def test_the_smallest_canvas_without_a_loss_is_read_and_recorded(tmp_path):
    pairs = [(crop, name) for name in ("cat", "rocket") for crop in crops(name, 16)]
    told: list[str] = []
    classifier = yoro.fit(pairs, preset="fast", tell=told.append)
    assert classifier.model.origin.name == fast_sources()[0]
    (note,) = [line for line in told if line.startswith("Fast: ")]
    assert "leave-one-out of 32 images" in note
    classifier.save(tmp_path / "m.yoro")
    assert "leave-one-out of 32 images" in (tmp_path / "m.yoro" / "README.md").read_text()
    assert yoro.load(tmp_path / "m.yoro").model.origin.name == fast_sources()[0]
    again = yoro.fit(pairs[::-1], preset="fast")
    assert again.model.origin.name == fast_sources()[0]


@pytest.mark.usefixtures("quick_processor")
def test_where_smaller_canvases_lose_what_matters_the_largest_is_read():
    told: list[str] = []
    classifier = yoro.fit(chequered(), preset="fast", tell=told.append)
    assert classifier.model.origin.name == fast_sources()[-1]
    assert any("shows a loss" in line for line in told)
