from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf_shrinkage

from yoro import ResponseStatistics
from yoro.discriminant.calibration import doubtful_loss, fit_temperature, log_probabilities, tolerant_loss
from yoro.discriminant.leave_one_out import LeaveOneOut
from yoro.discriminant.reservoir import Members
from yoro.discriminant.selection import (
    FINE_GRID,
    PAPER_GRID,
    Evidence,
    by_folds,
    by_leave_one_out,
    by_validation,
    select_shrinkage,
)
from yoro.discriminant.shrinkage import dense_spectrum, low_rank_spectrum, oas, rblw
from yoro.discriminant.solve import solve_mapping
from yoro.errors import InputError, SelectionError


def gathered(responses, labels, weights=None, classes=()) -> ResponseStatistics:
    statistics = ResponseStatistics(classes)
    statistics.update(responses, labels, weights)
    return statistics


def members_of(responses, labels, groups=None, weights=None) -> Members:
    n = len(labels)
    groups = np.array([""] * n) if groups is None else groups
    return Members(np.asarray(responses), labels, groups, np.ones(n) if weights is None else weights)


def few_digits(digits, n=150):
    responses, labels = digits
    return responses[:n] + 0.01 * np.random.default_rng(0).normal(size=(n, 64)), labels[:n]


def assert_same_posteriors(left, right):
    left, right = log_probabilities(left[None])[0], log_probabilities(right[None])[0]
    finite = np.isfinite(right)
    np.testing.assert_allclose(left[finite], right[finite], atol=1e-9 * np.abs(right[finite]).max())


@pytest.mark.parametrize("rho", [0.001, *PAPER_GRID, 1.0])
@pytest.mark.parametrize("prior", ["empirical", "uniform"])
def test_leave_one_out_equals_refits(digits, rho, prior):
    responses, labels = few_digits(digits)
    statistics = gathered(responses, labels)
    scored = LeaveOneOut(statistics, dense_spectrum(statistics), members_of(responses, labels), prior=prior).scores(rho)
    for i in range(0, len(labels), 7):
        keep = np.arange(len(labels)) != i
        refit = solve_mapping(gathered(responses[keep], labels[keep]), rho, prior=prior)
        assert_same_posteriors(scored.scores[i], refit(responses[i : i + 1])[0])


def test_groups_are_left_out_together(digits):
    responses, labels = few_digits(digits)
    groups = np.array(["" if i % 3 else f"track {i // 12}" for i in range(len(labels))])
    statistics = gathered(responses, labels)
    left_out = LeaveOneOut(statistics, dense_spectrum(statistics), members_of(responses, labels, groups))
    assert len(left_out) == len(labels)
    alone = np.flatnonzero(groups == "")
    names = [name for name in np.unique(groups) if name]
    order = np.concatenate([alone, *(np.flatnonzero(groups == name) for name in names)])
    np.testing.assert_array_equal(np.array(statistics.classes)[left_out.truth], labels[order])
    scored = left_out.scores(0.05)
    for row in range(0, len(order), 5):
        i = order[row]
        keep = (groups != groups[i]) if groups[i] else np.arange(len(labels)) != i
        refit = solve_mapping(gathered(responses[keep], labels[keep]), 0.05)
        assert_same_posteriors(scored.scores[row], refit(responses[i : i + 1])[0])


def test_a_sample_is_left_out_of_the_full_statistics(digits):
    responses, labels = few_digits(digits)
    statistics = gathered(responses, labels)
    part = np.arange(20, 60)
    scored = LeaveOneOut(statistics, dense_spectrum(statistics), members_of(responses[part], labels[part])).scores(0.1)
    for row, i in enumerate(part):
        keep = np.arange(len(labels)) != i
        assert_same_posteriors(
            scored.scores[row], solve_mapping(gathered(responses[keep], labels[keep]), 0.1)(responses[[i]])[0]
        )


def test_leaving_one_out_of_weighted_data_takes_one_unit(digits):
    responses, labels = few_digits(digits, 80)
    weights = np.where(np.arange(80) % 4 == 0, 3.0, 1.0)
    statistics = gathered(responses, labels, weights)
    scored = LeaveOneOut(statistics, dense_spectrum(statistics), members_of(responses, labels, weights=weights)).scores(
        0.1
    )
    for i in (0, 4, 5):
        less = weights.copy()
        less[i] -= 1
        refit = solve_mapping(gathered(responses, labels, less), 0.1)
        assert_same_posteriors(scored.scores[i], refit(responses[[i]])[0])


def test_low_rank_leave_one_out_equals_refits():
    rng = np.random.default_rng(2)
    texts = rng.normal(size=(30, 6))
    labels = np.array(["a", "b", "c"] * 12)
    v = rng.normal(size=(36, 6)) + np.repeat(rng.normal(size=(1, 6)), 36, 0) * (labels == "a")[:, None]
    statistics = gathered(v, labels)
    scored = LeaveOneOut(statistics, low_rank_spectrum(statistics, texts, 10.0), members_of(v, labels)).scores(0.1)
    z = 10.0 * v @ texts.T
    for i in range(0, 36, 5):
        keep = np.arange(36) != i
        assert_same_posteriors(scored.scores[i], solve_mapping(gathered(z[keep], labels[keep]), 0.1)(z[[i]])[0])


