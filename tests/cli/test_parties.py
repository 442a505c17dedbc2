"""`yoro parties` as it is typed: the whole exchange, and what goes wrong on the way."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import yoro
from command_line import invoke, run
from photos import write_folder
from yoro.trust.unlearning import largest_difference

NAMES = ("north", "south", "west")


@pytest.fixture
def work(tmp_path, digits) -> Path:
    for i, name in enumerate(NAMES):
        rows = slice(100 * i, 100 * i + 100)
        np.savez(tmp_path / f"{name}.npz", responses=digits[0][rows], labels=digits[1][rows])
    np.savez(tmp_path / "all.npz", responses=digits[0][:300], labels=digits[1][:300])
    return tmp_path


def agree(work, *more):
    classes = ",".join("0123456789")
    words = ["parties", "agree", "s", "--parties", ",".join(NAMES), "--classes", classes]
    return run(*words, "--like", "all.npz", *more, cwd=work)


def joined(work):
    agree(work)
    for name in NAMES:
        run("parties", "join", "s", "--party", name, "--key", f"{name}.key", cwd=work)


def test_the_whole_exchange_is_one_fit(work):
    joined(work)
    run("stats", "west.npz", "--sums-only", "--out", "west.stats", cwd=work)
    for name, data in zip(NAMES, ("north.npz", "south.npz", "west.stats"), strict=True):
        run("parties", "mask", "s", data, "--key", f"{name}.key", cwd=work)
    assert "Not all parties have confirmed" in invoke("parties", "sum", "s", "--out", "t.stats", cwd=work).stderr
    for name in NAMES:
        run("parties", "confirm", "s", "--key", f"{name}.key", cwd=work)
    shown = run("parties", "show", "s", cwd=work).stdout
    assert shown.count("masked, confirmed") == 3
    assert shown.splitlines()[-1] == "Next, anyone: yoro parties sum s --out TOTAL.stats"
    run("parties", "sum", "s", "--out", "t.stats", cwd=work)
    assert "one by one" not in run("inspect", "t.stats", cwd=work).stdout
    run("merge", "t.stats", "--out", "t.yoro", cwd=work)
    whole = yoro.fit(work / "all.npz", shrinkage="oas", reservoir=0).model
    assert largest_difference(yoro.load(work / "t.yoro").model, whole) < 1e-9


def test_every_step_names_the_next_and_two_parties_know_at_the_start_what_they_see(work):
    (work / "s").mkdir()  # a folder that is shared already
    words = ["--parties", "north,south", "--classes", ",".join("0123456789"), "--like", "all.npz"]
    said = run("parties", "agree", "s", *words, cwd=work).stderr
    assert "of two parties, each can subtract its own sums from the total and learn the other's" in said
    assert "Next, each party: yoro parties join s --party NAME --key NAME.key" in said
    said = [run("parties", "join", "s", "--party", n, "--key", f"{n}.key", cwd=work).stderr for n in NAMES[:2]]
    assert "compare the fingerprints with the other parties over another channel" in said[0]
    assert "yoro parties mask s DATA --key north.key" in said[0]
    assert "Compare the fingerprints" in run("parties", "show", "s", cwd=work).stdout
    said = [run("parties", "mask", "s", f"{n}.npz", "--key", f"{n}.key", cwd=work).stderr for n in NAMES[:2]]
    assert "Next, when south has masked too: yoro parties confirm s --key north.key" in said[0]
    assert "Next: yoro parties confirm s --key south.key" in said[1]
    said = [run("parties", "confirm", "s", "--key", f"{n}.key", cwd=work).stderr for n in NAMES[:2]]
    assert "Next, when south has confirmed too: yoro parties sum s --out TOTAL.stats" in said[0]
    said = run("parties", "sum", "s", "--out", "t.stats", cwd=work).stderr
    assert "Next: yoro merge t.stats --out MODEL.yoro" in said
    said = run("merge", "t.stats", "--out", "t.yoro", cwd=work).stderr
    assert "calibrated on responses simulated from the sums" in said


def test_a_slow_party_is_not_dropped_without_a_word(work):
    joined(work)
    for name in NAMES[:2]:
        run("parties", "mask", "s", f"{name}.npz", "--key", f"{name}.key", cwd=work)
    refused = invoke("parties", "confirm", "s", "--key", "north.key", cwd=work)
    assert refused.code == 1
    assert "--without west" in refused.stderr
    said = run("parties", "confirm", "s", "--key", "north.key", "--without", "west", cwd=work).stderr
    assert "Without west, who sent no message." in said
    shown = run("parties", "show", "s", cwd=work).stdout.splitlines()
    assert next(line for line in shown if line.startswith("west")).endswith("  left out")
    assert shown[-1] == "Next, south: yoro parties confirm s --key NAME.key"
    for verb, more in (("mask", ["west.npz"]), ("confirm", ["--without", "west"])):
        late = invoke("parties", verb, "s", *more, "--key", "west.key", cwd=work)
        assert "The others confirmed without west" in late.stderr
        assert "Found" not in late.stderr  # nothing is read


def test_fingerprints_are_the_same_for_all_who_look(work):
    agree(work)
    said = run("parties", "join", "s", "--party", "west", "--key", "w.key", cwd=work).stderr
    shown = run("parties", "show", "s", cwd=work).stdout
    mark = said.split("Fingerprint: ")[1].splitlines()[0].strip()
    assert len(mark.split()) == 8
    assert f"west   {mark}" in shown
    assert "north  has not joined" in shown
    assert "Next, north, south: yoro parties join s --party NAME --key NAME.key" in shown
    unmade = invoke("parties", "mask", "s", "north.npz", "--key", "n.key", cwd=work).stderr
    assert "n.key does not exist. `yoro parties join" in unmade


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["agree", "s", "--parties", "a,b", "--classes", "x,y", "--like", "all.npz"], 1, "s is not empty"),
        (["agree", "t", "--parties", "a", "--classes", "x,y", "--like", "all.npz"], 1, "expected at least 2"),
        (["agree", "t", "--parties", "a,b,a", "--classes", "x,y", "--like", "all.npz"], 1, "'a' is given twice"),
        (["agree", "t", "--parties", "a,../b", "--classes", "x,y", "--like", "all.npz"], 1, "letters, digits"),
        (["agree", "t", "--parties", "a,b", "--classes", "x", "--like", "all.npz"], 1, "expected at least 2"),
        (
            ["agree", "t", "--parties", "a,b", "--classes", "x,y", "--like", "all.npz", "--bits", "200"],
            1,
            "200 frac",
        ),
        (["agree", "t", "--parties", "a,b", "--classes", "x,y", "--like", "all.npz", "--least", "3"], 1, "2 to 2"),
        (["agree", "t", "--parties", "a,b", "--classes", "x,y", "--like", "none.npz"], 1, "none.npz"),
        (["join", "s", "--party", "nobody", "--key", "x.key"], 1, "not a party of the agreement"),
        (["join", "s", "--party", "west", "--key", "x.key"], 1, "has joined"),
        (["join", "none", "--party", "west", "--key", "x.key"], 1, "has no agreement.json"),
        (["mask", "s", "north.npz", "--key", "none.key"], 1, "none.key does not exist"),
        (["mask", "s", "none.npz", "--key", "north.key"], 1, "none.npz"),
        (["mask", "s", "odd.npz", "--key", "north.key"], 1, "'eleven' is not in the agreement"),
        (["mask", "s", "narrow.npz", "--key", "north.key"], 1, "width 5; the agreement has width 64"),
        (["confirm", "s", "--key", "north.key"], 1, "0 of 3 parties"),
        (["join", "u", "--party", "west", "--key", "north.key"], 1, "has the keys of north"),
        (["sum", "s", "--out", "t.yoro"], 2, "ending in .stats"),
        (["sum", "s", "--out", "t.stats"], 1, "0 of 3 parties"),
    ],
)
def test_what_goes_wrong_is_one_line_and_nothing_is_written(work, digits, words, code, said):
    joined(work)
    shutil.copytree(work / "s", work / "u")
    (work / "u" / "west.public").unlink()
    np.savez(work / "odd.npz", responses=digits[0][:2], labels=["1", "eleven"])
    np.savez(work / "narrow.npz", responses=digits[0][:2, :5], labels=["1", "2"])
    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    ended = invoke("parties", *words, cwd=work)
    assert ended.code == code, ended
    assert any(part in ended.stderr for part in said.split("|")), ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert {path: path.read_bytes() for path in work.rglob("*") if path.is_file()} == before


@pytest.mark.long
def test_images_are_read_as_was_agreed_on(tmp_path):
    for name, seed in (("a", 0), ("b", 1)):
        write_folder(tmp_path / name, count=3, seed=seed)
    words = ["parties", "agree", "s", "--parties", "a,b", "--classes", "astronaut,cat,coffee,rocket"]
    run(*words, "--read", "logits", cwd=tmp_path)
    for name in "ab":
        run("parties", "join", "s", "--party", name, "--key", f"{name}.key", cwd=tmp_path)
    run("respond", "a", "--read", "features", "--out", "features.npz", cwd=tmp_path)
    ended = invoke("parties", "mask", "s", "features.npz", "--key", "a.key", cwd=tmp_path)
    assert "not read as agreed" in ended.stderr
    run("respond", "a", "--read", "logits", "--out", "a.npz", cwd=tmp_path)
    run("parties", "mask", "s", "a.npz", "--key", "a.key", cwd=tmp_path)
    run("parties", "mask", "s", "b", "--key", "b.key", cwd=tmp_path)
    said = [run("parties", "confirm", "s", "--key", f"{name}.key", cwd=tmp_path).stderr for name in "ab"]
    assert all("Only two parties remain" in one for one in said)
    run("parties", "sum", "s", "--out", "t.stats", cwd=tmp_path)
    run("merge", "t.stats", "--out", "t.yoro", cwd=tmp_path)
    answers = run("evaluate", "t.yoro", "b", "--json", cwd=tmp_path)
    assert '"n": 12' in answers.stdout
