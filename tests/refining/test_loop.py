from __future__ import annotations

import importlib.util
import shutil
from dataclasses import replace

import numpy as np
import pytest

from refining_cases import CLASSES, SmallSource, digit_examples, responses_of, small_prompt
from yoro.data.geometry import Geometry
from yoro.discriminant.solve import solve_mapping
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError, StoreError
from yoro.mappings.affine import AffineMapping

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the torch extra is not installed"),
]
RHO = 0.1


@pytest.fixture(scope="module")
def train():
    return digit_examples(0, 160)


@pytest.fixture(scope="module")
def held():
    return digit_examples(160, 80)


@pytest.fixture(scope="module")
def start(train):
    """The mapping of epoch 0."""
    statistics = ResponseStatistics()
    statistics.update(*responses_of(SmallSource(), small_prompt(), train))
    return solve_mapping(statistics, RHO)


def bdm_head(mapping, policy):
    from yoro.refining.heads import MappingHead

    return MappingHead(
        mapping, policy, collect=lambda: ResponseStatistics(CLASSES), solve=lambda seen: solve_mapping(seen, RHO)
    )


def recipe(**changes):
    from yoro.data.geometry import Augmentation
    from yoro.refining.recipe import Recipe

    return Recipe(**{"epochs": 2, "batch_size": 32, "augmentation": Augmentation(flip=False), **changes})


def images(examples, prompt=None):
    from yoro.refining.images import LabelledImages

    return LabelledImages(examples, CLASSES, Geometry((prompt or small_prompt()).image_side))


def training(head, settings, source=None, prompt=None):
    from yoro.prompts.trainable import TrainablePrompt
    from yoro.refining.loop import PromptTraining

    return PromptTraining(TrainablePrompt(prompt or small_prompt()), source or SmallSource(), head, settings)


@pytest.fixture
def last_epoch(monkeypatch):
    monkeypatch.setattr("yoro.refining.loop.is_best", lambda *_: True)


@pytest.fixture
def first_epoch(monkeypatch):
    monkeypatch.setattr("yoro.refining.loop.is_best", lambda records, _: records[-1].epoch == 1)


def test_no_epochs_leave_everything_bit_for_bit(start, train, held):
    run = training(bdm_head(start, 0.9), recipe(epochs=0))
    outcome = run.run(images(train), images(held))
    assert (outcome.chosen, len(outcome.records)) == (0, 1)
    np.testing.assert_array_equal(run.head.mapping.weights, start.weights)
    np.testing.assert_array_equal(run.head.mapping.bias, start.bias)
    assert not run.prompt.program.detach().any()


def test_a_rate_of_zero_and_a_frozen_mapping_leave_everything_bit_for_bit(start, train, held, last_epoch):
    from yoro.refining.recipe import FROZEN

    run = training(bdm_head(start, FROZEN), recipe(learning_rate=0.0))
    outcome = run.run(images(train), images(held))
    assert outcome.chosen == 2
    assert len({record.correct for record in outcome.records}) == 1
    np.testing.assert_array_equal(run.head.mapping.weights, start.weights)
    np.testing.assert_array_equal(run.head.mapping.bias, start.bias)
    assert not run.prompt.program.detach().any()


def test_momentum_at_its_ends_takes_one_of_both_mappings_bit_for_bit():
    from yoro.refining.recipe import FROZEN, REFRESH, blended, weight_of_old

    old = AffineMapping(np.full((2, 2), 0.1), np.array([0.0, -np.inf]), ("a", "b"))
    new = AffineMapping(np.full((2, 2), 0.3), np.array([-np.inf, 1.0]), ("a", "b"))
    assert blended(old, new, FROZEN) is old
    assert blended(old, new, REFRESH) is new
    assert (weight_of_old("momentum", 1.0), weight_of_old("momentum", 0.0)) == (FROZEN, REFRESH)


class Recording:
    """Keeps what goes through a source."""

    def __init__(self):
        self.inner, self.seen = SmallSource(), []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __call__(self, pixels):
        responses = self.inner(pixels)
        if responses.requires_grad:
            self.seen.append(responses.detach().numpy())
        return responses


@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_the_mapping_after_an_epoch_is_bdm_of_the_responses_of_that_epoch_blended(
    start, train, held, beta, monkeypatch, last_epoch
):
    monkeypatch.setattr("yoro.refining.loop.LANES", 1)  # so that the recording is in order
    source = Recording()
    run = training(bdm_head(start, beta), recipe(epochs=1), source)
    run.run(images(train), images(held))
    order = np.random.default_rng([0, 1]).permutation(len(train))
    statistics = ResponseStatistics()
    statistics.update(np.concatenate(source.seen), [train[i].label for i in order])
    new = solve_mapping(statistics, RHO)
    found = run.head.mapping
    expected = beta * start.weights + (1 - beta) * new.weights
    np.testing.assert_allclose(found.weights, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(found.bias, beta * start.bias + (1 - beta) * new.bias, rtol=1e-9)


def test_a_class_without_data_stays_so_under_a_blend():
    from yoro.refining.recipe import blended, weight_of_old

    mapping = AffineMapping(np.ones((2, 2)), np.array([0.0, -np.inf]), ("a", "b"))
    assert blended(mapping, mapping, 0.9).bias.tolist() == [0.0, -np.inf]
    with pytest.raises(InputError, match="expected 0 to 1"):
        weight_of_old("momentum", 1.5)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["watermark", "padding"])
