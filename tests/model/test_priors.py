from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import yoro
from command_line import invoke, run
from photos import write_folder
from yoro.errors import InputError
from yoro.model.priors import fitted_log_prior, parse_prior, prior_shift


@pytest.fixture(scope="module")
def classifier(digits):
    wanted = np.concatenate([np.flatnonzero(digits[1] == str(c))[: 8 + 4 * c] for c in range(10)])
    return yoro.fit((digits[0][wanted], digits[1][wanted]))


@given(weights=st.lists(st.floats(1e-3, 1.0), min_size=10, max_size=10))
def test_each_probability_is_times_the_new_prior_over_the_fitted_one(classifier, digits, weights):
    new = np.array(weights) / sum(weights)
    before = classifier.predict_proba(digits[0][1500:1520])
    fitted = classifier.model.statistics.counts / classifier.model.statistics.total
    wanted = before * new / fitted
    wanted /= wanted.sum(axis=1, keepdims=True)
    table = dict(zip(classifier.classes, new.tolist(), strict=True))
    assert np.allclose(classifier.predict_proba(digits[0][1500:1520], prior=table), wanted, rtol=1e-9, atol=1e-300)


def test_the_prior_of_the_fit_changes_nothing(classifier, digits):
    before = classifier.predict_proba(digits[0][1500:1550])
    shares = np.exp(fitted_log_prior(classifier.model)).tolist()
    assert (classifier.predict_proba(digits[0][1500:1550], prior="empirical") == before).all()
    same = classifier.predict_proba(digits[0][1500:1550], prior=dict(zip(classifier.classes, shares, strict=True)))
    assert np.allclose(same, before, rtol=1e-12)
    uniform = yoro.fit((digits[0][:300], digits[1][:300]), prior="uniform")
    assert prior_shift(uniform.model, "uniform") is None
    assert prior_shift(uniform.model, "empirical") is not None


def test_one_reading_without_temperature_is_the_fit_by_the_other_prior(digits):
    """There the prior is one term of the bias, and nothing else of the fit depends on it."""
    data = digits[0][:203], digits[1][:203]
    one, other = (yoro.fit(data, prior=prior, shrinkage=0.1, protocol="default") for prior in ("empirical", "uniform"))
    for fitted in (one, other):
        object.__setattr__(fitted.model.choice, "temperature", 1.0)
    new = digits[0][400:450]
    assert np.allclose(one.predict_proba(new, prior="uniform"), other.predict_proba(new), rtol=1e-9, atol=1e-12)


def test_a_class_of_no_share_is_never_answered(classifier, digits):
    table = dict.fromkeys(classifier.classes, 1 / 9) | {"3": 0.0}
    proba = classifier.predict_proba(digits[0], prior=table)
    assert (proba[:, 3] == 0).all()
    assert np.allclose(proba.sum(axis=1), 1)
    assert "3" not in classifier.predict(digits[0], prior=table)


def test_labels_that_are_numbers_may_be_named_as_numbers(digits):
    fitted = yoro.fit((digits[0][:150], digits[1][:150].astype(int)))
    by_number, uniform = (
        fitted.predict_proba(digits[0][:9], prior=prior) for prior in (dict.fromkeys(range(10), 0.1), "uniform")
    )
    assert np.allclose(by_number, uniform)


def test_of_sentences_alone_the_prior_was_uniform_and_a_class_without_images_counts_as_one(tmp_path):
    photos = write_folder(tmp_path / "photos", 3, names=("cat", "rocket"))
    options = {"source": "embedded:conse", "attributes": "names"}
    alone = yoro.fit(photos, shots=0, **options)
    assert prior_shift(alone.model, "uniform") is None
    before, after = (alone.predict_proba(photos, prior=prior) for prior in (None, {"cat": 0.9, "rocket": 0.1}))
    assert np.allclose(after[:, 0] / after[:, 1], 9 * before[:, 0] / before[:, 1])
    described = yoro.fit(photos, classes=["cat", "coffee", "rocket"], **options)
    assert np.allclose(np.exp(fitted_log_prior(described.model)), [3 / 7, 1 / 7, 3 / 7])


def test_a_prior_that_fits_the_data_measures_better(classifier, digits):
    """New data of two classes, nine to one."""
    rows = np.concatenate([np.flatnonzero(digits[1] == "9")[-90:], np.flatnonzero(digits[1] == "8")[-10:]])
    table = dict.fromkeys(classifier.classes, 0.0) | {"9": 0.9, "8": 0.1}
    plain, told = (classifier.evaluate(digits[0][rows], digits[1][rows], prior=prior) for prior in ("empirical", table))
    assert told.log_loss < plain.log_loss
    assert told.accuracy >= plain.accuracy


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        ({"0": 0.5, "1": 0.5}, "says nothing of the class '2'"),
        (dict.fromkeys("0123456789", 0.2), "add up to 2; expected 1"),
        (dict.fromkeys("0123456789", 0.1) | {"10": 0.0}, "'10', which is no class of the model. Did you mean"),
        (dict.fromkeys("0123456789", 0.1) | {"4": -0.1}, "'4' is -0.1"),
        (dict.fromkeys("0123456789", 0.1) | {"4": float("nan")}, "'4' is nan"),
        (dict.fromkeys("0123456789", 0.1) | {"4": "many"}, "'4' is 'many'"),
        ("flat", "prior 'flat'"),
    ],
)
def test_what_is_no_prior_is_refused(classifier, digits, prior, said):
    with pytest.raises(InputError, match=said):
        classifier.predict(digits[0][:1], prior=prior)


def test_a_prior_is_typed_by_names_whatever_they_hold():
    assert parse_prior("a=0.25,b, c=0.5,d=e=0.25") == {"a": 0.25, "b, c": 0.5, "d=e": 0.25}
    assert [parse_prior(text) for text in (None, "uniform", "empirical")] == [None, "uniform", "empirical"]
    for text, said in {"a": "no prior", "a=0.1,b": "no prior", "a=x": "'x'", "a=0.1,a=0.9": "twice"}.items():
        with pytest.raises(InputError, match=said):
            parse_prior(text)


def test_the_commands_answer_by_another_prior(tmp_path, classifier, digits):
    classifier.save(tmp_path / "m.yoro")
    np.savez(tmp_path / "new.npz", responses=digits[0][1500:1600], labels=digits[1][1500:1600])
    words = (tmp_path / "m.yoro", tmp_path / "new.npz", "--quiet", "--prior")
    rows = csv.DictReader(run("predict", *words, "uniform").stdout.splitlines())
    wanted = classifier.predict_proba(digits[0][1500:1600], prior="uniform").max(axis=1)
    assert np.allclose([float(row["probability"]) for row in rows], wanted, atol=1e-6)
    measured = json.loads(run("evaluate", *words, "uniform", "--json").stdout)
    wanted = classifier.evaluate(digits[0][1500:1600], digits[1][1500:1600], prior="uniform")
    assert measured["log_loss"] == pytest.approx(wanted.log_loss)
    run("evaluate", *words, "uniform", "--html", tmp_path / "page.html")
    ended = invoke("predict", *words, "0=0.5,11=0.5")
    assert ended.code == 1
    assert "'11', which is no class of the model. Did you mean '1'" in ended.stderr
    assert invoke("predict", *words, "uniform", "--coverage", "0.9").code == 2
