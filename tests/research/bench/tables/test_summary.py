from __future__ import annotations

import math
import statistics
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from yoro.errors import InputError
from yoro.research.bench.tables.summary import (
    best,
    bootstrap_interval,
    depth,
    exact_mean,
    kept_share,
    macro_average,
    mean,
    sample_deviation,
    wins_ties_losses,
)

percents = st.floats(0, 100)
lists = st.lists(percents, min_size=2, max_size=20)


@given(lists)
def test_mean_and_deviation_are_those_of_the_statistics_module(values):
    assert mean(values) == pytest.approx(statistics.fmean(values))
    # the module is exact, ours is a two-pass sum: apart by rounding of numbers up to 100
    assert sample_deviation(values) == pytest.approx(statistics.stdev(values), abs=1e-11)


@given(lists, st.randoms(use_true_random=False))
def test_order_of_the_values_does_not_matter(values, random):
    shuffled = random.sample(values, len(values))
    assert mean(shuffled) == mean(values)
    assert sample_deviation(shuffled) == sample_deviation(values)
    assert bootstrap_interval(shuffled, draws=50) == bootstrap_interval(values, draws=50)


@given(lists, st.floats(-50, 50), st.floats(0.1, 10))
def test_shift_moves_the_mean_and_scale_stretches_the_deviation(values, shift, scale):
    moved = [scale * value + shift for value in values]
    assert mean(moved) == pytest.approx(scale * mean(values) + shift, abs=1e-9)
    assert sample_deviation(moved) == pytest.approx(scale * sample_deviation(values), abs=1e-9)
    expected = [scale * bound + shift for bound in bootstrap_interval(values, draws=50)]
    assert bootstrap_interval(moved, draws=50) == pytest.approx(expected, abs=1e-9)


def test_a_single_value_has_no_deviation():
    assert sample_deviation([71.0]) is None
    assert macro_average({"dtd": {0: 71.0}}) == (71.0, None)
    assert depth([3]) == (3.0, None, 3.0)


@given(st.lists(st.lists(percents, min_size=3, max_size=3), min_size=1, max_size=8))
def test_macro_average_is_that_of_the_matrix_of_settings_and_seeds(rows):
    matrix = np.array(rows)  # (settings, seeds)
    average, deviation = macro_average({f"setting {i}": dict(enumerate(row)) for i, row in enumerate(rows)})
    assert average == pytest.approx(matrix.mean())
    assert deviation == pytest.approx(matrix.mean(axis=0).std(ddof=1), abs=1e-11)


def test_seeds_that_cancel_out_have_no_deviation():
    values = {"dtd": {0: 60.0, 1: 62.0}, "svhn": {0: 82.0, 1: 80.0}}
    assert macro_average(values) == (71.0, 0.0)


def test_seeds_may_come_in_any_order():
    straight = {"dtd": {0: 60.0, 1: 62.0}, "svhn": {0: 70.0, 1: 80.0}}
    turned = {"svhn": {1: 80.0, 0: 70.0}, "dtd": {0: 60.0, 1: 62.0}}
    assert macro_average(turned) == macro_average(straight)


def test_a_missing_seed_is_named():
    with pytest.raises(InputError, match="'svhn' has no value of seed 2"):
        macro_average({"dtd": {0: 60.0, 1: 60.0, 2: 60.0}, "svhn": {0: 70.0, 1: 70.0}})


def test_an_empty_table_is_refused():
    with pytest.raises(InputError, match="no setting"):
        macro_average({})
    for function in (mean, sample_deviation, bootstrap_interval, depth, kept_share):
        with pytest.raises(InputError, match="no value"):
            function([])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_refused(bad):
    for function in (mean, sample_deviation, bootstrap_interval):
        with pytest.raises(InputError, match="finite"):
            function([1.0, bad])
    with pytest.raises(InputError, match="finite"):
        best({"a": 1.0, "b": bad})


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_interval_is_that_of_scipy_up_to_the_draws(level):
    differences = np.random.default_rng(3).normal(0.4, 1.0, size=30)
    reference = bootstrap(
        (differences,), np.mean, n_resamples=20_000, confidence_level=level, method="percentile", rng=5
    ).confidence_interval
    # a bound of 10,000 draws has a standard error of about 0.005 here
    assert bootstrap_interval(differences, level=level) == pytest.approx(tuple(reference), abs=0.02)


