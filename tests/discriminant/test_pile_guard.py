"""Which unlabelled responses belong with the labelled ones: made-up tasks, strangers, and piles of other things."""

from __future__ import annotations

import numpy as np
import pytest

from yoro.discriminant.pile_guard import belonging, directions, lone


def drawn(seed: int, classes: int, each: int, *, apart: float = 3.0, width: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Two readings of classes whose images are hardly nearer to each other than to those of other classes."""
    means = np.random.default_rng(7).normal(size=(classes, width))
    noise = np.random.default_rng(seed).normal(size=(2, classes * each, width))
    moved = np.zeros(width)
    moved[:3] = apart
    one, two = (np.repeat(means, each, axis=0) + part + moved for part in noise)
    return one, two


def classes(count: int, each: int) -> np.ndarray:
    return np.repeat(np.arange(count), each)


@pytest.mark.parametrize("labels", [1, 4])
@pytest.mark.parametrize("strangers", [60, 300])
def test_strangers_are_left_out_though_the_classes_are_unlike_each_other(labels, strangers):
    labelled, mine = drawn(1, 10, labels), drawn(2, 10, 20)
    others = [-part[:strangers] for part in drawn(3, 10, 30)]
    kept = belonging(labelled, classes(10, labels), [np.concatenate(pair) for pair in zip(mine, others, strict=True)])
    assert kept[:200].mean() > 0.95
    assert kept[200:].mean() < 0.1


@pytest.mark.parametrize("labels", [1, 4])
def test_of_a_pile_without_strangers_nearly_all_belongs(labels):
    assert belonging(drawn(1, 10, labels), classes(10, labels), drawn(2, 10, 20)).mean() > 0.95


@pytest.mark.parametrize("labels", [1, 4])
def test_classes_of_two_kinds_with_piles_of_unequal_size_are_no_strangers(labels):
    """Walks come seldom to each image of the kind that has many of them."""
    many, few = drawn(1, 30, labels), [-part for part in drawn(2, 20, labels)]
    mine, others = drawn(3, 30, 10), [-part for part in drawn(4, 20, 40)]
    joined = [[np.concatenate(pair) for pair in zip(*parts, strict=True)] for parts in ((many, few), (mine, others))]
    kept = belonging(joined[0], classes(50, labels), joined[1])
    assert kept[:300].mean() > 0.9
    assert kept[300:].mean() > 0.9


@pytest.mark.parametrize("labels", [1, 4])
def test_nothing_of_a_pile_of_another_kind_belongs(labels):
    assert not belonging(drawn(1, 10, labels), classes(10, labels), [-part for part in drawn(2, 10, 20)]).any()


def test_a_small_pile_beside_many_labels_is_not_taken_for_another_kind():
    assert belonging(drawn(1, 10, 40), classes(10, 40), [part[::10] for part in drawn(2, 10, 20)]).mean() > 0.9


def test_without_labels_everything_belongs():
    pile = drawn(2, 4, 10)
    assert belonging([part[:0] for part in pile], classes(0, 0), pile).all()


def test_labels_that_stand_twice_do_not_make_the_pile_another_kind():
    labelled = [np.repeat(part, 2, axis=0) for part in drawn(1, 10, 2)]
    assert belonging(labelled, classes(10, 4), drawn(2, 10, 20)).mean() > 0.95


def test_the_share_of_lone_labels_is_that_of_all_draws_from_the_pile():
    """The other route: by drawing."""
    labelled, pile = (directions(drawn(seed, 5, each)) for seed, each in ((1, 2), (2, 8)))
    truth, rng, seen = classes(5, 2), np.random.default_rng(0), []
    among = labelled @ labelled.T - 9 * (truth[:, None] == truth)
    for _ in range(4000):
        some = pile[rng.integers(0, len(pile), 8)]
        seen.append(((labelled @ some.T).max(axis=1) <= among.max(axis=1)).mean())
    assert lone(labelled, truth, pile) == pytest.approx(np.mean(seen), abs=0.02)
