from __future__ import annotations

import numpy as np
import pytest

from yoro import ResponseStatistics
from yoro.discriminant.selection import PAPER_GRID
from yoro.discriminant.solve import solve_mapping
from yoro.errors import SelectionError
from yoro.research.peers.coordinate_selection import (
    ADAPTIVE,
    CONDITIONAL,
    between_scatter,
    first_share,
    narrow,
    order_coordinates,
    select_retention,
    shrunk_scatter,
    solve_retained,
)


def gathered(responses, labels) -> ResponseStatistics:
    statistics = ResponseStatistics()
    statistics.update(responses, labels)
    return statistics


def left_of(matrix, j, taken):
    """Schur complement of coordinate j given those taken, by a plain solve."""
    if not taken:
        return matrix[j, j]
    cross = matrix[np.ix_(taken, [j])]
    return (matrix[j, j] - cross.T @ np.linalg.solve(matrix[np.ix_(taken, taken)], cross)).item()


@pytest.mark.parametrize("rho", [0.01, 0.3])
def test_the_order_equals_brute_force_schur_complements(digits, rho):
    responses, labels = digits
    statistics = gathered(responses[:, 18:38], labels)
    within = shrunk_scatter(statistics, rho)
    total = within + between_scatter(statistics)
    taken: list[int] = []
    for _ in range(20):
        gains = [
            -np.inf if j in taken else np.log(left_of(total, j, taken) / left_of(within, j, taken)) for j in range(20)
        ]
        taken.append(int(np.argmax(gains)))
    assert order_coordinates(statistics, rho).tolist() == taken


@pytest.mark.parametrize("rho", [0.01, 0.3])
@pytest.mark.parametrize("sentences", [30, 90])
def test_over_texts_the_order_and_the_mapping_are_those_of_the_explicit_similarities(digits, rho, sentences):
    vectors, labels = digits[0][:, 18:58], digits[1]
    texts = np.random.default_rng(0).normal(size=(sentences, 40))
    small, large = gathered(vectors, labels), gathered(vectors @ texts.T, labels)
    order = order_coordinates(large, rho)
    np.testing.assert_array_equal(order_coordinates(small, rho, texts), order)
    columns = first_share(order, 0.8)
    one, two = solve_retained(small, columns, rho, texts), solve_retained(large, columns, rho)
    np.testing.assert_allclose(one(vectors), two(vectors @ texts.T), rtol=1e-6, atol=1e-6)
    held = vectors[:200], labels[:200]
    chosen = select_retention(small, held, texts=texts)
    explicit = select_retention(large, (held[0] @ texts.T, held[1]))
    np.testing.assert_array_equal(chosen.columns, explicit.columns)
    assert (chosen.share, chosen.shrinkage, chosen.correct) == (explicit.share, explicit.shrinkage, explicit.correct)


def test_total_is_within_plus_between(digits):
    responses, labels = digits
    statistics = gathered(responses, labels)
    centred = responses - responses.mean(axis=0)
    np.testing.assert_allclose(shrunk_scatter(statistics, 0.0) + between_scatter(statistics), centred.T @ centred)


def test_a_coordinate_that_others_determine_comes_last(digits):
    responses, labels = digits
    some = responses[:, 18:28]
    copied = np.concatenate([some, some[:, :1]], axis=1)  # the last repeats the first
    order = order_coordinates(gathered(copied, labels), 0.0).tolist()
    assert order[-1] in (0, 10)
    assert sorted(order) == list(range(11))


def test_the_order_does_not_depend_on_batches(digits):
    responses, labels = digits
    halves = gathered(responses[:900], labels[:900]) + gathered(responses[900:], labels[900:])
    np.testing.assert_array_equal(order_coordinates(halves, 0.1), order_coordinates(gathered(responses, labels), 0.1))


def test_narrowed_statistics_are_those_of_the_narrowed_responses(digits):
    responses, labels = digits
    columns = np.array([3, 20, 44])
    one, two = narrow(gathered(responses, labels), columns), gathered(responses[:, columns], labels)
    np.testing.assert_allclose(one.scatter, two.scatter)
    np.testing.assert_allclose(one.means, two.means)


def test_the_mapping_over_all_coordinates_scores_as_the_narrow_one(digits):
    responses, labels = digits
    columns = np.arange(5, 60, 2)
    wide = solve_retained(gathered(responses, labels), columns, 0.1)
    narrow_mapping = solve_mapping(gathered(responses[:, columns], labels), 0.1)
    np.testing.assert_allclose(wide(responses), narrow_mapping(responses[:, columns]), atol=1e-8)
    assert wide.width == 64


def test_the_share_is_rounded_up():
    assert len(first_share(np.arange(1000), 0.95)) == 950
    assert len(first_share(np.arange(64), 0.95)) == 61
    assert len(first_share(np.arange(64), 1.0)) == 64


def test_the_choice_has_most_right_answers_and_ties_go_to_more_coordinates_then_less_shrinkage(digits):
    responses, labels = digits
    statistics = gathered(responses[:300], labels[:300])
    held = responses[300:420], labels[300:420]
    chosen = select_retention(statistics, held)
    rows = []
    for rho in PAPER_GRID:
        order = order_coordinates(statistics, rho)
        for share in ADAPTIVE:
            mapping = solve_retained(statistics, first_share(order, share), rho)
            rows.append((int((mapping.predict(held[0]) == held[1]).sum()), share, -rho))
    assert (chosen.correct, chosen.share, -chosen.shrinkage) == max(rows)
    assert select_retention(statistics, held, CONDITIONAL).share == 0.95


def test_nothing_to_choose_from_is_an_error(digits):
    statistics = gathered(*digits)
    with pytest.raises(SelectionError, match="No share"):
        select_retention(statistics, digits, ())


def test_an_order_made_once_is_that_of_the_shrinkage_chosen_for_the_whole_response(digits):
    responses, labels = digits[0][:, 18:38], digits[1]
    statistics, held = gathered(responses[:60], labels[:60]), (responses[60:120], labels[60:120])
    whole = select_retention(statistics, held, (1.0,))
    found = select_retention(statistics, held, (0.5,), once=True)
    kept = first_share(order_coordinates(statistics, whole.shrinkage), 0.5)
    np.testing.assert_array_equal(found.columns, kept)
    right = [(solve_retained(statistics, kept, rho).predict(held[0]) == held[1]).sum() for rho in PAPER_GRID]
    assert found.correct == max(right)
    assert found.shrinkage == PAPER_GRID[int(np.argmax(right))]
