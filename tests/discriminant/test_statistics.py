from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro import ResponseStatistics
from yoro.discriminant.solve import solve_mapping
from yoro.errors import InputError, NonFiniteError, StatisticsError, StoreError, WidthError
from yoro.mappings.batches import refuse_non_finite


def gathered(responses, labels, weights=None) -> ResponseStatistics:
    statistics = ResponseStatistics()
    statistics.update(responses, labels, weights)
    return statistics


def same(one: ResponseStatistics, two: ResponseStatistics, tolerance: float = 1e-10) -> None:
    assert one.classes == two.classes
    np.testing.assert_allclose(one.counts, two.counts, rtol=tolerance)
    scale = max(1.0, np.abs(two.means).max(initial=0))
    np.testing.assert_allclose(one.means, two.means, atol=tolerance * scale)
    scale = max(np.abs(two.scatter).max(initial=0), 1e-300)
    np.testing.assert_allclose(one.scatter / scale, two.scatter / scale, atol=tolerance)


def example(seed: int, n: int = 60, width: int = 5, classes: int = 4, offset: float = 0.0):
    rng = np.random.default_rng(seed)
    labels = np.array([f"class {i}" for i in rng.integers(0, classes, n)])
    return rng.normal(size=(n, width)) + offset, labels


def test_counts_means_and_scatter_are_those_of_brute_force(digits):
    responses, labels = digits
    statistics = gathered(responses, labels)
    scatter = np.zeros((64, 64))
    for i, name in enumerate(statistics.classes):
        mine = responses[labels == name]
        assert statistics.counts[i] == len(mine)
        np.testing.assert_allclose(statistics.means[i], mine.mean(axis=0), atol=1e-12)
        scatter += (mine - mine.mean(axis=0)).T @ (mine - mine.mean(axis=0))
    np.testing.assert_allclose(statistics.scatter, scatter, rtol=1e-10, atol=1e-7)
    assert statistics.total == 1797
    assert statistics.degrees == 1787


@given(st.integers(0, 10**6), st.lists(st.integers(0, 60), max_size=6), st.randoms())
def test_order_and_batching_do_not_matter(seed, cuts, random):
    responses, labels = example(seed)
    whole = gathered(responses, labels)
    order = list(range(len(labels)))
    random.shuffle(order)
    parts = ResponseStatistics()
    edges = [0, *sorted(cuts), len(labels)]
    for start, stop in itertools.pairwise(edges):
        rows = order[start:stop]
        if rows:
            parts.update(responses[rows], labels[rows])
    same(parts, whole)


@given(st.integers(0, 10**6), st.lists(st.integers(0, 5), min_size=60, max_size=60))
def test_any_merge_tree_gives_the_whole(seed, owners):
    responses, labels = example(seed)
    owners = np.array(owners)
    shards = [gathered(responses[owners == o], labels[owners == o]) for o in range(6) if (owners == o).any()]
    whole = gathered(responses, labels)
    left = ResponseStatistics()
    for shard in shards:
        left = left + shard
    right = ResponseStatistics()
    for shard in reversed(shards):
        right = shard + right
    same(left, whole)
    same(right, whole)


@given(st.integers(0, 10**6), st.sets(st.integers(0, 59), max_size=59))
def test_adding_then_removing_leaves_what_was_there(seed, gone):
    responses, labels = example(seed)
    gone = np.isin(np.arange(60), list(gone))
    left = gathered(responses, labels)
    if gone.any():
        left.remove(responses[gone], labels[gone])
        same(gathered(responses, labels) - gathered(responses[gone], labels[gone]), left, 0)
    same(left, gathered(responses[~gone], labels[~gone]), 1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4])
