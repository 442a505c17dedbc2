"""The label mappings of the bench are trained with the published batches and crops, at the published image side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.research.bench.cell_loading import open_pipeline
from yoro.research.bench.cells import BenchCell, CellInputs
from yoro.research.bench.context import Context
from yoro.research.bench.datasets.bench_datasets import DATASETS
from yoro.research.bench.datasets.drawing import Drawn
from yoro.research.bench.methods.bench_methods import LabelMappingOptions
from yoro.research.bench.response_cache import ResponseCache
from yoro.research.bench.results import CellFigures

SOURCE = "embedded:lite0?side=64"


@pytest.fixture
def recipe_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The recipe by which a label mapping would be trained; the training itself is left out."""
    pytest.importorskip("torch")
    from yoro.research.bench.methods import training

    recipes = []

    def stop(context, made, *_):
        recipes.append(made.recipe)
        return CellFigures(0, 0, 0.0, 0)

    monkeypatch.setattr(training, "_run_training", stop)
    pixels = np.random.default_rng(0).integers(0, 255, (4, 32, 32, 3), np.uint8)
    images = tuple(Example(image, f"class {i % 2}", f"train/{i}") for i, image in enumerate(pixels))

    def find(dataset: str, prompt: str = "padding", method: str = "flm", **options: object):
        cell = BenchCell(dataset, SOURCE, prompt, method, 0)
        context = Context(
            cell, DATASETS[dataset], Drawn(images, images, images), open_pipeline(cell, DATASETS[dataset], "cpu"),
            ResponseCache(tmp_path / "cache"), (), tmp_path / "scratch", "cpu",
        )  # fmt: skip
        training.run_label_mapping(method, context, LabelMappingOptions(**options))
        return recipes.pop()

    return find


@pytest.mark.torch
@pytest.mark.parametrize("dataset", sorted(DATASETS))
def test_batches_are_of_256_and_of_64_on_dtd_and_pets(recipe_of, dataset: str):
    assert recipe_of(dataset).batch_size == (64 if dataset in ("dtd", "oxfordpets") else 256)


@pytest.mark.torch
def test_a_plan_may_ask_for_other_batches(recipe_of):
    assert recipe_of("dtd", batch_size=32).batch_size == 32
    assert recipe_of("svhn", batch_size=32).batch_size == 32


@pytest.mark.torch
@pytest.mark.parametrize("method", ["rlm", "flm", "ilm", "blm", "blm+", "deep"])
def test_watermarks_see_224_of_228_pixels_by_lot_and_mirrored_and_frames_the_whole(recipe_of, method: str):
    assert recipe_of("svhn", "padding", method).augmentation is None
    assert recipe_of("svhn", "legacy-padding", method).augmentation is None
    crops = recipe_of("svhn", "watermark", method).augmentation
    assert crops.flip  # published so on every dataset, also where left and right matter
    views = [crops.draw((0, 1, image), (32, 32), Geometry(224)) for image in range(400)]
    assert {(view.width, view.height, view.first) for view in views} == {(224, 224, (228, 228))}
    for edge in ("left", "top"):  # of the four pixels that are cut, any may be
        assert {getattr(view, edge) for view in views} == set(range(5))
    assert 0.4 < np.mean([view.mirrored for view in views]) < 0.6


@pytest.mark.parametrize(("dataset", "side"), [("svhn", 32), ("gtsrb", 32), ("cifar100", 32), ("dtd", 128)])
def test_legacy_padding_has_the_image_side_of_the_dataset(dataset: str, side: int):
    cell = BenchCell(dataset, "embedded:lite0?side=160", "legacy-padding", "flm", 0)
    pipeline = open_pipeline(cell, DATASETS[dataset], "cpu")
    assert (pipeline.prompt.image_side, pipeline.geometry.side, pipeline.prompt.side) == (side, side, 160)
    said = open_pipeline(replace(cell, inputs=CellInputs(image_side=96)), DATASETS[dataset], "cpu")
    assert said.prompt.image_side == 96
    for prompt, other in (("padding", 128), ("watermark", 160)):  # 16 pixels a side, or none
        assert open_pipeline(replace(cell, prompt=prompt), DATASETS[dataset], "cpu").prompt.image_side == other


