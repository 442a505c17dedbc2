"""`yoro stats` and `merge` as they are typed."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

import yoro
from child import start, wait_until
from command_line import invoke, run
from photos import write_folder
from yoro.trust.unlearning import largest_difference


@pytest.fixture
def work(tmp_path, digits) -> Path:
    responses, labels = digits
    np.savez(tmp_path / "all.npz", responses=responses[:600], labels=labels[:600])
    np.savez(tmp_path / "more.npz", responses=responses[600:700], labels=labels[600:700])
    run("fit", "all.npz", "--out", "all.yoro", cwd=tmp_path)
    for i in range(1, 5):
        run("stats", "all.npz", "--part", f"{i}/4", "--out", f"{i}.stats", cwd=tmp_path)
    return tmp_path


def test_an_array_of_jobs_and_one_merge_are_one_fit(work):
    names = [f"{i}.stats" for i in range(1, 5)]
    run("merge", *names, "--out", "m.yoro", cwd=work)
    one, two = (yoro.load(work / name).model for name in ("m.yoro", "all.yoro"))
    assert largest_difference(one, two) < 1e-9
    run("merge", *names[:2], "--out", "left.stats", cwd=work)
    run("merge", *names[2:], "--out", "right.stats", cwd=work)
    run("merge", "left.stats", "right.stats", "--out", "tree.yoro", cwd=work)
    assert largest_difference(yoro.load(work / "tree.yoro").model, two) < 1e-9
    np.testing.assert_array_equal(two.members().responses, yoro.load(work / "tree.yoro").model.members().responses)


def test_models_and_statistics_merge_in_any_mix(work):
    run("fit", "more.npz", "--out", "more.yoro", cwd=work)
    run("merge", "more.yoro", *[f"{i}.stats" for i in range(1, 5)], "--out", "mix.yoro", cwd=work)
    run("merge", "all.yoro", "more.yoro", "--out", "models.yoro", cwd=work)
    one, two = (yoro.load(work / name).model for name in ("mix.yoro", "models.yoro"))
    assert largest_difference(one, two) < 1e-9
    run("merge", "all.yoro", "more.yoro", "--out", "models.stats", cwd=work)
    run("merge", "models.stats", "--out", "again.yoro", cwd=work)
    assert largest_difference(yoro.load(work / "again.yoro").model, two) < 1e-9


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["merge", "1.stats", "1.stats", "--out", "x.yoro"], 1, "1.stats and 1.stats contain the same part"),
        (["merge", "all.yoro", "--out", "x.yoro"], 2, "at least two models"),
        (["merge", "all.yoro", "all.yoro", "--out", "x.yoro", "--prior", "uniform"], 2, "need .stats"),
        (["merge", "1.stats", "2.stats", "--out", "x.yoro", "--shrinkage", "best"], 1, "shrinkage rule"),
        (["merge", "1.stats", "2.stats", "--out", "x.yoro", "--shrinkage", "validation"], 1, "validation data"),
        (["merge", "1.stats", "all.npz", "--out", "x.yoro"], 1, "is not a model"),
        (["merge", "1.stats", "none.stats", "--out", "x.yoro"], 1, "none.stats"),
        (["merge", "1.stats", "2.stats", "--out", "x"], 1, "ends in .yoro"),
        (["stats", "all.npz", "--out", "x.npz"], 2, "ending in .stats"),
        (["stats", "all.npz", "--out", "x.stats", "--part", "7"], 1, "expected I/N"),
        (["stats", "all.npz", "--out", "x.stats", "--part", "9/8"], 1, "expected I/N"),
        (["stats", "all.npz", "--out", "x.stats", "--part", "1/700"], 1, "Make at most 600 parts"),
        (["stats", "all.npz", "--out", "1.stats"], 1, "exists already"),
        (["stats", "--out", "x.stats"], 2, "No data"),
        (["inspect", "1.stats", "--prompt", "x.png"], 2, "needs a model"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_nothing_is_written(work, words, code, said):
    ended = invoke(*words, cwd=work)
    assert ended.code == code, ended
    assert said in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert not list(work.glob("x*"))


def test_a_damaged_file_of_statistics_is_named(work):
    (work / "bad.stats").write_bytes((work / "2.stats").read_bytes()[:-100])
    ended = invoke("merge", "1.stats", "bad.stats", "--out", "x.yoro", cwd=work)
    assert ended.code == 1
    assert "bad.stats is damaged" in ended.stderr
    assert "none.stats cannot be used" in invoke("merge", "1.stats", "none.stats", "--out", "x.yoro", cwd=work).stderr


def test_inspect_says_what_a_file_reveals(work):
    run("stats", "all.npz", "--sums-only", "--out", "sums.stats", cwd=work)
    full, sums = (run("inspect", name, cwd=work).stdout for name in ("1.stats", "sums.stats"))
    assert "Individual responses of 150 images" in full
    assert "Hashes of 150 images" in full
    assert "Individual responses" not in sums
    assert "Hashes" not in sums
    facts = json.loads(run("inspect", "sums.stats", "--json", cwd=work).stdout)
    assert facts["examples"] == 600
    assert facts["responses_kept"] == facts["digests_kept"] == 0
    run("merge", "sums.stats", "--out", "sums.yoro", cwd=work)
    assert "no image hashes" in run("inspect", "sums.yoro", cwd=work).stdout
    ended = invoke("clean", "sums.yoro", issues(work), cwd=work)
    assert "no image hashes" in ended.stderr


def issues(folder: Path) -> str:
    (folder / "list.csv").write_text(f"path,label,action,digest\na,1,remove,{'0' * 32}\n")
    return "list.csv"


def test_broken_images_are_named_and_the_rest_is_written(tmp_path):
    write_folder(tmp_path / "photos", count=2)
    (tmp_path / "photos" / "cat" / "0broken.jpg").write_bytes(b"nothing")
    ended = run("stats", "photos", "--out", "a.stats", "--read", "features", cwd=tmp_path, code=1)
    assert "0broken.jpg" in ended.stderr
    assert json.loads(run("inspect", "a.stats", "--json", cwd=tmp_path).stdout)["examples"] == 8


SLOW = """
import time
from pathlib import Path
def respond(images):
    Path("asked").open("a").write("x" * len(images))
    if Path("slow").exists() and len(Path("asked").read_text()) > 300:
        Path("waiting").touch()
        time.sleep(600)
    return images.reshape(len(images), -1)[:, ::5000].astype("float32")
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_ended_goes_on_with_resume(tmp_path, how, monkeypatch):
    """Checkpoints are written at every step here, so that even a kill finds one."""
    write_folder(tmp_path / "photos", count=100, names=("cat", "coffee", "rocket", "astronaut"))
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "slow").touch()
    words = ["stats", "photos", "--out", "a.stats", "--source", "callable:slow:respond", "--workers", "0"]
    often = "import yoro.model.checkpoint as g, sys; g.SECONDS_BETWEEN = 0.0; g.SHARE_OF_TIME = 1e9; "
    often += "from yoro.cli.app import main; main(sys.argv[1:])"
    child = start("-c", often, *words, cwd=tmp_path, stderr=subprocess.PIPE)
    wait_until((tmp_path / "waiting").exists, child)
    child.send_signal(how)
    said = child.communicate()[1]
    assert child.returncode == (130 if how == signal.SIGINT else -9), said
    assert not (tmp_path / "a.stats").exists()
    (tmp_path / "slow").unlink()
    (tmp_path / "asked").unlink()
    run(*words, "--resume", cwd=tmp_path)
    assert len((tmp_path / "asked").read_text()) < 200  # of 400: those before the checkpoint are not read again
    (tmp_path / "whole").mkdir()
    run(*["whole/a.stats" if word == "a.stats" else word for word in words], cwd=tmp_path)
    one, two = (
        json.loads(run("inspect", name, "--json", cwd=tmp_path).stdout) for name in ("a.stats", "whole/a.stats")
    )
    assert one == two
    assert not (tmp_path / ".a.stats.part").exists()
    assert "Nothing to resume" in run(*words, "--resume", cwd=tmp_path).stderr


def test_statistics_with_noise_keep_nothing_exact_and_say_what_they_promise(work):
    words = ["stats", "all.npz", "--noise", "1,1e-5", "--out", "noisy.stats"]
    assert "--clip C" in invoke(*words, cwd=work).stderr
    run(*words, "--clip", "80", cwd=work)
    text, facts = (
        run("inspect", "noisy.stats", cwd=work).stdout,
        json.loads(run("inspect", "noisy.stats", "--json", cwd=work).stdout),
    )
    assert "Noise: epsilon 1, delta 1e-05 for adding or removing one image, clipped to 80." in text
    assert facts["responses_kept"] == facts["digests_kept"] == 0
    assert all(count != round(count) for count in facts["classes"].values() if count > 1)
    run("merge", "noisy.stats", "--out", "noisy.yoro", cwd=work)
    assert "noise        epsilon 1, delta 1e-05" in run("inspect", "noisy.yoro", cwd=work).stdout
    assert "epsilon 1, delta 1e-05" in (work / "noisy.yoro" / "README.md").read_text()
    assert "needs --noise" in invoke("stats", "all.npz", "--clip", "3", "--out", "x.stats", cwd=work).stderr