def test_mapping_is_the_same_by_every_route_also_far_from_zero(offset):
    responses, labels = example(3, n=400, width=12, offset=offset)
    reference = solve_mapping(gathered(responses, labels), 0.1)
    halves = gathered(responses[::2], labels[::2]) + gathered(responses[1::2], labels[1::2])
    again = gathered(responses, labels)
    extra, names = example(4, n=100, width=12, offset=offset)
    again.update(extra, names)
    again.remove(extra, names)
    batched = ResponseStatistics()
    for i in range(0, 400, 7):
        batched.update(responses[::-1][i : i + 7], labels[::-1][i : i + 7])
    for other in (halves, again, batched):
        mapping = solve_mapping(other, 0.1)
        scale = np.abs(reference.weights).max()
        np.testing.assert_allclose(mapping.weights / scale, reference.weights / scale, atol=1e-9)
        np.testing.assert_allclose(mapping.bias, reference.bias, rtol=1e-9)


def test_responses_shifted_by_ten_thousand_give_the_same_decisions(digits):
    responses, labels = digits
    near = solve_mapping(gathered(responses, labels), 0.1).predict(responses)
    far = solve_mapping(gathered(responses + 1e4, labels), 0.1).predict(responses + 1e4)
    assert (near == far).all()


@given(st.integers(0, 10**6), st.lists(st.integers(0, 3), min_size=60, max_size=60).filter(any))
def test_weights_are_frequencies(seed, weights):
    responses, labels = example(seed)
    same(gathered(responses, labels, weights), gathered(np.repeat(responses, weights, 0), np.repeat(labels, weights)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "F", "strided"])
def test_types_and_layouts_are_taken_as_they_come(dtype, layout):
    responses, labels = example(1)
    given_ = np.asarray(responses, dtype=dtype, order="F" if layout == "F" else "C")
    if layout == "strided":
        room = np.zeros((120, 10), dtype=dtype)
        room[::2, ::2] = given_
        given_ = room[::2, ::2]
    same(gathered(given_, labels), gathered(given_.astype(np.float64, order="C"), labels))


def test_large_half_precision_responses_do_not_overflow():
    responses = np.array([[60000.0, -60000.0], [50000.0, -50000.0]], dtype=np.float16)
    assert np.isfinite(gathered(responses, ["a", "a"]).scatter).all()