@pytest.mark.torch
def test_keys_of_several_views_are_the_mean_of_random_crops(tmp_path: Path):
    pytest.importorskip("open_clip")
    from functools import partial

    from clip_cases import photo_examples
    from clip_models import write_clip
    from yoro.data.decoding import decode
    from yoro.data.geometry import Augmentation
    from yoro.model.settings import STRICT
    from yoro.research.bench.methods.bench_methods import METHODS
    from yoro.research.peers.tip_adapter import TipAdapterSettings

    images = tuple(photo_examples(3))
    cell = BenchCell("digits", f"open_clip:local-dir:{write_clip(tmp_path / 'clip')}", "watermark", "tip-adapter", 4)
    cache = ResponseCache(tmp_path / "cache")
    pipeline = open_pipeline(cell, DATASETS["digits"], "cpu")
    cache.read(images, pipeline, STRICT, progress=False)
    drawn = Drawn(images, images, images)
    context = Context(
        cell, DATASETS["digits"], drawn, pipeline, cache, ("a {name}",), tmp_path / "scratch", "cpu"
    )  # fmt: skip
    crops = Augmentation((0.5, 1.0), (3 / 4, 4 / 3))
    passes = [
        pipeline.respond(
            np.stack([
                decode(example.image, pipeline.geometry, look=partial(crops.draw, (4, view, i)))
                for i, example in enumerate(images)
            ])
        )
        for view in range(3)
    ]  # fmt: skip
    np.testing.assert_allclose(context.viewed(3), np.mean(passes, axis=0), atol=1e-5)
    assert np.abs(passes[0] - passes[1]).max() > 1e-3
    method = METHODS["tip-adapter"]
    one, three = (method.run(context, TipAdapterSettings(views=views)) for views in (1, 3))
    assert one.fitted == three.fitted == 9
    assert three.correct > 4  # of nine, in three classes


def test_autovps_search_covers_what_was_published():
    from yoro.research.baselines.published import search_space

    images, rates = search_space("dtd")
    assert (len(images), len(rates)) == ((1 + 3 * 2) * 3 * 2, 3 * 3)
    assert {choice.get("sources") for choice in search_space("stanfordcars")[0]} == {None, 1, 2, 5}


@pytest.mark.torch
def test_autovps_search_takes_the_options_with_the_best_training_accuracy(tmp_path: Path, monkeypatch):
    pytest.importorskip("open_clip")
    from clip_cases import photo_examples
    from clip_models import write_clip
    from yoro.research.baselines.published import ClipOptions
    from yoro.research.bench.methods import training

    space = [{"scale": 1.5}, {"scale": 0.5, "resize": "trained"}], [{"learning_rate": 40.0}, {"weight_decay": 0.5}]
    monkeypatch.setattr(training.published, "search_space", lambda _: space)
    monkeypatch.setattr(training.published, "SEARCH_EPOCHS", {"": 1})
    images = tuple(photo_examples(3))
    cell = BenchCell("digits", f"open_clip:local-dir:{write_clip(tmp_path / 'clip')}", "padding", "autovp", 0)
    context = Context(
        cell, DATASETS["digits"], Drawn(images, images, images), open_pipeline(cell, DATASETS["digits"], "cpu"),
        ResponseCache(tmp_path / "cache"), (), tmp_path / "scratch", "cpu",
    )  # fmt: skip
    tried = []
    real = training._clip_training

    def noted(method, context, options, epochs=None):
        made = real(method, context, options, epochs)
        tried.append((options, epochs, made[0].recipe))
        return made

    monkeypatch.setattr(training, "_clip_training", noted)
    figures = training.run_clip("autovp", context, ClipOptions(epochs=2, search=True))
    assert [epochs for _, epochs, _ in tried] == [1, 1, 1, 1, None]
    assert tried[0][2].schedule_epochs == 2  # the cosine of the whole training

    def right(options):
        made, train, _ = real("autovp", context, options, 1)
        return made.run(train, train).records[-1].correct

    first = max((tried[0][0], tried[1][0]), key=right)
    assert tried[4][0] == max((replace(first, **choice) for choice in space[1]), key=right)
    assert any("The search chose" in note for note in figures.notes)
    assert tried[4][2].epochs == 2
