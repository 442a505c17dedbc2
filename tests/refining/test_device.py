"""What a graphics card would do, done on the CPU: views, statistics and an epoch that wait for no copy to the host."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest

from refining_cases import CLASSES, SmallSource, digit_examples, responses_of, small_prompt
from yoro.data.decoding import decode
from yoro.data.examples import Example
from yoro.data.geometry import Augmentation, Geometry, Shifts
from yoro.discriminant.solve import solve_mapping
from yoro.discriminant.statistics import ResponseStatistics

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the torch extra is not installed"),
]


def scenes():
    rng = np.random.default_rng(0)
    sizes = (32, 32), (120, 200), (211, 160), (64, 90)
    return [np.clip(np.cumsum(rng.normal(0, 30, (*size, 3)), 1) + 128, 0, 255).astype(np.uint8) for size in sizes]


@pytest.mark.parametrize(
    "views",
    [Augmentation(), Augmentation((0.08, 1.0), (0.75, 1.33), shorter_first=True), Shifts()],
    ids=["weak", "strong", "shifts"],
)
@pytest.mark.parametrize("fit", ["squash", "crop"])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_views_of_a_device_are_those_of_pillow_but_for_rounding(views, fit, interpolation):
    from yoro.refining.device_views import resized

    geometry = Geometry(64, fit, interpolation, reduced=False, published=True)
    images = scenes()
    looks = [partial(views.draw, (0, 1, i)) for i in range(len(images))]
    seen = [look((image.shape[1], image.shape[0]), geometry) for look, image in zip(looks, images, strict=True)]
    made = resized(images, seen, geometry, "cpu").numpy().astype(int)
    expected = np.stack([decode(image, geometry, look=look) for image, look in zip(images, looks, strict=True)])
    difference = np.abs(made - expected)
    assert difference.max() <= 2
    assert (difference > 0).mean() < 0.02


@pytest.mark.parametrize("fit", ["squash", "crop"])
def test_a_device_sees_whole_images_with_the_published_pixels(fit):
    from yoro.refining.device_views import DeviceImages
    from yoro.refining.images import LabelledImages

    geometry = Geometry(48, fit, "bicubic", reduced=False, published=True)
    examples = [Example(scene, CLASSES[i], str(i)) for i, scene in enumerate(scenes())]
    images = LabelledImages(examples, CLASSES, geometry)
    expected = np.stack([decode(example.image, geometry) for example in examples])
    for kept in (images, images.seen_once(), images.decoded_once()):
        ((pixels, codes),) = DeviceImages(kept, "cpu").batches(9)
        np.testing.assert_array_equal(pixels.numpy(), expected)
        assert codes.tolist() == list(range(4))
    assert {example.image.shape for example in images.seen_once().examples} == {(48, 48, 3)}


def test_images_decoded_once_give_the_same_batches_without_decoding_again(monkeypatch, tmp_path):
    from PIL import Image

    from yoro.refining.images import LabelledImages

    examples = []
    for number, scene in enumerate(scenes()):
        Image.fromarray(scene).save(tmp_path / f"{number}.png")
        examples.append(Example(tmp_path / f"{number}.png", CLASSES[number], str(number)))
    images = LabelledImages(examples, CLASSES, Geometry(24, reduced=False))
    looks = lambda i: partial(Augmentation().draw, (0, 1, i))  # noqa: E731
    before = list(images.batches(3, looks=looks))
    kept = images.decoded_once()
    for file in tmp_path.iterdir():
        file.unlink()
    for (one, two), (three, four) in zip(before, kept.batches(3, looks=looks), strict=True):
        np.testing.assert_array_equal(one, three)
        np.testing.assert_array_equal(two, four)
    reduced = LabelledImages(examples, CLASSES, Geometry(24))
    assert reduced.decoded_once() is reduced
    monkeypatch.setattr("yoro.refining.images.SHARE", 0.0)
    assert kept.decoded_once() is kept


def test_statistics_of_a_device_are_those_of_numpy():
    import torch

    from yoro.refining.heads import DeviceStatistics

    rng = np.random.default_rng(0)
    responses = (rng.normal(size=(300, 7)) + 1e4).astype(np.float32)
    labels = [CLASSES[i % 9] for i in range(300)]  # the tenth class has no image
    here, there = ResponseStatistics(CLASSES), DeviceStatistics(CLASSES)
    for start in range(0, 300, 90):
        here.update(responses[start : start + 90], labels[start : start + 90])
        there.update(torch.from_numpy(responses[start : start + 90]), labels[start : start + 90])
    found = there.gathered()
    assert found.classes == here.classes
    np.testing.assert_array_equal(found.counts, here.counts)
    np.testing.assert_allclose(found.means, here.means, rtol=1e-12)
    np.testing.assert_allclose(found.scatter, here.scatter, atol=1e-8 * np.abs(here.scatter).max())
    assert DeviceStatistics(CLASSES).gathered().total == 0


def trained(count, learned=False, source=None, **changes):
    """A training of two epochs on digits, and how it went."""
    from yoro.prompts.trainable import TrainablePrompt
    from yoro.refining.heads import DeviceStatistics, LinearHead, MappingHead
    from yoro.refining.images import LabelledImages
    from yoro.refining.loop import PromptTraining
    from yoro.refining.recipe import Recipe

    source, prompt = source or SmallSource(), small_prompt()
    recipe = Recipe(epochs=2, batch_size=16, augmentation=Augmentation(flip=False), **changes)
    statistics = ResponseStatistics()
    statistics.update(*responses_of(source, prompt, digit_examples(0, 160)))
    head = LinearHead(source.width, CLASSES)
    if not learned:
        head = MappingHead(
            solve_mapping(statistics, 0.1),
            0.9,
            collect=partial(DeviceStatistics if recipe.on_device else ResponseStatistics, CLASSES),
            solve=lambda seen: solve_mapping(seen.gathered() if recipe.on_device else seen, 0.1),
        )
    training = PromptTraining(TrainablePrompt(prompt), source, head, recipe)
    geometry = Geometry(prompt.image_side, reduced=False)
    train, held = (LabelledImages(digit_examples(*part), CLASSES, geometry) for part in ((0, count), (160, 80)))
    return training, training.run(train, held)


def test_a_training_on_a_device_ends_as_one_on_the_host(monkeypatch):
    monkeypatch.setattr("yoro.refining.loop.is_best", lambda *_: True)
    (here, one), (there, two) = trained(96), trained(96, on_device=True)
    for first, second in zip(one.records, two.records, strict=True):
        assert abs(first.correct - second.correct) <= 1
        assert first.loss is None or first.loss == pytest.approx(second.loss, rel=1e-2)
    np.testing.assert_allclose(here.head.mapping.weights, there.head.mapping.weights, rtol=0.1, atol=1e-3)


def test_an_epoch_on_a_device_copies_nothing_to_the_host_at_each_step(monkeypatch):
    import torch

    monkeypatch.setattr("yoro.refining.loop.is_best", lambda *_: True)
    copies = []

    def counting(name):
        real = getattr(torch.Tensor, name)

        def counted(tensor, *given, **more):
            caller = sys._getframe(1).f_code.co_filename
            if "optim" not in caller:  # torch counts Adam's steps on the host, whatever the device
                copies.append((name, caller))
            return real(tensor, *given, **more)

        monkeypatch.setattr(torch.Tensor, name, counted)

    for name in ("cpu", "numpy", "item", "tolist", "__float__", "__int__", "__bool__", "__array__"):
        counting(name)
    trained(32, on_device=True)
    few = len(copies)
    copies.clear()
    trained(160, on_device=True)
    assert 0 < len(copies) == few


@pytest.mark.parametrize("kind", ["mapping", "learned", "autovp"])
@pytest.mark.parametrize("views", [Augmentation(), Shifts(), None], ids=["crops", "shifts", "whole"])
def test_an_epoch_runs_where_no_host_can_read_and_fetches_a_loss_and_the_statistics(kind, views, monkeypatch):
    """torch's meta device has shapes but no values: a copy to the host, or a tensor left on the host, is an error."""
    import torch

    from yoro.prompts.prompt import make_prompt
    from yoro.prompts.trainable import TrainablePrompt
    from yoro.refining.heads import DeviceStatistics, LinearHead, MappingHead
    from yoro.refining.images import LabelledImages
    from yoro.refining.loop import PromptTraining
    from yoro.refining.recipe import Recipe
    from yoro.research.baselines.autovp import FullMapping, ResizedPadding

    with pytest.raises((RuntimeError, NotImplementedError)):
        float(torch.zeros((), device="meta"))
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # knows no such device
    source, fetched = SmallSource(), []
    statistics = ResponseStatistics()
    statistics.update(*responses_of(source, small_prompt(), digit_examples(0, 96)))
    monkeypatch.setattr("yoro.refining.loop._check_loss", lambda total: fetched.append(total.device.type) or 0.0)
    monkeypatch.setattr(DeviceStatistics, "gathered", lambda _: fetched.append("statistics") or statistics)
    source.network.to("meta")
    source.device = torch.device("meta")
    prompt = TrainablePrompt(small_prompt(), "meta")
    head = LinearHead(source.width, CLASSES, device="meta")
    if kind == "mapping":
        head = MappingHead(
            solve_mapping(statistics, 0.1), 0.9, collect=partial(DeviceStatistics, CLASSES),
            solve=lambda seen: solve_mapping(seen.gathered(), 0.1), device="meta",
        )  # fmt: skip
    if kind == "autovp":
        frame = make_prompt("padding", source.side, mean=source.mean, std=source.std, image_side=20)
        prompt, head = ResizedPadding(frame, 1.0, "meta"), FullMapping(source.width, CLASSES, device="meta")
    recipe = Recipe(epochs=1, batch_size=16, augmentation=views, head_clip=0.001 if kind == "autovp" else None)
    training = PromptTraining(prompt, source, head, recipe)
    side = 20 if kind == "autovp" else source.side
    images = training._ready(LabelledImages(digit_examples(0, 96), CLASSES, Geometry(side, reduced=False)), views)
    training._epoch(1, images, False)
    assert fetched == ["meta"] + ["statistics"] * (kind == "mapping") + ["meta"]  # the first loss, and the last


