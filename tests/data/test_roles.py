"""Which images are train, validation and test: every verb on every layout, seen by what was really read."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest
from PIL import Image

import command_line
import yoro
from yoro.data.decoding import digest
from yoro.data.find import find
from yoro.data.roles import ROLES, Rows, find_roles, to_change, to_fit, to_measure
from yoro.errors import InputError, SelectionError
from yoro.research.bench.datasets.drawing import draw

from .conftest import save

SOURCE = """
import numpy as np

def respond(images):
    return images.reshape(len(images), 4, 56, 4, 56, 3).mean(axis=(2, 4)).reshape(len(images), -1) / 255
"""
COLOURS = {"dark": 60, "light": 190}
SPLITS = ("train", "val", "test")


def write(folder, seed, count=6):
    """`folder/class/number.png`; every picture is another, so that its digest tells where it came from."""
    rng = np.random.default_rng(seed)
    for label, level in COLOURS.items():
        (folder / label).mkdir(parents=True)
        for i in range(count):
            pixels = np.clip(rng.normal(level, 40, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{i}.png")
    return folder


def contents(*folders):
    """The digests of all pictures below the folders."""
    return {digest(path) for folder in folders for path in folder.rglob("*.png")}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """`plain`, `whole/{train,val,test}`, `other/{train,val,test}`, `tests/test`, and lists of `whole` and of a part."""
    root = tmp_path_factory.mktemp("roles")
    write(root / "plain", 0)
    for number, name in enumerate(("whole", "other")):
        for i, split in enumerate(SPLITS):
            write(root / name / split, 10 * (number + 1) + i)
    write(root / "tests" / "test", 40)
    rows = [(p.relative_to(root), p.parent.name, p.parts[-3]) for p in sorted((root / "whole").rglob("*.png"))]
    lines = [f"{path},{label},{split}" for path, label, split in rows]
    (root / "list.csv").write_text("\n".join(["path,label,split", *lines]) + "\n")
    some = [line if ",test" in line else line.replace(",train", ",").replace(",val", ",val") for line in lines]
    (root / "half.csv").write_text("\n".join(["path,label,split", *some]) + "\n")
    (root / "colours.py").write_text(SOURCE)
    shutil.copytree(root / "whole", root / "wrapped" / "inner")
    shutil.copytree(root / "whole", root / "beside")
    write(root / "loose", 60)
    shutil.copytree(root / "loose" / "dark", root / "beside" / "unlabelled")
    for name, kind in (("whole", "zip"), ("wrapped", "gztar"), ("plain", "tar")):
        shutil.make_archive(str(root / name), kind, root / name)
    for path in sorted((root / "whole").rglob("*.png")):
        target = root / "named" / path.parts[-3] / f"{path.parent.name}_{path.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return root


@pytest.fixture
def run(place, tmp_path, monkeypatch):
    """The command line in an empty folder; what it said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(place))
    yield lambda *words, code=0: command_line.run(*words, code=code).stderr
    sys.modules.pop("colours", None)


CALLABLE = ("--source", "callable:colours:respond")
LAYOUTS = {  # what is given, and which splits of which folder may be fitted by a rule that holds nothing out
    "plain": (["plain"], {"plain": ("",)}),
    "splits": (["whole"], {"whole": ("train", "val")}),
    "list": (["list.csv"], {"whole": ("train", "val")}),
    "list, some unmarked": (["half.csv"], {"whole": ("train", "val")}),
    "splits in a folder": (["wrapped"], {"whole": ("train", "val")}),
    "splits beside unlabelled": (["beside"], {"whole": ("train", "val")}),
    "zip of splits": (["whole.zip"], {"whole": ("train", "val")}),
    "tar.gz of a folder": (["wrapped.tar.gz"], {"whole": ("train", "val")}),
    "several": (["plain.tar", "whole"], {"plain": ("",), "whole": ("train", "val")}),
    "by name": (["named", "--label-from", "{label}_{n}.png"], {"whole": ("train", "val")}),
    "val with splits": (["plain", "--val", "other"], {"plain": ("",), "other": ("val",)}),
    "splits, val with splits": (["whole", "--val", "other"], {"whole": ("train",), "other": ("val",)}),
}


