"""Sentences beside statistics: the zero-shot head, the anchors, and the low-rank form, each by a second route."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import yoro
from yoro.discriminant.calibration import doubtful_loss, fit_blend, fit_temperature
from yoro.discriminant.descriptions import Descriptions, blend
from yoro.discriminant.reservoir import Members
from yoro.discriminant.selection import PAPER_GRID, Evidence, select_shrinkage
from yoro.discriminant.solve import solve_mapping, solve_path
from yoro.errors import DegenerateWarning, InputError


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def pictures(digits):
    """Digits as unit vectors, with one noisy mean picture a class as its sentences' vectors."""
    x, labels = digits
    v = unit(x)
    rng = np.random.default_rng(0)
    classes = sorted(set(labels))
    texts = np.concatenate([v[labels == c].mean(axis=0) + 0.05 * rng.normal(size=(4, 64)) for c in classes])
    return v, labels, Descriptions(unit(texts), tuple(np.repeat(classes, 4)), 20.0)


def gathered(v, labels, classes=()):
    statistics = yoro.ResponseStatistics(classes)
    statistics.update(v, labels)
    return statistics


def members_of(v, labels):
    return Members(v, np.asarray(labels), np.array([""] * len(v)), np.ones(len(v)))


def test_the_head_is_the_mean_response_to_a_class_s_sentences(pictures):
    v, _, words = pictures
    responses = words.scale * v @ words.vectors.T
    means = np.stack([responses[:, np.array(words.owners) == c].mean(axis=1) for c in words.classes], axis=1)
    assert np.allclose(words.head(words.classes)(v), means, atol=1e-12)


def test_a_class_without_sentences_is_named(pictures):
    with pytest.raises(InputError, match="no sentences for 'cat'"):
        pictures[2].means(["0", "cat"])


def test_a_class_with_no_image_gets_its_mean_where_the_sentences_predict(pictures):
    v, labels, words = pictures
    seen = ~np.isin(labels, ["3", "7"])
    statistics = gathered(v[seen], labels[seen], words.classes)
    anchored = words.anchored(statistics)
    has = statistics.counts > 0
    assert np.array_equal(anchored.means[has], statistics.means[has])
    assert np.array_equal(anchored.scatter, statistics.scatter)
    assert anchored.degrees == statistics.degrees
    share = statistics.counts / statistics.total
    texts = words.means(statistics.classes)
    texts = texts - share @ texts
    means = (statistics.means - share @ statistics.means)[has]
    weight = np.sqrt(share)[has, None]
    stretch = np.linalg.lstsq((weight * texts[has]).reshape(-1, 1), (weight * means).ravel(), rcond=None)[0][0]
    assert np.allclose(anchored.means[~has], (share @ statistics.means + stretch * texts)[~has], atol=1e-12)
    assert words.anchored(gathered(v, labels)).counts.tolist() == gathered(v, labels).counts.tolist()


def test_a_class_with_no_image_is_recognised_by_its_anchor(pictures):
    v, labels, words = pictures
    seen = labels != "7"
    statistics = gathered(v[seen], labels[seen], words.classes)
    anchored = words.anchored(statistics)
    mapping = solve_path(anchored, words.spectrum(anchored), [0.3])[0]
    right = mapping.predict(v) == labels
    assert right[~seen].mean() > 0.5
    assert right[seen].mean() > 0.9


@pytest.mark.parametrize("each", [2, 30])  # fewer sentences than dimensions, and more; some repeated
@pytest.mark.parametrize("rho", [0.01, 0.3, 0.8])
def test_statistics_over_vectors_map_as_explicit_similarities_do(digits, each, rho):
    x, labels = digits
    v = unit(x)
    rng = np.random.default_rng(each)
    texts = unit(rng.normal(size=(10 * each, 64)))
    texts[1::3] = texts[0]  # repeats make the covariance of the responses singular
    words = Descriptions(texts, tuple(np.repeat(sorted(set(labels)), each)), 100.0)
    statistics = gathered(v, labels)
    low = solve_path(statistics, words.spectrum(statistics), [rho])[0](v)
    responses = 100.0 * v @ texts.T
    dense = solve_mapping(gathered(responses, labels), rho)(responses)
    assert np.abs(low - dense).max() / np.abs(dense).max() < 1e-10


