from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from yoro import AffineMapping, ResponseStatistics
from yoro.discriminant.selection import PAPER_GRID
from yoro.discriminant.shrinkage import EPSILON, dense_spectrum, low_rank_spectrum
from yoro.discriminant.solve import ENOUGH, solve_mapping, solve_once, solve_path
from yoro.errors import DegenerateWarning, InputError, WidthError


def gathered(responses, labels, classes=()) -> ResponseStatistics:
    statistics = ResponseStatistics(classes)
    statistics.update(responses, labels)
    return statistics


@pytest.mark.parametrize("rho", PAPER_GRID)
def test_matches_scikit_learn_up_to_degrees_of_freedom(digits, rho):
    responses, labels = digits
    mapping = solve_mapping(gathered(responses, labels), rho)
    reference = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=rho).fit(responses, labels)
    factor = (len(labels) - 10) / len(labels)  # their covariance divides by n, ours by n - k
    log_prior = np.log(reference.priors_)
    scale = np.abs(reference.coef_).max()
    np.testing.assert_allclose(mapping.weights.T / scale, factor * reference.coef_ / scale, atol=1e-9)
    np.testing.assert_allclose(mapping.bias - log_prior, factor * (reference.intercept_ - log_prior), rtol=1e-9)


@pytest.mark.parametrize("rho", [*PAPER_GRID, 1.0])
def test_equations_of_the_paper_by_dense_solve(digits, rho):
    responses, labels = digits
    statistics = gathered(responses, labels)
    counts, sums, second = statistics.to_moments()
    covariance = (second - (sums.T / counts) @ sums) / (counts.sum() - 10)
    shrunk = (1 - rho) * covariance + rho * np.trace(covariance) / 64 * np.eye(64)
    means = (sums.T / counts).T
    weights = np.linalg.solve(shrunk, means.T)
    bias = -0.5 * np.einsum("kw,wk->k", means, weights) + np.log(counts / counts.sum())
    mapping = solve_mapping(statistics, rho)
    np.testing.assert_allclose(mapping.weights, weights, atol=1e-9 * np.abs(weights).max())
    np.testing.assert_allclose(mapping.bias, bias, rtol=1e-9)


def test_one_decomposition_serves_every_shrinkage(digits):
    statistics = gathered(*digits)
    path = solve_path(statistics, dense_spectrum(statistics), PAPER_GRID)
    for rho, mapping in zip(PAPER_GRID, path, strict=True):
        np.testing.assert_array_equal(mapping.weights, solve_mapping(statistics, rho).weights)


def low_rank_case(seed: int, texts: int, dimension: int):
    rng = np.random.default_rng(seed)
    t = rng.normal(size=(texts, dimension))
    t /= np.linalg.norm(t, axis=1, keepdims=True)
    t[-1] = t[0]  # published banks repeat sentences
    labels = np.array([f"c{i}" for i in range(5)])[np.arange(150) % 5]
    v = rng.normal(size=(150, dimension)) + rng.normal(size=(5, dimension))[np.arange(150) % 5]
    return t, v, labels


@pytest.mark.parametrize(("texts", "dimension"), [(40, 16), (16, 16), (7, 16), (3, 16), (100, 8)])
@pytest.mark.parametrize("rho", [*PAPER_GRID, 1.0])
def test_low_rank_equals_dense(texts, dimension, rho):
    t, v, labels = low_rank_case(0, texts, dimension)
    statistics = gathered(v, labels)
    low = solve_path(statistics, low_rank_spectrum(statistics, t, 100.0), [rho])[0]
    dense = solve_mapping(gathered(100.0 * v @ t.T, labels), rho)
    folded = 100.0 * t.T @ dense.weights  # over v
    np.testing.assert_allclose(low.weights, folded, atol=1e-10 * np.abs(folded).max())
    np.testing.assert_allclose(low.bias, dense.bias, rtol=1e-10)


