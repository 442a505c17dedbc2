from __future__ import annotations

import os
import pty
import subprocess
import sys

import numpy as np
import pytest

from child import finish
from yoro.cli.app import main
from yoro.cli.explain import classes_screen
from yoro.cli.issues import _screen
from yoro.cli.output import MOST_ON_SCREEN, interruptible
from yoro.trust.explanations import ClassReasons

TALK = "from yoro.cli.output import passing\nfor name in ('first\\n', 'second', ''):\n    passing(name)"


def test_what_passes_is_one_line_on_a_terminal_and_nothing_in_a_log():
    leader, follower = pty.openpty()
    subprocess.run([sys.executable, "-c", TALK], stderr=follower, check=True)
    shown = os.read(leader, 10_000).decode()
    os.close(leader)
    os.close(follower)
    assert "second" in shown
    assert "\n" not in shown
    assert finish("-c", TALK).stderr == ""


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("", "interrupted. Nothing was written."),
        ("3 answers are kept.", "interrupted. 3 answers are kept."),
        ("interrupted, with 2 images in sorted.", "interrupted, with 2 images in sorted."),
    ],
)
def test_an_interrupt_says_once_what_was_kept(raised, told):
    with pytest.raises(KeyboardInterrupt) as stopped, interruptible("Nothing was written."):
        raise KeyboardInterrupt(*filter(None, [raised]))
    assert str(stopped.value) == told


def test_help_and_version_are_also_words(capsys):
    main(["help"])
    assert capsys.readouterr().out.startswith("Usage: yoro VERB")
    main(["version"])
    assert capsys.readouterr().out.startswith("yoro ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["predict", "m.yoro", "--out"], "--out needs a value."),
        (["fit", "d", "--out", "m.yoro", "--batch-size", "x"], 'expected a whole number, got "x"'),
    ],
)
def test_a_wrong_value_is_named_in_plain_words(words, told, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_a_help_fills_its_paragraphs(capsys):
    main(["issues", "--help"])
    assert "fitted without it. --fix opens a page\non which you accept" in capsys.readouterr().out


def test_issues_fit_a_screen():
    rows = [{"path": f"{n}.jpg", "issue": "label", "proposed": "cat", "like": ""} for n in range(40)]
    hard = [{"path": "h.jpg", "issue": "hard photo", "proposed": "dog", "like": ""}] * 80
    lines = _screen("About 40 wrong labels.", rows + hard).splitlines()
    assert lines[:2] == ["About 40 wrong labels.", "0.jpg  label: cat"]
    assert len(lines) == MOST_ON_SCREEN + 3
    assert "105 more" in lines[-2]
    assert _screen("80 hard photos.", hard).splitlines()[1] == "To list them all: --out issues.csv."
    assert _screen("No clearly wrong label.", []) == "No clearly wrong label."


def test_explained_classes_fit_a_screen():
    strengths = np.array([1.0, 0.5, 0.0, -0.5])
    reasons = [
        ClassReasons(f"class {n}", "logits", 1.0, strengths, ["gown", "apron", "sock", "jean"]) for n in range(40)
    ]
    lines = classes_screen(reasons).splitlines()
    assert lines[0] == "class 0: like gown, apron; unlike jean"
    assert len(lines) == MOST_ON_SCREEN + 1
    assert lines[-1].startswith("... and 25 more. For the full explanation: --class NAME")
