"""Several discriminants as one: against brute force, and exact under every change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yoro.discriminant.calibration import fit_weights, log_probabilities
from yoro.discriminant.evidence import Choice, make_evidence
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.mixture import Mixture
from yoro.discriminant.readings import Layout, Reading
from yoro.discriminant.reservoir import Members

WIDTHS = (6, 40, 9)
LAYOUT = Layout((Reading("logits", 6), Reading("features", 40, "root"), Reading("layer-80", 9, "unit")))


def draw(n: int, classes: int = 4, seed: int = 0, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Responses in which the middle reading knows most and the last nothing."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % classes
    parts = [
        rng.normal(size=(classes, width))[codes] * strength + noise * rng.normal(size=(n, width))
        for width, strength in zip(WIDTHS, (0.6, 0.9, 0.0), strict=True)
    ]
    return np.concatenate(parts, axis=1), np.array([f"c{code}" for code in codes])


def mixture(responses: np.ndarray, labels: np.ndarray, layout: Layout = LAYOUT) -> Mixture:
    joint = JointStatistics(layout)
    joint.update(responses, labels.tolist())
    n = len(labels)
    members = Members(responses, labels, np.array([""] * n), np.ones(n))
    return Mixture(
        layout,
        tuple(
            make_evidence(part, replace(members, responses=responses[:, columns]))
            for part, columns in zip(joint.parts, layout.slices, strict=True)
        ),
    )


def levelled(scores: np.ndarray) -> np.ndarray:
    return scores - scores.mean(axis=1, keepdims=True)


def test_leaving_one_out_of_the_mixture_equals_fitting_without_it() -> None:
    responses, labels = draw(28)
    whole = mixture(responses, labels)
    choice = whole.judge("loo")[0]
    found = whole.left_out(choice)
    assert found is not None
    scored, rows = found
    for place, row in enumerate(rows[:12]):
        rest = np.arange(len(labels)) != row
        without = mixture(responses[rest], labels[rest]).mapping(choice)
        brute = levelled(without(responses[row : row + 1]))
        np.testing.assert_allclose(levelled(scored.scores[place : place + 1]), brute, rtol=1e-9, atol=1e-9)


def test_the_answer_is_the_weighted_sum_of_log_probabilities() -> None:
    responses, labels = draw(60)
    whole = mixture(responses, labels)
    choice = whole.judge("loo")[0]
    new, _ = draw(5, seed=1)
    total = np.zeros((5, 4))
    for evidence, part, columns in zip(whole.evidences, choice.parts, LAYOUT.slices, strict=True):
        head = evidence.mapping(part)
        total += part.weight * log_probabilities(head(new[:, columns]), part.temperature)
    expected = log_probabilities(total, choice.temperature)
    got = log_probabilities(whole.mapping(choice)(new), choice.temperature)
    np.testing.assert_allclose(got, expected, atol=1e-9)


def test_a_head_that_knows_nothing_gets_little_and_the_best_gets_most() -> None:
    responses, labels = draw(400)
    parts = {part.name: part.weight for part in mixture(responses, labels).judge("loo")[0].parts}
    assert sum(parts.values()) == pytest.approx(1.0)
    assert parts["layer-80"] < 0.1
    assert parts["features"] == max(parts.values())


def test_with_two_images_a_class_the_features_answer_alone() -> None:
    responses, labels = draw(8)
    parts = {part.name: part.weight for part in mixture(responses, labels).judge("loo")[0].parts}
    assert parts == {"logits": 0.0, "features": 1.0, "layer-80": 0.0}


def test_without_kept_responses_the_features_answer_alone() -> None:
    responses, labels = draw(40)
    whole = mixture(responses, labels)
    bare = Mixture(LAYOUT, tuple(replace(evidence, members=None) for evidence in whole.evidences))
    choice = bare.judge(0.3)[0]
    assert [part.weight for part in choice.parts] == [0.0, 1.0, 0.0]
    assert bare.left_out(choice) is None


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), order=st.randoms(use_true_random=False))
def test_choices_do_not_depend_on_order_or_batches(seed: int, order: object) -> None:
    responses, labels = draw(40, seed=seed)
    rows = np.random.default_rng(seed + 1).permutation(40)
    one = mixture(responses, labels)
    joint = JointStatistics(LAYOUT)
    for part in np.array_split(rows, 7):
        joint.update(responses[part], labels[part].tolist())
    members = Members(responses, labels, np.array([""] * 40), np.ones(40))
    two = Mixture(
        LAYOUT,
        tuple(
            make_evidence(part, replace(members, responses=responses[:, columns]))
            for part, columns in zip(joint.parts, LAYOUT.slices, strict=True)
        ),
    )
    a, b = one.judge("loo")[0], two.judge("loo")[0]
    assert [part.shrinkage for part in a.parts] == [part.shrinkage for part in b.parts]
    np.testing.assert_allclose([part.weight for part in a.parts], [part.weight for part in b.parts], atol=1e-6)
    np.testing.assert_allclose(one.mapping(a).weights, two.mapping(b).weights, rtol=1e-5, atol=1e-6)


def test_joint_statistics_add_and_take_back_exactly() -> None:
    responses, labels = draw(50)
    whole, half, rest = JointStatistics(LAYOUT), JointStatistics(LAYOUT), JointStatistics(LAYOUT)
    whole.update(responses, labels.tolist())
    half.update(responses[:30], labels[:30].tolist())
    rest.update(responses[30:], labels[30:].tolist())
    for one, two in zip((half + rest).parts, whole.parts, strict=True):
        np.testing.assert_allclose(one.scatter, two.scatter, atol=1e-9)
    for one, two in zip((whole - rest).parts, half.parts, strict=True):
        np.testing.assert_allclose(one.scatter, two.scatter, atol=1e-9)
        np.testing.assert_allclose(one.means, two.means, atol=1e-9)
    arrays = whole.to_arrays()
    assert "1.rows" not in arrays  # 50 and more rows are as many as the width
    assert "1.rows" in half.to_arrays()
    again = JointStatistics.from_arrays(half.to_arrays(), half.classes, LAYOUT)
    for one, two in zip(again.parts, half.parts, strict=True):
        np.testing.assert_allclose(one.scatter, two.scatter, atol=1e-12)


def test_weights_are_the_minimum_that_a_general_optimiser_finds() -> None:
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    rng = np.random.default_rng(3)
    truth = rng.integers(0, 5, 80)
    scores = [rng.normal(size=(80, 5)) + strength * np.eye(5)[truth] for strength in (2.0, 1.0, 0.0)]
    start, counted = np.full(3, 0.5), np.ones(80)
    mine = fit_weights(scores, truth, counted, start, strength=10.0)
    doubt = 1 / 81

    def loss(x: np.ndarray) -> float:
        total = sum(w * part for w, part in zip(x, scores, strict=True))
        logs = total - logsumexp(total, axis=1, keepdims=True)
        own = (1 - doubt) * logs[np.arange(80), truth] + doubt * logs.mean(axis=1)
        return float(-own.mean() + 10.0 / 80 / 2 * ((x - start) ** 2).sum())

    other = minimize(loss, start, bounds=[(0, None)] * 3, tol=1e-14, options={"maxiter": 1000})
    assert loss(mine) <= other.fun + 1e-10
    np.testing.assert_allclose(mine, other.x, atol=1e-4)


def test_a_choice_of_one_reading_has_no_parts() -> None:
    responses, labels = draw(40)
    alone = mixture(responses[:, :6], labels, Layout.of(6))
    assert alone.judge("loo")[0].parts == ()
    assert isinstance(alone.judge(0.5)[0], Choice)


def test_an_image_far_from_its_class_does_not_silence_the_model() -> None:
    rng = np.random.default_rng(0)
    responses = 0.01 * rng.normal(size=(24, 4))
    responses[12:] += 1.0
    responses[0] = 300.0  # the likelihood of this one alone asks for no answer at all
    labels = np.array(["a"] * 12 + ["b"] * 12)
    whole = mixture(responses, labels, Layout((Reading("logits", 2), Reading("features", 2))))
    choice, found = whole.judge("loo")
    assert found is not None
    assert choice.temperature < 1e3  # a model of more than 1e9 could not be read again
    right = (found.scored.scores.argmax(axis=1) == found.scored.truth).mean()
    assert right == max(part.right for part in choice.parts if part.right is not None)


def test_the_scores_of_the_choice_are_those_of_leaving_out_anew() -> None:
    responses, labels = draw(40)
    whole = mixture(responses, labels)
    choice, found = whole.judge("loo")
    again = whole.left_out(choice)
    assert found is not None
    assert again is not None
    np.testing.assert_allclose(found.scored.scores, again.scored.scores, atol=1e-12)
    np.testing.assert_array_equal(found.rows, again.rows)
    for i, part in enumerate(choice.parts):
        alone = whole.left_out(replace(choice, parts=tuple(replace(p, weight=float(p is part)) for p in choice.parts)))
        assert alone is not None, i
        assert part.right == (alone.scored.scores.argmax(axis=1) == alone.scored.truth).mean()


def weights_of(layout: Layout, columns: slice, *, described: bool = False) -> dict[str, float]:
    responses, labels = draw(400)
    whole = replace(mixture(responses[:, columns], labels, layout), described=described)
    return {part.name: part.weight for part in whole.judge("loo")[0].parts}


@pytest.mark.parametrize(("name", "described"), [("class-100", False), ("patches-80", False), ("layer-100", True)])
def test_candidates_answer_only_if_they_are_better_beyond_noise(name: str, described: bool) -> None:
    better = Layout((Reading("features", 6), Reading(name, 40)))
    assert weights_of(better, slice(0, 46), described=described)[name] > 0.5
    noise = Layout((Reading("features", 40), Reading(name, 9)))
    assert weights_of(noise, slice(6, 55), described=described) == {"features": 1.0, name: 0.0}


def test_of_several_networks_one_with_a_small_share_is_left_out() -> None:
    layout = Layout((Reading("a/features", 6), Reading("b/features", 40), Reading("c/features", 9)))
    found = weights_of(layout, slice(0, 55))
    assert found["c/features"] == 0.0
    assert found["a/features"] > 0.05
    assert found["b/features"] > 0.5