def test_the_last_of_a_class_is_passed_over(digits):
    responses, labels = few_digits(digits, 60)
    labels = labels.copy()
    labels[7] = "only one"
    statistics = gathered(responses, labels)
    left_out = LeaveOneOut(statistics, dense_spectrum(statistics), members_of(responses, labels))
    assert len(left_out) == 59
    assert statistics.classes.index("only one") not in left_out.truth


def test_a_left_out_fit_without_spread_is_the_nearest_mean():
    responses, labels = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]]), np.array(["a", "a", "b"])
    statistics = gathered(responses, labels)
    scored = LeaveOneOut(statistics, dense_spectrum(statistics), members_of(responses, labels)).scores(0.3)
    with pytest.warns(UserWarning, match="nearest"):
        refit = solve_mapping(gathered(responses[1:], labels[1:]), 0.3)
    assert_same_posteriors(scored.scores[0], refit(responses[:1])[0])


def test_validation_counts_correct_answers_and_ties_go_to_the_smaller(digits):
    responses, labels = digits
    statistics = gathered(responses[:400], labels[:400])
    held = responses[400:600], labels[400:600]
    choice = by_validation(Evidence(statistics, dense_spectrum(statistics), validation=held))
    counts = [int((solve_mapping(statistics, rho).predict(held[0]) == held[1]).sum()) for rho in PAPER_GRID]
    assert choice.scores == tuple(counts)
    assert choice.candidates == PAPER_GRID
    assert choice.shrinkage == PAPER_GRID[int(np.argmax(counts))]
    easy = np.array([[0.0, 0.0], [0.1, 0.3], [9.0, 9.0], [9.1, 8.7]])
    names = np.array(["a", "a", "b", "b"])
    easy_statistics = gathered(easy, names)
    tie = by_validation(Evidence(easy_statistics, dense_spectrum(easy_statistics), validation=(easy, names)))
    assert tie.scores == (4.0,) * 6
    assert tie.shrinkage == 0.01


def test_loo_takes_the_least_likelihood_loss_and_ties_go_to_the_larger(digits):
    responses, labels = few_digits(digits)
    statistics = gathered(responses, labels)
    evidence = Evidence(statistics, dense_spectrum(statistics), members_of(responses, labels))
    choice = by_leave_one_out(evidence)
    assert set(choice.candidates) <= set(FINE_GRID)
    assert set(PAPER_GRID) <= set(FINE_GRID)
    assert choice.shrinkage == choice.candidates[int(np.argmin(choice.scores))]
    left_out, losses = LeaveOneOut(statistics, evidence.spectrum, evidence.members), {}
    for rho in FINE_GRID:
        scored = left_out.scores(rho)
        temperature = fit_temperature(scored.scores, scored.truth, scored.weights)
        losses[rho] = tolerant_loss(scored.scores, scored.truth, scored.weights, temperature)
    assert choice.shrinkage == min(FINE_GRID, key=losses.__getitem__)  # those that were not tried are no better
    np.testing.assert_allclose(choice.scores, [losses[rho] for rho in choice.candidates], rtol=1e-9)
    assert by_leave_one_out(evidence, [0.1, 0.1]).shrinkage == 0.1
    flat = members_of(np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]]), np.array(["a", "a", "b"]))
    tied = gathered(flat.responses, flat.labels)
    assert by_leave_one_out(Evidence(tied, dense_spectrum(tied), flat)).shrinkage == 1.0


def test_folds_equal_refits_without_the_fold(digits):
    responses, labels = few_digits(digits)
    statistics = gathered(responses, labels)
    choice = by_folds(Evidence(statistics, dense_spectrum(statistics), members_of(responses, labels)), [0.1], folds=5)
    scores, truth = [], []
    for fold in range(5):
        out = np.arange(len(labels)) % 5 == fold
        mapping = solve_mapping(gathered(responses[~out], labels[~out]), 0.1)
        scores.append(mapping(responses[out]))
        truth.append(np.searchsorted(np.array(mapping.classes), labels[out]))
    joined, truth = np.concatenate(scores), np.concatenate(truth)
    ones = np.ones(len(truth))
    temperature = fit_temperature(joined, truth, ones)
    assert choice.scores[0] == pytest.approx(tolerant_loss(joined, truth, ones, temperature), rel=1e-9)