@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(2, 20), st.sampled_from(PAPER_GRID))
def test_low_rank_scores_equal_dense_scores(seed, texts, dimension, rho):
    t, v, labels = low_rank_case(seed, texts, dimension)
    statistics = gathered(v, labels)
    folded = solve_path(statistics, low_rank_spectrum(statistics, t, 100.0), [rho])[0]
    dense = solve_mapping(gathered(100.0 * v @ t.T, labels), rho)
    expected = dense(100.0 * v @ t.T)
    np.testing.assert_allclose(folded(v), expected, atol=1e-8 * max(1.0, np.abs(expected).max()))


def test_low_rank_never_forms_the_square_of_the_texts():
    import tracemalloc

    t, v, labels = low_rank_case(0, 4000, 32)
    statistics = gathered(v, labels)
    tracemalloc.start()
    spectrum = low_rank_spectrum(statistics, t, 100.0)
    solve_path(statistics, spectrum, PAPER_GRID)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000 * 4000 * 8 / 20


def test_scale_of_responses_does_not_matter(digits):
    responses, labels = digits
    one, two = (solve_mapping(gathered(s * responses, labels), 0.1)(s * responses) for s in (1.0, 37.0))
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_shift_and_rotation_of_responses_do_not_matter(digits):
    responses, labels = digits
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(64, 64)))[0]
    moved = (responses + 5.0) @ rotation
    one, two = (solve_mapping(gathered(z, labels), 0.1)(z) for z in (responses, moved))
    for scores in (one, two):
        scores -= scores.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(one, two, atol=1e-7)


def test_renaming_classes_permutes_columns_and_nothing_else(digits):
    responses, labels = digits
    back = np.array([str(9 - int(name)) for name in labels])
    one = solve_mapping(gathered(responses, labels), 0.1)
    two = solve_mapping(gathered(responses, back), 0.1)
    np.testing.assert_allclose(one.weights, two.weights[:, ::-1], rtol=1e-9, atol=1e-12)


def test_shrinkage_of_one_is_the_nearest_mean():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 4)) * 3
    responses = np.repeat(means, 50, axis=0) + rng.normal(size=(150, 4))
    labels = np.repeat(["a", "b", "c"], 50)
    statistics = gathered(responses, labels)
    nearest = np.linalg.norm(responses[:, None] - statistics.means, axis=2).argmin(axis=1)
    assert (solve_mapping(statistics, 1.0).predict(responses) == np.array(["a", "b", "c"])[nearest]).all()


def test_two_classes_give_the_fisher_direction():
    rng = np.random.default_rng(1)
    responses = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3))
    labels = np.repeat(["a", "b"], 40)
    responses[40:] += 1.0
    statistics = gathered(responses, labels)
    weights = solve_mapping(statistics, 0.0).weights
    fisher = np.linalg.solve(statistics.scatter / statistics.degrees, statistics.means[1] - statistics.means[0])
    np.testing.assert_allclose(weights[:, 1] - weights[:, 0], fisher, rtol=1e-9)


def test_one_image_a_class_is_the_nearest_mean_with_a_warning():
    statistics = gathered([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], ["a", "b", "c"])
    with pytest.warns(DegenerateWarning, match="nearest class mean"):
        mapping = solve_mapping(statistics, 0.1)
    assert mapping.predict([[3.0, 0.1], [0.1, 3.0], [0.5, 0.5]]).tolist() == ["b", "c", "a"]


def test_equal_images_within_classes_are_the_nearest_mean_with_a_warning():
    with pytest.warns(DegenerateWarning):
        mapping = solve_mapping(gathered([[0.0], [0.0], [4.0], [4.0]], ["a", "a", "b", "b"]), 0.5)
    assert mapping.predict([[1.0], [3.0]]).tolist() == ["a", "b"]


def test_scikit_learns_crash_on_degenerate_data_is_no_crash_here():
    with pytest.warns(DegenerateWarning):
        mapping = solve_mapping(gathered([[0.0], [5.0], [5.0]], ["0", "1", "1"]), 0.1)
    assert mapping.predict([[0.0], [5.0]]).tolist() == ["0", "1"]


def test_a_class_without_data_keeps_its_column_and_is_never_chosen():
    rng = np.random.default_rng(0)
    mapping = solve_mapping(gathered(rng.normal(size=(20, 3)), ["a", "c"] * 10, classes=["a", "b", "c"]), 0.3)
    scores = mapping(rng.normal(size=(50, 3)) * 100)
    assert mapping.classes == ("a", "b", "c")
    assert (scores[:, 1] == -np.inf).all()
    assert np.isfinite(scores[:, [0, 2]]).all()


