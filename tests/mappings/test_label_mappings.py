from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yoro.errors import InputError, NonFiniteError, WidthError
from yoro.mappings import cooccurrence
from yoro.mappings.cooccurrence import (
    CoOccurrence,
    bayesian_mapping,
    bayesian_weights,
    frequency_mapping,
    greedy_sources,
    kept_sources,
    plus_table,
    random_mapping,
    top_probabilities,
)


def example(seed: int, n: int = 40, width: int = 7, classes: int = 4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, width)), np.array([f"class {i}" for i in rng.integers(0, classes, n)])


def gathered(responses, labels, **options) -> CoOccurrence:
    table = CoOccurrence(**options)
    table.update(responses, labels)
    return table


def by_the_letter(mass: np.ndarray, each: int = 1) -> list[list[int]]:
    """The rule as it is written: take the largest, strike out its row, its column once that is full, and again."""
    left, result = mass.copy(), [[] for _ in range(mass.shape[1])]
    for _ in range(mass.shape[1] * each):
        source, target = np.unravel_index(left.argmax(), left.shape)
        result[target].append(int(source))
        left[source, :] = -1
        if len(result[target]) == each:
            left[:, target] = -1
    return result


def test_largest_count_takes_its_source_first():
    mass = np.array([[5.0, 9.0], [4.0, 8.0], [0.0, 7.0]])
    assert greedy_sources(mass).tolist() == [[1], [0]]  # target 0 wanted source 0, which target 1 has taken


def test_ties_go_to_the_smaller_source_then_to_the_smaller_target():
    assert greedy_sources(np.array([[0.0, 3.0, 3.0], [3.0, 3.0, 0.0], [0.0, 0.0, 1.0]])).tolist() == [[1], [0], [2]]
    assert greedy_sources(np.array([[2.0, 2.0], [2.0, 2.0]])).tolist() == [[0], [1]]


def test_targets_without_counts_get_the_lowest_free_sources():
    mass = np.zeros((6, 4))
    mass[1, 2] = 3.0
    assert greedy_sources(mass).tolist() == [[0], [2], [1], [3]]


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 4), st.integers(1, 4), st.integers(1, 3))
def test_greedy_is_the_rule_by_the_letter(seed, classes, more, largest, each):
    mass = np.random.default_rng(seed).integers(0, largest + 1, (classes * each + more, classes)).astype(float)
    assert greedy_sources(mass, each).tolist() == by_the_letter(mass, each)


def test_several_sources_answer_by_their_mean():
    table = gathered([[0, 0, 0, 1], [0, 2, 0, 0], [1, 0, 0, 0]], ["b", "b", "a"])
    assert frequency_mapping(table, 2)([[10.0, 20.0, 30.0, 40.0]]).tolist() == [[20.0, 30.0]]
    with pytest.raises(InputError, match="2 classes cannot each have 3 of 4"):
        frequency_mapping(table, 3)


def test_frequency_mapping_gathers_responses_without_bias():
    table = gathered([[0, 0, 1], [0, 0, 1], [1, 0, 0], [0, 0, 1]], ["b", "b", "a", "a"], classes=["c"])
    mapping = frequency_mapping(table)
    assert mapping.classes == ("a", "b", "c")
    assert mapping([[10.0, 20.0, 30.0]]).tolist() == [[10.0, 30.0, 20.0]]
    assert not mapping.bias.any()


def test_more_classes_than_sources_are_refused():
    table = gathered([[1.0, 0.0]] * 3, ["a", "b", "c"])
    with pytest.raises(InputError, match="3 classes cannot each have one of 2 source classes"):
        frequency_mapping(table)
    with pytest.raises(InputError, match="3 classes"):
        random_mapping(2, ("a", "b", "c"), np.random.default_rng(0))
    assert bayesian_mapping(table).weights.shape == (2, 3)


