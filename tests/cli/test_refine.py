"""`yoro refine` as a process of its own that is killed, resumed, and stopped with Ctrl-C."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import yoro
from child import BOUND, start
from command_line import run
from refining_cases import digit_examples

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the torch extra is not installed"),
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
]
EPOCHS = 4
RECIPE = ["--batch-size", 16, "--no-flip", "--no-augment", "--workers", 0]  # few and small: decoded here


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Digits in folders, and a model of them."""
    folder = tmp_path_factory.mktemp("interrupted")
    for part, examples in (("train", digit_examples(0, 60)), ("val", digit_examples(120, 60))):
        for number, example in enumerate(examples):
            (folder / part / example.label).mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.asarray(example.image)).save(folder / part / example.label / f"{number:03d}.png")
    yoro.fit(folder / "train", source="embedded:lite0?side=32", read="logits").save(folder / "m.yoro")
    return folder


HALTING = """
import os, sys, threading
from yoro.refining import loop
epoch_of, step_of = loop.PromptTraining._epoch, loop.PromptTraining._step
def epoch(training, number, *given):
    training.epoch = number
    return epoch_of(training, number, *given)
def step(training, *given):
    loss = step_of(training, *given)
    if training.epoch == int(os.environ["HALTS_IN"]):
        print("halted", file=sys.stderr, flush=True)
        threading.Event().wait()  # within the epoch, after an update; until a signal
    return loss
loop.PromptTraining._epoch, loop.PromptTraining._step = epoch, step
from yoro.cli.app import main
main(sys.argv[1:])
"""


def command(out):
    return ["refine", "m.yoro", "train", "--val", "val", "--epochs", EPOCHS, *RECIPE, "--out", out, "--json"]


def stopped(place, out, epoch, number):
    """Run until it is within an epoch, and send the signal there."""
    child = start(
        "-c", HALTING, *command(out), cwd=place, env=os.environ | {"HALTS_IN": str(epoch)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    said = []
    for line in child.stderr:
        if line == "halted\n":
            child.send_signal(number)
            break
        said.append(line)
    told, rest = child.communicate(timeout=BOUND)
    return child.returncode, told, "".join(said) + rest


@pytest.mark.long
def test_killed_within_an_epoch_the_verb_resumes_to_the_same_model(place):
    straight = json.loads(run(*command("whole.yoro"), cwd=place).stdout)
    assert straight["kept"]
    code, _, said = stopped(place, "cut.yoro", 2, signal.SIGKILL)
    assert code == -signal.SIGKILL, said
    assert "Epoch 1 of" in said
    assert "Epoch 2 of" not in said
    assert not (place / "cut.yoro").exists()
    resumed = run(*command("cut.yoro"), "--resume", cwd=place)
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
    code, told, said = stopped(place, "early.yoro", EPOCHS, signal.SIGINT)
    assert code == 130, said
    assert "Traceback" not in said
    assert "best model so far is in early.yoro" in said
    found = json.loads(told)
    assert len(found["validation"]) < EPOCHS + 1
    model = yoro.load(place / "early.yoro")
    assert model.model.origin.prompt["trained"] == found["kept"]  # else it is the model as it came
    if found["kept"]:
        best = max(found["validation"])
        assert model.evaluate(place / "val").accuracy == pytest.approx(best, abs=1 / 60)
    assert (place / ".early.yoro.part").is_dir()  # --resume goes on from here
