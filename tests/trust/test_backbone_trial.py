from __future__ import annotations

import json

import pytest

from command_line import invoke, run
from photos import write_folder
from yoro.trust.backbone_trial import Tried


def tried(gained, lost):
    return Tried("x", 100, 0.5, 0.5, gained, lost, 0.1, 0.1)


@pytest.mark.parametrize(
    ("gained", "lost", "said"),
    [(0, 0, "no clear difference"), (6, 3, "no clear difference"), (12, 2, "better"), (2, 12, "worse")],
)
def test_only_a_clear_difference_counts(gained, lost, said):
    assert tried(gained, lost).verdict == said


def test_a_source_that_sees_little_is_told_from_one_that_sees_more(tmp_path):
    """The network at 32 pixels beside itself at 224; and beside itself nothing is gained or lost."""
    folder = write_folder(tmp_path / "photos", count=6)
    words = ("advise", folder, "--workers", 0, "--json", "--read", "logits")
    found = json.loads(run(*words, "--try", "embedded:lite0,embedded:lite0?side=64").stdout)["tried"]
    same, small = found
    assert (same["gained"], same["lost"], same["images"], same["verdict"]) == (0, 0, 24, "no clear difference")
    assert small["lost"] > small["gained"]
    assert small["accuracy"] < small["present"] == same["accuracy"]
    assert invoke("advise", tmp_path / "z.npz", "--try", "embedded:lite0").code == 1


def test_responses_have_one_source_only(digits, tmp_path):
    import numpy as np

    np.savez(tmp_path / "z.npz", responses=digits[0][:100], labels=digits[1][:100])
    assert "--try needs images" in run("advise", tmp_path / "z.npz", "--try", "embedded:lite0", code=2).stderr
