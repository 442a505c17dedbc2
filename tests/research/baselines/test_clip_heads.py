"""The parts of the CLIP baselines against brute force and examples by hand."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from yoro.errors import InputError

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the torch extra is not installed"),
]
CLASSES = ("a", "b", "c")


def unit(*shape, seed=0):
    rows = np.random.default_rng(seed).normal(size=shape)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def test_the_attribute_score_is_the_mean_of_the_nearest_sentences_of_both_banks():
    import torch

    from yoro.research.baselines.clip_heads import AttributeHead

    describing, telling, vectors = unit(3, 5, 8), unit(3, 4, 8, seed=1), unit(6, 8, seed=2)
    head = AttributeHead([describing, telling], CLASSES, 10.0, alpha=0.25, nearest=3)
    expected = np.empty((6, 3))
    for n, v in enumerate(vectors):
        for k in range(3):
            one, two = (np.sort(10.0 * bank[k] @ v)[-3:].mean() for bank in (describing, telling))
            expected[n, k] = 0.25 * one + 0.75 * two
    np.testing.assert_allclose(head.score(torch.from_numpy(vectors)), expected, rtol=1e-5, atol=1e-5)
    alone = AttributeHead([describing], CLASSES, 10.0, nearest=9)
    np.testing.assert_allclose(
        alone.score(torch.from_numpy(vectors)), 10 * np.einsum("nd,kmd->nk", vectors, describing) / 5, atol=1e-5
    )
    assert head.parameters() == []
    with pytest.raises(InputError, match="expected 0 to 1"):
        AttributeHead([describing], CLASSES, 10.0, alpha=2.0)
    with pytest.raises(InputError, match=r"expected \(3, sentences, dimension\)"):
        AttributeHead([describing[:2]], CLASSES, 10.0)


def test_sentence_weights_count_the_nearest_of_the_true_class():
    from yoro.research.baselines.dvp import NearestCounts, RoutedSentences

    # One prompt in two dimensions; class a has the sentences e1, e2, -e1, class b e2, e2, e1.
    e1, e2 = np.eye(2, dtype=np.float32)
    vectors = np.stack([np.stack([e1, e2, -e1]), np.stack([e2, e2, e1])])
    sentences = RoutedSentences(vectors, np.zeros((2, 3), np.intp), ("a", "b"), 1.0)
    counts = NearestCounts(sentences, nearest=1)
    assert counts.weights().tolist() == [[1 / 3] * 3] * 2  # as it starts
    counts.update(np.array([[1.0, 0.2], [0.9, 0.1], [-1.0, 0.0], [0.1, 1.0]]), ["a", "a", "a", "b"])
    assert counts.counts.tolist() == [[2, 0, 1], [1, 0, 0]]  # of equals the first
    np.testing.assert_allclose(counts.weights(), [[2 / 3, 0, 1 / 3], [1, 0, 0]])
    mapping = sentences.mapping(counts.weights())
    np.testing.assert_allclose(mapping([[1.0, 0.2]]), [[2 / 3 - 1 / 3, 0.2]], rtol=1e-6)


def test_weights_of_a_class_without_images_are_equal_again():
    from yoro.research.baselines.dvp import NearestCounts, RoutedSentences

    counts = NearestCounts(RoutedSentences(unit(3, 4, 5), np.zeros((3, 4), np.intp), CLASSES, 1.0))
    counts.update(np.ones((1, 5)), ["b"])
    assert counts.weights()[[0, 2]].tolist() == [[0.25] * 4] * 2
    assert counts.weights()[1].sum() == pytest.approx(1.0)
    assert sorted(counts.weights()[1]) == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])


@pytest.mark.parametrize("kind", ["clustered", "caused"])
def test_each_sentence_is_read_through_its_own_prompt(kind):
    import torch

    from yoro.research.baselines.dvp import caused, clustered, dvp_head

    if kind == "clustered":
        bank = unit(3, 6, 8)
        routed, bank = clustered(bank, CLASSES, 10.0, 3), bank
        from sklearn.cluster import KMeans

        labels = KMeans(n_clusters=3, random_state=0).fit(bank.reshape(18, 8)).labels_
        assert (routed.routes.reshape(-1) == labels).all()
    else:
        banks = [unit(3, 2, 8, seed=seed) for seed in range(3)]
        routed, bank = caused(banks, CLASSES, 10.0), np.concatenate(banks, axis=1)
        assert routed.routes.tolist() == [[0, 0, 1, 1, 2, 2]] * 3
    head = dvp_head(routed)
    views, labels = unit(40, 3, 8, seed=9).astype(np.float64), [CLASSES[i % 3] for i in range(40)]
    weights = np.full((3, 6), 1 / 6)
    for _ in range(2):
        expected = np.zeros((40, 3))
        for n in range(40):
            for k in range(3):
                for m in range(6):
                    expected[n, k] += weights[k, m] * 10.0 * views[n, routed.routes[k, m]] @ bank[k, m]
        flat = views.reshape(40, 24)
        np.testing.assert_allclose(head.score(torch.from_numpy(flat)), expected, rtol=1e-5, atol=1e-6)
        head.observe(torch.from_numpy(flat[:25]), labels[:25])
        head.observe(torch.from_numpy(flat[25:]), labels[25:])
        head.end_of_epoch()
        weights = np.zeros((3, 6))
        for n, label in enumerate(labels):
            k = CLASSES.index(label)
            similarities = [views[n, routed.routes[k, m]] @ bank[k, m] for m in range(6)]
            weights[k, np.argsort(similarities)[-3:]] += 1
        weights /= weights.sum(axis=1, keepdims=True)


def test_clusters_and_banks_that_cannot_be_are_refused():
    from yoro.research.baselines.dvp import caused, clustered

    with pytest.raises(InputError, match="prompts is 7; expected 1 to 6"):
        clustered(unit(3, 2, 8), CLASSES, 1.0, 7)
    with pytest.raises(InputError, match="expected two or more"):
        caused([unit(3, 2, 8)], CLASSES, 1.0)


def test_classes_are_merged_in_strict_pairs_the_nearest_first():
    from yoro.research.baselines.dga import pooled, super_classes

    # On a line: 0 and 1 are nearest, then 10 and 12; 30 is left. At the next level the means 0.5 and 11 are merged.
    line = np.array([[10.0], [0.0], [30.0], [1.0], [12.0]])
    first, second = super_classes(line, 2)
    assert first.tolist() == [1, 0, 2, 0, 1]
    assert second.tolist() == [0, 0, 1, 0, 0]
    bank = np.arange(5, dtype=np.float32).reshape(5, 1, 1)  # one sentence a class, its own number
    assert pooled(bank, first, 2)[..., 0].tolist() == [[1, 3], [0, 4], [2, 2]]  # the odd one from the start again
    assert pooled(bank, second, 4)[..., 0].tolist() == [[0, 1, 3, 4], [2, 2, 2, 2]]
    with pytest.raises(InputError, match="two classes"):
        super_classes(line[:1], 1)


def test_scores_of_a_super_class_get_its_log_softmax_for_their_mean():
    import torch

    from yoro.research.baselines.dga import rescaled

    scores, above = torch.tensor([[1.0, 3.0, 5.0]]), torch.tensor([[0.0, 1.0]])
    found = rescaled(scores, above, torch.tensor([0, 0, 1]))
    logs = torch.log_softmax(above, dim=1)[0]
    torch.testing.assert_close(found, torch.tensor([[0.5 * logs[0], 1.5 * logs[0], logs[1]]]))


def test_uncertain_crops_are_left_out_by_the_mean_entropy_of_the_batch():
    import torch

    from yoro.research.baselines.dga import fused

    sure, vague, half = torch.tensor([[9.0, 0, 0], [0, 9.0, 0]]), torch.zeros(2, 3), torch.tensor([[3.0, 0, 0]] * 2)
    entropy = [float(torch.distributions.Categorical(logits=x).entropy().mean()) for x in (sure, half)]
    assert max(entropy) < 0.9 < np.log(3)
    weights = [(1 - value) / (2 - sum(entropy)) for value in entropy]
    torch.testing.assert_close(fused([sure, vague, half]), weights[0] * sure + weights[1] * half)
    torch.testing.assert_close(fused([vague, vague + 1]), vague + 0.5)  # none would remain: equal weights
    torch.testing.assert_close(fused([sure]), sure)


def test_dga_starts_with_projections_that_change_nothing_and_mixes_as_told():
    import torch

    from yoro.research.baselines.clip_heads import attribute_scores
    from yoro.research.baselines.dga import GranularHead, fused, pooled, rescaled
    from yoro.research.baselines.published import Granularity

    banks, tree = [unit(3, 4, 8), unit(3, 4, 8, seed=1)], [np.array([0, 0, 1])]
    head = GranularHead(banks, tree, CLASSES, 10.0, Granularity(levels=1, scales=1, crops=2))
    assert [tuple(p.shape) for p in head.parameters()] == [(8, 8)] * 3  # the source's dimension, not 512
    assert all((p == torch.eye(8)).all() for p in head.parameters())
    views = torch.from_numpy(unit(5, 4, 8, seed=2))  # whole, two crops, level
    texts = [torch.from_numpy(bank) for bank in banks]
    own = (
        10 * attribute_scores(views[:, 0], texts) + fused([10 * attribute_scores(views[:, i], texts) for i in (1, 2)])
    ) / 2
    level = 10 * attribute_scores(views[:, 3], [torch.from_numpy(pooled(bank, tree[0], 2)) for bank in banks])
    groups = torch.from_numpy(tree[0])
    mixed = 0.7 * torch.log_softmax(own, dim=1) + 0.3 * rescaled(own, level, groups)
    torch.testing.assert_close(head.score(views.view(5, 32)).detach(), mixed)
    truth = torch.tensor([0, 1, 2, 0, 1])
    entropy = torch.nn.functional.cross_entropy
    expected = entropy(mixed, truth, reduction="sum") + entropy(level, groups[truth], reduction="sum")
    torch.testing.assert_close(head.loss(views.view(5, 32), truth).detach(), expected)


def test_dgas_crops_depend_on_the_image_alone_and_every_prompt_is_learned():
    import torch

    from yoro.prompts.prompt import make_prompt
    from yoro.research.baselines.dga import GranularPrompts
    from yoro.research.baselines.published import Granularity

    prompt = make_prompt("padding", 32, mean=(0.5,) * 3, std=(0.5,) * 3, image_side=24)
    prompts = GranularPrompts(prompt, Granularity(levels=2, scales=2, crops=3))
    assert prompts.rates == (1.0, 1.0, 1.0, 0.5, 0.5)
    images = torch.rand(4, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    weights = torch.rand(3 * 32 * 32, 2, generator=torch.Generator().manual_seed(1))

    def source(pixels):
        return pixels.flatten(1) @ weights

    responses = prompts.respond(source, images)
    assert responses.shape == (4, 2 * (1 + 2 * 3 + 2))
    torch.testing.assert_close(prompts.respond(source, images[2:])[1], responses[3])
    # At the start all frames are grey: whole image and levels answer alike, and crops do not.
    torch.testing.assert_close(responses[:, :2], responses[:, -2:])
    assert (responses[:, 2:4] != responses[:, :2]).all()
    gradients = torch.autograd.grad(responses.sum(), prompts.parameters())
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


def test_a_set_of_prompts_answers_side_by_side_and_comes_back_from_arrays():
    import torch

    from yoro.prompts.prompt import make_prompt
    from yoro.prompts.trainable import PromptSet, TrainablePrompt

    prompt = make_prompt("padding", 224, mean=(0.5,) * 3, std=(0.5,) * 3)
    trio = PromptSet([TrainablePrompt(prompt) for _ in range(3)])
    assert trio.n_values == 119_808
    with torch.no_grad():
        trio.prompts[1].program += 1.0
    other = PromptSet([TrainablePrompt(prompt) for _ in range(3)])
    other.restore(trio.arrays())
    assert all((one == two).all() for one, two in zip(trio.parameters(), other.parameters(), strict=True))
    images = torch.rand(2, 3, 192, 192)
    found = other.respond(lambda pixels: pixels.mean(dim=(2, 3)), images)
    for place, one in enumerate(trio.prompts):
        expected = one.compose(images).mean(dim=(2, 3))
        torch.testing.assert_close(found[:, 3 * place : 3 * place + 3], expected)
    with pytest.raises(InputError, match="2 rates for 3 prompts"):
        PromptSet(trio.prompts, (1.0, 1.0))
