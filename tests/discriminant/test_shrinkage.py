"""Ablations of the covariance: targets of the shrinkage, and no shrinkage at all."""

from __future__ import annotations

import numpy as np
import pytest

from yoro import ResponseStatistics
from yoro.discriminant.selection import PAPER_GRID, Evidence, select_shrinkage
from yoro.discriminant.shrinkage import dense_spectrum, diagonal_spectrum, low_rank_spectrum, make_spectrum, oas, rblw
from yoro.discriminant.solve import solve_empirical, solve_path
from yoro.errors import DegenerateWarning, InputError


def gathered(responses, labels) -> ResponseStatistics:
    statistics = ResponseStatistics()
    statistics.update(responses, labels)
    return statistics


def by_solve(statistics, covariance, rho_target):
    """Weights and bias by a plain solve."""
    means = statistics.means
    weights = np.linalg.solve(covariance + rho_target, means.T)
    return weights, np.log(statistics.counts / statistics.total) - 0.5 * np.einsum("kw,wk->k", means, weights)


@pytest.fixture(scope="module")
def alive(digits):
    """Digits without the pixels that hardly ever vary."""
    responses, labels = digits
    return responses[:, responses.std(axis=0) > 0.5], labels


@pytest.mark.parametrize("rho", [*PAPER_GRID, 1.0])
def test_the_diagonal_target_by_a_plain_solve(alive, rho):
    statistics = gathered(*alive)
    covariance = statistics.scatter / statistics.degrees
    mapping = solve_path(statistics, make_spectrum(statistics, "diagonal"), [rho])[0]
    weights, bias = by_solve(statistics, (1 - rho) * covariance, rho * np.diag(covariance.diagonal()))
    np.testing.assert_allclose(mapping.weights, weights, atol=1e-9 * np.abs(weights).max())
    np.testing.assert_allclose(mapping.bias, bias, rtol=1e-9)


@pytest.mark.parametrize("rho", PAPER_GRID)
def test_the_texts_as_target_are_their_inverse_gram_matrix(rho):
    """Shrinking responses to the identity is shrinking vectors to (T'T)^-1, and I in feature space is another thing."""
    rng = np.random.default_rng(0)
    texts, v = rng.normal(size=(40, 8)), rng.normal(size=(60, 8))
    labels = np.array(["a", "b", "c"] * 20)
    v[labels == "b"] += 1.0
    statistics = gathered(v, labels)
    covariance = statistics.scatter / statistics.degrees
    gram = texts.T @ texts
    target = np.trace(gram @ covariance) / 40 * np.linalg.inv(gram)
    mapping = solve_path(statistics, make_spectrum(statistics, "texts", texts, 100.0), [rho])[0]
    weights, bias = by_solve(statistics, (1 - rho) * covariance, rho * target)
    np.testing.assert_allclose(mapping.weights, weights, atol=1e-9 * np.abs(weights).max())
    np.testing.assert_allclose(mapping.bias, bias, rtol=1e-9)
    plain = solve_path(statistics, make_spectrum(statistics, "identity"), [rho])[0]
    weights, _ = by_solve(statistics, (1 - rho) * covariance, rho * np.trace(covariance) / 8 * np.eye(8))
    np.testing.assert_allclose(plain.weights, weights, atol=1e-9 * np.abs(weights).max())


def test_scaling_a_coordinate_changes_nothing_under_the_diagonal_target(alive):
    responses, labels = alive
    scale = np.exp(np.random.default_rng(0).normal(size=responses.shape[1]))
    one, two = gathered(responses, labels), gathered(responses * scale, labels)
    scores = solve_path(one, diagonal_spectrum(one), [0.3])[0](responses)
    scaled = solve_path(two, diagonal_spectrum(two), [0.3])[0](responses * scale)
    np.testing.assert_allclose(scaled, scores, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("rule", ["loo", "k-fold", "oas", "rblw", "ledoit-wolf"])
def test_every_rule_works_with_every_target(alive, rule):
    from yoro.discriminant.reservoir import Members

    responses, labels = alive[0][:400], alive[1][:400]
    statistics = gathered(responses, labels)
    members = Members(responses, labels, np.full(400, ""), np.ones(400))
    evidence = Evidence(statistics, diagonal_spectrum(statistics), members, decompose=diagonal_spectrum)
    choice = select_shrinkage(rule, evidence)
    assert 0 <= choice.shrinkage <= 1
    mapping = solve_path(statistics, evidence.spectrum, [choice.shrinkage])[0]
    assert (mapping.predict(alive[0][400:800]) == alive[1][400:800]).mean() > 0.75  # other hands than those fitted


def test_without_shrinkage_it_is_the_pseudo_inverse(digits):
    responses, labels = digits[0][:200], digits[1][:200]  # some pixels never vary: a singular covariance
    statistics = gathered(responses, labels)
    covariance = statistics.scatter / statistics.degrees
    mapping = solve_empirical(statistics, dense_spectrum(statistics))
    weights = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True) @ statistics.means.T
    np.testing.assert_allclose(mapping.weights, weights, atol=1e-8 * np.abs(weights).max())


def test_without_shrinkage_the_low_rank_form_equals_the_dense_one():
    rng = np.random.default_rng(1)
    texts, v = rng.normal(size=(30, 6)), rng.normal(size=(50, 6))
    labels = np.array(["a", "b"] * 25)
    statistics = gathered(v, labels)
    spectrum = low_rank_spectrum(statistics, texts, 10.0)
    low = solve_empirical(statistics, spectrum)
    explicit = gathered(10.0 * v @ texts.T, labels)
    folded = 10.0 * texts.T @ solve_empirical(explicit, dense_spectrum(explicit)).weights  # over v
    np.testing.assert_allclose(low.weights, folded, atol=1e-8 * np.abs(folded).max())


def test_closed_formulas_in_the_low_rank_case_equal_explicit_responses():
    rng = np.random.default_rng(2)
    texts, v = rng.normal(size=(30, 6)), rng.normal(size=(50, 6))
    labels = np.array(["a", "b"] * 25)
    low = low_rank_spectrum(gathered(v, labels), texts, 10.0)
    dense = dense_spectrum(gathered(10.0 * v @ texts.T, labels))
    assert oas(low) == pytest.approx(oas(dense), rel=1e-9)
    assert rblw(low) == pytest.approx(rblw(dense), rel=1e-9)


def test_no_spread_falls_back_to_the_nearest_mean_under_every_target():
    statistics = gathered([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    for spectrum in (diagonal_spectrum(statistics), dense_spectrum(statistics)):
        with pytest.warns(DegenerateWarning, match="nearest class mean"):
            mapping = solve_empirical(statistics, spectrum)
        assert mapping.predict([[0.1, 0.9]]).tolist() == ["a"]


def test_a_wrong_target_is_refused(digits):
    statistics = gathered(*digits)
    with pytest.raises(InputError, match="'ones'"):
        make_spectrum(statistics, "ones")
    with pytest.raises(InputError, match="needs the text vectors"):
        make_spectrum(statistics, "texts")
