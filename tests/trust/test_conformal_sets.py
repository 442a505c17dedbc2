from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import yoro
from command_line import run
from yoro.errors import InputError
from yoro.model.question import SETS_BY, Question
from yoro.trust.conformal_sets import held_out_sets, left_out_sets, sets_of


@given(n=st.integers(1, 40), coverage=st.floats(0.05, 0.95), seed=st.integers(0, 1000))
def test_the_limit_is_the_least_cautious_that_the_guarantee_allows(n, coverage, seed):
    """Of n + 1 exchangeable numbers, each is as likely the new one: at least a share `coverage` of them is covered."""
    values = np.random.default_rng(seed).permutation(n + 1).astype(float)
    none = np.empty((1, 0))
    covered = [sets_of(np.delete(values, i), coverage, empty=True)(none, values[[[i]]])[0, 0] for i in range(n + 1)]
    assert np.mean(covered) >= coverage - 1e-9
    assert np.mean(covered) < coverage + 1 / (n + 1) + 1e-9


@pytest.mark.long
@pytest.mark.parametrize(("shots", "by"), [(5, "leave-one-out"), (16, "leave-one-out"), (5, "full")])
def test_coverage_of_new_digits_is_what_was_asked(digits, shots, by):
    shares = []
    for seed in range(16 if by != "full" else 6):
        order = np.random.default_rng(seed).permutation(1797)
        fitted = np.concatenate([order[digits[1][order] == c][:shots] for c in np.unique(digits[1])])
        new = np.setdiff1d(order, fitted)[:: 3 if by != "full" else 30]
        classifier = yoro.fit((digits[0][fitted], digits[1][fitted]))
        sets = left_out_sets(classifier.model, 0.9, by, empty=True)
        inside = sets(digits[0][new], np.log(np.maximum(classifier.predict_proba(digits[0][new]), 1e-300)))
        truth = np.searchsorted(classifier.classes, digits[1][new])
        shares.append(inside[np.arange(len(new)), truth].mean())
    # Where a new image is fitted in, its class is the larger by it: with few images a class that makes cautious.
    assert 0.88 < np.mean(shares) < (0.925 if by != "full" else 0.95)


def test_every_way_gives_sets_and_a_higher_coverage_larger_ones(digits):
    rows = np.concatenate([np.flatnonzero(digits[1] == c)[:5] for c in np.unique(digits[1])])
    classifier = yoro.fit((digits[0][rows], digits[1][rows]))
    for by in SETS_BY:
        small, large = (classifier.predict_sets(digits[0][500:540], share, by=by) for share in (0.8, 0.96))
        assert all(set(one) <= set(two) for one, two in zip(small, large, strict=True))
        assert sum(map(len, large)) > sum(map(len, small))


def test_a_set_may_be_empty_where_that_is_asked_for(digits):
    classifier = yoro.fit((digits[0][:300], digits[1][:300]))
    strange = np.random.default_rng(0).permuted(digits[0][300:400], axis=1)
    assert all(classifier.predict_sets(strange, 0.6))
    assert not all(classifier.predict_sets(strange, 0.6, empty=True))


def test_groups_and_unknown_ways_are_refused(digits):
    classifier = yoro.fit((digits[0][:60], digits[1][:60]))
    with pytest.raises(InputError, match="Did you mean 'full'"):
        classifier.predict_sets(digits[0][:2], by="fulll")
    nothing = yoro.fit((digits[0][:60], digits[1][:60]), shrinkage=0.0)
    with pytest.raises(InputError, match="shrinkage is zero"):
        nothing.predict_sets(digits[0][:2])


def test_held_out_sets_are_those_of_crepes(digits):
    crepes = pytest.importorskip("crepes")
    classifier = yoro.fit((digits[0][:150], digits[1][:150]))
    sets = held_out_sets(classifier, (digits[0][150:400], digits[1][150:400]), 0.9)
    proba = classifier.predict_proba(digits[0])
    codes = np.searchsorted(classifier.classes, digits[1][150:400])
    theirs = crepes.ConformalClassifier()
    theirs.fit(1 - proba[150:400][np.arange(250), codes])
    wanted = theirs.predict_set(1 - proba[400:700], confidence=0.9, smoothing=False).astype(bool)
    wanted[np.arange(300), proba[400:700].argmax(axis=1)] = True
    assert (sets(digits[0][400:700], np.log(proba[400:700])) == wanted).all()


def test_sets_are_named_never_empty_and_begin_with_the_answer(digits):
    classifier = yoro.fit((digits[0][:150], digits[1][:150].astype(int)))
    small, large = (classifier.predict_sets(digits[0][200:300], coverage) for coverage in (0.5, 0.98))
    assert [labels[0] for labels in small] == classifier.predict(digits[0][200:300])
    assert all(set(one) <= set(two) for one, two in zip(small, large, strict=True))
    assert sum(map(len, large)) > sum(map(len, small))


def test_the_command_gives_sets_as_a_list(tmp_path, digits):
    yoro.fit((digits[0][:150], digits[1][:150])).save(tmp_path / "m.yoro")
    np.savez(tmp_path / "new.npz", responses=digits[0][200:230], labels=digits[1][200:230])
    words = ("predict", tmp_path / "m.yoro", tmp_path / "new.npz", "--coverage", 0.9)
    rows = json.loads(run(*words, "--format", "json").stdout)
    assert all(row["labels"][0] == row["label"] for row in rows)
    shown = list(csv.DictReader(run(*words).stdout.splitlines()))
    assert [json.loads(row["labels"]) for row in shown] == [row["labels"] for row in rows]
    few = run(*words, "--calibrate", tmp_path / "new.npz", "--format", "json")
    assert len(json.loads(few.stdout)) == 30
    many = run(*words[:-1], 0.99, "--calibrate", tmp_path / "new.npz")
    assert "contains all classes" in many.stderr
    assert "such as 0.9" in run(*words[:-1], 2, code=2).stderr
    assert run(*words, "--sets-by", "jackknife+", "--allow-empty", "--format", "json").stdout
    assert "Did you mean 'jackknife+'" in run(*words, "--sets-by", "jackknife", code=2).stderr
    assert "need a coverage" in run(*words[:3], "--calibrate", "x", code=2).stderr


def test_without_responses_it_says_what_is_missing(digits):
    fitted = yoro.fit((digits[0][:100], digits[1][:100]))
    fitted.drop_reservoir()
    with pytest.raises(InputError, match="--calibrate DATA"):
        fitted.predict_sets(digits[0][:2])
    with pytest.raises(InputError, match="between 0 and 1"):
        Question(coverage=1.0)


def test_a_coverage_of_next_to_nothing_is_the_best_class_alone():
    sets = sets_of(np.log([0.2, 0.9, 0.5]), 5e-324)
    assert sets(np.empty((2, 0)), np.log([[0.6, 0.4], [0.1, 0.9]])).tolist() == [[True, False], [False, True]]