def paths(place, words):
    return [place / word if not word.startswith(("--", "{")) else word for word in words]


def expected(place, wanted):
    return contents(*(place / name / split for name, splits in wanted.items() for split in splits))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fit_reads_what_it_may_and_no_test_image(place, run, tmp_path, layout):
    words, wanted = LAYOUTS[layout]
    said = run("fit", *paths(place, words), "--out", "m.yoro", *CALLABLE)
    fitted = {d.hex() for d in yoro.load(tmp_path / "m.yoro").model.ledger.digests()}
    assert fitted == expected(place, wanted)
    assert not fitted & contents(*place.glob("*/test"))
    assert ("not used" in said) == (layout != "plain")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fit_by_validation_holds_the_validation_split_out(place, run, tmp_path, layout):
    words, wanted = LAYOUTS[layout]
    run("fit", *paths(place, words), "--out", "m.yoro", "--protocol", "paper", *CALLABLE)
    fitted = {d.hex() for d in yoro.load(tmp_path / "m.yoro").model.ledger.digests()}
    kept = {name: tuple(s for s in splits if s != "val") for name, splits in wanted.items()}
    assert fitted <= expected(place, kept)
    assert fitted == expected(place, kept) or layout == "plain"  # of a plain folder a tenth is held out


@pytest.mark.parametrize("rule", ["loo", "validation"])
def test_what_is_added_and_taken_out_is_what_a_fit_would_take(place, run, tmp_path, rule):
    run("fit", place / "plain", "--out", "m.yoro", "--shrinkage", rule, *CALLABLE)
    before = sorted(yoro.load(tmp_path / "m.yoro").model.ledger.digests())
    said = run("update", "m.yoro", place / "whole", *CALLABLE)
    assert "12 images of the test split are not used" in said
    assert ("validation split are not used" in said) == (rule == "validation")
    added = {d.hex() for d in yoro.load(tmp_path / "m.yoro").model.ledger.digests()} - contents(place / "plain")
    assert added == expected(place, {"whole": ("train", "val") if rule == "loo" else ("train",)})
    run("forget", "m.yoro", place / "whole", *CALLABLE)
    assert sorted(yoro.load(tmp_path / "m.yoro").model.ledger.digests()) == before


@pytest.mark.parametrize(
    ("given", "n", "word"),
    [("plain", 12, ""), ("whole", 12, "12 test images"), ("list.csv", 12, "12 test images"), ("tests", 12, "")]
    + [(name, 12, "12 test images") for name in ("wrapped", "beside", "whole.zip", "wrapped.tar.gz")]
    + [("plain.tar", 12, "")],
)
def test_evaluate_measures_on_the_test_split(place, run, given, n, word):
    run("fit", place / "plain", "--out", "m.yoro", *CALLABLE)
    shown = command_line.run("evaluate", "m.yoro", place / given, "--json", *CALLABLE)
    assert json.loads(shown.stdout)["n"] == n
    assert word in shown.stderr
    parts, _ = to_measure(place / given)
    if given in ("whole", "tests"):
        assert {digest(example.image) for example in parts} == contents(place / given / "test")


def test_without_a_test_split_the_validation_split_is_measured_on(place, tmp_path):
    for split in ("train", "val"):
        shutil.copytree(place / "whole" / split, tmp_path / "two" / split)
    part, notes = to_measure(tmp_path / "two")
    assert {digest(example.image) for example in part} == contents(place / "whole" / "val")
    assert "the 12 training images are not used" in notes[0]