def test_the_papers_moments_come_and_go(digits):
    responses, labels = digits
    statistics = gathered(responses, labels)
    counts, sums, second = statistics.to_moments()
    np.testing.assert_allclose(second, responses.T @ responses, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(sums[3], responses[labels == "3"].sum(axis=0), atol=1e-9)
    same(ResponseStatistics.from_moments(counts, sums, second, statistics.classes), statistics, 1e-9)
    shuffled = [3, 1, 2, 0, 4, 5, 6, 7, 9, 8]
    names = [statistics.classes[i] for i in shuffled]
    same(ResponseStatistics.from_moments(counts[shuffled], sums[shuffled], second, names), statistics, 1e-9)


def test_classes_grow_and_are_matched_by_name():
    statistics = gathered([[1.0], [2.0]], ["b", "b"])
    statistics.update([[5.0]], ["a"])
    assert statistics.classes == ("a", "b")
    assert statistics.means.tolist() == [[5.0], [1.5]]
    assert gathered([[1.0]], [3]).classes == ("3",)


def test_a_class_named_beforehand_is_kept_without_data():
    statistics = ResponseStatistics(["z", "a"])
    statistics.update([[1.0], [2.0]], ["a", "a"])
    assert statistics.classes == ("a", "z")
    assert statistics.counts.tolist() == [2.0, 0.0]
    assert statistics.degrees == 1.0


def test_a_class_emptied_by_removal_disappears():
    statistics = gathered([[1.0], [2.0], [9.0]], ["a", "a", "b"])
    statistics.remove([[9.0]], ["b"])
    assert statistics.classes == ("a",)


def test_renaming_and_joining_classes_equals_relabelled_data(digits):
    responses, labels = digits
    joined = gathered(responses, labels).rename({"1": "odd", "3": "odd", "0": "zero"})
    new = np.where(np.isin(labels, ["1", "3"]), "odd", np.where(labels == "0", "zero", labels))
    same(joined, gathered(responses, new), 1e-10)


def test_saving_and_loading_changes_nothing(tmp_path, digits):
    statistics = gathered(*digits)
    statistics.save(tmp_path / "s.safetensors")
    same(ResponseStatistics.load(tmp_path / "s.safetensors"), statistics, 0)
    (tmp_path / "s.safetensors").write_bytes((tmp_path / "s.safetensors").read_bytes()[:-100])
    with pytest.raises(StoreError, match="damaged"):
        ResponseStatistics.load(tmp_path / "s.safetensors")


def test_non_finite_rows_are_refused_with_their_count_and_first_index():
    responses = np.ones((10, 3))
    responses[4, 1], responses[7, 2] = np.nan, np.inf
    statistics = gathered(np.ones((2, 3)), ["a", "b"])
    with pytest.raises(NonFiniteError, match=r"2 of 10 .* first at index 4"):
        statistics.update(responses, ["new"] * 10)
    same(statistics, gathered(np.ones((2, 3)), ["a", "b"]), 0)
    many = np.ones((3000, 3))
    many[2999, 0] = np.inf
    with pytest.raises(NonFiniteError, match=r"1 of 3000 .* first at index 2999"):
        statistics.update(many, ["new"] * 3000)
    same(statistics, gathered(np.ones((2, 3)), ["a", "b"]), 0)
    empty = ResponseStatistics()
    with pytest.raises(NonFiniteError):
        empty.update(responses, ["a"] * 10)
    assert (empty.width, empty.classes) == (0, ())


@pytest.mark.parametrize(
    ("part", "number"), [("means", 1e308), ("means", np.nan), ("counts", 1e300), ("scatter", 1e200)]
)
def test_numbers_that_sums_cannot_carry_are_refused_when_statistics_are_read(part, number):
    statistics = ResponseStatistics()
    statistics.update(np.eye(3, 9), ["a", "a", "b"])
    arrays = statistics.to_arrays()
    arrays[part].flat[0] = number
    with pytest.raises(InputError, match="must be finite and within"):
        ResponseStatistics.from_arrays(arrays, statistics.classes)


def test_infinities_of_both_signs_are_refused_without_a_warning():
    with pytest.raises(NonFiniteError, match="1 of 2 responses"):
        refuse_non_finite(np.array([[1e308, -1e308, 1e308, 1e308, -np.inf, np.inf], [0.0] * 6]))


def test_another_width_is_an_error_that_says_both():
    statistics = gathered(np.ones((2, 1000)), ["a", "b"])
    with pytest.raises(WidthError, match=r"width 7, .* width 1000"):
        statistics.update(np.ones((2, 7)), ["a", "b"])
    with pytest.raises(WidthError, match="1000 and 7"):
        _ = statistics + gathered(np.ones((2, 7)), ["a", "b"])


@pytest.mark.parametrize(
    ("responses", "labels", "weights", "message"),
    [
        (np.ones((2, 3)), ["a"], None, "2 responses but labels of shape"),
        (np.ones(3), ["a"] * 3, None, "expected \\(batch, width\\)"),
        ([["x"]], ["a"], None, "expected real numbers"),
        (np.ones((2, 3)), ["a", "b"], [1.0], "weights of shape"),
        (np.ones((2, 3)), ["a", "b"], [1.0, -1.0], "not negative"),
    ],
)
def test_bad_batches_say_what_came(responses, labels, weights, message):
    with pytest.raises(InputError, match=message):
        gathered(responses, labels, weights)


def test_removing_what_was_never_added_is_an_error():
    responses, labels = example(0)
    statistics = gathered(responses, labels)
    with pytest.raises(StatisticsError, match="ever added"):
        statistics.remove(responses[:1], ["nobody"])
    with pytest.raises(StatisticsError, match=r"holds .* examples"):
        statistics.remove(np.tile(responses[:1], (50, 1)), [labels[0]] * 50)
    with pytest.raises(StatisticsError, match="negative scatter"):
        statistics.remove(responses[:1] + 1e6, labels[:1])
    same(statistics, gathered(responses, labels), 0)