@pytest.mark.parametrize("dimension", [96, *(pytest.param(width, marks=pytest.mark.long) for width in (512, 1024))])
def test_sun397_solves_in_seconds_and_forms_no_square_of_its_sentences(dimension, monkeypatch):
    sides, eigh = [], np.linalg.eigh
    monkeypatch.setattr("numpy.linalg.eigh", lambda m: sides.append(len(m)) or eigh(m))
    rng = np.random.default_rng(0)
    names = [f"{i:03d}" for i in range(397)]
    words = Descriptions(unit(rng.normal(size=(7940, dimension))), tuple(np.repeat(names, 20)), 100.0)
    v = unit(rng.normal(size=(16 * 397, dimension)))
    statistics = gathered(v, np.repeat(names, 16))
    tracemalloc.start()
    mappings = solve_path(statistics, words.spectrum(statistics), PAPER_GRID)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(mappings) == 6
    assert peak < 0.75 * 8 * 7940**2  # the square alone would take 504 MB
    assert sides == [dimension, dimension]  # two decompositions, of seconds; that of the square takes minutes


def test_a_blend_is_one_affine_map(pictures):
    v, labels, words = pictures
    mapping, head = solve_mapping(gathered(v, labels), 0.1), words.head(words.classes)
    assert np.allclose(blend(mapping, head, 0.7)(v), mapping(v) + 0.7 * head(v), atol=1e-9)
    with pytest.raises(InputError, match="different classes"):
        blend(mapping, words.head(words.classes[:3]), 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_temperature_and_weight_are_those_of_least_loss(seed):
    rng = np.random.default_rng(seed)
    truth, weights = rng.integers(0, 6, 150), rng.uniform(0.5, 2.0, 150)
    scores, opinion = 30 * rng.normal(size=(150, 6)), rng.normal(size=(150, 6))
    scores[np.arange(150), truth] += 40
    opinion[np.arange(150), truth] += 1
    temperature, alpha = fit_blend(scores, opinion, truth, weights)
    found = minimize(
        lambda x: doubtful_loss(np.exp(x[0]) * scores + x[1] * opinion, truth, weights, 1.0),
        [np.log(1 / temperature) + 0.2, 1.5 * alpha / temperature],
        method="Nelder-Mead",
        options={"maxiter": 500, "xatol": 1e-8, "fatol": 1e-12},
    )
    loss = doubtful_loss(scores + alpha * opinion, truth, weights, temperature)
    assert loss <= found.fun + 1e-9
    assert temperature == pytest.approx(np.exp(-found.x[0]), rel=1e-3)


def test_a_contrary_opinion_gets_no_weight():
    rng = np.random.default_rng(0)
    truth, scores, opinion = rng.integers(0, 4, 200), rng.normal(size=(200, 4)), rng.normal(size=(200, 4))
    scores[np.arange(200), truth] += 2
    opinion[np.arange(200), truth] -= 1
    temperature, alpha = fit_blend(scores, opinion, truth, np.ones(200))
    assert alpha == 0.0
    assert temperature == pytest.approx(fit_temperature(scores, truth, np.ones(200)), rel=1e-6)


def few(v, labels, each, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(np.flatnonzero(labels == c))[:each] for c in sorted(set(labels))])


def chosen(pictures, each, head, rule="loo"):
    v, labels, words = pictures
    rows = few(v, labels, each)
    statistics = gathered(v[rows], labels[rows])
    evidence = Evidence(
        statistics, words.spectrum(statistics), members_of(v[rows], labels[rows]), (v[:500], labels[:500]), head=head
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateWarning)  # one image a class has no spread
        choice = select_shrinkage(rule, evidence)
        mapping = solve_path(statistics, evidence.spectrum, [choice.shrinkage])[0]
    return choice, mapping if head is None else blend(mapping, head, choice.alpha)


@pytest.mark.parametrize("rule", ["loo", "validation"])
@pytest.mark.parametrize("each", [1, 2, 4, 16])
def test_a_few_shot_mapping_is_not_below_its_own_head(pictures, rule, each):
    v, labels, words = pictures
    head = words.head(words.classes)
    choice, mapping = chosen(pictures, each, head, rule)
    accuracy, zero_shot = (mapping.predict(v) == labels).mean(), (head.predict(v) == labels).mean()
    assert choice.alpha > 0 or each >= 16  # with many images the head may have nothing to add
    assert accuracy > zero_shot - 0.02  # chosen on as few as ten images
    assert accuracy >= (chosen(pictures, each, None, rule)[1].predict(v) == labels).mean()


def test_a_head_that_knows_nothing_gets_no_weight(pictures):
    v, labels, words = pictures
    blind = Descriptions(words.vectors, tuple(np.roll(words.owners, 12)), words.scale).head(words.classes)
    choice, mapping = chosen(pictures, 16, blind)
    assert choice.alpha == 0.0
    assert (mapping.predict(v) == labels).mean() == (chosen(pictures, 16, None)[1].predict(v) == labels).mean()