@pytest.mark.parametrize(
    ("data", "val", "test", "wanted"),
    [
        ("plain", None, None, {"train": ("plain", ""), "val": None, "test": None}),
        ("whole", None, None, {"train": ("whole", "train"), "val": ("whole", "val"), "test": ("whole", "test")}),
        ("list.csv", None, None, {"train": ("whole", "train"), "val": ("whole", "val"), "test": ("whole", "test")}),
        ("plain", "other", "whole", {"train": ("plain", ""), "val": ("other", "val"), "test": ("whole", "test")}),
        ("plain", None, "tests", {"train": ("plain", ""), "val": None, "test": ("tests", "test")}),
        ("whole", "other", "other", {"train": ("whole", "train"), "val": ("other", "val"), "test": ("other", "test")}),
    ],
)
def test_compare_gives_each_split_its_purpose(place, data, val, test, wanted):
    given = {"val": val and place / val, "test": test and place / test}
    roles = find_roles("compare", place / data, **given)
    for role in ROLES:
        found = {digest(example.image) for example in getattr(roles, role)}
        folder = wanted[role]
        assert found == (contents(place / folder[0] / folder[1]) if folder else set()), role
    names = [example.name for role in ROLES for example in getattr(roles, role)]
    assert len(set(names)) == len(names)


def test_refine_validates_on_the_validation_split_alone(place):
    roles = find_roles("refine", place / "plain", val=place / "other")
    assert {digest(example.image) for example in roles.val} == contents(place / "other" / "val")
    assert not roles.test
    assert "the 12 training and 12 test images are not used" in roles.notes[-1]
    roles = find_roles("refine", place / "whole")
    assert {digest(example.image) for example in roles.train} == contents(place / "whole" / "train")
    assert "The 12 images of the test split are not used." in roles.notes


def test_the_bench_draws_by_the_same_marks(place):
    drawn = draw(find(place / "whole"), seed=0)
    for role in ROLES:
        assert {digest(example.image) for example in getattr(drawn, role)} == contents(place / "whole" / role)
    with pytest.raises(InputError, match="no test images"):
        draw(find(place / "plain"), seed=0)


@pytest.mark.parametrize("verb", ["fit", "update", "forget", "refine", "compare"])
def test_a_test_split_alone_is_never_fitted(place, verb):
    with pytest.raises(InputError, match="the splits test but no training images"):
        find_roles(verb, place / "tests")


def test_a_test_split_alone_is_never_validated_on(place):
    with pytest.raises(InputError, match="only a test split"):
        to_fit(place / "plain", place / "tests", rule="validation", seed=0)
    assert len(find_roles("compare", place / "plain", test=place / "tests").test) == 12


def test_responses_remember_the_splits_of_their_images(place, run, tmp_path):
    run("respond", place / "whole", "--out", "z.npz", *CALLABLE)
    assert sorted(set(np.load(tmp_path / "z.npz")["splits"].tolist())) == ["test", "train", "val"]
    said = run("fit", "z.npz", "--out", "m.yoro")
    assert "12 images of the test split are not used" in said
    assert yoro.load(tmp_path / "m.yoro").model.statistics.total == 24
    run("fit", "z.npz", "--out", "p.yoro", "--protocol", "paper")
    assert yoro.load(tmp_path / "p.yoro").model.statistics.total == 12
    evaluation = yoro.load(tmp_path / "m.yoro").evaluate(tmp_path / "z.npz")
    assert evaluation.n == 12
    run("update", "p.yoro", "z.npz", "--out", "q.yoro")
    assert yoro.load(tmp_path / "q.yoro").model.statistics.total == 24
    roles = find_roles("compare", tmp_path / "z.npz")
    assert [len(getattr(roles, role)) for role in ROLES] == [12, 12, 12]
    assert isinstance(roles.test, Rows)
    run("respond", place / "whole", "--split", "test", "--out", "t.npz", *CALLABLE)
    assert "no training images" in run("fit", "t.npz", "--out", "x.yoro", code=1)