@pytest.mark.parametrize("rho", [0.0, 0.01, 0.8])
def test_constant_and_duplicated_columns_are_harmless(digits, rho):
    responses, labels = digits  # three of the 64 pixels are always 0
    doubled = np.hstack([responses, responses[:, :20]])
    mapping = solve_mapping(gathered(doubled, labels), rho)
    assert np.isfinite(mapping.weights).all()
    assert (mapping.predict(doubled) == labels).mean() > 0.9


def test_more_coordinates_than_images():
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], 5)
    responses = rng.normal(size=(15, 200)) + np.repeat(rng.normal(size=(3, 200)), 5, axis=0)
    for rho in PAPER_GRID:
        assert (solve_mapping(gathered(responses, labels), rho).predict(responses) == labels).all()


def test_delta_is_zero_unless_needed_and_follows_the_rule(digits):
    spectrum = dense_spectrum(gathered(*digits))
    for rho in PAPER_GRID:
        assert spectrum.regularised(rho)[1] == 0.0
    values, delta = spectrum.regularised(0.0)
    assert delta == pytest.approx(EPSILON * 64 * spectrum.values.max(), rel=1e-6)
    assert values.min() > 0


def test_priors_are_empirical_uniform_or_given():
    rng = np.random.default_rng(0)
    statistics = gathered(rng.normal(size=(40, 2)), ["a"] * 30 + ["b"] * 10)
    biases = {p: solve_mapping(statistics, 0.5, prior=p).bias for p in ("empirical", "uniform")}
    np.testing.assert_allclose(biases["empirical"] - biases["uniform"], np.log([0.75 / 0.5, 0.25 / 0.5]))
    given_ = solve_mapping(statistics, 0.5, prior={"a": 3.0, "b": 1.0}).bias
    np.testing.assert_allclose(given_, biases["empirical"])
    with pytest.raises(InputError, match="differ at 'c'"):
        solve_mapping(statistics, 0.5, prior={"a": 1.0, "b": 1.0, "c": 1.0})


def test_errors_say_what_came():
    with pytest.raises(InputError, match="nothing to map"):
        solve_path(ResponseStatistics(), dense_spectrum(ResponseStatistics()), [0.1])
    with pytest.raises(InputError, match=r"shrinkage is 1.5"):
        solve_mapping(gathered([[1.0], [2.0], [3.0]], ["a", "a", "b"]), 1.5)
    mapping = AffineMapping(np.ones((3, 2)), np.zeros(2), ("a", "b"))
    with pytest.raises(WidthError, match=r"\(5, 4\).*\(n, 3\)"):
        mapping(np.ones((5, 4)))
    with pytest.raises(InputError, match="do not fit 3 classes"):
        AffineMapping(np.ones((3, 2)), np.zeros(2), ("a", "b", "c"))


@pytest.mark.parametrize("rho", [0.0, 1e-4, ENOUGH, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("count", [40, 600])
def test_one_factorisation_gives_what_the_spectrum_gives(rho, count):
    rng = np.random.default_rng(0)
    responses = rng.normal(size=(count, 120)) @ rng.normal(size=(120, 120)) + 5.0
    statistics = gathered(responses, [str(i % 6) for i in range(count)], classes=[*map(str, range(6)), "unseen"])
    one, two = solve_once(statistics, rho), solve_mapping(statistics, rho)
    np.testing.assert_allclose(one.weights, two.weights, rtol=1e-9, atol=1e-9 * np.abs(two.weights).max())
    np.testing.assert_allclose(one.bias, two.bias, rtol=1e-9)


def test_one_factorisation_leaves_classes_without_spread_to_the_spectrum():
    statistics = gathered([[0.0], [0.0], [4.0], [4.0]], ["a", "a", "b", "b"])
    with pytest.warns(DegenerateWarning):
        one = solve_once(statistics, 0.5)
    with pytest.warns(DegenerateWarning):
        np.testing.assert_array_equal(one.weights, solve_mapping(statistics, 0.5).weights)
