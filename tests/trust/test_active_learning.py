from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import yoro
from yoro.errors import InputError
from yoro.trust.active_learning import NEIGHBOURS, POOL, density, spread_doubt


@given(st.integers(1, 60), st.integers(2, 6), st.integers(1, 20), st.integers(0, 5))
def test_as_many_as_asked_for_none_twice_all_in_doubt(n, classes, count, seed):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(classes), n)
    features = rng.normal(size=(n, 3))
    rows = spread_doubt(probabilities, features, count)
    assert len(rows) == len(set(rows)) == min(n, count)
    two = np.sort(probabilities, axis=1)
    value = (1 - (two[:, -1] - two[:, -2])) * density(features)
    assert value[rows[0]] == value.max()
    assert (value[rows] >= np.sort(value)[::-1][min(POOL * count, n) - 1]).all()


def test_density_is_the_mean_similarity_to_the_nearest_neighbours():
    features = np.random.default_rng(0).normal(size=(1500, 4))  # more than one block
    centred = features - features.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    row = 1200
    similar = np.sort(np.delete(centred @ centred[row], row))
    assert density(features)[row] == pytest.approx(similar[-NEIGHBOURS:].mean())
    assert density(features[:1]) == pytest.approx(density(np.eye(3))[0])  # none is like them


def test_an_outlier_is_not_asked_for_though_it_is_as_doubtful_as_others():
    rng = np.random.default_rng(0)
    crowd = rng.normal(size=(2, 6)).repeat(20, axis=0) + 0.1 * rng.normal(size=(40, 6))
    features = np.concatenate([rng.normal(size=(1, 6)), crowd])
    assert 0 not in spread_doubt(np.full((41, 2), 0.5), features, 3)


def test_copies_of_one_doubtful_image_are_not_all_chosen():
    probabilities = np.full((8, 2), 0.5)
    features = np.array([[0.0]] * 5 + [[5.0], [9.0], [20.0]])
    assert {round(features[i, 0]) for i in spread_doubt(probabilities, features, 4)} == {0, 5, 9, 20}


def test_what_was_fitted_is_not_chosen_and_the_doubtful_are(digits):
    responses, labels = digits
    classifier = yoro.fit((responses[:100], labels[:100]))
    chosen = classifier.choose_next(responses[:400], 15)
    rows = [int(one.name.split()[-1]) for one in chosen.candidates]
    assert min(rows) >= 100
    assert chosen.looked_at == 300
    probabilities = np.sort(classifier.predict_proba(responses[100:400]), axis=1)
    assert np.mean([one.margin for one in chosen.candidates]) < np.mean(probabilities[:, -1] - probabilities[:, -2])
    for one, row in zip(chosen.candidates, rows, strict=True):
        assert one.label == classifier.predict(responses[row : row + 1])[0] != one.other
    with pytest.raises(InputError, match="choose is 0"):
        classifier.choose_next(responses[:400], 0)
