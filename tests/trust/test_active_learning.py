from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import yoro
from yoro.errors import InputError
from yoro.trust.active_learning import POOL, spread_doubt


@given(st.integers(1, 60), st.integers(2, 6), st.integers(1, 20), st.integers(0, 5))
def test_as_many_as_asked_for_none_twice_all_in_doubt(n, classes, count, seed):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(classes), n)
    rows = spread_doubt(probabilities, rng.normal(size=(n, 3)), count)
    assert len(rows) == len(set(rows)) == min(n, count)
    two = np.sort(probabilities, axis=1)
    margins = two[:, -1] - two[:, -2]
    assert margins[rows[0]] == margins.min()
    assert (margins[rows] <= np.sort(margins)[min(POOL * count, n) - 1]).all()


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
    with pytest.raises(InputError, match="choose 0 images"):
        classifier.choose_next(responses[:400], 0)