@pytest.mark.parametrize("learned", [False, True])
def test_mixed_precision_with_a_scaled_loss_trains_as_full_precision_does(learned):
    plain, mixed = (trained(96, learned, mixed_precision=mixed)[1] for mixed in (False, True))
    for first, second in zip(plain.records[1:], mixed.records[1:], strict=True):
        assert first.loss == pytest.approx(second.loss, rel=0.05)


def test_gradients_that_overflow_are_skipped_and_the_scale_is_lowered():
    import torch

    class Overflowing(SmallSource):
        """A source whose first gradients are not finite, as those of half precision that were scaled too much."""

        calls = 0

        def __call__(self, pixels):
            responses = super().__call__(pixels)
            if responses.requires_grad:
                self.calls += 1
                if self.calls == 1:
                    responses.register_hook(lambda gradient: torch.full_like(gradient, torch.inf))
            return responses

    training, outcome = trained(96, True, Overflowing(), mixed_precision=True)
    assert len(outcome.records) == 3
    assert torch.isfinite(training.prompt.program).all()
    assert training._scaler.get_scale() == 32768.0


def test_a_pass_before_the_first_epoch_is_timed_and_images_are_decoded_once(monkeypatch):
    from yoro.refining import images as labelled

    decoded = []
    for name in ("decode", "decode_whole"):
        real = getattr(labelled, name)
        monkeypatch.setattr(
            labelled, name, lambda image, *a, real=real, **b: decoded.append(image.shape) or real(image, *a, **b)
        )
    training, outcome = trained(32)
    assert decoded.count((8, 8)) == 32 + 80  # training and validation images, once for both epochs
    assert training.prepared == 0.0
    training.gather(labelled.LabelledImages(digit_examples(0, 32), CLASSES, Geometry(32, reduced=False)))
    assert training.prepared > 0.0
    assert len(outcome.records) == 3
