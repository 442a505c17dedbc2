from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import yoro
from command_line import run
from photos import write_folder
from yoro.errors import InputError
from yoro.trust.out_of_distribution import detection_metrics, out_of_distribution_score


def test_distances_of_the_fitted_are_those_of_a_fit_without_them(digits):
    responses, labels = digits[0][:120], digits[1][:120]
    fitted = yoro.fit((responses, labels), shrinkage=0.2)
    measure = out_of_distribution_score(fitted.model)
    alone = []
    for row in range(0, 120, 7):
        rest = yoro.fit((np.delete(responses, row, 0), np.delete(labels, row)), shrinkage=0.2)
        without = out_of_distribution_score(rest.model)
        alone.append(measure_with(without, measure, responses[row : row + 1]))
    gaps = [np.abs(measure.fitted - value).min() for value in alone]
    assert max(gaps) < 1e-8


def measure_with(without, scale, response):
    """The strangeness by one model's distances, on another's scale and with its shrinkage."""
    (mine,), (theirs,) = scale.terms, without.terms
    whole = replace(theirs.whole, rho=mine.whole.rho, scale=mine.whole.scale)
    return replace(theirs, centres=mine.centres, spreads=mine.spreads, weights=mine.weights, whole=whole)(response)[0]


def test_groups_are_left_out_whole(digits, tmp_path):
    responses, labels = digits[0][:120], digits[1][:120]
    groups = np.array([f"g{i // 3}" for i in range(120)])
    np.savez(tmp_path / "z.npz", responses=responses, labels=labels, groups=groups)
    measure = out_of_distribution_score(yoro.fit(tmp_path / "z.npz", shrinkage=0.2).model)
    keep = groups != "g5"
    without = out_of_distribution_score(yoro.fit((responses[keep], labels[keep]), shrinkage=0.2).model)
    for row in np.flatnonzero(~keep):
        value = measure_with(without, measure, responses[row : row + 1])
        assert np.abs(measure.fitted - value).min() < 1e-8


@pytest.mark.parametrize("groups", [["one"] * 24, ["a", "b", "c"] * 8])
def test_where_no_group_can_be_left_out_there_is_no_score_and_it_is_said(groups, tmp_path):
    responses = np.random.default_rng(0).normal(size=(24, 6))
    np.savez(tmp_path / "z.npz", responses=responses, labels=np.array(["a", "b", "c"] * 8), groups=np.array(groups))
    fitted = yoro.fit(tmp_path / "z.npz", shrinkage="oas")
    with pytest.raises(InputError, match="No OOD score"):
        fitted.to_frame(responses, unknown=0.1)


def test_of_new_images_of_known_classes_the_share_asked_for_is_refused(digits):
    rng = np.random.default_rng(0)
    order = rng.permutation(1797)
    fitted, new = order[:700], order[700:]
    measure = out_of_distribution_score(yoro.fit((digits[0][fitted], digits[1][fitted])).model)
    for share in (0.05, 0.1, 0.2):
        assert abs((measure.typicality(digits[0][new]) <= share).mean() - share) < 0.02


def test_noise_and_hidden_classes_are_strange(digits):
    known = np.isin(digits[1], list("0123456"))
    train = np.flatnonzero(known)[:700]
    measure = out_of_distribution_score(yoro.fit((digits[0][train], digits[1][train])).model)
    usual, hidden = measure(digits[0][known][700:]), measure(digits[0][~known])
    assert (usual[:, None] < hidden[None]).mean() > 0.85  # AUROC
    noise = np.random.default_rng(0).uniform(0, 16, (50, 64))
    assert measure.typicality(noise).max() < 0.01


def test_wide_responses_are_measured_outside_their_span_too(digits):
    wide = digits[0][:40] @ np.random.default_rng(0).normal(size=(64, 300))
    measure = out_of_distribution_score(yoro.fit((wide, digits[1][:40]), shrinkage=0.5).model)
    assert measure.terms[0].within.spectrum.basis.shape[1] < 300
    odd = wide[:1] + 1000 * np.random.default_rng(1).normal(size=(1, 300))
    assert measure.typicality(odd)[0] == pytest.approx(1 / (1 + len(measure.fitted)))


def test_without_responses_it_says_what_is_missing(digits):
    fitted = yoro.fit((digits[0][:100], digits[1][:100]))
    fitted.drop_reservoir()
    with pytest.raises(InputError, match="--no-reservoir"):
        out_of_distribution_score(fitted.model)


def test_auroc_and_false_positives_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    known, outside = rng.normal(size=200).round(1), rng.normal(1.5, size=150).round(1)
    told = detection_metrics(known, outside)
    truth = np.repeat([0, 1], [200, 150])
    assert told.auroc == pytest.approx(roc_auc_score(truth, np.concatenate([known, outside])))
    assert told.fpr95 == (outside <= np.sort(known)[189]).mean()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A model of two things, more photographs of them, and photographs of others."""
    folder = tmp_path_factory.mktemp("unknown")
    write_folder(folder / "train", count=16, names=("cat", "coffee"))
    write_folder(folder / "test", count=6, seed=1, names=("cat", "coffee"))
    write_folder(folder / "other", count=6, names=("rocket", "astronaut"))
    run("fit", folder / "train", "--out", folder / "m.yoro", "--workers", 0)
    return folder


def test_pictures_of_other_things_get_no_label(photos):
    words = ("predict", photos / "m.yoro", "--unknown", 0.06, "--format", "json", "--workers", 0)
    other = json.loads(run(*words, photos / "other").stdout)
    assert sum(row["label"] is None for row in other) >= 7
    known = json.loads(run(*words, photos / "test").stdout)
    assert sum(row["label"] is None for row in known) <= 3
    assert all(0 < row["typicality"] <= 1 for row in (*known, *other))
    mine = yoro.load(photos / "m.yoro").typicality(photos / "test")
    assert mine.tolist() == pytest.approx([row["typicality"] for row in known], abs=1e-6)


def test_the_page_and_the_folders_show_what_was_refused(photos):
    words = ("predict", photos / "m.yoro", photos / "other", "--unknown", 0.06, "--workers", 0)
    run(*words, "--html", photos / "page.html", "--sort-into", photos / "sorted")
    assert "<b>unknown</b>" in (photos / "page.html").read_text()
    assert len(list((photos / "sorted" / "_unsure").iterdir())) >= 7


def test_evaluate_tells_how_well_other_things_are_told_apart(photos):
    words = ("evaluate", photos / "m.yoro", photos / "test", "--outside", photos / "other", "--workers", 0)
    told = json.loads(run(*words, "--json").stdout)["outside"]
    assert told["auroc"] > 0.95
    assert (told["known"], told["outside"]) == (12, 12)
    assert "12 images out of distribution: AUROC" in run(*words).stdout


def test_a_share_that_is_none_is_wrong_usage(photos):
    assert "such as 0.05" in run("predict", photos / "m.yoro", photos, "--unknown", 5, code=2).stderr
