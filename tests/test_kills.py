"""Every verb that writes, killed at system calls that change files: what was there stays whole; run again, it works."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import yoro
from command_line import invoke
from model.test_store_survival import traced
from yoro.model.store import read_model
from yoro.model.unlearning_receipt import read_receipt

pytestmark = [
    pytest.mark.skipif(
        shutil.which("strace") is None, reason="strace is not installed: nobody can kill at a system call"
    ),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
MOVING = ("rename", "renameat2", "unlink", "unlinkat")
CHANGING = (*MOVING, "mkdir", "rmdir", "link", "linkat", "write", "chmod", "flock", "fsync")

# What each verb writes: an output of its own, or the model in place.
VERBS = {
    "fit": ["z.npz", "--out", "new.yoro"],
    "fit --force": ["more.npz", "--out", "m.yoro", "--force"],
    "update": ["m.yoro", "more.npz"],
    "forget": ["m.yoro", "some.npz"],
    "forget --receipt": ["m.yoro", "some.npz", "--receipt", "new.json"],
    "relabel": ["m.yoro", "a=c"],
    "clean": ["m.yoro", "list.csv"],
    "merge": ["m.yoro", "other.yoro", "--out", "new.yoro"],
    "merge --force": ["m.yoro", "other.yoro", "--out", "m.yoro", "--force"],
    "stats": ["z.npz", "--out", "new.stats"],
    "predict": ["m.yoro", "z.npz", "--out", "new.csv"],
    "predict --force": ["m.yoro", "z.npz", "--out", "old.csv", "--force"],
    "evaluate": ["m.yoro", "z.npz", "--html", "new.html"],
    "inspect --issues": ["m.yoro", "z.npz", "--issues", "--out", "new.csv"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kills")
    rng = np.random.default_rng(0)
    responses, labels = rng.normal(size=(40, 4)), np.array(["a", "b"] * 20)
    for name, rows in (("z", slice(0, 30)), ("some", slice(0, 4)), ("more", slice(30, 40))):
        np.savez(folder / f"{name}.npz", responses=responses[rows], labels=labels[rows])
    fitted = yoro.fit(folder / "z.npz")
    fitted.save(folder / "m.yoro")
    yoro.fit(folder / "more.npz").save(folder / "other.yoro")
    row = next(iter(fitted.issues(folder / "z.npz"))).row() | {"action": "remove"}
    (folder / "list.csv").write_text(
        "path,label,action,digest\n" + ",".join(str(row[key]) for key in ("path", "label", "action", "digest"))
    )
    (folder / "old.csv").write_text("path\nold\n")
    return folder


@pytest.mark.parametrize("verb", ["update", "forget --receipt", "clean", "predict --force"])
def test_killed_while_it_moves_files_a_verb_loses_nothing_and_runs_again(
    verb: str, files: Path, tmp_path: Path
) -> None:
    kill_everywhere(verb, files, tmp_path, MOVING)


@pytest.mark.long
@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_any_change_of_a_file_a_verb_loses_nothing_and_runs_again(
    verb: str, files: Path, tmp_path: Path
) -> None:
    kill_everywhere(verb, files, tmp_path, CHANGING)


def kill_everywhere(verb: str, files: Path, tmp_path: Path, wanted: tuple[str, ...]) -> None:
    """Run the verb, killed at each call in turn; look at what is left, and run it again."""
    words, work, trace = [verb.split()[0], *VERBS[verb]], tmp_path / "work", tmp_path / "trace"
    shutil.copytree(files, work)
    assert traced(lambda: act(words, work), trace, "-e", f"trace={','.join(wanted)}") == 0
    made = state(work)
    assert made != state(files), "the verb wrote something"
    counted = Counter(re.findall(r"^(\w+)\(", trace.read_text(), re.MULTILINE))
    for call, count in counted.items():
        for when in range(1, count + 1):
            options = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={when}"]
            shutil.rmtree(work)
            shutil.copytree(files, work)
            ended = traced(lambda: act(words, work), trace, *options)
            assert os.WIFSIGNALED(ended), (call, when)
            found = state(work)
            for name, content in found.items():
                assert content in (state(files).get(name), made.get(name)), (call, when, name)
            if found != made:
                again = invoke(*words, cwd=work)
                assert again.code == 0, (call, when, again.stderr)
                assert state(work) == made, (call, when)


def act(words: list[str], work: Path) -> None:
    """The verb; ends this process."""
    os._exit(invoke(*words, cwd=work).code)


def state(folder: Path) -> dict[str, object]:
    """What each output holds; the weights of a model, which must load."""
    found: dict[str, object] = {}
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue  # a draft that the next writer removes
        if path.suffix == ".yoro":
            found[path.name] = read_model(path).mapping.weights.tobytes()
        elif path.suffix in (".stats", ".undo"):  # safetensors: the entries of its header come in any order
            found[path.name] = sorted(path.read_bytes())
        elif path.suffix == ".json":  # a receipt has a date
            found[path.name] = read_receipt(path).removed
        else:
            found[path.name] = path.read_bytes()
    return found
