from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from yoro import DiscriminantMapping
from yoro.errors import InputError, SelectionError


@pytest.mark.parametrize(
    "shrinkage",
    ["loo", 0.3, *(pytest.param(rule, marks=pytest.mark.long) for rule in ("k-fold", "oas", "rblw", "ledoit-wolf"))],
)
def test_passes_every_check_of_scikit_learn(shrinkage):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks fit tiny and odd data, which we warn about
        results = check_estimator(DiscriminantMapping(shrinkage=shrinkage), on_fail=None)
    assert len(results) > 50
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_learns_digits_and_answers_with_names(digits):
    responses, labels = digits
    mapping = DiscriminantMapping().fit(responses[:1200], labels[:1200])
    assert mapping.score(responses[1200:], labels[1200:]) > 0.9
    assert mapping.predict(responses[:3]).dtype.kind == "U"
    np.testing.assert_allclose(mapping.predict_proba(responses).sum(axis=1), 1.0)
    best = mapping.classes_[mapping.predict_proba(responses).argmax(axis=1)]
    assert (best == mapping.predict(responses)).all()
    np.testing.assert_allclose(mapping.decision_function(responses), responses @ mapping.coef_.T + mapping.intercept_)


def test_two_classes_keep_one_row_as_scikit_learn_does(digits):
    responses, labels = digits
    pair = np.isin(labels, ["3", "8"])
    mapping = DiscriminantMapping(shrinkage=0.1).fit(responses[pair], labels[pair])
    assert mapping.coef_.shape == (1, 64)
    scores = mapping.decision_function(responses[pair])
    np.testing.assert_allclose(scores, responses[pair] @ mapping.coef_[0] + mapping.intercept_[0])
    assert ((scores > 0) == (mapping.predict(responses[pair]) == "8")).all()


def test_partial_fit_equals_fit_and_takes_new_classes_at_any_time(digits):
    responses, labels = digits
    whole = DiscriminantMapping().fit(responses, labels)
    parts = DiscriminantMapping()
    order = np.argsort(labels, kind="stable")  # class after class: each batch brings new ones
    for i in range(0, len(order), 200):
        parts.partial_fit(responses[order[i : i + 200]], labels[order[i : i + 200]])
    assert parts.classes_.tolist() == whole.classes_.tolist()
    assert parts.shrinkage_ == whole.shrinkage_
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-9 * np.abs(whole.coef_).max())
    np.testing.assert_allclose(parts.predict_proba(responses), whole.predict_proba(responses), atol=1e-9)


def test_integer_classes_stay_integers_in_numerical_order(digits):
    responses, labels = digits
    numbers = labels.astype(int) * 5  # "10" sorts before "5" as text
    mapping = DiscriminantMapping(shrinkage=0.1).fit(responses, numbers)
    assert mapping.classes_.tolist() == list(range(0, 50, 5))
    named = DiscriminantMapping(shrinkage=0.1).fit(responses, labels)
    assert (mapping.predict(responses) == named.predict(responses).astype(int) * 5).all()


def test_the_papers_rule_takes_validation_data(digits):
    responses, labels = digits
    mapping = DiscriminantMapping("validation")
    mapping.fit(responses[:500], labels[:500], validation=(responses[500:800], labels[500:800]))
    assert mapping.shrinkage_ in (0.01, 0.03, 0.1, 0.3, 0.5, 0.8)
    with pytest.raises(SelectionError, match="Rules that work without: loo"):
        mapping.fit(responses[:500], labels[:500])


def test_works_in_pipelines_searches_calibration_clone_and_pickle(digits):
    responses, labels = digits
    pipeline = make_pipeline(StandardScaler(), DiscriminantMapping())
    assert cross_val_score(pipeline, responses[:600], labels[:600], cv=3).mean() > 0.85
    search = GridSearchCV(DiscriminantMapping(), {"shrinkage": [0.1, "oas"], "prior": ["empirical", "uniform"]}, cv=3)
    assert search.fit(responses[:600], labels[:600]).best_score_ > 0.85
    calibrated = CalibratedClassifierCV(DiscriminantMapping(shrinkage=0.1), cv=3).fit(responses[:600], labels[:600])
    assert calibrated.score(responses[600:], labels[600:]) > 0.85
    mapping = DiscriminantMapping(shrinkage="oas", prior="uniform", seed=3)
    assert clone(mapping).get_params() == mapping.get_params()
    mapping.fit(responses, labels)
    again = pickle.loads(pickle.dumps(mapping))
    np.testing.assert_array_equal(again.coef_, mapping.coef_)
    again.partial_fit(responses[:100], labels[:100])
    assert again.statistics_.total == 1897


def test_groups_change_the_choice_but_not_the_statistics(digits):
    responses, labels = digits
    doubled, names = np.repeat(responses[:300], 2, axis=0), np.repeat(labels[:300], 2)
    grouped = DiscriminantMapping().fit(doubled, names, groups=np.repeat(np.arange(300), 2))
    plain = DiscriminantMapping().fit(doubled, names)
    np.testing.assert_array_equal(grouped.statistics_.scatter, plain.statistics_.scatter)
    assert grouped.choice_.scores != plain.choice_.scores  # copies no longer vouch for each other


def test_feature_names_are_kept_and_compared(digits):
    import pandas as pd

    responses, labels = digits
    frame = pd.DataFrame(responses, columns=[f"logit {i}" for i in range(64)])
    mapping = DiscriminantMapping(shrinkage=0.1).fit(frame, labels)
    assert mapping.feature_names_in_[0] == "logit 0"
    with pytest.raises(ValueError, match="feature names"):
        mapping.predict(frame.rename(columns={"logit 0": "other"}))


def test_errors_are_clear(digits):
    with pytest.raises(NotFittedError):
        DiscriminantMapping().predict(digits[0])
    with pytest.raises(InputError, match="needs at least 2 classes"):
        DiscriminantMapping().fit(digits[0][:5], ["a"] * 5)
    with pytest.raises(InputError, match="shrinkage rule"):
        DiscriminantMapping("guess").fit(*digits)
