"""The desk without a page: a simulated person who knows the truth, on made-up clusters."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from yoro.desk.app import _proposed
from yoro.desk.desk import OUT, Desk
from yoro.desk.grouping import best_count, compared_space, group_alike
from yoro.desk.proposals import Pile, Proposals
from yoro.discriminant.readings import Layout
from yoro.errors import InputError
from yoro.mappings.batches import row_digests

CLASSES, EACH, WIDTH = 6, 20, 24


def clusters(spread: float = 0.5, seed: int = 0) -> tuple[Pile, list[str]]:
    """Responses around a centre for each class, shuffled, and their classes."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(CLASSES), EACH))
    centres = rng.normal(size=(CLASSES, WIDTH))
    rows = centres[truth] + spread * rng.normal(size=(len(truth), WIDTH))
    pile = Pile(Layout.of(WIDTH), rows, row_digests(rows), [f"{i}.jpg" for i in range(len(truth))])
    return pile, [f"class {label}" for label in truth]


@pytest.fixture
def pile():
    return clusters()


def name_all(desk: Desk, truth: list[str]) -> None:
    """Name every group by what most of its photos are, and throw the others out."""
    for group, rows in desk.groups().items():
        label = Counter(truth[row] for row in rows).most_common(1)[0][0]
        desk.name(group, label)
        if strangers := [row for row in rows if truth[row] != label]:
            desk.throw_out(group, strangers)


def test_the_number_of_groups_is_that_of_the_clusters(pile):
    space = compared_space(pile[0].layout, pile[0].responses)
    assert best_count(space) == CLASSES
    assert len(set(zip(group_alike(space).tolist(), pile[1], strict=True))) == CLASSES


def test_the_same_pile_has_the_same_groups(pile):
    assert Desk(pile[0]).first_groups == Desk(pile[0]).first_groups


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_a_pile_of_a_few_photos_has_groups_too(pile, count):
    few = Pile(pile[0].layout, pile[0].responses[:count], pile[0].digests[:count], pile[0].names[:count])
    assert sum(map(len, Desk(few).groups().values())) == count


def test_photos_that_are_all_the_same_are_one_group(pile):
    rows = np.ones((20, WIDTH))
    desk = Desk(Pile(pile[0].layout, rows, [bytes([i]) * 16 for i in range(20)], [str(i) for i in range(20)]))
    (group,) = desk.groups()
    with pytest.raises(InputError, match="all the same"):
        desk.split(group)


def test_a_person_labels_a_pile_with_few_decisions():
    pile, truth = clusters(spread=1.0)
    desk = Desk(pile)
    name_all(desk, truth)
    proposals = desk.proposals()
    assert not set(proposals.rows) & {row for row, label in enumerate(desk.labels) if label is not None}
    if len(proposals.rows):
        desk.accept(proposals.rows)
    assert None not in desk.labels
    assert np.mean([a == b for a, b in zip(desk.labels, truth, strict=True)]) >= 0.95
    assert desk.decisions <= 3 * CLASSES + 2


def test_a_label_that_was_thrown_out_is_not_proposed_again(pile):
    desk = Desk(pile[0])
    groups = list(desk.groups())
    first, second = groups[:2]
    inside = desk.members(first)
    desk.throw_out(first, inside[:2])  # before the group has a name
    desk.name(first, "a")
    desk.throw_out(first, [inside[2]])
    desk.name(second, "b")
    proposals = desk.proposals()
    proposed = dict(zip(proposals.rows.tolist(), proposals.labels, strict=True))
    assert {proposed[row] for row in inside[:3]} == {"b"}
    desk.refuse([desk.rest()[-1]])
    assert desk.places[desk.rest()[-1]].refused


def test_splitting_and_joining_are_each_others_opposite(pile):
    desk = Desk(pile[0])
    group = next(iter(desk.groups()))
    before = desk.members(group)
    new = desk.split(group)
    assert sorted(desk.members(group) + desk.members(new)) == sorted(before)
    desk.join(group, new)
    assert desk.members(group) == before
    with pytest.raises(InputError, match="no group"):
        desk.join(group, new)


