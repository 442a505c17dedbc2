"""`yoro refine` as a process of its own that is killed, resumed, and stopped with Ctrl-C."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

import yoro
from refining_cases import digit_examples

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the torch extra is not installed"),
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
]
EPOCHS = 6


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Digits in folders, and a model of them."""
    folder = tmp_path_factory.mktemp("interrupted")
    for part, examples in (("train", digit_examples(0, 120)), ("val", digit_examples(120, 60))):
        for number, example in enumerate(examples):
            (folder / part / example.label).mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.asarray(example.image)).save(folder / part / example.label / f"{number:03d}.png")
    yoro.fit(folder / "train", source="embedded:lite0?side=48").save(folder / "m.yoro")
    return folder


def command(out, *more):
    words = ["refine", "m.yoro", "train", "--val", "val", "--epochs", str(EPOCHS), "--no-flip", "--out", out]
    return [sys.executable, "-m", "yoro", *words, "--json", *more]


def stopped(place, out, words, number):
    """Run until a line on stderr has these words, and send the signal within the epoch that follows."""
    run = subprocess.Popen(command(out), cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = []
    for line in run.stderr:
        said.append(line)
        if words in line:
            time.sleep(0.05)
            run.send_signal(number)
            break
    told, rest = run.communicate(timeout=120)
    return run.returncode, told, "".join(said) + rest


def test_killed_within_an_epoch_the_verb_resumes_to_the_same_model(place):
    whole = subprocess.run(command("whole.yoro"), cwd=place, capture_output=True, text=True)
    assert whole.returncode == 0, whole.stderr
    straight = json.loads(whole.stdout)
    assert straight["kept"]
    code, _, said = stopped(place, "cut.yoro", "Epoch 1 of", signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert f"Epoch {EPOCHS} of" not in said
    assert not (place / "cut.yoro").exists()
    resumed = subprocess.run(command("cut.yoro", "--resume"), cwd=place, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert "Epoch 1 of" not in resumed.stderr
    found = json.loads(resumed.stdout)
    assert [found[key] for key in ("epoch", "validation", "loss")] == [
        straight[key] for key in ("epoch", "validation", "loss")
    ]
    assert found["epoch"] > 1
    for file in ("prompt.safetensors", "mapping.safetensors"):
        assert (place / "cut.yoro" / file).read_bytes() == (place / "whole.yoro" / file).read_bytes()
    assert not list(place.glob(".cut.yoro*"))


def test_ctrl_c_exits_with_130_and_keeps_the_best_so_far(place):
    code, told, said = stopped(place, "early.yoro", "; the best so far", signal.SIGINT)
    assert code == 130, said
    assert "Traceback" not in said
    assert "Interrupted; the best so far is in early.yoro" in said
    found = json.loads(told)
    assert found["kept"]
    assert found["epoch"] >= 1
    assert len(found["validation"]) < EPOCHS + 1
    model = yoro.load(place / "early.yoro")
    assert model.model.origin.prompt["trained"]
    best = max(found["validation"])
    assert model.evaluate(place / "val").accuracy == pytest.approx(best, abs=1 / 60)
    assert (place / ".early.yoro.part").is_dir()  # --resume goes on from here