def test_random_mapping_is_drawn_by_the_seed_without_repeats():
    names = [f"class {i}" for i in range(37)]
    one, two, other = (random_mapping(1000, names, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert np.array_equal(one.weights, two.weights)
    assert not np.array_equal(one.weights, other.weights)
    assert len(set(one.weights.argmax(axis=0).tolist())) == 37
    assert one.weights.argmax(axis=0).tolist() == np.random.default_rng(0).permutation(1000)[:37].tolist()


def test_smoothing_stands_in_the_denominator_alone():
    mass = np.array([[3.0, 1.0], [0.0, 1.0]])
    # P = [[3/5, 1/5], [0, 1/2]]; columns sum to 3/5 and 7/10
    np.testing.assert_allclose(bayesian_weights(mass), [[1.0, 2 / 7], [0.0, 5 / 7]], rtol=1e-15)
    # without smoothing P = [[3/4, 1/4], [0, 1]]
    np.testing.assert_allclose(bayesian_weights(mass, 0.0), [[1.0, 1 / 5], [0.0, 4 / 5]], rtol=1e-15)


def test_smoothing_of_zero_leaves_silent_sources_out():
    np.testing.assert_allclose(bayesian_weights(np.array([[2.0, 1.0], [0.0, 0.0]]), 0.0), [[1.0, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize("smoothing", [-1.0, np.nan, np.inf])
def test_smoothing_must_be_a_number_of_zero_or_more(smoothing):
    with pytest.raises(InputError, match="smoothing"):
        bayesian_weights(np.ones((2, 2)), smoothing)


@pytest.mark.parametrize("top", [None, 1, 3, 7])
def test_columns_of_bayesian_weights_sum_to_one(top):
    mapping = bayesian_mapping(gathered(*example(0), top=top))
    np.testing.assert_allclose(mapping.weights.sum(axis=0), 1.0, rtol=1e-14)
    assert (mapping.weights >= 0).all()
    assert not mapping.bias.any()


@pytest.mark.parametrize("top", [None, 2])
def test_class_without_images_gets_equal_weights_and_shifts_no_column(top):
    responses, labels = example(1, classes=2)
    table = gathered(responses, labels, classes=["class 0", "class 00", "class 1"], top=top)
    weights = bayesian_mapping(table).weights
    np.testing.assert_allclose(weights[:, 1], 1 / 7)
    without = bayesian_mapping(gathered(responses, labels, top=top)).weights
    np.testing.assert_array_equal(weights[:, [0, 2]], without)


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_certain_answers_make_the_two_bayesian_mappings_equal(seed):
    rng = np.random.default_rng(seed)
    labels = np.array([f"class {i}" for i in rng.integers(0, 3, 30)])
    logits = 1000.0 * np.eye(6)[rng.integers(0, 6, 30)]  # softmax is one-hot: exp(-1000) is zero
    one, two = gathered(logits, labels), gathered(logits, labels, top=6)
    np.testing.assert_array_equal(one.mass, two.mass)
    np.testing.assert_array_equal(bayesian_mapping(one).weights, bayesian_mapping(two).weights)


def test_kept_probabilities_are_not_rescaled():
    logits = np.log([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1]])
    table = gathered(logits, ["a", "b"], top=2)
    np.testing.assert_allclose(table.mass, [[0.5, 0.1], [0.0, 0.8], [0.3, 0.0]], rtol=1e-14)


def test_among_equal_probabilities_the_first_sources_are_kept():
    kept = top_probabilities(np.array([[0.0, 2.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]), 2) > 0
    assert kept.tolist() == [[True, True, False, False], [True, True, False, False]]


def test_large_logits_do_not_overflow():
    assert np.isfinite(top_probabilities(np.array([[1e4, -1e4, 0.0]]), 2)).all()


@pytest.mark.parametrize(("classes", "kept"), [(2, 1), (10, 1), (37, 5), (43, 6), (47, 7), (102, 15), (397, 59)])
def test_plus_keeps_fifteen_hundredths_of_the_target_classes(classes, kept):
    assert kept_sources(classes) == kept
    assert plus_table([f"class {i}" for i in range(classes)]).top == kept


@given(st.integers(0, 10**6), st.sampled_from([None, 1, 3]), st.lists(st.integers(0, 40), max_size=4))
def test_order_and_splitting_of_batches_do_not_matter(seed, top, cuts):
    responses, labels = example(seed)
    whole = gathered(responses, labels, top=top)
    order = np.random.default_rng(seed).permutation(len(labels))
    in_parts, sum_of_parts = CoOccurrence(top=top), CoOccurrence(top=top)
    for rows in np.split(order, sorted(cuts)):
        in_parts.update(responses[rows], labels[rows])
        sum_of_parts = gathered(responses[rows], labels[rows], top=top) + sum_of_parts
    for table in (in_parts, sum_of_parts):
        assert table.classes == whole.classes
        np.testing.assert_allclose(table.mass, whole.mass, rtol=0, atol=0 if top is None else 1e-12)


def test_blocks_within_a_batch_do_not_matter(monkeypatch):
    whole = gathered(*example(3), top=3)
    monkeypatch.setattr(cooccurrence, "BLOCK", 7)
    np.testing.assert_allclose(gathered(*example(3), top=3).mass, whole.mass, atol=1e-12)


def test_counts_are_those_of_brute_force(digits):
    responses, labels = digits
    table = gathered(responses.astype(np.float32), labels)
    assert table.mass.sum(axis=0).tolist() == [float((labels == name).sum()) for name in table.classes]
    source, target = 12, table.classes.index("3")
    assert table.mass[source, target] == ((responses.argmax(axis=1) == source) & (labels == "3")).sum()


def test_digits_are_told_apart_from_pixels_alone(digits):
    responses, labels = digits
    centred = responses - responses.mean(axis=0)
    table = gathered(centred, labels)
    for mapping in (frequency_mapping(table), bayesian_mapping(table)):
        assert (mapping.predict(centred) == labels).mean() > 0.35  # by chance 0.1


def test_bad_batches_are_refused_and_change_nothing():
    table = gathered(*example(4))
    before = table.mass.copy()
    with pytest.raises(WidthError, match="width 5, but earlier ones had width 7"):
        table.update(np.zeros((1, 5)), ["new"])
    with pytest.raises(NonFiniteError, match="first at index 1"):
        table.update([[0.0] * 7, [np.nan] * 7], ["new", "new"])
    with pytest.raises(WidthError):
        table + gathered(np.zeros((1, 5)), ["a"])
    with pytest.raises(InputError, match="top=None, the other with top=2"):
        table + CoOccurrence(top=2)
    assert "new" not in table.classes
    np.testing.assert_array_equal(table.mass, before)


def test_empty_tables_are_named_as_such():
    with pytest.raises(InputError, match="no response"):
        frequency_mapping(CoOccurrence(["a"]))
    with pytest.raises(InputError, match="no response"):
        bayesian_mapping(CoOccurrence(["a"]) + CoOccurrence())
    with pytest.raises(InputError, match="at least 1"):
        CoOccurrence(top=0)


def test_adding_an_empty_table_adds_only_its_classes():
    table = gathered(*example(5, classes=2))
    both = CoOccurrence(["zebra"]) + table
    assert both.classes == ("class 0", "class 1", "zebra")
    np.testing.assert_array_equal(both.mass[:, :2], table.mass)
