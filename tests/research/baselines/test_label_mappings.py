from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from refining_cases import CLASSES, SmallSource, digit_examples, responses_of, small_prompt
from yoro.data.geometry import Geometry
from yoro.errors import InputError
from yoro.mappings.cooccurrence import CoOccurrence, bayesian_mapping, frequency_mapping, plus_table

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the torch extra is not installed"),
]


def labelled(examples, side):
    from yoro.refining.images import LabelledImages

    return LabelledImages(examples, CLASSES, Geometry(side))


@pytest.fixture(scope="module")
def lite():
    from yoro.sources.torch.gradients import open_differentiable

    return open_differentiable("embedded:lite0", side=48, device="cpu")


@pytest.mark.parametrize(
    ("method", "prompt"),
    [
        pytest.param("rlm", "watermark", marks=pytest.mark.long),
        pytest.param("flm", "watermark", marks=pytest.mark.long),
        pytest.param("ilm", "padding", marks=pytest.mark.long),
        pytest.param("blm", "watermark", marks=pytest.mark.long),
        ("blm+", "watermark"),
        pytest.param("deep", "legacy-padding", marks=pytest.mark.long),
    ],
)
def test_each_baseline_trains_on_real_images_and_beats_chance(method, prompt, lite):
    from yoro.prompts.prompt import make_prompt
    from yoro.prompts.trainable import TrainablePrompt
    from yoro.research.baselines.label_mappings import baseline_training, published_recipe

    side = {"watermark": None, "padding": 32, "legacy-padding": 24}[prompt]
    start = make_prompt(prompt, 48, mean=lite.mean, std=lite.std, image_side=side)
    train, held = (labelled(digit_examples(*part), start.image_side) for part in ((0, 100), (100, 100)))
    # The published rate is meant for 200 epochs.
    recipe = replace(published_recipe(method, epochs=5, batch_size=20), learning_rate=0.05)
    training = baseline_training(method, lite, TrainablePrompt(start), train, recipe)
    outcome = training.run(train, held)
    losses = [record.loss for record in outcome.records[1:]]
    assert losses[-1] < losses[0]
    assert max(record.correct for record in outcome.records) > 15  # of 100 images in ten classes


@pytest.mark.parametrize("method", ["flm", "ilm", "blm", "blm+"])
def test_the_first_mapping_is_that_of_a_pass_with_the_untrained_prompt(method):
    from yoro.prompts.trainable import TrainablePrompt
    from yoro.research.baselines.label_mappings import baseline_training, published_recipe

    source, prompt, examples = SmallSource(), small_prompt(), digit_examples(0, 80)
    train = labelled(examples, prompt.image_side)
    training = baseline_training(method, source, TrainablePrompt(prompt), train, published_recipe(method, epochs=1))
    table = plus_table(CLASSES) if method == "blm+" else CoOccurrence(CLASSES)
    table.update(*responses_of(source, prompt, examples))
    expected = (bayesian_mapping if "blm" in method else frequency_mapping)(table)
    np.testing.assert_allclose(training.head.mapping.weights, expected.weights, atol=1e-6)
    training.run(train, train)
    assert method != "flm" or (training.head.mapping.weights == expected.weights).all()


@pytest.mark.parametrize("method", ["flm", "ilm", "blm", "blm+"])
def test_a_mapping_pass_sees_images_as_the_training_does(method, monkeypatch):
    """The published code gathers from the loader of the training images, which crops and mirrors a watermark's."""
    from yoro.data.geometry import Shifts
    from yoro.prompts.trainable import TrainablePrompt
    from yoro.refining.loop import BEFORE
    from yoro.research.baselines.label_mappings import baseline_training, published_recipe

    source, prompt = SmallSource(), small_prompt()
    train = labelled(digit_examples(0, 80), prompt.image_side)
    recipe = replace(
        published_recipe(method, epochs=1, batch_size=80), augmentation=Shifts(margin=0.25), learning_rate=0.0
    )
    training = baseline_training(method, source, TrainablePrompt(prompt), train, recipe)

    def expected(*numbers):
        pixels, codes = next(train.batches(80, looks=recipe.looks(*numbers)))
        table = plus_table(CLASSES) if method == "blm+" else CoOccurrence(CLASSES)
        table.update(source.respond(prompt.compose(pixels)).astype(np.float64), [CLASSES[code] for code in codes])
        return (bayesian_mapping if "blm" in method else frequency_mapping)(table).weights

    np.testing.assert_allclose(training.head.mapping.weights, expected(0, BEFORE), atol=1e-6)
    monkeypatch.setattr("yoro.refining.loop.is_best", lambda *_: True)
    training.run(train, train)
    last = expected(0 if method == "flm" else 1, BEFORE)
    np.testing.assert_allclose(training.head.mapping.weights, last, atol=1e-6)
    assert not np.allclose(last, expected(1), atol=1e-3)  # a lot of its own, not that of the epoch after it


def test_schedules_and_passes_are_the_published_ones():
    from yoro.research.baselines.label_mappings import published_recipe

    blm, flm = published_recipe("blm"), published_recipe("flm")
    assert (blm.epochs, blm.learning_rate, blm.head_learning_rate, blm.optimiser) == (200, 0.01, 0.1, "adam")
    assert blm.mapping_pass
    assert not flm.mapping_pass
    assert not published_recipe("blm", mapping="seen").mapping_pass
    assert [round(blm.rate(epoch, 0.5), 3) for epoch in (100, 101, 144, 145)] == [1.0, 0.1, 0.1, 0.01]
    with pytest.raises(InputError, match="Unknown baseline"):
        published_recipe("bdm")


def test_the_deep_mapping_has_no_bias_and_is_a_matrix_on_the_responses():
    import torch

    from yoro.refining.heads import LinearHead

    head = LinearHead(6, CLASSES, seed=1)
    responses = torch.randn(4, 6)
    np.testing.assert_allclose(head.score(responses).detach().numpy(), head.mapping(responses.numpy()), rtol=1e-5)
    assert not head.mapping.bias.any()
    state = head.arrays()
    other = LinearHead(6, CLASSES, seed=2)
    other.restore(state)
    assert (other.mapping.weights == head.mapping.weights).all()
    assert np.abs(head.mapping.weights).max() <= 6**-0.5


def test_the_best_test_epoch_leaves_the_untrained_predictor_out():
    from yoro.refining.recipe import EpochRecord, is_best

    records = [EpochRecord(i, None, count, 10, 0.0) for i, count in enumerate([9, 5, 5, 6, 4])]
    assert [is_best(records[: i + 1], epoch_zero=False) for i in range(5)] == [False, True, False, True, False]
