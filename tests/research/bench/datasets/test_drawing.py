from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.data.examples import Dataset, Example
from yoro.errors import InputError
from yoro.research.bench.datasets.drawing import draw

PIXEL = np.zeros((1, 1), np.uint8)


def make(train: dict[str, int], val: dict[str, int], test: dict[str, int], *, track: int = 3) -> Dataset:
    """Examples by split and class; every `track` in a row of train are one group."""
    return Dataset(
        tuple(
            Example(PIXEL, label, f"{split}/{label}/{i}", f"{label}/{i // track}" if split == "train" else None, split)
            for split, classes in (("train", train), ("val", val), ("test", test))
            for label, count in classes.items()
            for i in range(count)
        )
    )


def names(examples) -> set[str]:
    return {example.name for example in examples}


def by_class(examples) -> Counter[str]:
    return Counter(example.label for example in examples)


classes = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 40), min_size=1)


@given(
    train=classes,
    test=classes,
    own=st.booleans(),
    seed=st.integers(0, 5),
    shots=st.none() | st.integers(1, 20),
    grouped=st.booleans(),
    shuffle=st.randoms(use_true_random=False),
)
def test_draws_are_disjoint_and_do_not_depend_on_order(train, test, own, seed, shots, grouped, shuffle):
    dataset = make(train, train if own else {}, test)
    drawn = draw(dataset, seed=seed, shots=shots, grouped=grouped)
    parts = [names(drawn.train), names(drawn.val), names(drawn.test)]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]
    assert set(by_class(drawn.train)) == set(train)  # no class is lost
    assert {example.split for example in drawn.val} <= ({"val"} if own else {"train"})
    turned = list(dataset)
    shuffle.shuffle(turned)
    assert draw(Dataset(tuple(turned)), seed=seed, shots=shots, grouped=grouped) == drawn
    if shots is None and not own and grouped:
        held = {example.group for example in drawn.val}
        assert held.isdisjoint(example.group for example in drawn.train)


@given(train=classes, seed=st.integers(0, 5))
def test_a_tenth_of_each_class_is_held_out_and_the_rest_is_fitted(train, seed):
    drawn = draw(make(train, {}, {"a": 1}), seed=seed)
    assert by_class(drawn.val) == Counter(
        {label: min(int(0.1 * n + 0.5), n - 1) for label, n in train.items() if int(0.1 * n + 0.5) and n > 1}
    )
    assert len(drawn.train) + len(drawn.val) == sum(train.values())


@pytest.mark.parametrize("shots", [1, 2, 4, 16])
def test_few_shots_are_validated_on_at_most_four_a_class(shots):
    drawn = draw(make({"a": 40, "b": 40}, {"a": 10, "b": 3}, {"a": 5}), seed=1, shots=shots)
    assert by_class(drawn.train) == {"a": shots, "b": shots}
    assert by_class(drawn.val) == {"a": min(shots, 4), "b": min(shots, 3)}
    assert len(drawn.test) == 5


def test_every_seed_is_tested_on_the_same_images_but_fitted_on_others():
    dataset = make({"a": 40, "b": 40}, {}, {"a": 40, "b": 40})
    limit = {"train": 8, "val": 2, "test": 5}
    one, other = (draw(dataset, seed=seed, limit=limit) for seed in (1, 2))
    assert one.test == other.test
    assert names(one.train) != names(other.train)
    assert [by_class(part) for part in (one.train, one.val, one.test)] == [
        {"a": 8, "b": 8}, {"a": 2, "b": 2}, {"a": 5, "b": 5},
    ]  # fmt: skip


def test_without_grouping_tracks_are_divided_as_in_the_paper():
    dataset = make({"a": 90}, {}, {"a": 1}, track=30)
    drawn = draw(dataset, seed=0)
    assert {e.group for e in drawn.val} & {e.group for e in drawn.train}


def test_a_dataset_without_a_split_to_fit_or_test_is_an_error():
    with pytest.raises(InputError, match=r"no test images; its splits are train"):
        draw(make({"a": 3}, {}, {}), seed=0)
    with pytest.raises(InputError, match=r"no train images"):
        draw(make({}, {}, {"a": 3}), seed=0)
    with pytest.raises(InputError, match=r"no test images; its splits are unnamed"):
        draw(Dataset((Example(PIXEL, "a", "x"),)), seed=0)


@pytest.mark.parametrize("limit", [{"train": 0}, {"dev": 3}, {"test": True}, {"test": 1.5}])
def test_an_odd_limit_is_an_error(limit):
    with pytest.raises(InputError, match="limit"):
        draw(make({"a": 3}, {}, {"a": 3}), seed=0, limit=limit)
