"""The CLIP baselines as trainings: each learns, through a small random CLIP and through the embedded source."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from clip_cases import BANK, BANKS, CLASSES, open_both, photo_examples, start
from clip_models import write_clip
from yoro.errors import InputError, SourceError

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("open_clip") is None, reason="the clip extra is not installed"),
]
# Rates at which a random network learns within eight epochs; the published one is meant for 200 epochs of CLIP.
RATES = {
    "vp": 10,
    "ar": 1,
    "attrvr": 0.5,
    "dvp-cls": 0.3,
    "dvp-cse": 0.2,
    "blm": 1,
    "blm+": 3,
    "autovp": 0.3,
    "dga": 0.2,
}
# Similarities of a random network may be negative. DGA divides by their means, which a bank that has them near zero
# blows up; our templates do not. Trained networks have positive ones.
ONE_BANK = ("templates",)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    texts, twin = open_both(f"open_clip:local-dir:{write_clip(tmp_path_factory.mktemp('clip'))}")
    texts.logit_scale = 100.0  # as of a trained one
    return texts, twin


@pytest.fixture(scope="module")
def conse():
    return open_both("embedded:conse")


QUICK = ("blm+",)  # the others are long; the gradients of VP are held against torch below


@pytest.mark.parametrize(
    "method", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in RATES]
)
def test_each_method_learns_its_training_images_and_beats_chance(method, clip):
    training, train, _ = start(method, clip, rate=RATES[method], banks=ONE_BANK if method == "dga" else None)
    outcome = training.run(train, train)
    losses = [record.loss for record in outcome.records[1:]]
    assert len(losses) == (7 if method.startswith("dvp") else 8)
    assert losses[-1] < losses[0]
    assert max(record.correct for record in outcome.records) > 14  # of 36 in three classes


@pytest.mark.long
@pytest.mark.parametrize("method", RATES)
def test_each_method_runs_through_the_embedded_source(method, conse, socket_disabled):
    training, train, _ = start(method, conse, count=2, epochs=2 if method.startswith("dvp") else 1)
    outcome = training.run(train, train)
    assert outcome.records[0].correct > 2  # of 6 in three classes: names say much to this source
    assert np.isfinite(outcome.records[1].loss)


def test_every_method_has_its_published_number_of_values(conse):
    counts = {"vp": 69_840, "blm": 69_840, "ar": 39_936, "attrvr": 39_936, "autovp": 39_936, "dvp-cls": 119_808}
    for method, count in counts.items():
        assert start(method, conse, count=1)[0].prompt.n_values == count
    settings = {"levels": 1, "scales": 1}
    assert start("dga", conse, count=1, settings=settings)[0].prompt.n_values == 3 * 39_936


def test_recipes_are_the_published_ones():
    from yoro.research.baselines.clip import BUILDERS, clip_recipe
    from yoro.research.baselines.published import CLIP_METHODS

    assert set(CLIP_METHODS) == set(BUILDERS) == set(RATES)
    for method in CLIP_METHODS:
        recipe = clip_recipe(method)
        assert (recipe.optimiser, recipe.learning_rate, recipe.momentum, recipe.schedule) == ("sgd", 40, 0.9, "cosine")
        assert (recipe.batch_size, clip_recipe(method, shots=1).batch_size) == (64, 16)
        assert recipe.rate(1, 0.0) == 1.0
        assert not recipe.mixed_precision
    vp, dvp, autovp, dga = (clip_recipe(method) for method in ("vp", "dvp-cls", "autovp", "dga"))
    assert (vp.epochs, vp.augmentation.scale, vp.augmentation.ratio) == (200, (0.08, 1.0), (0.75, 4 / 3))
    assert all(recipe.augmentation.shorter_first for recipe in (vp, dvp, dga))
    assert (dvp.epochs, dvp.schedule_epochs) == (199, 200)
    assert dvp.rate(199, 1.0) == pytest.approx(0.5 * (1 + np.cos(np.pi * 199 / 200)))
    assert (autovp.head_clip, autovp.head_learning_rate, autovp.augmentation) == (0.001, 40, None)
    assert (dga.head_learning_rate, dga.whole_batches) == (0.01, True)
    assert clip_recipe("blm").mapping_pass
    with pytest.raises(InputError, match="vp, ar"):
        clip_recipe("coop")


def test_training_equals_torch_sgd_under_a_cosine_of_every_step(clip, monkeypatch):
    import torch

    training, train, _ = start("vp", clip, count=4, epochs=2, rate=2.0, batch_size=5)
    source, head, prompt = training.source, training.head, training.prompt
    from yoro.prompts.trainable import TrainablePrompt

    other = TrainablePrompt(prompt.to_prompt())
    optimiser = torch.optim.SGD([other.program], lr=2.0, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=6)  # two epochs of three steps
    for epoch in (1, 2):
        order = np.random.default_rng([0, epoch]).permutation(12)
        for pixels, codes in train.batches(5, order=order):
            images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
            optimiser.zero_grad()
            scores = head.score(source(other.compose(images)))
            torch.nn.functional.cross_entropy(scores, torch.from_numpy(codes)).backward()
            optimiser.step()
            schedule.step()
    monkeypatch.setattr("yoro.refining.loop.is_best", lambda *_: True)
    training.run(train, train)
    torch.testing.assert_close(prompt.program, other.program, rtol=1e-3, atol=1e-5)  # sums in another order


@pytest.mark.parametrize(
    "method", ["dvp-cls", pytest.param("autovp", marks=pytest.mark.long), pytest.param("dga", marks=pytest.mark.long)]
)
def test_a_stopped_training_goes_on_to_the_same_end(method, clip, tmp_path):
    from yoro.data.geometry import Augmentation
    from yoro.refining.checkpoint import TrainingCheckpoint

    def stop(records, chosen):
        if records[-1].epoch == 1:
            raise KeyboardInterrupt

    options = {"count": 4, "epochs": 3, "rate": 0.1, "augmentation": Augmentation()}
    if method == "dga":
        options |= {"banks": ONE_BANK, "settings": {"levels": 2, "crops": 2}}
    whole, train, _ = start(method, clip, **options)
    straight = whole.run(train, train)
    place = TrainingCheckpoint(tmp_path / "part", "this training")
    assert start(method, clip, **options)[0].run(train, train, checkpoint=place, tell=stop).interrupted
    again, _, _ = start(method, clip, **options)
    resumed = again.run(train, train, checkpoint=place, resume=True)
    assert [replace(r, seconds=0.0) for r in straight.records] == [replace(r, seconds=0.0) for r in resumed.records]
    for one, two in zip(whole.prompt.parameters(), again.prompt.parameters(), strict=True):
        assert (one == two).all()


def test_the_first_epoch_of_dvp_only_weighs_the_sentences(clip):
    from yoro.data.geometry import Augmentation
    from yoro.refining.loop import BEFORE
    from yoro.research.baselines.clip_heads import bank_vectors
    from yoro.research.baselines.dvp import NearestCounts, clustered

    crops = Augmentation(scale=(0.3, 0.6))
    training, train, _ = start("dvp-cls", clip, count=3, augmentation=crops, settings={"prompts": 2})
    assert not any(program.detach().any() for program in training.prompt.parameters())
    sentences = clustered(bank_vectors(clip[0], CLASSES, "templates")[0], CLASSES, 100.0, 2)
    counts = NearestCounts(sentences)
    pixels, codes = next(train.batches(16, looks=training.recipe.looks(0, BEFORE)))
    vectors = clip[1].respond(training.prompt.prompts[0].to_prompt().compose(pixels))
    counts.update(np.tile(vectors, 2).astype(np.float64), [CLASSES[code] for code in codes])
    expected = sentences.mapping(counts.weights()).weights
    np.testing.assert_allclose(training.head.mapping.weights, expected, atol=1e-9)


def test_vp_and_ar_start_at_the_zero_shot_answers(clip):
    texts, twin = clip
    sentences = [f"This is a photo of {name}." for name in CLASSES]
    for method in ("vp", "ar"):
        training, train, _ = start(method, clip, count=3)
        pixels, codes = next(train.batches(16))
        vectors = twin.respond(training.prompt.to_prompt().compose(pixels))
        expected = (texts.encode_texts(sentences) @ vectors.T).argmax(axis=0)
        assert training.correct(train) == (expected == codes).sum()


def test_autovp_starts_at_the_zero_shot_answer_of_the_default_template_and_its_bias(clip):
    import torch

    texts, twin = clip
    training, train, _ = start("autovp", clip, count=2)
    images = torch.from_numpy(next(train.batches(16))[0]).permute(0, 3, 1, 2).float() / 255
    seen = []
    original = training.source._images
    training.source._images = lambda pixels: seen.append(pixels) or original(pixels)
    with torch.no_grad():
        scores = training.head.score(training.prompt.respond(training.source, images))
    margin = (seen[0][:, :, 0, 0] - torch.tensor(twin.mean)) / torch.tensor(twin.std)
    assert margin.abs().max() < 1e-6  # zeros around the normalised image
    vectors = twin(seen[0]).numpy()
    plain = 100.0 * vectors @ texts.encode_texts([f"This is a photo of a {name}." for name in CLASSES]).T
    np.testing.assert_allclose(scores, plain + training.head.bias.detach().numpy(), rtol=1e-4, atol=1e-3)
    assert training.source.width == 81 * 3
    assert (training.head.bias.abs() <= (81 * 3) ** -0.5).all()
    assert training.head.bias.abs().max() > 0


def test_gradients_of_autovps_mapping_are_clipped_and_those_of_its_prompt_are_not(clip, monkeypatch):
    training, train, _ = start("autovp", clip, count=2, epochs=1, rate=1.0, momentum=0.0, head_clip=1e-4)
    before = [parameter.detach().clone() for parameter in training._trained]
    monkeypatch.setattr("yoro.refining.loop.is_best", lambda *_: True)
    training.run(train, train)
    moved = [(p.detach() - b).abs().max().item() for p, b in zip(training._trained, before, strict=True)]
    assert moved[0] > 1e-3
    assert 0 < max(moved[1:]) <= 1.001e-4


@pytest.mark.parametrize("scale", [0.5, 1.0, 1.3, 3.0])
def test_autovps_trained_resize_is_bilinear_about_the_centre_within_a_frame(scale):
    import torch
    from scipy.ndimage import map_coordinates

    from yoro.prompts.prompt import make_prompt
    from yoro.research.baselines.autovp import ResizedPadding

    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    prompt = ResizedPadding(make_prompt("padding", 40, mean=mean, std=std, image_side=24), scale)
    images = torch.rand(2, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        prompt.program.fill_(0.7)
        shown = (prompt.compose(images) - prompt._mean) / prompt._std
    canvas = torch.nn.functional.pad((images - prompt._mean) / prompt._std, (8, 8, 8, 8)).numpy()
    back = (np.arange(40) - 19.5) / scale + 19.5  # where each pixel comes from
    places = np.meshgrid(back, back, indexing="ij")
    expected = np.stack(
        [[map_coordinates(plane, places, order=1, mode="grid-constant") for plane in image] for image in canvas]
    )
    hole = min(int(24 * scale), 40)
    frame = np.full((40, 40), 0.7)
    frame[(40 - hole) // 2 : (40 + hole) // 2, (40 - hole) // 2 : (40 + hole) // 2] = 0.0
    np.testing.assert_allclose(shown, expected + frame, atol=1e-4)
    assert prompt.n_values == 3 * (frame > 0).sum() + 1


def test_autovps_factor_is_trained_with_clipped_gradients_within_its_bounds_and_comes_back(clip, monkeypatch, tmp_path):
    from yoro.refining.checkpoint import TrainingCheckpoint

    settings = {"scale": 0.5, "resize": "trained"}
    options = {"count": 2, "epochs": 2, "rate": 30.0, "momentum": 0.0, "settings": settings}
    monkeypatch.setattr("yoro.refining.loop.is_best", lambda *_: True)
    training, train, _ = start("autovp", clip, **options)
    training.run(train, train)
    factor = training.prompt.scale.item()
    assert 0 < abs(factor - 0.5) <= 2 * 30.0 * 0.001 * 1.0001  # two updates, gradients of 0.001 at most
    training.prompt.restore({**training.prompt.arrays(), "scale": np.float32(0.05)})
    training.prompt.confine()
    assert training.prompt.scale.item() == pytest.approx(0.1)

    def stop(records, chosen):
        if records[-1].epoch == 1:
            raise KeyboardInterrupt

    place = TrainingCheckpoint(tmp_path / "part", "this training")
    assert start("autovp", clip, **options)[0].run(train, train, checkpoint=place, tell=stop).interrupted
    again, _, _ = start("autovp", clip, **options)
    again.run(train, train, checkpoint=place, resume=True)
    assert again.prompt.scale.item() == factor


def test_autovps_frequency_mapping_takes_the_mean_of_several_texts(clip):
    from yoro.mappings.cooccurrence import CoOccurrence, frequency_mapping

    settings = {"mapping": "frequency", "sources": 5}
    training, train, _ = start("autovp", clip, count=3, epochs=1, settings=settings)
    first = training.head.mapping.weights
    assert (np.count_nonzero(first, axis=0) == 5).all()
    table = CoOccurrence(CLASSES)
    pixels, codes = next(train.batches(16))
    import torch

    with torch.no_grad():
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
        table.update(training.prompt.respond(training.source, images).numpy(), [CLASSES[code] for code in codes])
    np.testing.assert_array_equal(first, frequency_mapping(table, 5).weights)
    training.run(train, train)
    np.testing.assert_array_equal(training.head.mapping.weights, first)  # counted once


def test_blm_maps_similarities_to_81_templates_of_each_class(clip):
    from yoro.mappings.cooccurrence import CoOccurrence, bayesian_mapping
    from yoro.research.baselines.clip_heads import FURTHER_TEMPLATES, SOURCE_TEMPLATES

    texts, twin = clip
    training, train, _ = start("blm", clip, count=3)
    assert len(set(SOURCE_TEMPLATES)) == 81
    assert all("{a}" in template for template in FURTHER_TEMPLATES)
    pixels, codes = next(train.batches(16))
    sentences = [t.replace("{a}", f"{'an' if n[0] == 'a' else 'a'} {n}").replace("{name}", n)
                 for t in SOURCE_TEMPLATES for n in CLASSES]  # fmt: skip
    table = CoOccurrence(CLASSES)
    table.update(100.0 * twin.respond(pixels) @ texts.encode_texts(sentences).T, [CLASSES[code] for code in codes])
    np.testing.assert_allclose(training.head.mapping.weights, bayesian_mapping(table).weights, atol=1e-9)


def test_banks_that_do_not_fit_a_method_are_refused_and_stand_ins_are_named(clip):
    from yoro.refining.images import LabelledImages
    from yoro.research.baselines.clip import ClipSettings, clip_geometry, clip_prompt, clip_recipe, clip_training

    texts, twin = clip
    padded = LabelledImages(photo_examples(1), CLASSES, clip_geometry(clip_prompt("ar", twin), twin))
    for method, banks, message in (
        ("vp", (), "32, but the prompt takes 64"),
        ("ar", (BANK,), "for ar: 1"),
        ("dvp-cse", (BANK,), "for dvp-cse: 1; expected 2"),
        ("attrvr", (BANK,) * 3, "for attrvr: 3; expected 1"),
    ):
        with pytest.raises(InputError, match=message):
            clip_training(ClipSettings(method, banks), texts, twin, padded, clip_recipe(method))
    notes = clip_training(ClipSettings("attrvr"), texts, twin, padded, clip_recipe("attrvr"))[1]
    assert "our 20 templates are used" in notes[0]
    assert "one bank" in notes[1]
    backwards = replace(padded, classes=CLASSES[::-1])
    with pytest.raises(InputError, match="sorted by name"):
        clip_training(ClipSettings("ar"), texts, twin, backwards, clip_recipe("ar"))
    assert set(BANKS) == {"attrvr", "dvp-cse", "dga"}


def test_texts_and_images_of_different_sources_are_refused(clip, conse):
    from yoro.refining.images import LabelledImages
    from yoro.research.baselines.clip import ClipSettings, clip_geometry, clip_prompt, clip_recipe, clip_training

    train = LabelledImages(photo_examples(1), CLASSES, clip_geometry(clip_prompt("ar", clip[1]), clip[1]))
    with pytest.raises(SourceError, match="different weights"):
        clip_training(ClipSettings("ar"), conse[0], clip[1], train, clip_recipe("ar"))


def test_widths_are_in_pixels_of_224():
    from yoro.research.baselines.clip import clip_prompt
    from yoro.research.baselines.published import ClipOptions

    class Source:
        side, mean, std = 112, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)

    sides = [clip_prompt("ar", Source, ClipOptions(width=width)).image_side for width in (None, 16, 48)]
    assert sides == [80, 96, 64]  # 16 pixels, of whatever canvas, are the default
    assert [clip_prompt("vp", Source, ClipOptions(width=width)).pad for width in (None, 30, 16)] == [15, 15, 8]