def test_what_was_thrown_out_can_be_grouped_again(pile):
    desk, truth = Desk(pile[0]), pile[1]
    for group in list(desk.groups())[:3]:
        desk.throw_out(group, desk.members(group))
    kept = set(desk.groups())
    desk.regroup()
    again = desk.groups()
    assert not kept & set(again)
    assert all(len({truth[row] for row in rows}) == 1 for rows in again.values())


def test_every_step_can_be_undone_and_redone_and_replayed(pile):
    noted: list[dict] = []
    desk = Desk(pile[0], note=lambda entry: noted.append(json.loads(json.dumps(entry))))
    first = list(desk.places)
    name_all(desk, pile[1])
    desk.leave_out([0, 1])
    desk.label(0, "another")
    after = list(desk.places)
    assert desk.places[1].group == OUT
    count = desk.decisions
    for _ in range(count):
        desk.undo()
    assert desk.places == first
    for _ in range(count):
        desk.redo()
    assert desk.places == after
    desk.undo()
    again = Desk(pile[0], desk.first_groups, noted)
    assert (again.places, again.done, again.undone) == (desk.places, desk.done, desk.undone)


def test_labels_accepted_unseen_teach_nothing(pile):
    desk = Desk(pile[0])
    for i, group in enumerate(list(desk.groups())[:2]):
        desk.name(group, str(i))
    before = desk.proposals()
    desk.accept(before.rows[:5])
    now = desk.proposals()
    assert len(now.rows) == len(before.rows) - 5
    assert now.classes == before.classes == ("0", "1")


def test_the_sure_ones_are_as_many_as_keep_the_share(pile):
    desk = Desk(pile[0])
    name_all(desk, pile[1])
    desk.throw_out(desk.places[0].group, [0])
    proposals = desk.proposals()
    rows, expected = proposals.sure(0.0)
    assert set(rows) == set(proposals.rows)
    assert expected == pytest.approx(proposals.chances.mean())
    assert proposals.sure(1.1)[0].tolist() == []


def test_only_labels_of_which_most_are_expected_to_be_right_can_be_accepted_at_once():
    two = np.array([[0.995, 0.005], [0.97, 0.03], [0.6, 0.4], [0.45, 0.55]])
    (one, sure), (more, share) = Proposals(np.arange(4), ("a", "b"), two).acceptable()[::2]
    assert (one.tolist(), more.tolist()) == ([0], [0, 1, 2])
    assert (sure, share) == pytest.approx((0.995, 0.855))
    unsure = Proposals(np.arange(2), ("a", "b", "c"), np.full((2, 3), 1 / 3))
    assert unsure.acceptable() == []
    assert _proposed(unsure)["sure"] == []
    assert _proposed(unsure)["expected"] == pytest.approx(1 / 3)


def test_questions_are_of_photos_without_a_label(pile):
    desk = Desk(pile[0])
    assert len(desk.next_questions(3)) == 3
    for group in list(desk.groups())[:2]:
        desk.name(group, str(group))
    assert set(desk.next_questions(4)) <= set(desk.rest())


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda desk: desk.name(99, "x"), "no group 99"),
        (lambda desk: desk.name(1, " "), "expected 1 to 200"),
        (lambda desk: desk.label(10_000, "x"), "Expected rows"),
        (lambda desk: desk.label([], "x"), "got none"),
        (lambda desk: desk.throw_out(1, [desk.members(2)[0]]), "not in group 1"),
        (lambda desk: desk.join(1, 1), "with itself"),
        (lambda desk: desk.accept([0]), "No label is proposed"),
        (lambda desk: desk.proposals(), "at least two classes"),
        (lambda desk: desk.undo(), "nothing to undo"),
        (lambda desk: desk.redo(), "nothing to redo"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused_and_changes_nothing(pile, step, message):
    desk = Desk(pile[0])
    before = list(desk.places)
    with pytest.raises(InputError, match=message):
        step(desk)
    assert desk.places == before
    assert desk.decisions == 0