def test_zero_rows_are_called_empty(tmp_path):
    np.savez(tmp_path / "z.npz", responses=np.empty((0, 4)), labels=np.empty(0, dtype="U1"))
    with pytest.raises(InputError, match="The data are empty"):
        find_roles("fit", tmp_path / "z.npz")


def test_a_response_file_with_an_odd_split_is_refused(tmp_path):
    np.savez(tmp_path / "z.npz", responses=np.eye(4), labels=list("abab"), splits=["train", "dev", "", "holdout"])
    with pytest.raises(InputError, match="a split is 'holdout'"):
        find_roles("fit", tmp_path / "z.npz")


def test_rules_that_lack_validation_images_name_all_that_work(place, tmp_path):
    write(tmp_path / "few", 50, count=1)
    with pytest.raises(SelectionError, match="loo, k-fold, oas, rblw, ledoit-wolf, a number from 0 to 1"):
        to_fit(tmp_path / "few", None, rule="validation", seed=0)


def test_what_was_taken_for_classes_is_told_first(tmp_path):
    for place in ("Desktop", "Pictures/2023"):
        save(tmp_path / place / "a.png")
    _, _, notes = to_fit(tmp_path, None, rule="loo", seed=0)
    assert notes[0] == "Found 2 images of 2 classes to fit: 'Desktop', 'Pictures'."


@pytest.mark.parametrize("verb", ["fit", "compare"])
def test_one_class_alone_is_refused_before_an_image_is_read(place, run, tmp_path, verb):
    shutil.copytree(place / "plain" / "dark", tmp_path / "one" / "dark")
    (tmp_path / "nothing.py").write_text("def respond(images):\n    raise AssertionError('it was read')\n")
    out = ["--out", "m.yoro"] if verb == "fit" else []
    said = run(verb, tmp_path / "one", *out, "--source", "callable:nothing:respond", code=1)
    assert "are of one class, 'dark'; a classifier needs at least 2" in said


@pytest.mark.parametrize("beside", ["photos/Urlaub/loose.png", "empty/notes.txt"])
def test_one_class_alone_points_to_the_folder_whose_folders_may_be_meant(place, run, tmp_path, beside):
    shutil.copytree(place / "plain", tmp_path / "one" / "photos" / "Urlaub")
    (tmp_path / "one" / beside).parent.mkdir(exist_ok=True)
    (tmp_path / "one" / beside).write_bytes(b"x")
    said = run("fit", tmp_path / "one", "--out", "m.yoro", code=1)
    assert f"If the classes are the folders in '{tmp_path / 'one' / 'photos' / 'Urlaub'}', give that." in said


@pytest.mark.parametrize(
    "words", [["whole.zip"], ["wrapped"], ["beside"], ["named", "--label-from", "{label}_{n}.png"]]
)
def test_update_and_forget_read_the_layouts_that_fit_reads(place, run, tmp_path, words):
    run("fit", place / "plain", "--out", "m.yoro", *CALLABLE)
    run("update", "m.yoro", *paths(place, words), *CALLABLE)
    added = {d.hex() for d in yoro.load(tmp_path / "m.yoro").model.ledger.digests()} - contents(place / "plain")
    assert added == expected(place, {"whole": ("train", "val")})
    run("forget", "m.yoro", *paths(place, words), *CALLABLE)
    assert {d.hex() for d in yoro.load(tmp_path / "m.yoro").model.ledger.digests()} == contents(place / "plain")


def test_what_a_change_takes_follows_the_rule_of_the_model(place):
    assert [len(part) for part in to_change("update", place / "whole", "loo")[0]] == [12, 12]
    assert [len(part) for part in to_change("update", place / "whole", "validation")[0]] == [12]
    assert [len(part) for part in to_change("forget", place / "whole", 0.1)[0]] == [12, 12]


def test_the_same_data_given_for_validation_is_their_own_split(place):
    whole = str(place / "whole")
    again, alone = (find_roles("refine", whole, val=val) for val in (whole, None))
    assert again == alone
    assert "others were given" not in " ".join(again.notes)