def test_interval_of_three_settings_is_that_of_all_27_draws():
    values = [0.0, 1.0, 5.0]
    means = np.sort([np.mean(draw) for draw in product(values, repeat=3)])
    # at 0.8 both bounds lie inside a step of the 27 equally likely means, where 10,000 draws cannot miss them
    expected = np.quantile(np.repeat(means, 1000), [0.1, 0.9])
    assert bootstrap_interval(values, level=0.8) == pytest.approx(tuple(expected), abs=1e-12)


def test_interval_depends_on_the_seed_and_on_nothing_else():
    differences = [0.1, -0.4, 2.0, 0.7, 0.0]
    assert bootstrap_interval(differences, draws=100) == bootstrap_interval(differences, draws=100)
    assert bootstrap_interval(differences, draws=100) != bootstrap_interval(differences, draws=100, seed=1)


def test_interval_of_equal_differences_is_a_point():
    assert bootstrap_interval([0.25] * 7) == (0.25, 0.25)


counts = st.integers(1, 10_000).flatmap(lambda tested: st.tuples(st.integers(0, tested), st.just(tested)))


@given(st.lists(counts, min_size=1, max_size=5))
def test_exact_mean_is_the_mean_of_the_shares(runs):
    correct, tested = zip(*runs, strict=True)
    exact = exact_mean(correct, tested)
    assert float(exact) == pytest.approx(statistics.fmean(c / t for c, t in runs))
    product_of_all = math.prod(tested)  # the same sum over one denominator, in integers
    numerator = sum(c * product_of_all // t for c, t in runs)
    assert exact.numerator * len(runs) * product_of_all == numerator * exact.denominator


def test_counts_may_be_integers_of_numpy():
    assert exact_mean(np.array([1, 2, 3]), np.array([3, 3, 3])) == Fraction(2, 3)


def test_equal_counts_in_another_order_tie_where_sums_of_floats_do_not():
    shares = [0.1, 0.2, 0.3]
    assert sum(shares) / 3 != sum(reversed(shares)) / 3
    ours, theirs = exact_mean([1, 2, 3], [10] * 3), exact_mean([3, 2, 1], [10] * 3)
    assert wins_ties_losses({"dtd": ours}, {"dtd": theirs}) == (0, 1, 0)


def test_one_image_in_ten_thousand_is_a_win_though_both_print_the_same():
    ours, theirs = exact_mean([8001] * 3, [10_000] * 3), exact_mean([8000] * 3, [10_000] * 3)
    assert f"{100 * float(ours):.1f}" == f"{100 * float(theirs):.1f}"
    assert wins_ties_losses({"dtd": ours}, {"dtd": theirs}) == (1, 0, 0)


small = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1)


@given(small)
def test_wins_ties_and_losses_are_counted_one_by_one(pairs):
    ours = {key: Fraction(one, 3) for key, (one, _) in pairs.items()}
    theirs = {key: Fraction(two, 3) for key, (_, two) in pairs.items()}
    wins, ties, losses = wins_ties_losses(ours, theirs)
    assert wins == sum(one > two for one, two in pairs.values())
    assert losses == sum(one < two for one, two in pairs.values())
    assert wins + ties + losses == len(pairs)
    assert wins_ties_losses(theirs, ours) == (losses, ties, wins)


def test_settings_of_one_side_are_named():
    with pytest.raises(InputError, match="'svhn' is on one side only"):
        wins_ties_losses({"dtd": 1.0, "svhn": 1.0}, {"dtd": 1.0})


@given(st.lists(st.integers(0, 20), min_size=2, max_size=50))
def test_depth_is_that_of_the_statistics_module(epochs):
    average, deviation, median = depth(epochs)
    assert average == pytest.approx(statistics.mean(epochs))
    assert deviation == pytest.approx(statistics.stdev(epochs), abs=1e-12)
    assert median == statistics.median(epochs)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=50))
def test_a_median_depth_of_zero_means_that_half_keep_epoch_0(epochs):
    share = kept_share(epochs)
    assert share * len(epochs) == pytest.approx(sum(epoch == 0 for epoch in epochs))
    assume(len(epochs) % 2 == 1)
    assert (depth(epochs)[2] == 0.0) == (share > 0.5)


def test_best_are_those_that_print_alike():
    assert best({"yoro": 88.04, "yoro-fp": 87.96, "blm": 87.9}) == {"yoro", "yoro-fp"}
    assert best({"yoro": 88.06, "yoro-fp": 87.96}) == {"yoro"}
    assert best({}) == set()


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 5), min_size=1))
def test_best_print_as_the_largest_prints(values):
    largest = max(values.values())
    assert best(values) == {key for key, value in values.items() if f"{value:.1f}" == f"{largest:.1f}"}
