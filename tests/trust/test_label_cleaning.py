from __future__ import annotations

import csv

import numpy as np
import pytest

import yoro
from command_line import invoke, run
from photos import write_folder
from yoro.errors import InputError, StatisticsError, StoreError
from yoro.trust.label_cleaning import read_corrections


def write_list(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["path", "label", "proposed", "digest", "action"])
        writer.writeheader()
        writer.writerows(rows)
    return path


def reviewed(issues, actions):
    """Rows of a list, with actions by the number of the example."""
    by_row = {int(issue.name.split()[-1]): issue for issue in issues}
    return [by_row[row].row() | {"action": action} for row, action in actions.items()]


@pytest.fixture
def work(tmp_path, digits):
    """A model of 200 digits of which two are labelled wrong, and the list that mends one and removes the other."""
    responses, labels = digits[0][:200], digits[1][:200].copy()
    right = labels[20]
    labels[20], labels[30] = "7" if right != "7" else "1", "5" if labels[30] != "5" else "1"
    fitted = yoro.fit((responses, labels))
    rows = [
        {k: row[k] for k in ("path", "label", "proposed", "digest", "action")}
        for row in reviewed(fitted.issues((responses, labels)), {20: "relabel", 30: "remove"})
    ]
    rows[0]["proposed"] = right
    return fitted, responses, labels, right, write_list(tmp_path / "list.csv", rows)


def test_cleaning_equals_a_fit_of_the_mended_data_and_undo_of_the_first(work, tmp_path):
    fitted, responses, labels, right, file = work
    before = fitted.model
    change = fitted.clean(file, undo=tmp_path / "list.csv.undo")
    assert "1 example relabelled, 1 example removed." in change.notes
    mended = labels.copy()
    mended[20] = right
    whole = yoro.fit((np.delete(responses, 30, 0), np.delete(mended, 30))).model
    np.testing.assert_allclose(fitted.model.mapping.weights, whole.mapping.weights, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fitted.model.mapping.bias, whole.mapping.bias, rtol=1e-7, atol=1e-9)
    assert sorted(fitted.model.ledger.entries()) == sorted(whole.ledger.entries())
    assert fitted.model.history[-1]["verb"] == "clean"
    fitted.clean(tmp_path / "list.csv.undo")
    np.testing.assert_allclose(fitted.model.mapping.weights, before.mapping.weights, rtol=1e-7, atol=1e-9)
    assert sorted(fitted.model.ledger.entries()) == sorted(before.ledger.entries())
    assert len(fitted.model.reservoir) == len(before.reservoir)


def test_the_verb_keeps_an_undo_file_and_will_not_write_over_it(work, tmp_path):
    fitted, *_, file = work
    fitted.save(tmp_path / "m.yoro")
    assert "To undo this" in run("clean", tmp_path / "m.yoro", file).stderr
    assert yoro.load(tmp_path / "m.yoro").model.statistics.total == 199
    assert "exists" in run("clean", tmp_path / "m.yoro", file, code=1).stderr
    run("clean", tmp_path / "m.yoro", f"{file}.undo")
    assert yoro.load(tmp_path / "m.yoro").model.statistics.total == 200


def test_killed_between_undo_file_and_model_it_runs_again(work, tmp_path):
    fitted, *_, file = work
    fitted.save(tmp_path / "m.yoro")
    run("clean", tmp_path / "m.yoro", file, "--out", tmp_path / "n.yoro")  # leaves the undo file and the old model
    run("clean", tmp_path / "m.yoro", file)
    assert yoro.load(tmp_path / "m.yoro").model.statistics.total == 199
    run("clean", tmp_path / "m.yoro", f"{file}.undo")
    assert yoro.load(tmp_path / "m.yoro").model.statistics.total == 200
    other = file.read_text().replace("remove", "keep")
    file.write_text(other)
    assert "exists" in run("clean", tmp_path / "m.yoro", file, code=1).stderr


def test_a_list_that_no_longer_fits_changes_nothing(work, tmp_path):
    fitted, *_, file = work
    fitted.clean(file, undo=tmp_path / "a.undo")
    model = fitted.model
    with pytest.raises(StatisticsError, match="cannot be removed"):
        fitted.clean(file)
    assert fitted.model is model


def test_images_are_read_again_where_no_responses_are_kept(tmp_path):
    folder = write_folder(tmp_path / "photos", count=4, names=("cat", "coffee", "rocket"))
    (folder / "cat" / "000.jpg").rename(folder / "rocket" / "x.jpg")
    run("fit", folder, "--out", tmp_path / "m.yoro", "--workers", 0, "--no-reservoir", "--shrinkage", 0.3)
    file = write_list(tmp_path / "list.csv", [
        {"path": "photos/rocket/x.jpg", "label": "rocket", "proposed": "cat", "digest": "", "action": "relabel"},
    ])  # fmt: skip
    run("clean", tmp_path / "m.yoro", file, "--workers", 0)
    counts = yoro.load(tmp_path / "m.yoro").model.statistics
    assert dict(zip(counts.classes, counts.counts.tolist(), strict=True)) == {"cat": 4, "coffee": 4, "rocket": 4}


BAD = {
    "an action nobody knows": ({"action": "delete"}, "'delete'"),
    "a label that it has": ({"action": "relabel", "proposed": "a"}, "has the label 'a'"),
    "no label to give": ({"action": "relabel", "proposed": " "}, "has no proposed"),
    "no digest": ({"action": "remove", "digest": "zz"}, "32 hex digits"),
    "nothing asked for": ({"action": ""}, "changes nothing"),
    "no path": ({"action": "remove", "path": ""}, "has no path"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_list_is_an_error_that_says_where(tmp_path, what):
    row = {"path": "x.jpg", "label": "a", "proposed": "b", "digest": "", "action": "relabel"} | BAD[what][0]
    with pytest.raises(InputError, match=BAD[what][1]):
        read_corrections(write_list(tmp_path / "list.csv", [row]))


def test_two_different_actions_for_one_image_are_refused(tmp_path):
    row = {"path": "x.jpg", "label": "a", "proposed": "b", "digest": "", "action": "relabel"}
    with pytest.raises(InputError, match="two different actions"):
        read_corrections(write_list(tmp_path / "list.csv", [row, row | {"action": "remove"}]))
    assert len(read_corrections(write_list(tmp_path / "list.csv", [row, row]))) == 1


def test_a_name_made_safe_for_spreadsheets_is_read_as_it_was(tmp_path):
    row = {"path": "'-x.jpg", "label": "'=a", "proposed": "b", "digest": "", "action": "relabel"}
    one = read_corrections(write_list(tmp_path / "list.csv", [row]))[0]
    assert (one.name, one.label) == ("-x.jpg", "=a")


def test_a_damaged_undo_file_is_an_error_and_nothing_else(work, tmp_path):
    fitted, *_, file = work
    undo = tmp_path / "list.csv.undo"
    fitted.clean(file, undo=undo)
    model, content, rng = fitted.model, undo.read_bytes(), np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(content)
        damaged[rng.integers(min(len(damaged), 900))] = rng.integers(256)
        undo.write_bytes(damaged[: rng.integers(1, len(damaged))] if rng.random() < 0.3 else damaged)
        try:
            yoro.api.classifier.Classifier(model).clean(undo)
        except (StoreError, StatisticsError, InputError):
            continue
    assert invoke("clean", "nowhere.yoro", tmp_path / "none.csv").code == 1
