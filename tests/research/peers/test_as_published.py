"""Peers as their authors' public code runs them, re-computed image by image and choice by choice from the formulas.

The numbers in the tables are those of the authors' configuration files. Tip-Adapter, APE, TIMO, TIMO-S and LP++ were
also run beside that code in float64, with differences below 1e-12.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from yoro.errors import InputError
from yoro.research.peers import ape, gda, lpplusplus, tip_adapter
from yoro.research.peers.method import Texts, one_hot, unit
from yoro.research.peers.methods import METHODS


def heads(task):
    return np.stack([v.mean(axis=0) / np.linalg.norm(v.mean(axis=0)) for v in task.texts.by_class])


def first_best(options, scores, truth):
    """The first option whose scores answer the most."""
    best, most = None, -1
    for option in options:
        right = int((scores(option).argmax(axis=1) == truth).sum())
        if right > most:
            best, most = option, right
    return best


# Tip-Adapter

TIP_GRID = {  # bounds of beta and alpha, alpha while keys are trained
    "caltech101": (12, 5, 3), "dtd": (13, 13, 2), "eurosat": (12, 10, 2), "fgvc-aircraft": (30, 30, 5),
    "food101": (10, 10, 1.17), "flowers102": (50, 50, 10), "oxfordpets": (7, 3, 1.17), "stanfordcars": (20, 10, 3),
    "sun397": (12, 10, 1.17), "ucf101": (7, 3, 3),
}  # fmt: skip


def test_tip_adapter_has_the_published_bounds_of_each_dataset():
    method, trained = METHODS["tip-adapter"], METHODS["tip-adapter-f"]
    assert {name: (s.sharpest, s.heaviest) for name, s in method.published.items()} == {
        name: bounds[:2] for name, bounds in TIP_GRID.items()
    }
    assert {name: (s.sharpest, s.heaviest, s.alpha) for name, s in trained.published.items()} == TIP_GRID
    assert {name: s.epochs for name, s in trained.published.items() if s.epochs != 20} == {"eurosat": 100}


@pytest.mark.parametrize("name", ["dtd", "oxfordpets", "flowers102"])
def test_tip_adapter_takes_the_first_best_pair_of_its_grid(judged, tested, name):
    sharpest, heaviest, _ = TIP_GRID[name]
    betas = [i * (sharpest - 0.1) / 200 + 0.1 for i in range(200)]
    alphas = [j * (heaviest - 0.1) / 20 + 0.1 for j in range(20)]
    vectors, truth = judged.validation

    def scores(at, beta, alpha):
        votes = np.zeros((len(at), 10))
        for key, c in zip(judged.responses, judged.truth, strict=True):
            votes[:, c] += np.exp(-beta * (1 - at @ key))
        return 100 * at @ heads(judged).T + alpha * votes

    zero_shot = 100 * vectors @ heads(judged).T
    votes = {beta: scores(vectors, beta, 1.0) - zero_shot for beta in betas}
    pair = first_best(itertools.product(betas, alphas), lambda pair: zero_shot + pair[1] * votes[pair[0]], truth)
    cache = METHODS["tip-adapter"].fit(judged, METHODS["tip-adapter"].published[name])
    assert (cache.beta, cache.alpha) == pair
    np.testing.assert_allclose(cache(tested), scores(tested, *pair), rtol=1e-9)


def test_settings_that_leave_no_grid_are_refused():
    with pytest.raises(InputError, match=r"both must exceed 0\.1"):
        tip_adapter.TipAdapterSettings(sharpest=0.1)
    with pytest.raises(InputError, match="expected 1 or more"):
        tip_adapter.TipAdapterFSettings(epochs=0)
    with pytest.raises(InputError, match="1 to 1,024"):
        ape.ApeSettings(channels=1025)


@pytest.mark.torch
def test_tip_adapter_f_by_adamw_written_out(judged, tested):
    """Two epochs of one batch each: AdamW with decoupled decay, its cosine schedule, the first best epoch, the grid."""
    pytest.importorskip("torch")
    settings = tip_adapter.TipAdapterFSettings(sharpest=7.0, heaviest=3.0, alpha=3.0, epochs=2)
    x, y, t = judged.responses, judged.truth, heads(judged)
    values, (vectors, truth) = one_hot(y, 10), judged.validation

    def scores(at, keys, beta, alpha):
        return 100 * at @ t.T + alpha * np.exp(-beta * (1 - at @ keys.T)) @ values

    keys, first, second, history = x.copy(), 0.0, 0.0, []
    for step, rate in enumerate((1e-3, 1e-3 * (1 + np.cos(np.pi / 2)) / 2), start=1):
        affinity = np.exp(-(1 - x @ keys.T))
        error = (softmax(scores(x, keys, 1.0, 3.0), axis=1) - values) / len(x)
        slope = 3.0 * ((error @ values.T) * affinity).T @ x
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        keys = keys * (1 - rate * 0.01)
        keys = keys - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-4)
        history.append(keys)
    found = list(tip_adapter.train_keys(judged, 100 * t.T, settings))
    assert len(found) == 3
    np.testing.assert_array_equal(found[0], x)
    for ours, expected in zip(found[1:], history, strict=True):  # torch computes in float32
        np.testing.assert_allclose(ours, expected, atol=2e-5)
    kept = found[1:][first_best((0, 1), lambda i: scores(vectors, found[1 + i], 1.0, 3.0), truth)]
    pairs = itertools.product(settings.betas, settings.alphas)
    pair = first_best(pairs, lambda pair: scores(vectors, kept, *pair), truth)
    cache = METHODS["tip-adapter-f"].fit(judged, settings)
    assert (cache.beta, cache.alpha) == pair
    np.testing.assert_allclose(cache(tested), scores(tested, kept, *pair), rtol=1e-9)


# APE


def test_ape_has_the_published_settings_of_each_dataset():
    def own(settings: object) -> tuple[object, ...]:
        return tuple(value for name, value in asdict(settings).items() if name != "views")

    assert {name: own(settings) for name, settings in METHODS["ape"].published.items()} == {
        "caltech101": (7, 7, 1, 800, 0.5), "dtd": (7, 7, 1, 400, 0.5), "eurosat": (30, 5, 1.5, 700, 0.9),
        "fgvc-aircraft": (20, 10, 1, 800, 0.1), "food101": (7, 7, 1, 700, 0.3), "flowers102": (7, 7, 1, 700, 0.4),
        "oxfordpets": (7, 7, 1, 800, 0.7), "stanfordcars": (10, 7, 1, 500, 0.6), "sun397": (10, 7, 1, 800, 0.7),
        "ucf101": (10, 7, 1.5, 700, 0.3),
    }  # fmt: skip


def test_ape_by_brute_force(judged, tested):
    settings = METHODS["ape"].published["eurosat"]
    x, y, t = judged.responses, judged.truth, heads(judged)
    everything, whose = np.concatenate([x, t]), np.concatenate([y, np.arange(10)])
    pairs = [everything[i] * everything[whose != whose[i]] for i in range(len(whose))]
    similarity = np.concatenate(pairs).mean(axis=0)
    np.testing.assert_allclose(ape.pair_similarity(everything, whose, 10), similarity, atol=1e-12)
    criterion = -0.9 * similarity + 0.1 * t.var(axis=0, ddof=1)
    kept = sorted(range(64), key=lambda i: -criterion[i])[: 700 * 64 // 1024]
    keys = unit(x[:, kept])
    expected = softmax(keys @ unit(t[:, kept]).T, axis=1)
    values = one_hot(y, 10)
    surprise = (values * np.log2((values + 1e-6) / (expected + 1e-6))).sum(axis=1)

    def votes(at, beta, gamma):
        return np.exp(-beta * (1 - unit(at[:, kept]) @ keys.T)) @ (values * np.exp(gamma * surprise)[:, None])

    vectors, truth = judged.validation
    zero_shot = 100 * vectors @ t.T
    betas = [i * (30 - 0.1) / 200 + 0.1 for i in range(200)]
    alphas = [j * (5 - 0.1) / 20 + 0.1 for j in range(20)]
    gammas = [k * 1.5 / 20 for k in range(20)]
    known = {pair: votes(vectors, *pair) for pair in itertools.product(betas, gammas)}
    beta, alpha, gamma = first_best(
        itertools.product(betas, alphas, gammas), lambda o: zero_shot + o[1] * known[o[0], o[2]], truth
    )
    refined = ape.fit(judged, settings)
    assert sorted(kept) == refined.channels.tolist()
    assert (refined.beta, refined.alpha) == (beta, alpha)
    np.testing.assert_allclose(refined.values, values * np.exp(gamma * surprise)[:, None], rtol=1e-12)
    np.testing.assert_allclose(refined(tested), 100 * tested @ t.T + alpha * votes(tested, beta, gamma), rtol=1e-9)


@pytest.mark.parametrize(("channels", "dimension", "kept"), [(700, 1024, 700), (500, 512, 250), (400, 64, 25)])
def test_channels_are_kept_in_the_published_share(channels, dimension, kept):
    assert ape.ApeSettings(channels=channels).kept(dimension) == kept


# TIMO


def naive_timo(task, at, gamma, amounts):
    """Scores at unit vectors: the first best of the numbers of texts and of the mixes."""
    similar, columns = [], []
    for c, vectors in enumerate(task.texts.by_class):
        mean = task.responses[task.truth == c].mean(axis=0)
        similar.append(vectors @ (mean / np.linalg.norm(mean)))
        column = softmax(gamma * similar[-1] / np.linalg.norm(similar[-1])) @ vectors
        columns.append(column / np.linalg.norm(column))
    head = np.stack(columns, axis=1)

    def discriminant(amount):
        x, y = list(task.responses), list(task.truth)
        for c, (vectors, s) in enumerate(zip(task.texts.by_class, similar, strict=True)):
            for i in (2 * sorted(range(len(s)), key=lambda i: -s[i]))[:amount]:
                x.append(s[i] * vectors[i])
                y.append(c)
        x, y = np.array(x), np.array(y)
        means = np.stack([x[y == c].mean(axis=0) for c in range(10)])
        covariance = np.cov((x - means[y]).T)
        precision = 64 * np.linalg.pinv((len(x) - 1) * covariance + np.trace(covariance) * np.eye(64))
        bias = -np.log(10) - 0.5 * np.diag(means @ precision @ means.T)
        return lambda at: at @ precision @ means.T + bias

    owns = {amount: discriminant(amount) for amount in amounts}
    vectors, truth = task.validation
    options = itertools.product(amounts, [10.0**power for power in range(-4, 5)])
    amount, mix = first_best(options, lambda o: o[1] * vectors @ head + owns[o[0]](vectors), truth)
    return mix * at @ head + owns[amount](at)


@pytest.mark.parametrize(("name", "gamma"), [("dtd", 50.0), ("flowers102", 100.0)])
def test_timo_by_brute_force(judged, tested, name, gamma):
    method = METHODS["timo"]
    found = method.fit(judged, method.published.get(name, gda.TimoSettings()))
    np.testing.assert_allclose(found(tested), naive_timo(judged, tested, gamma, [3]), atol=1e-9)


def test_timo_s_by_brute_force(judged, tested):
    vectors, truth = judged.validation
    means = unit(np.stack([judged.responses[judged.truth == c].mean(axis=0) for c in range(10)]))

    def head(gamma):
        columns = []
        for vectors, mean in zip(judged.texts.by_class, means, strict=True):
            s = vectors @ mean
            columns.append(softmax(gamma * s / np.linalg.norm(s)) @ vectors)
        return unit(np.stack(columns)).T

    gamma = first_best(range(5, 101, 5), lambda gamma: vectors @ head(gamma), truth)
    amounts = [int(number) for number in np.linspace(1, 6, 10)]  # of three texts
    found = METHODS["timo-s"].fit(judged)
    np.testing.assert_allclose(found(tested), naive_timo(judged, tested, gamma, amounts), atol=1e-9)


@pytest.mark.parametrize("each", [1, 3, 11, 20, 61])
def test_timo_s_tries_up_to_all_texts_twice(each):
    assert gda.searched_amounts(each) == [int(number) for number in np.linspace(1, 2 * each, 10)]


def test_texts_go_round_again_when_more_are_added_than_there_are(judged, tested):
    doubled = Texts(tuple(np.concatenate([vectors, vectors]) for vectors in judged.texts.by_class))
    np.testing.assert_allclose(
        gda.with_texts(judged, judged.texts, 6)(tested), gda.with_texts(judged, doubled, 6)(tested), atol=1e-9
    )


def test_timo_reads_texts_as_far_as_the_shortest_class_has_them(judged, tested):
    by_class = judged.texts.by_class
    short = replace(judged, texts=Texts(tuple(vectors[:2] for vectors in by_class)))
    uneven = replace(judged, texts=Texts((by_class[0][:2], *by_class[1:])))
    for name in ("timo", "timo-s"):
        np.testing.assert_array_equal(METHODS[name].fit(uneven)(tested), METHODS[name].fit(short)(tested))


# LP++


def test_lp_plus_plus_epoch_by_epoch(judged, tested):
    x, y, t = judged.responses, judged.truth, heads(judged)
    indicators, cosines, (vectors, truth) = one_hot(y, 10), x @ t.T, judged.validation
    w = np.stack([x[y == c].sum(axis=0) for c in range(10)])
    a = np.full(10, 250 * np.mean([cosines[y == c, c].mean() for c in range(10)]))
    b = np.zeros(10)
    step = 4 * len(x) / max(np.linalg.eigvalsh(x.T @ x))
    blend_step = len(x) / (4 * max((cosines**2).sum(axis=0)))
    velocity_w, velocity_b, accumulated = np.zeros((10, 64)), np.zeros(10), np.zeros(10)
    best, chosen, most = None, 0, -1
    for epoch in range(300):
        error = (softmax(x @ w.T + a * cosines + b, axis=1) - indicators) / len(x)
        velocity_w, velocity_b = 0.9 * velocity_w + error.T @ x, 0.9 * velocity_b + error.sum(axis=0)
        accumulated = accumulated + (error * cosines).sum(axis=0)
        w, b = w - step * velocity_w, b - step * velocity_b
        if (epoch + 1) % 10 == 0:
            a = a - blend_step * accumulated
        right = ((vectors @ w.T + a * (vectors @ t.T) + b).argmax(axis=1) == truth).sum()
        if right >= most:
            best, chosen, most = (w, a, b), epoch, right
    assert chosen > 10  # the blend had moved
    w, a, b = best
    assert len(set(a.tolist())) == 10  # one start, but each class its own steps
    expected = tested @ w.T + a * (tested @ t.T) + b
    np.testing.assert_allclose(lpplusplus.fit(judged)(tested), expected, rtol=1e-8, atol=1e-8)


def test_gradients_of_lp_plus_plus_by_differences(judged):
    cosines = judged.responses @ heads(judged).T
    probe = lpplusplus.start(judged, cosines)
    probe = replace(probe, weights=0.1 * probe.weights, blend=0.01 * probe.blend)  # where the softmax is not flat
    slope = lpplusplus.gradients(probe, judged.responses, cosines, one_hot(judged.truth, 10))

    def loss(part, where, step):
        moved = {name: getattr(probe, name).copy() for name in ("weights", "blend", "bias")}
        moved[part][where] += step
        logs = log_softmax(lpplusplus.Probe(**moved).scores(judged.responses, cosines), axis=1)
        return -logs[np.arange(len(logs)), judged.truth].mean()

    for part, where in (("weights", (30, 4)), ("weights", (12, 0)), ("blend", (7,)), ("bias", (2,))):
        expected = (loss(part, where, 1e-6) - loss(part, where, -1e-6)) / 2e-6
        assert getattr(slope, part)[where] == pytest.approx(expected, rel=1e-5, abs=1e-9)
