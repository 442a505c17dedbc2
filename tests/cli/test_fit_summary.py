"""What verbs say of a model at their end: how good it is, what it confuses, and which classes are too small."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from command_line import run
from photos import write_folder
from yoro.model.metrics import wilson_interval
from yoro.model.open_model import load

WIDTH = 5


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Three classes, two of which are hard to tell apart, in files of responses."""
    rng = np.random.default_rng(0)
    labels = np.array(["far", "left", "right"] * 40)
    means = {"far": [9.0, 0, 0, 0, 0], "left": [0.0, 0, 0, 0, 0], "right": [1.0, 0, 0, 0, 0]}
    responses = np.array([means[label] for label in labels]) + rng.normal(size=(120, WIDTH))
    for name, part in {"first": slice(0, 60), "second": slice(60, 120), "both": slice(30, 90)}.items():
        np.savez(tmp_path / f"{name}.npz", responses=responses[part], labels=labels[part])
    return tmp_path


def brute_force(file: Path, shrinkage: float) -> int:
    """Right answers of models each fitted without one row."""
    import yoro

    data = np.load(file)
    right = 0
    for row in range(len(data["labels"])):
        rest = np.arange(len(data["labels"])) != row
        model = yoro.fit((data["responses"][rest], data["labels"][rest]), shrinkage=shrinkage)
        right += model.predict(data["responses"][row : row + 1]) == [data["labels"][row]]
    return right


def test_fit_ends_with_the_accuracy_that_fits_without_each_example_have(work: Path) -> None:
    done = run("fit", "first.npz", "--out", "m.yoro", "--json", "-v", cwd=work)
    figures = json.loads(done.stdout)["leave_one_out"]
    right = brute_force(work / "first.npz", load(work / "m.yoro").model.choice.shrinkage)
    assert figures["accuracy"] == right / 60
    assert tuple(figures["interval"]) == wilson_interval(right / 60, 60)
    assert figures["n"] == 60
    assert {(pair["truth"], pair["answer"]) for pair in figures["confusions"]} == {("left", "right"), ("right", "left")}
    assert sum(pair["n"] for pair in figures["confusions"]) == 60 - right
    assert re.search(rf"Leave-one-out accuracy {100 * right / 60:.1f}% \(95 %: .* to .*, 60 examples\)\.", done.stderr)
    assert re.search(r"confusions: (left as right|right as left) \(\d+\), ", done.stderr)
    assert "Warning" not in done.stderr


def test_changes_end_with_the_accuracy_of_the_model_they_leave(work: Path) -> None:
    run("fit", "first.npz", "--out", "m.yoro", cwd=work)
    run("fit", "second.npz", "--out", "n.yoro", cwd=work)
    whole = run("merge", "m.yoro", "n.yoro", "--out", "whole.yoro", cwd=work).stderr
    more = run("update", "m.yoro", "second.npz", cwd=work).stderr
    lines = [line for line in more.splitlines() if line.startswith(("Leave-one-out", "Most frequent"))]
    assert len(lines) == 2
    assert "120 examples" in lines[0]
    assert set(lines) <= set(whole.splitlines())
    assert "60 examples)" in run("forget", "m.yoro", "second.npz", cwd=work).stderr
    assert "Leave-one-out" not in run("relabel", "m.yoro", "far=away", cwd=work).stderr  # no answer has changed


def test_fit_says_the_result_and_the_next_step_first(work: Path) -> None:
    said = run("fit", "first.npz", "--out", "m.yoro", cwd=work).stderr
    saved, expected, following = said.splitlines()
    assert saved == "Saved m.yoro: 3 classes, 60 examples."
    assert re.match(r"Expected accuracy \d\d % \(\d\d to \d\d\)\. Weakest: ", expected)
    assert expected.endswith(("left, mistaken for right.", "right, mistaken for left."))
    assert following == "Next: yoro predict m.yoro NEW.npz"
    told = run("inspect", "m.yoro", cwd=work).stdout
    assert "by leave-one-out (95 %" in told
    assert "temperature" in told


