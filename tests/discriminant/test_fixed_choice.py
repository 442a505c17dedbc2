"""A choice that is held gives the mapping of that choice, and leave-one-out answers that hardly differ."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from yoro.data.responses import ResponseBatch
from yoro.discriminant.evidence import Choice
from yoro.discriminant.fixed_choice import solve_fixed_choice, whitened
from yoro.discriminant.readings import Layout, Reading
from yoro.discriminant.statistics import ResponseStatistics
from yoro.model.gathered import Gathered
from yoro.model.model import known


def gathered_digits(count, readings):
    """Digits as responses: their pixels and random features of them, with noise so that every coordinate counts."""
    pixels, labels = load_digits(return_X_y=True)
    draw = np.random.default_rng(3)
    pixels = pixels[:count] + draw.normal(size=(count, 64))
    wide = np.maximum(pixels @ draw.normal(size=(64, 150)) / 20, 0) + 0.1 * draw.normal(size=(count, 150))
    layout = Layout((Reading("features", 150), Reading("logits", 64))[:readings])
    rows = np.column_stack([wide, pixels][:readings]).astype(np.float32)
    contents = [i.to_bytes(16, "little") for i in range(count)]
    gathered = Gathered.empty(8192, 0, layout)
    names = [str(label) for label in labels[:count]]
    gathered.add([ResponseBatch(rows, names, [""] * count, contents, names)])
    return gathered


@pytest.mark.parametrize("count", [70, 600])  # fewer than the coordinates, and more
@pytest.mark.parametrize("readings", [1, 2])
def test_held_is_what_the_choice_gives_by_its_spectrum(count, readings):
    gathered = gathered_digits(count, readings)
    mixture = known(gathered.statistics, gathered.reservoir.members(), "empirical", None)
    choice, exact = mixture.judge("loo")
    mapping, left_out = solve_fixed_choice(gathered.statistics, gathered.reservoir.members(), choice)
    rows = gathered.reservoir.members().responses
    wanted = mixture.mapping(choice)
    assert mapping(rows) == pytest.approx(wanted(rows), abs=1e-6 * np.abs(wanted(rows)).max())
    assert (left_out.rows == exact.rows).all()
    apart = left_out.scored.scores - exact.scored.scores
    apart -= apart.mean(axis=1, keepdims=True)  # scores are known up to a constant a row
    assert np.abs(apart).max() < np.ptp(exact.scored.scores, axis=1).max() * 10 / count  # the target moves by 1 / n
    same = left_out.scored.scores.argmax(axis=1) == exact.scored.scores.argmax(axis=1)
    assert same.mean() > 1 - 2 / count


def test_a_reading_that_says_nothing_is_not_solved_for():
    gathered = gathered_digits(70, 2)
    parts = Choice("loo", 0.3, 2.0, weight=1.0), Choice("loo", 0.3, 1.0, weight=0.0)
    choice = Choice("loo", 0.3, parts=parts)
    mapping, left_out = solve_fixed_choice(gathered.statistics, gathered.reservoir.members(), choice)
    assert not mapping.weights[150:].any()
    alone = solve_fixed_choice(
        gathered_digits(70, 1).statistics, gathered_digits(70, 1).reservoir.members(), Choice("loo", 0.3)
    )
    assert mapping.weights[:150] * 2.0 == pytest.approx(alone[0].weights)
    assert left_out.scored.scores * 2.0 == pytest.approx(alone[1].scored.scores)


def test_where_nothing_can_be_factorised_nothing_is_held():
    statistics = ResponseStatistics()
    statistics.update([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    assert whitened(statistics, 0.5) is None
    statistics.update([[0.0, 2.0]], ["a"])
    assert whitened(statistics, 0.5) is not None
    assert whitened(statistics, 0.0) is None
    gathered = gathered_digits(70, 2)
    assert (
        solve_fixed_choice(gathered.statistics, gathered.reservoir.members(), Choice("loo", 0.3)) is None
    )  # of one reading
