"""Against models fitted again, by brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yoro.data.responses import ResponseBatch
from yoro.discriminant.augmented import Augmented
from yoro.discriminant.calibration import log_probabilities
from yoro.discriminant.conformal import FullConformalRanks, JackknifeRanks
from yoro.discriminant.evidence import Choice
from yoro.discriminant.leave_one_out import LeaveOneOut, Refits
from yoro.discriminant.readings import Layout, Reading
from yoro.discriminant.shrinkage import LogNodes
from yoro.mappings.batches import row_digests
from yoro.model.gathered import Gathered
from yoro.model.model import known

CLASSES = ("a", "b", "c")


def draw(seed: int, layout: Layout, each: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(CLASSES, each)
    centres = rng.normal(size=(len(CLASSES), layout.width))
    return np.repeat(centres, each, axis=0) + 1.5 * rng.normal(size=(len(labels), layout.width)), labels


def mixture_of(responses, labels, layout, prior="empirical"):
    gathered = Gathered.empty(1000, 0, layout)
    names = [f"row {i}" for i in range(len(labels))]
    gathered.add([ResponseBatch(responses, list(labels), None, row_digests(responses), names)])
    return known(gathered.statistics, gathered.reservoir.members(), prior, None)


def chosen(shrinkages, names):
    weights = np.arange(1.0, len(shrinkages) + 1)
    parts = [
        Choice("fixed", rho, 0.5 + i, weight=float(w / weights.sum()), name=name)
        for i, (rho, w, name) in enumerate(zip(shrinkages, weights, names, strict=True))
    ]
    return Choice("fixed", shrinkages[0], 0.7, parts=tuple(parts))


def answers(mixture, choice, responses):
    return log_probabilities(mixture.mapping(choice)(responses), choice.temperature)


@given(
    rank=st.integers(1, 20),
    low=st.floats(1e-6, 1e3),
    ratio=st.floats(1.0, 1e4),
    seed=st.integers(0, 1000),
)
def test_products_between_the_nodes_are_exact(rank, low, ratio, seed):
    rng = np.random.default_rng(seed)
    values, x = rng.exponential(size=rank) * 10.0 ** rng.integers(-6, 4), rng.normal(size=rank)
    nodes = LogNodes(low, low * ratio)
    t = low * ratio ** np.append(rng.random(5), [0.0, 1.0])
    wanted = (x**2 / (values + t[:, None])).sum(axis=1)
    found = nodes.between(t) @ (x**2 / (values + nodes.places[:, None])).sum(axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@settings(max_examples=5)
@given(seed=st.integers(0, 1000), rho=st.sampled_from([0.02, 0.4, 0.95, 1.0]), width=st.sampled_from([4, 60]))
def test_refits_are_discriminants_fitted_again(seed, rho, width):
    layout = Layout.of(width)
    responses, labels = draw(seed, layout)
    evidence = mixture_of(responses, labels, layout).evidences[0]
    groups = np.where(np.arange(len(labels)) < 3, "burst", "")
    members = replace(evidence.members, groups=groups)
    left_out = LeaveOneOut(evidence.statistics, evidence.spectrum, members)
    new = np.random.default_rng(seed + 1).normal(size=(2, width))
    for one, scores in zip(new, Refits(left_out, rho)(new), strict=True):
        assert len(scores) == len(labels)
        for row, mine in zip(left_out.rows, scores, strict=True):
            gone = groups == "burst" if groups[row] else np.arange(len(labels)) == row
            again = mixture_of(members.responses[~gone], members.labels[~gone], layout)
            wanted = again.mapping(Choice("fixed", rho))(one[None])[0]
            np.testing.assert_allclose(mine - mine[0], wanted - wanted[0], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(
    ("seed", "wide", "nearest"),
    [
        (0, False, True),
        (1, True, False),
        *(pytest.param(i, i % 2, i // 2 % 2, marks=pytest.mark.long) for i in range(2, 20)),
    ],
)
def test_ranks_are_those_of_brute_force(seed, wide, nearest):
    layout = Layout((Reading("one", 3), Reading("two", 50 if wide else 5)))
    responses, labels = draw(seed, layout, each=3 + seed % 2)
    choice = chosen((0.2, 1.0 if nearest else 0.6), layout.names)
    mixture = mixture_of(responses, labels, layout)
    new = np.random.default_rng(seed + 1).normal(size=(2, layout.width))
    logs = answers(mixture, choice, new)
    n, truth = len(labels), np.searchsorted(CLASSES, labels)

    own, theirs = np.empty(n), np.empty((len(new), n, len(CLASSES)))
    for i in range(n):
        rest = np.arange(n) != i
        without = mixture_of(responses[rest], labels[rest], layout)
        own[i] = answers(without, choice, responses[i : i + 1])[0, truth[i]]
        theirs[:, i] = answers(without, choice, new)
    ranks = JackknifeRanks(mixture, choice, mixture.left_out(choice))
    assert len(ranks) == n
    assert (ranks.by_all(new) == (theirs < own[:, None]).sum(axis=1)).all()
    by_class = [
        [np.mean([(own > x[j, c]).sum() for j in np.flatnonzero(truth == c)]) for c in range(len(CLASSES))]
        for x in theirs
    ]
    np.testing.assert_allclose(ranks.by_class(new, logs), by_class)

    full = FullConformalRanks(mixture, choice)
    found = full.beaten(new, logs)
    for at, one in enumerate(new):
        for c, label in enumerate(CLASSES):
            more, named = np.concatenate([responses, one[None]]), np.append(labels, label)
            better = 0
            for i in range(n):
                rest = np.arange(n + 1) != i
                without = mixture_of(more[rest], named[rest], layout)
                better += answers(without, choice, responses[i : i + 1])[0, truth[i]] > logs[at, c]
            assert found[at, c] == better


@pytest.mark.parametrize("prior", ["empirical", "uniform"])
def test_scores_of_the_augmented_set_are_exact(prior):
    layout = Layout.of(40)
    responses, labels = draw(3, layout, each=5)
    evidence = mixture_of(responses, labels, layout, prior).evidences[0]
    augmented = Augmented(evidence.statistics, evidence.spectrum, evidence.members, 0.3, prior)
    new = 5.0 * np.random.default_rng(0).normal(size=40)
    for c, scores in enumerate(augmented(new)):
        for i, mine in zip(augmented.rows, scores, strict=True):
            rest = np.arange(len(labels)) != i
            more = np.concatenate([evidence.members.responses[rest], new[None]])
            again = mixture_of(more, [*evidence.members.labels[rest], CLASSES[c]], layout, prior)
            wanted = again.mapping(Choice("fixed", 0.3))(evidence.members.responses[i : i + 1])[0]
            np.testing.assert_allclose(mine - mine[0], wanted - wanted[0], atol=1e-9)