def test_of_lopsided_data_the_smallest_class_stands_beside_the_accuracy(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.array(["common"] * 150 + ["rare"] * 3)
    responses = rng.normal(size=(153, WIDTH)) + 30.0 * (labels == "rare")[:, None]
    np.savez(tmp_path / "z.npz", responses=responses, labels=labels)
    said = run("fit", "z.npz", "--out", "m.yoro", cwd=tmp_path).stderr
    assert "Expected accuracy 100 % (98 to 100), 100 % averaged over the classes." in said
    assert "Weakest: rare, 3 of 3 right (44 to 100 %); add photos of it." in said


def test_quiet_is_quiet(work: Path) -> None:
    assert run("fit", "first.npz", "--out", "m.yoro", "-q", cwd=work).stderr == ""
    assert run("update", "m.yoro", "second.npz", "-q", cwd=work).stderr == ""


def test_classes_of_one_or_two_images_are_named(work: Path) -> None:
    rng = np.random.default_rng(1)
    labels = np.array(["many"] * 9 + ["some"] * 9 + ["pair"] * 2 + ["single"])
    np.savez(work / "few.npz", responses=rng.normal(size=(21, WIDTH)), labels=labels)
    done = run("fit", "few.npz", "--out", "m.yoro", "--json", cwd=work)
    assert "Warning: 2 classes with only one or two images: 'single' (1), 'pair' (2)." in done.stderr
    summary = json.loads(done.stdout)
    assert "'single' (1), 'pair' (2)" in summary["warnings"][0]
    assert summary["leave_one_out"]["n"] == 20  # without the single one its class would not exist


def test_one_image_a_class_has_no_accuracy_and_says_what_to_do(work: Path) -> None:
    np.savez(work / "one.npz", responses=np.eye(2), labels=np.array(["a", "b"]))
    done = run("fit", "one.npz", "--out", "m.yoro", "--json", cwd=work)
    assert "No leave-one-out estimate" in done.stderr
    assert "yoro evaluate" in done.stderr
    assert json.loads(done.stdout)["leave_one_out"] is None


def test_evaluate_on_what_was_fitted_says_so(work: Path) -> None:
    run("fit", "first.npz", "--out", "m.yoro", cwd=work)
    done = run("evaluate", "m.yoro", "first.npz", cwd=work)
    assert "WARNING: all 60 images were used to fit" in done.stderr
    assert done.stdout.startswith("accuracy, fitted ")
    assert "WARNING" not in run("evaluate", "m.yoro", "second.npz", cwd=work).stderr


def test_evaluate_counts_unseen_images_apart_and_first(work: Path) -> None:
    run("fit", "first.npz", "--out", "m.yoro", cwd=work)
    data = np.load(work / "both.npz")
    np.savez(work / "new.npz", responses=data["responses"][30:], labels=data["labels"][30:])
    alone = json.loads(run("evaluate", "m.yoro", "new.npz", "--json", cwd=work).stdout)
    done = run("evaluate", "m.yoro", "both.npz", "--json", cwd=work)
    found = json.loads(done.stdout)
    assert next(iter(found)) == "unseen"
    assert found["unseen"] == alone
    assert (found["n"], found["fitted"], alone["fitted"], alone["unseen"]) == (60, 30, 0, None)
    assert "30 of the 60 images were used to fit this model; trust only" in done.stderr
    first, second = run("evaluate", "m.yoro", "both.npz", cwd=work).stdout.splitlines()[:2]
    assert first.startswith("accuracy, unseen ")
    assert "n = 30)" in first
    assert second.startswith("accuracy, all ")


def test_images_that_were_fitted_are_known_under_other_names_and_labels(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "fitted", count=3, names=("cat", "coffee"))
    run("fit", folder, "--out", "m.yoro", cwd=tmp_path)
    other = write_folder(tmp_path / "other", count=1, names=("cat", "coffee"), seed=7)
    shutil.copy(folder / "cat" / "000.jpg", other / "coffee" / "another name.jpg")
    done = run("evaluate", "m.yoro", other, "--json", "--html", "page.html", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (found["fitted"], found["n"], found["unseen"]["n"]) == (1, 3, 2)
    assert "Accuracy, unseen" in (tmp_path / "page.html").read_text()


def test_what_every_reading_says_is_told_once(tmp_path):
    folder = write_folder(tmp_path / "photos", count=1, names=("cat", "coffee"))
    said = run("fit", folder, "--out", tmp_path / "m.yoro").stderr
    assert said.count("show no spread within a class") == 1