def test_training_lowers_the_loss(train, held, name, optimiser):
    from yoro.refining.recipe import FROZEN

    prompt, source, statistics = small_prompt(name), SmallSource(), ResponseStatistics()
    statistics.update(*responses_of(source, prompt, train))
    head = bdm_head(solve_mapping(statistics, RHO), FROZEN)
    rate = {"adam": 0.03, "sgd": 0.02}[optimiser]
    plan = recipe(epochs=4, optimiser=optimiser, learning_rate=rate, augmentation=None)
    run = training(head, plan, source, prompt)
    losses = [record.loss for record in run.run(images(train, prompt), images(held, prompt)).records[1:]]
    assert losses[-1] < 0.98 * losses[0]  # the frame of a padding moves little under SGD


def test_the_first_strictly_best_epoch_is_kept():
    from yoro.refining.recipe import EpochRecord, is_best

    counts = [5, 5, 7, 7, 6, 8]
    records = [EpochRecord(i, None, count, 10, 0.0) for i, count in enumerate(counts)]
    assert [is_best(records[: i + 1]) for i in range(6)] == [True, False, True, False, False, True]


def test_a_better_last_epoch_cannot_hide_that_an_earlier_one_was_chosen(start, train, held, monkeypatch):
    from yoro.refining.recipe import REFRESH

    kept = []

    def choose(records, _):
        kept.append(run.prompt.program.detach().clone())
        return records[-1].epoch == 1

    monkeypatch.setattr("yoro.refining.loop.is_best", choose)
    run = training(bdm_head(start, REFRESH), recipe(epochs=3))
    assert run.run(images(train), images(held)).chosen == 1
    assert (run.prompt.program == kept[0]).all()
    assert not (kept[0] == kept[2]).all()


class Killed(BaseException):
    pass


def killing(source, calls):
    """A source that dies at a call."""

    class Dying(Recording):
        def __call__(self, pixels):
            self.seen.append(0)
            if len(self.seen) == calls:
                raise Killed
            return self.inner(pixels)

    return Dying()


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_killed_within_an_epoch_it_resumes_to_the_same_end(start, train, held, tmp_path, optimiser):
    from yoro.refining.checkpoint import TrainingCheckpoint

    settings = recipe(epochs=4, optimiser=optimiser, learning_rate=0.02, schedule="cosine", warm_up=0.5)
    whole = training(bdm_head(start, 0.9), settings)
    straight = whole.run(images(train), images(held))
    place = TrainingCheckpoint(tmp_path / "part", "this training")
    killed = training(bdm_head(start, 0.9), settings, killing(SmallSource(), 37))
    with pytest.raises(Killed):
        killed.run(images(train), images(held), checkpoint=place)
    assert not list(tmp_path.glob("*.tmp"))
    again = training(bdm_head(start, 0.9), settings)
    told = []
    resumed = again.run(
        images(train), images(held), checkpoint=place, resume=True, tell=lambda r, c: told.append(r[-1])
    )
    assert 0 < len(told) < 4
    for one, two in zip(straight.records, resumed.records, strict=True):
        assert replace(one, seconds=0.0) == replace(two, seconds=0.0)
    assert straight.chosen == resumed.chosen
    assert (whole.prompt.program == again.prompt.program).all()
    np.testing.assert_array_equal(whole.head.mapping.weights, again.head.mapping.weights)
    other = TrainingCheckpoint(tmp_path / "part", "another")
    with pytest.raises(StoreError, match="belongs to another training"):
        other.read()
    (tmp_path / "part" / "now.safetensors").write_bytes(b"nothing")
    with pytest.raises(StoreError, match=r"now\.safetensors is damaged"):
        place.read()
    shutil.rmtree(tmp_path / "part")
    assert place.read() is None


def test_ctrl_c_keeps_the_best_so_far(start, train, held, first_epoch):
    from yoro.refining.recipe import FROZEN

    def stop(records, chosen):
        if records[-1].epoch == 2:
            raise KeyboardInterrupt

    run = training(bdm_head(start, FROZEN), recipe(epochs=9))
    outcome = run.run(images(train), images(held), tell=stop)
    assert outcome.interrupted
    assert (outcome.chosen, len(outcome.records)) == (1, 3)


def test_rates_warm_up_and_fall():
    settings = recipe(epochs=10, warm_up=2.0)
    assert [settings.rate(1, 0.0), settings.rate(1, 0.5), settings.rate(2, 0.5), settings.rate(3, 0)] == [
        0,
        0.25,
        0.75,
        1,
    ]
    cosine = recipe(epochs=10, schedule="cosine")
    assert cosine.rate(1, 0.0) == 1.0
    assert cosine.rate(6, 0.0) == pytest.approx(0.5)
    assert cosine.rate(10, 1.0) == pytest.approx(0.0)


@pytest.mark.parametrize("change", [{"epochs": -1}, {"learning_rate": float("nan")}, {"optimiser": "lion"}])
def test_settings_that_no_training_can_have_are_refused(change):
    with pytest.raises(InputError, match=f"{next(iter(change))}=.*out of range"):
        recipe(**change)


def test_no_validation_images_are_an_error(start, train):
    from yoro.refining.recipe import FROZEN

    with pytest.raises(InputError, match="no validation images"):
        training(bdm_head(start, FROZEN), recipe()).run(images(train), images([]))
