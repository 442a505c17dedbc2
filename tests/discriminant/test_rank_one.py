"""What is changed by few images is what a fit of those that are there then gives: choice, mapping, leave-one-out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.data.responses import ResponseBatch
from yoro.discriminant.evidence import Choice
from yoro.discriminant.rank_one import HeldSolution, ImageChange
from yoro.discriminant.readings import Layout, Reading
from yoro.discriminant.solve import solve_mapping
from yoro.model.gathered import Gathered
from yoro.model.model import known

WIDTHS, CLASSES, IMAGES = (24, 40), 4, 260
LAYOUT = Layout(tuple(Reading(f"r{i}", width) for i, width in enumerate(WIDTHS)))


def drawn():
    draw = np.random.default_rng(5)
    labels = draw.integers(0, CLASSES, IMAGES)
    parts = []
    for width in WIDTHS:
        spread = draw.normal(size=(width, width)) / np.sqrt(width)
        parts.append(0.7 * draw.normal(size=(CLASSES, width))[labels] + draw.normal(size=(IMAGES, width)) @ spread)
    return np.concatenate(parts, axis=1).astype(np.float32), [f"class {label}" for label in labels]


ROWS, LABELS = drawn()


def gathered_of(photos):
    """What a fit gathers of images, a table of their labels."""
    order = sorted(photos)
    contents = [i.to_bytes(16, "little") for i in order]
    labels = [photos[i] for i in order]
    gathered = Gathered.empty(8192, 0, LAYOUT)
    gathered.add([ResponseBatch(ROWS[order], labels, None, contents, labels)])
    return gathered


def known_of(gathered):
    return known(gathered.statistics, gathered.reservoir.members(), "empirical", None)


def held_of(photos):
    return HeldSolution.of(known_of(gathered_of(photos)).with_turned())


def changes_between(before, after):
    come = [ImageChange(1, ROWS[i], label) for i, label in sorted(after.items() - before.items())]
    return come + [ImageChange(-1, ROWS[i], label) for i, label in sorted(before.items() - after.items())]


def levelled(scores):
    return scores - scores.mean(axis=1, keepdims=True)


def check_as_a_fit(held, before, after):
    """Compare all that a solve gives with one of the images that are there now."""
    gathered, changes = gathered_of(after), changes_between(before, after)
    mixture = held.after(changes, gathered.statistics, gathered.reservoir.members(), "empirical")
    fresh = known_of(gathered)
    choice, left_out = mixture.judge("loo")
    wanted, expected = fresh.judge("loo")
    assert [part.shrinkage for part in choice.parts] == [part.shrinkage for part in wanted.parts]
    assert [part.candidates for part in choice.parts] == [part.candidates for part in wanted.parts]
    weights = [part.weight for part in wanted.parts]
    assert [part.weight for part in choice.parts] == pytest.approx(weights, abs=1e-9)
    assert choice.temperature == pytest.approx(wanted.temperature, rel=1e-9)
    np.testing.assert_array_equal(left_out.rows, expected.rows)
    scale = np.abs(levelled(expected.scored.scores)).max()
    np.testing.assert_allclose(levelled(left_out.scored.scores), levelled(expected.scored.scores), atol=1e-9 * scale)
    answers, right = levelled(mixture.mapping(choice)(ROWS)), levelled(fresh.mapping(wanted)(ROWS))
    np.testing.assert_allclose(answers, right, atol=1e-9 * np.abs(right).max())
    at_once = held.mapping(changes, wanted, "empirical")
    if at_once is not None:
        np.testing.assert_allclose(levelled(at_once(ROWS)), right, atol=1e-9 * np.abs(right).max())
    return at_once


@pytest.fixture(scope="module", params=[36, 220], ids=["fewer than the coordinates", "more"])
def held(request):
    photos = dict(enumerate(LABELS[: request.param]))
    return held_of(photos), photos


@st.composite
def edits(draw):
    """Images that come, go and get another label, perhaps a new one, one after another."""
    places, names = st.integers(0, IMAGES - 1), st.sampled_from([f"class {i}" for i in range(CLASSES)] + ["new"])
    return draw(st.lists(st.tuples(places, st.none() | names), min_size=1, max_size=14))


@given(steps=edits())
def test_any_sequence_of_changes_settles_to_what_a_fit_gives(held, steps):
    solution, before = held
    after = before.copy()
    for place, name in steps:
        after = {**after, place: name} if name else {i: label for i, label in after.items() if i != place}
    if after != before:
        check_as_a_fit(solution, before, after)


def test_a_class_that_loses_its_last_image_and_one_that_gets_its_first(held):
    solution, before = held
    gone = {i: label for i, label in before.items() if label != "class 2"}
    assert check_as_a_fit(solution, before, gone) is None  # at once there is no such mapping
    assert check_as_a_fit(solution, before, {**before, 250: "new", 251: "new", 252: "newer"}) is None


def test_what_nearly_all_the_spread_came_from_is_solved_anew():
    photos = dict(enumerate(LABELS[:60]))
    far = {**photos, 300: "class 1"}
    rows = np.concatenate([ROWS, np.full((41, ROWS.shape[1]), 1e4, dtype=np.float32)])
    gathered = Gathered.empty(8192, 0, LAYOUT)
    labels = list(far.values())
    gathered.add([ResponseBatch(rows[list(far)], labels, None, [i.to_bytes(16, "little") for i in far], labels)])
    solution = HeldSolution.of(known_of(gathered).with_turned())
    changes, now = [ImageChange(-1, rows[300], "class 1")], gathered_of(photos)
    assert solution.after(changes, now.statistics, now.reservoir.members(), "empirical") is None


def test_a_silent_reading_stays_silent(held):
    solution, before = held
    parts = Choice("loo", 0.2, 2.0, weight=1.0), Choice("loo", 0.2, 1.0, weight=0.0)
    after = {i: label for i, label in before.items() if i}
    mapping = solution.mapping(changes_between(before, after), Choice("loo", 0.2, parts=parts), "empirical")
    assert not mapping.weights[WIDTHS[0] :].any()
    alone = solve_mapping(gathered_of(after).statistics.parts[0], 0.2)
    right = levelled(alone(ROWS[:, : WIDTHS[0]]))
    np.testing.assert_allclose(2.0 * levelled(mapping(ROWS)), right, atol=1e-9 * np.abs(right).max())


def test_a_prior_of_equal_classes_is_kept(held):
    solution, before = held
    after, choice = {**before, 240: "class 0", 241: "class 0"}, Choice("loo", 0.3)
    parts = tuple(Choice("loo", 0.3, 1.0, weight=0.5) for _ in WIDTHS)
    mapping = solution.mapping(changes_between(before, after), Choice("loo", 0.3, parts=parts), "uniform")
    gathered = gathered_of(after)
    fresh = known(gathered.statistics, gathered.reservoir.members(), "uniform", None)
    right = levelled(fresh.mapping(Choice("loo", 0.3, parts=parts))(ROWS))
    np.testing.assert_allclose(levelled(mapping(ROWS)), right, atol=1e-9 * np.abs(right).max())
    assert solution.mapping([], choice, "uniform") is None  # a choice of one reading
