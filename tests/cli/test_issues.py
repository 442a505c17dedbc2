"""`yoro issues`: wrong labels found without a model, and mended in the files as well as in the model."""

from __future__ import annotations

import csv
import io
import json
import shutil

import numpy as np
import pytest

import yoro
from command_line import run
from photos import write_folder


@pytest.fixture(scope="module")
def mixed_up(tmp_path_factory):
    """Photographs of two classes; one of a cat lies among the rockets."""
    root = tmp_path_factory.mktemp("issues")
    write_folder(root / "photos", 6, names=("cat", "rocket"))
    (root / "photos" / "cat" / "000.jpg").rename(root / "photos" / "rocket" / "wrong.jpg")
    yoro.fit(root / "photos").save(root / "m.yoro")
    return root


@pytest.fixture
def work(mixed_up, tmp_path):
    for name in ("photos", "m.yoro"):
        shutil.copytree(mixed_up / name, tmp_path / name)
    return tmp_path


def reviewed(work, action):
    """A list in which the first image, the worst of all, has an action."""
    rows = list(csv.DictReader(io.StringIO((work / "issues.csv").read_text())))
    rows[0]["action"] = action
    with (work / "issues.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def tree(work):
    return sorted(str(path.relative_to(work)) for path in (work / "photos").rglob("*.jpg"))


def test_the_worst_label_is_found_with_a_model_and_without(work):
    own = json.loads(run("issues", "photos", "--json", cwd=work).stdout)
    by_model = json.loads(run("issues", "photos", "--model", "m.yoro", "--json", cwd=work).stdout)
    for found in (own, by_model):
        assert (found[0]["path"], found[0]["proposed"]) == ("photos/rocket/wrong.jpg", "cat")
    said = run("inspect", "m.yoro", "photos", "--issues", "--json", cwd=work)
    assert json.loads(said.stdout) == by_model
    assert "is now `yoro issues DATA --model M.yoro`" in said.stderr


def test_the_page_says_that_images_outside_the_model_are_judged_by_it_as_it_is(work):
    write_folder(work / "others", 2, seed=9, names=("cat", "rocket"))
    run("issues", "photos", "--model", "m.yoro", "--html", "ours.html", cwd=work)
    run("issues", "others", "--model", "m.yoro", "--html", "others.html", cwd=work)
    told = "4 images not in the model: judged by the model as it is."
    assert told in (work / "others.html").read_text()
    assert "not in the model" not in (work / "ours.html").read_text()


def test_a_reviewed_list_moves_the_files_and_mends_the_model_and_both_can_be_undone(work):
    said = run("issues", "photos", "--model", "m.yoro", "--fix", cwd=work).stderr
    assert "yoro issues --fix issues.csv" in said
    assert (work / "issues.html").is_file()
    before, model = tree(work), yoro.load(work / "m.yoro").model
    reviewed(work, "relabel")
    said = run("issues", "--fix", "issues.csv", "--model", "m.yoro", cwd=work).stderr
    assert "--fix issues.csv --undo --model m.yoro" in said
    assert "photos/cat/wrong.jpg" in tree(work)
    mended, again = yoro.load(work / "m.yoro").model, yoro.fit(work / "photos").model
    np.testing.assert_allclose(mended.mapping.weights, again.mapping.weights, atol=1e-7)  # the error stays mended
    run("issues", "--fix", "issues.csv", "--undo", "--model", "m.yoro", cwd=work)
    assert tree(work) == before
    np.testing.assert_allclose(yoro.load(work / "m.yoro").model.mapping.weights, model.mapping.weights, atol=1e-7)
    assert not [path for path in work.iterdir() if path.suffix in (".undo", ".moved")]


def test_what_is_removed_is_set_aside_where_no_fit_finds_it(work):
    run("issues", "photos", "--model", "m.yoro", "--fix", cwd=work)
    reviewed(work, "remove")
    run("issues", "--fix", "issues.csv", cwd=work)
    assert "photos/.yoro-removed/rocket/wrong.jpg" in tree(work)
    assert len(yoro.fit(work / "photos").model.ledger) == 11
    assert "is not there; nothing was moved" in run("issues", "--fix", "issues.csv", cwd=work, code=1).stderr
    run("issues", "--fix", "issues.csv", "--undo", cwd=work)
    assert "photos/rocket/wrong.jpg" in tree(work)
    assert not (work / "photos" / ".yoro-removed").exists()


def test_a_model_that_refuses_the_list_leaves_the_files_where_they_are(work):
    run("issues", "photos", "--fix", cwd=work)
    reviewed(work, "relabel")
    run("relabel", "m.yoro", "rocket=ship", cwd=work)
    before = tree(work)
    run("issues", "--fix", "issues.csv", "--model", "m.yoro", cwd=work, code=1)
    assert tree(work) == before
    assert not (work / "issues.csv.moved").exists()
    assert "needs --fix LIST" in run("issues", "photos", "--undo", cwd=work, code=2).stderr


def test_earlier_spellings_work_and_name_the_new_ones(work):
    run("issues", "photos", "--model", "m.yoro", "--fix", cwd=work)
    reviewed(work, "relabel")
    assert "`yoro issues --fix LIST --model M.yoro`" in run("clean", "m.yoro", "issues.csv", cwd=work).stderr
    (work / "gone" / "cat").mkdir(parents=True)
    shutil.copy(work / "photos" / "cat" / "001.jpg", work / "gone" / "cat")
    run("forget", "m.yoro", "gone", "--receipt", "r.json", cwd=work)
    old, new = run("verify", "m.yoro", "r.json", cwd=work), run("forget", "m.yoro", "--verify", "r.json", cwd=work)
    assert new.stdout == old.stdout
    assert "is now `yoro forget M.yoro --verify FILE.json`" in old.stderr
    assert "is now" not in new.stderr


def test_a_broken_file_does_not_hide_how_to_go_on(work):
    (work / "photos" / "cat" / "broken.jpg").write_text("no image")
    said = run("issues", "photos", "--model", "m.yoro", "--fix", cwd=work, code=1).stderr
    assert "yoro issues --fix issues.csv" in said
    assert "broken.jpg" in said
