from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from PIL import Image
from scipy.special import log_softmax

import yoro
from command_line import run
from photos import PHOTOS, write_folder
from yoro.discriminant.calibration import margins
from yoro.trust.label_issues import DUPLICATE, HARD, LABEL, NEAR, OUTLIER, expected_wrong_labels, near_pairs


@pytest.fixture(scope="module")
def flipped(digits):
    """600 digits of which 30 are labelled wrong: responses, labels, right labels, and which."""
    responses, right = digits[0][:600], digits[1][:600]
    rng = np.random.default_rng(0)
    which = rng.permutation(600)[:30]
    labels = right.copy()
    for i in which:
        labels[i] = rng.choice([name for name in np.unique(right) if name != right[i]])
    return responses, labels, right, set(which.tolist())


def test_flipped_labels_come_first_and_the_right_class_is_proposed(flipped):
    responses, labels, right, which = flipped
    issues = yoro.fit((responses, labels)).issues((responses, labels))
    first = [*issues.of(LABEL), *issues.of(HARD)][:60]
    rows = [int(issue.name.split()[-1]) for issue in first]
    found = which & set(rows)
    assert len(found) >= 28
    proposed = {row: issue.proposed for row, issue in zip(rows, first, strict=True)}
    assert sum(proposed[row] == right[row] for row in found) >= 27
    assert [issue.score for issue in first] == sorted((issue.score for issue in first), reverse=True)


@pytest.mark.parametrize("share", [0.0, 0.04, 0.1])
def test_the_number_of_wrong_labels_is_expected_about_right(share):
    """Answers of known calibration, made too hot as a fit to wrong labels makes them."""
    rng, n, classes = np.random.default_rng(0), 2000, 12
    logs = log_softmax(rng.normal(0, 4, (n, classes)), axis=1)
    right = np.array([rng.choice(classes, p=np.exp(row)) for row in logs])
    wrong = rng.random(n) < share
    labels = np.where(wrong, (right + rng.integers(1, classes, n)) % classes, right)
    found = expected_wrong_labels(log_softmax(logs / 1.5, axis=1), labels)
    assert abs(found - wrong.sum()) <= max(8, 0.25 * wrong.sum())
    assert expected_wrong_labels(logs[:0], labels[:0]) == 0.0


def test_hard_photos_are_not_called_wrong_labels(flipped):
    responses, labels, _, which = flipped
    issues = yoro.fit((responses, labels)).issues((responses, labels))
    strong, hard = ([int(issue.name.split()[-1]) for issue in issues.of(kind)] for kind in (LABEL, HARD))
    assert 22 <= len(strong) <= 38
    assert len(which & set(strong)) >= 0.8 * len(strong)
    assert not set(strong) & set(hard)
    assert min(i.score for i in issues.of(LABEL)) >= max((i.score for i in issues.of(HARD)), default=0.0) > 0
    assert f"About {len(strong)} wrong labels" in repr(issues)


def test_cleanlab_takes_what_it_is_given_and_agrees(flipped):
    filters = pytest.importorskip("cleanlab.filter")
    responses, labels, _, which = flipped
    issues = yoro.fit((responses, labels)).issues((responses, labels))
    margin, _ = margins(issues.left_out.log_probabilities, issues.labels)
    theirs = filters.find_label_issues(issues.labels, issues.pred_probs, filter_by="predicted_neq_given", n_jobs=1)
    assert np.flatnonzero(theirs).tolist() == np.flatnonzero(margin > 0).tolist()
    ranked = filters.find_label_issues(
        issues.labels, issues.pred_probs, return_indices_ranked_by="self_confidence", n_jobs=1
    )
    rows = {int(issues.names[i].split()[-1]) for i in ranked}
    assert len(rows & which) > 0.7 * len(rows) > 15


def test_another_form_of_a_picture_is_a_near_duplicate_and_another_picture_is_not(tmp_path):
    folder = write_folder(tmp_path / "photos", count=6)
    picture = Image.fromarray(PHOTOS["coffee"]())
    picture.save(folder / "coffee" / "whole.jpg", quality=95)
    picture.resize((300, 200)).save(folder / "coffee" / "small.jpg", quality=70)
    (folder / "cat" / "again.jpg").write_bytes((folder / "cat" / "000.jpg").read_bytes())
    issues = yoro.fit(folder).issues(folder)
    pairs = [{issue.name, issue.like} for issue in issues.of(NEAR)]
    assert {"coffee/whole.jpg", "coffee/small.jpg"} in pairs
    assert len(pairs) < 5  # crops may overlap
    assert all(len({name.split("/")[0] for name in pair}) == 1 for pair in pairs)
    assert [(issue.name, issue.like) for issue in issues.of(DUPLICATE)] == [("cat/again.jpg", "cat/000.jpg")]


def test_a_picture_of_something_else_is_an_outlier(flipped):
    responses, labels, *_ = flipped
    odd = np.concatenate([responses, np.random.default_rng(0).uniform(0, 16, (1, 64))])
    named = np.append(labels, "3")
    issues = yoro.fit((odd, named)).issues((odd, named))
    assert issues.of(OUTLIER)[0].name == "row 600"
    assert len(issues.of(OUTLIER)) < 15


def test_pairs_are_found_over_blocks(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(50, 30))
    rows[41] = rows[3] + 0.01
    rows[44] = rows[3]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    contents = [bytes([i]) for i in range(50)]
    contents[44] = contents[3]  # the same file: no near duplicate
    monkeypatch.setattr("yoro.trust.label_issues.BLOCK", 7)
    assert [pair[1:] for pair in near_pairs(rows, contents)] == [(3, 41), (41, 44)]


def test_examples_that_are_each_alone_in_a_class_have_no_issues_and_no_warning(tmp_path):
    np.savez(tmp_path / "z.npz", responses=np.eye(6), labels=np.array([f"c{i}" for i in range(6)]))
    assert "No clearly wrong label in 0 examples." in run("issues", tmp_path / "z.npz").stderr


def test_a_list_a_page_and_json_of_the_command(tmp_path):
    folder = write_folder(tmp_path / "photos", count=6, names=("cat", "coffee", "rocket"))
    (folder / "cat" / "000.jpg").rename(folder / "rocket" / "a<b>.jpg")
    run("fit", folder, "--out", tmp_path / "m.yoro", "--workers", 0)
    out, page = tmp_path / "list.csv", tmp_path / "page.html"
    run("inspect", tmp_path / "m.yoro", folder, "--issues", "--out", out, "--html", page)
    first = next(csv.DictReader(out.read_text().splitlines()))
    assert first["path"].endswith("rocket/a<b>.jpg")
    assert (first["issue"], first["label"], first["proposed"], first["action"]) == ("label", "rocket", "cat", "")
    text = page.read_text()
    assert "a&lt;b&gt;.jpg" in text.replace("<wbr>", "")
    assert "data:image/jpeg" in text
    shown = json.loads(run("inspect", tmp_path / "m.yoro", folder, "--issues", "--json").stdout)
    assert shown[0]["digest"] == first["digest"]


def test_data_without_issues_asked_for_is_wrong_usage(tmp_path, digits):
    yoro.fit((digits[0][:100], digits[1][:100])).save(tmp_path / "m.yoro")
    assert "need --issues" in run("inspect", tmp_path / "m.yoro", tmp_path, code=2).stderr
    assert "No data given" in run("inspect", tmp_path / "m.yoro", "--issues", code=2).stderr
