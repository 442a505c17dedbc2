"""Many classes: a bounded sample to choose on, the same numbers below the bound, and nothing of classes squared."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

import yoro
from yoro.discriminant import leave_one_out as loo
from yoro.discriminant.calibration import log_sums
from yoro.discriminant.evidence import make_evidence
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.leave_one_out import LeaveOneOut, sample_size, stratified
from yoro.discriminant.mixture import Mixture
from yoro.discriminant.readings import Layout, Reading
from yoro.discriminant.reservoir import Members
from yoro.discriminant.selection import by_leave_one_out, leave_one_out
from yoro.discriminant.solve import solve_mapping
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError

LAYOUT = Layout((Reading("logits", 9), Reading("features", 12)))


def draw(classes: int, each: int, width: int = 21) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.repeat(np.arange(classes), each))
    responses = rng.normal(size=(classes, width))[codes] + rng.normal(size=(len(codes), width))
    return responses, np.array([f"c{code:04d}" for code in codes])


def members_of(responses: np.ndarray, labels: np.ndarray, groups: np.ndarray | None = None) -> Members:
    n = len(labels)
    return Members(responses, labels, np.array([""] * n) if groups is None else groups, np.ones(n))


def mixture(classes: int, each: int) -> Mixture:
    responses, labels = draw(classes, each)
    joint = JointStatistics(LAYOUT)
    joint.update(responses, labels.tolist())
    members = members_of(responses, labels)
    parts = [replace(members, responses=responses[:, columns]) for columns in LAYOUT.slices]
    return Mixture(LAYOUT, tuple(map(make_evidence, joint.parts, parts)))


@pytest.fixture
def small_bounds(monkeypatch):
    monkeypatch.setattr(loo, "FEWEST", 10)
    monkeypatch.setattr(loo, "CHOOSING_SCORES", 1_500)
    monkeypatch.setattr(loo, "KEPT_SCORES", 6_000)


@pytest.mark.parametrize(("classes", "each"), [(5, 8), (40, 4)])
def test_below_the_bound_no_bit_changes(monkeypatch, classes, each):
    choice, found = mixture(classes, each).judge("loo")
    monkeypatch.setattr(LeaveOneOut, "sampled", lambda self, most: self)
    everything, whole = mixture(classes, each).judge("loo")
    assert choice == everything
    np.testing.assert_array_equal(found.scored.scores, whole.scored.scores)
    np.testing.assert_array_equal(found.rows, whole.rows)


def test_beyond_the_bound_a_sample_is_scored_that_every_head_shares(small_bounds):
    many = mixture(30, 8)
    assert (sample_size(30), sample_size(30, kept=True)) == (50, 200)
    choice, found = many.judge("loo")
    assert found.scored.scores.shape == (200, 30)
    again = many.left_out(choice)
    np.testing.assert_array_equal(again.rows, found.rows)
    np.testing.assert_allclose(again.scored.scores, found.scored.scores, rtol=1e-10)
    every = many.left_out(choice, every=True)
    assert len(every.rows) == 240
    place = {row: i for i, row in enumerate(every.rows.tolist())}
    same = every.scored.scores[[place[row] for row in found.rows.tolist()]]
    np.testing.assert_allclose(found.scored.scores, same, rtol=1e-9)


def test_scores_of_a_sample_equal_refits():
    responses, labels = draw(12, 5, 6)
    statistics = ResponseStatistics()
    statistics.update(responses, labels)
    evidence = make_evidence(statistics, members_of(responses, labels))
    few = LeaveOneOut(statistics, evidence.spectrum, evidence.members).sampled(11)
    assert (len(few), few.possible) == (11, 60)
    scored = few.scores(0.3)
    for place, row in enumerate(few.rows.tolist()):
        rest = ResponseStatistics()
        rest.update(np.delete(responses, row, axis=0), np.delete(labels, row))
        refit = solve_mapping(rest, 0.3)(responses[row : row + 1])[0]
        mine = scored.scores[place]
        np.testing.assert_allclose(mine - mine.mean(), refit - refit.mean(), rtol=1e-8, atol=1e-8)
        assert labels[row] == statistics.classes[scored.truth[place]]


def test_a_sample_has_of_each_class_its_share():
    truth = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 3], [400, 200, 100, 100]))
    chosen = stratified(truth, 80)
    assert np.bincount(truth[chosen]).tolist() == [40, 20, 10, 10]
    assert (np.diff(chosen) > 0).all()
    assert stratified(truth, 800).tolist() == list(range(800))


def half_in_groups():
    """What is known of sixty responses of six classes, and their groups: of three each, or none for the second half."""
    responses, labels = draw(6, 10, 5)
    groups = np.array([f"g{i // 3}" if i < 30 else "" for i in range(60)])
    statistics = ResponseStatistics()
    statistics.update(responses, labels)
    return make_evidence(statistics, members_of(responses, labels, groups)), groups


def test_groups_are_sampled_whole():
    evidence, groups = half_in_groups()
    whole = LeaveOneOut(evidence.statistics, evidence.spectrum, evidence.members)
    few = whole.sampled(30)
    assert 20 <= len(few) <= 40
    kept = groups[few.rows]
    assert all((kept == name).sum() == 3 for name in set(kept.tolist()) - {""})
    place = {row: i for i, row in enumerate(whole.rows.tolist())}
    same = whole.scores(0.2).scores[[place[row] for row in few.rows.tolist()]]
    np.testing.assert_allclose(few.scores(0.2).scores, same, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("most", [30, 59, 60, 100])
def test_a_sample_that_is_drawn_before_anything_is_computed_is_the_same(most):
    evidence, _ = half_in_groups()
    whole = LeaveOneOut(evidence.statistics, evidence.spectrum, evidence.members)
    few = LeaveOneOut(evidence.statistics, evidence.spectrum, evidence.members, most=most)
    wanted = whole.sampled(most)
    np.testing.assert_array_equal(few.rows, wanted.rows)
    np.testing.assert_array_equal(few.truth, wanted.truth)
    assert (few.possible, len(few)) == (whole.possible, len(wanted))
    np.testing.assert_allclose(few.scores(0.2).scores, wanted.scores(0.2).scores, rtol=1e-9, atol=1e-9)


def test_log_sums_in_blocks_are_those_of_the_whole():
    scores = np.random.default_rng(0).normal(size=(301, 900)) * 30
    scores[:, 7] = -np.inf
    np.testing.assert_allclose(log_sums(scores), logsumexp(scores, axis=1, keepdims=True), rtol=1e-14)


def test_a_block_of_few_classes_costs_no_sums_of_all(monkeypatch):
    seen = []
    real = ResponseStatistics._absorb.__globals__["_class_sums"]
    monkeypatch.setitem(
        ResponseStatistics._absorb.__globals__, "_class_sums", lambda *args: seen.append(args[3]) or real(*args)
    )
    statistics = ResponseStatistics(f"c{i}" for i in range(1000))
    statistics.update(np.eye(4), ["c1", "c1", "c7", "c9"])
    assert seen == [3]


def test_a_fit_says_that_it_chose_on_a_sample(small_bounds):
    responses, labels = draw(30, 8)
    told = []
    classifier = yoro.fit((responses, labels), tell=told.append)
    assert "Chosen on a sample of 50 examples, as there are 30 classes" in " ".join(told)
    assert classifier.left_out().n == 200
    told.clear()
    yoro.fit((responses[:40], labels[:40].astype("U4")), tell=told.append)
    assert "sample" not in " ".join(told)


def test_more_classes_than_a_model_may_have_are_refused_before_anything_is_chosen(monkeypatch):
    monkeypatch.setattr("yoro.limits.MODEL_CLASSES", 3)
    with pytest.raises(InputError, match=r"There are 4 classes; at most 3 can be fitted\. Are the labels names"):
        yoro.fit(draw(4, 3))


@pytest.mark.long
def test_ten_thousand_classes_of_two_examples_are_fitted_and_read_back_in_bounded_memory(tmp_path):
    responses, labels = draw(10_000, 2, 32)
    np.savez(tmp_path / "z.npz", responses=responses.astype(np.float32), labels=labels)
    code = (
        "import warnings, yoro; warnings.simplefilter('ignore'); "
        f"yoro.fit({str(tmp_path / 'z.npz')!r}).save({str(tmp_path / 'm.yoro')!r}); "
        f"print(len(yoro.load({str(tmp_path / 'm.yoro')!r}).classes)); "
        "from yoro.environment import peak_memory; print(peak_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    classes, peak = done.stdout.split()
    assert classes == "10000"
    assert float(peak) < 1000  # MB; one table of 8,192 kept examples by all classes would take 655


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("each", "width"), [(4, 90), (12, 20)])
def test_rough_scores_lead_to_the_choice_of_exact_ones(monkeypatch, seed, each, width):
    rng = np.random.default_rng(seed)
    labels = np.repeat([f"c{i}" for i in range(8)], each)
    responses = 2 * rng.normal(size=(8, width)).repeat(each, axis=0) + 3 * rng.normal(size=(len(labels), width))
    responses[0] *= 4  # an outlier: without it the trace is another
    responses *= 10.0 ** (12 * (seed % 3) - 12)  # single precision has room for none of its squares
    statistics = ResponseStatistics()
    statistics.update(responses, labels)
    evidence = make_evidence(statistics, members_of(responses, labels))
    wanted = by_leave_one_out(evidence)
    monkeypatch.setattr(loo, "WORTH_ROUGH", 0)
    left_out, exact = leave_one_out(evidence), []
    scores = left_out.scores

    def counted(rho, *, rough=False):
        exact.extend([] if rough else [rho])
        return scores(rho, rough=rough)

    monkeypatch.setattr(left_out, "scores", counted)
    found = by_leave_one_out(evidence, left_out=left_out)
    assert (found.shrinkage, found.candidates) == (wanted.shrinkage, wanted.candidates)
    assert found.temperature == pytest.approx(wanted.temperature, rel=1e-9)
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-4)
    assert 1 <= len(exact) < len(found.candidates)
