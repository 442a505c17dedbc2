"""Probabilities of a model of sums alone: sane, and near those of a model that keeps its responses."""

from __future__ import annotations

import numpy as np
import pytest

import yoro
from yoro.discriminant.shrinkage import dense_spectrum
from yoro.discriminant.simulated import MOST, simulated_members
from yoro.discriminant.statistics import ResponseStatistics
from yoro.model.open_model import OpenModel
from yoro.model.partial_pass import gather_shard
from yoro.model.settings import FitSettings
from yoro.model.shards import solve_shards


@pytest.mark.parametrize("count", [40, 100, 300, 1300])
def test_a_model_of_sums_alone_has_honest_probabilities(digits, tmp_path, count):
    """Few images: every answer was certain (log loss 5.9 at forty images), though a fifth of them was wrong."""
    responses, labels = digits
    np.savez(tmp_path / "z.npz", responses=responses[:count], labels=labels[:count])
    test = (responses[1300:], labels[1300:])
    sums = gather_shard(tmp_path / "z.npz", FitSettings(), sums_only=True).shard
    found = OpenModel(solve_shards([sums], None, "empirical").model).evaluate(*test)
    kept = yoro.fit(tmp_path / "z.npz", shrinkage="oas").evaluate(*test)
    assert found.accuracy == pytest.approx(kept.accuracy)
    assert found.log_loss < 1.4 * kept.log_loss
    assert found.calibration_error < kept.calibration_error + 0.04


def test_members_have_the_covariance_and_the_leverage_of_the_real_ones():
    rng = np.random.default_rng(0)
    for rows, width in ((MOST, 6), (30, 50)):
        statistics = ResponseStatistics()
        statistics.update(rng.normal(size=(rows, width)) * np.arange(1, width + 1), np.array(["a", "b"] * (rows // 2)))
        members = simulated_members(statistics, dense_spectrum(statistics))
        means = statistics.means[[statistics.classes.index(name) for name in members.labels]]
        residuals = members.responses - means
        leverages = np.einsum("ij,jk,ik->i", residuals, np.linalg.pinv(statistics.scatter), residuals)
        rank = min(width, rows - 2)
        np.testing.assert_allclose(leverages, rank / rows, rtol=1e-6)
        if rows > width:
            np.testing.assert_allclose(residuals.T @ residuals, statistics.scatter, atol=0.1 * statistics.scatter.max())


def test_members_do_not_depend_on_the_signs_of_eigenvectors():
    statistics = ResponseStatistics()
    statistics.update(np.random.default_rng(0).normal(size=(20, 4)), np.array(["a", "b"] * 10))
    spectrum = dense_spectrum(statistics)
    before = simulated_members(statistics, spectrum).responses
    spectrum.basis[:, ::2] *= -1
    np.testing.assert_allclose(simulated_members(statistics, spectrum).responses, before)


def test_where_no_class_could_lack_an_image_nothing_is_invented():
    statistics = ResponseStatistics()
    statistics.update(np.eye(3), np.array(["a", "b", "c"]))
    assert simulated_members(statistics, dense_spectrum(statistics)) is None


def test_a_class_that_is_renamed_keeps_its_members():
    rng = np.random.default_rng(0)
    responses, labels = rng.normal(size=(30, 5)), np.array(["a", "b", "c"])[rng.integers(0, 3, 30)]
    found = []
    for names in ({"a": "a", "b": "b", "c": "c"}, {"a": "z", "b": "b", "c": "a"}):
        statistics = ResponseStatistics()
        statistics.update(responses, np.array([names[label] for label in labels]))
        members = simulated_members(statistics, dense_spectrum(statistics))
        found.append({old: members.responses[members.labels == new] for old, new in names.items()})
    for label in "abc":
        np.testing.assert_allclose(found[0][label], found[1][label], atol=1e-9)
