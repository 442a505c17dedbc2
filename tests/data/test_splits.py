from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.data.splits import describe_hold_out, few_shot, hold_out
from yoro.errors import InputError

LABELS = st.lists(st.sampled_from("abcdé"), min_size=1, max_size=60)
PAIRS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("pqrstuvw")), min_size=1, max_size=60)
FRACTIONS = st.floats(0.01, 0.99)
SEEDS = st.integers(0, 2**32)


@given(LABELS, FRACTIONS, SEEDS)
def test_every_image_is_kept_or_held_and_each_class_stays(labels: list[str], fraction: float, seed: int) -> None:
    kept, held = hold_out(labels, fraction, seed)
    assert sorted([*kept, *held]) == list(range(len(labels)))
    assert {labels[i] for i in kept} == set(labels)
    counts, out = Counter(labels), Counter(labels[i] for i in held)
    assert all(out[c] == min(int(fraction * n + 0.5), n - 1) for c, n in counts.items())


@given(LABELS, FRACTIONS, SEEDS)
def test_the_same_seed_gives_the_same_draw(labels: list[str], fraction: float, seed: int) -> None:
    first, second = hold_out(labels, fraction, seed), hold_out(labels, fraction, seed)
    assert np.array_equal(first[1], second[1])


@given(LABELS, FRACTIONS, SEEDS, st.randoms(use_true_random=False), st.booleans())
def test_with_names_the_order_of_the_images_does_not_matter(
    labels: list[str], fraction: float, seed: int, random: object, grouped: bool
) -> None:
    names = [f"{i:03d}.jpg" for i in range(len(labels))]
    groups = [f"g{i % 4}" if i % 5 else None for i in range(len(labels))] if grouped else None
    order = list(range(len(labels)))
    random.shuffle(order)  # type: ignore[attr-defined]
    moved_groups = [groups[i] for i in order] if groups else None
    _, held = hold_out(labels, fraction, seed, groups, names=names)
    _, moved = hold_out([labels[i] for i in order], fraction, seed, moved_groups, names=[names[i] for i in order])
    assert {names[i] for i in held} == {names[order[i]] for i in moved}
    few = few_shot(labels, 2, seed, names=names)
    moved_few = few_shot([labels[i] for i in order], 2, seed, names=[names[i] for i in order])
    assert {names[i] for i in few} == {names[order[i]] for i in moved_few}


@given(LABELS, FRACTIONS, SEEDS)
def test_another_class_changes_nothing_for_the_others(labels: list[str], fraction: float, seed: int) -> None:
    _, held = hold_out(labels, fraction, seed)
    _, more = hold_out([*labels, "z", "z", "z"], fraction, seed)
    assert list(held) == [i for i in more if i < len(labels)]


@given(PAIRS, FRACTIONS, SEEDS)
def test_groups_are_never_divided(pairs: list[tuple[str, str]], fraction: float, seed: int) -> None:
    labels, groups = [label for label, _ in pairs], [group for _, group in pairs]
    kept, held = hold_out(labels, fraction, seed, groups)
    assert not {groups[i] for i in kept} & {groups[i] for i in held}
    assert {labels[i] for i in kept} == set(labels)
    assert sorted([*kept, *held]) == list(range(len(labels)))


def test_with_groups_the_fraction_is_nearly_met() -> None:
    labels = ["a"] * 100 + ["b"] * 100
    groups = [f"{i // 4}" for i in range(200)]
    for seed in range(10):
        _, held = hold_out(labels, 0.2, seed, groups)
        counts = Counter(labels[i] for i in held)
        assert abs(counts["a"] - 20) <= 2
        assert abs(counts["b"] - 20) <= 2


def test_groups_that_are_all_none_are_no_groups() -> None:
    labels = ["a"] * 10
    assert np.array_equal(hold_out(labels, 0.3, 1)[1], hold_out(labels, 0.3, 1, [None] * 10)[1])


def test_another_seed_gives_another_draw() -> None:
    labels = ["a"] * 100
    assert not np.array_equal(hold_out(labels, 0.5, 0)[1], hold_out(labels, 0.5, 1)[1])


def test_a_class_of_one_image_is_never_held_out() -> None:
    for seed in range(20):
        kept, held = hold_out(["a", "b", "b"], 0.9, seed)
        assert 0 in kept
        assert len(held) == 1


@given(LABELS, st.integers(1, 8), SEEDS)
def test_few_shot_draws_k_of_each_class_or_all_there_are(labels: list[str], k: int, seed: int) -> None:
    drawn = few_shot(labels, k, seed)
    assert len(set(drawn)) == len(drawn)
    counts = Counter(labels[i] for i in drawn)
    assert counts == {label: min(k, n) for label, n in Counter(labels).items()}


@given(LABELS, st.integers(1, 8), SEEDS)
def test_fewer_shots_are_among_more_shots(labels: list[str], k: int, seed: int) -> None:
    assert set(few_shot(labels, k, seed)) <= set(few_shot(labels, k + 1, seed))


def test_the_sentence_says_what_was_done() -> None:
    labels = ["a"] * 40 + ["b"] * 40 + ["c"] * 40
    kept, held = hold_out(labels, 0.2, 0)
    expected = "3 classes, 120 images, no validation split given: 96 for fitting, 24 held out, seed 0."
    assert describe_hold_out(labels, kept, held, 0) == expected


def test_senseless_requests_are_refused() -> None:
    for fraction in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="between 0 and 1"):
            hold_out(["a"], fraction, 0)
    with pytest.raises(InputError, match="at least one"):
        few_shot(["a"], 0, 0)
    with pytest.raises(InputError, match="1 groups for 2 labels"):
        hold_out(["a", "a"], 0.5, 0, ["g"])
    assert len(few_shot([], 1, 0)) == 0


def test_the_draw_is_the_same_on_every_machine() -> None:
    assert hold_out(["a"] * 10 + ["b"] * 10, 0.2, 0)[1].tolist() == [2, 8, 12, 16]
