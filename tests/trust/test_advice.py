from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import yoro
from command_line import invoke, run
from photos import write_folder
from yoro.errors import InputError
from yoro.trust.advice import refit


def some(digits, each):
    responses, labels = digits
    rows = np.concatenate([np.flatnonzero(labels == name)[:each] for name in np.unique(labels)])
    return responses[rows], labels[rows]


def test_the_curve_rises_and_leave_one_out_is_that_of_the_model(digits):
    classifier = yoro.fit(some(digits, 16))
    advice = classifier.advice()
    assert [point.images for point in advice.curve] == [2, 4, 8]
    assert advice.curve[0].accuracy < advice.curve[-1].accuracy
    assert advice.now.accuracy == classifier.left_out().accuracy
    assert [point.images for point in advice.forecast] == [16, 32, 64]
    assert (advice.images, advice.classes, advice.each) == (160, 10, 16)
    assert json.loads(json.dumps(advice.to_json()))["now"]["images"] == 16


def test_a_refit_on_all_is_the_model(digits):
    model = yoro.fit(some(digits, 6)).model
    members = model.reservoir.members()
    again = refit(model, members, np.arange(len(members)))
    columns = [again.mapping.classes.index(name) for name in model.mapping.classes]
    np.testing.assert_allclose(again.mapping.weights[:, columns], model.mapping.weights, rtol=1e-7, atol=1e-10)


def test_a_class_of_mixed_labels_needs_images_most(digits):
    responses, labels = some(digits, 12)
    labels = labels.copy()
    swapped = np.flatnonzero(np.isin(labels, ["3", "5"]))
    labels[swapped] = np.where(np.arange(len(swapped)) % 2, "3", "5")
    needs = yoro.fit((responses, labels)).advice().needs
    assert {need.name for need in needs[:2]} == {"3", "5"}
    assert {need.mistaken_for for need in needs[:2]} == {"3", "5"}
    assert needs[0].recall < 0.8 < needs[-1].recall


def test_two_images_a_class_have_no_curve_and_one_no_advice(digits):
    advice = yoro.fit(some(digits, 3)).advice()
    assert advice.curve == ()
    assert "No learning curve" in advice.notes[0]
    with pytest.warns(UserWarning, match="image"), pytest.raises(InputError, match="no advice"):
        yoro.fit(some(digits, 1)).advice()


@pytest.mark.long
def test_members_of_one_group_are_never_on_both_sides(digits, tmp_path):
    responses, labels = some(digits, 8)
    groups = np.array([f"g{i // 2}" for i in range(len(labels))])
    twins = np.concatenate([responses[::2], responses[::2] + 1e-9])  # each image twice, in one group
    names = np.concatenate([labels[::2], labels[::2]])
    np.savez(tmp_path / "z.npz", responses=twins, labels=names, groups=np.concatenate([groups[::2]] * 2))
    np.savez(tmp_path / "apart.npz", responses=twins, labels=names)
    told = [yoro.fit(tmp_path / name).advice().curve[-1].accuracy for name in ("z.npz", "apart.npz")]
    assert told[0] < told[1]  # twins on both sides flatter


def test_the_verb_speaks_plainly_and_lists_what_to_label(tmp_path):
    folder = write_folder(tmp_path / "photos", count=4)
    more = write_folder(tmp_path / "more", count=3, seed=1, names=("cat", "coffee"))
    words = ("advise", folder, "--more", more, "--choose", 4, "--workers", 0)
    said = run(*words, "--out", tmp_path / "next.csv")
    assert said.stdout.startswith("Expected on new images: ")
    for part in ("Leave-one-out accuracy", "with 8 per class", "Layers alone", "A gain is unlikely", "Label next"):
        assert part in said.stdout, part
    rows = list(csv.DictReader((tmp_path / "next.csv").read_text().splitlines()))
    assert len({row["path"] for row in rows}) == 4
    found = json.loads(run(*words, "--json").stdout)
    assert [row["path"] for row in found["next"]] == [row["path"] for row in rows]
    assert len(found["forecast"]) == 3
    assert len(found["readings"]) == 7  # two of them are grids
    assert "already in the model" in run("advise", folder, "--more", folder, "--workers", 0, code=1).stderr
    assert invoke("advise", folder, "--out", tmp_path / "x.csv").code == 2