def test_oas_and_rblw_equal_their_formulas_on_explicit_data(digits):
    responses, labels = few_digits(digits)
    statistics = gathered(responses, labels)
    means = statistics.means[np.searchsorted(np.array(statistics.classes), labels)]
    covariance = (responses - means).T @ (responses - means) / (len(labels) - 10)
    t1, t2, p, nu = np.trace(covariance), np.trace(covariance @ covariance), 64, len(labels) - 10
    spectrum = dense_spectrum(statistics)
    expected = ((1 - 2 / p) * t2 + t1**2) / ((nu + 1 - 2 / p) * (t2 - t1**2 / p))
    assert oas(spectrum) == pytest.approx(expected, rel=1e-10)
    expected = ((nu - 2) / nu * t2 + t1**2) / ((nu + 2) * (t2 - t1**2 / p))
    assert rblw(spectrum) == pytest.approx(expected, rel=1e-10)


def test_ledoit_wolf_equals_scikit_learns_on_the_same_residuals(digits):
    responses, labels = few_digits(digits)
    statistics = gathered(responses, labels)
    means = statistics.means[np.searchsorted(np.array(statistics.classes), labels)]
    evidence = Evidence(statistics, dense_spectrum(statistics), members_of(responses, labels))
    expected = ledoit_wolf_shrinkage(responses - means, assume_centered=True)
    assert select_shrinkage("ledoit-wolf", evidence).shrinkage == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("rule", "needs"),
    [("loo", "individual"), ("validation", "validation"), ("k-fold", "individual"), ("ledoit-wolf", "individual")],
)
def test_a_rule_without_what_it_needs_names_the_rules_that_work(digits, rule, needs):
    statistics = gathered(*digits)
    with pytest.raises(SelectionError, match=rf"needs {needs}.*Rules that work here: .*oas, rblw, a number"):
        select_shrinkage(rule, Evidence(statistics, dense_spectrum(statistics)))


def test_unknown_rules_and_validation_classes_are_errors(digits):
    statistics = gathered(*digits)
    evidence = Evidence(statistics, dense_spectrum(statistics), validation=(digits[0][:2], np.array(["x", "1"])))
    with pytest.raises(InputError, match="shrinkage rule 'guess'"):
        select_shrinkage("guess", evidence)
    with pytest.raises(InputError, match="Class 'x' has no training example"):
        select_shrinkage("validation", evidence)


@given(st.integers(0, 10**6), st.floats(0.05, 20))
def test_fitted_temperature_is_where_the_loss_is_least(seed, sharpness):
    rng = np.random.default_rng(seed)
    scores = sharpness * rng.normal(size=(200, 4))
    truth = np.where(rng.random(200) < 0.6, scores.argmax(axis=1), rng.integers(0, 4, 200))
    ones = np.ones(200)
    temperature = fit_temperature(scores, truth, ones)
    best = doubtful_loss(scores, truth, ones, temperature)
    assert all(best <= doubtful_loss(scores, truth, ones, temperature * f) + 1e-12 for f in (0.9, 0.99, 1.01, 1.1))
    own = log_probabilities(scores, temperature)[np.arange(200), truth]
    guess = log_probabilities(scores, temperature).mean(axis=1)  # one image more, whose class is anybody's guess
    assert best == pytest.approx(-(200 * own.mean() + guess.mean()) / 201)


def test_likelihoods_that_cannot_be_told_apart_do_not_choose_the_smallest_shrinkage():
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b"], 10)
    responses = 20.0 * (labels == "a")[:, None] * rng.normal(size=200) + rng.normal(size=(20, 200))
    statistics = gathered(responses, labels)
    choice = by_leave_one_out(Evidence(statistics, dense_spectrum(statistics), members_of(responses, labels)))
    assert min(choice.scores) > 0
    assert choice.shrinkage >= 0.1


def test_answers_that_are_all_right_do_not_call_for_certainty():
    scores = np.array([[4.0, 0.0], [0.0, 4.0]] * 10)
    temperature = fit_temperature(scores, np.array([0, 1] * 10), np.ones(20))
    assert 0.3 < temperature < 3.0


def test_far_off_images_do_not_decide_the_shrinkage():
    # Two tight classes along one direction, and a few images of both far off in another: a hundred images are told
    # apart by a small shrinkage, and the few that no shrinkage answers must not call for a large one.
    truth = np.array([0, 1])
    answered = np.array([[3.0, 0.0], [0.0, 3.0]])
    lost = np.array([[0.0, 60.0], [0.0, 3.0]])
    ones = np.ones(2)
    assert doubtful_loss(lost, truth, ones, 1.0) - doubtful_loss(answered, truth, ones, 1.0) > 10
    assert 0 < tolerant_loss(lost, truth, ones, 1.0) - tolerant_loss(answered, truth, ones, 1.0) < 3
    hand = -np.log(0.9 * np.exp(3) / (1 + np.exp(3)) + 0.05), -np.log(0.9 / (1 + np.exp(3)) + 0.05)
    assert tolerant_loss(answered, truth, ones, 1.0) == pytest.approx(2 / 3 * hand[0] + (hand[0] + hand[1]) / 6)
