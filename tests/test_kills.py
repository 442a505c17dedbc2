"""Every verb that writes, killed at system calls that change files: what was there stays whole; run again, it works."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import yoro
from command_line import invoke
from model.test_store_survival import traced
from parties_cases import begin, dealt, key, play
from photos import write_folder
from yoro.discriminant.readings import Layout
from yoro.model.model import Origin
from yoro.model.store import read_model
from yoro.model.unlearning_receipt import read_receipt
from yoro.parties.agreement import agreement_of, write_agreement
from yoro.parties.secure_aggregation import confirm, send

pytestmark = [
    pytest.mark.skipif(
        shutil.which("strace") is None, reason="strace is not installed: nobody can kill at a system call"
    ),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
MODELS = Path(__file__).parent / "models"
TINY = f"onnx:{MODELS / 'tiny.onnx'}?mean=0,0,0&std=1,1,1"
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
    "respond": ["photos", "--out", "new.npz", "--source", TINY, "--workers", "0"],
    "export": ["images.yoro", "new.onnx", "--source", TINY],
    "export --web": ["images.yoro", "--web", "page", "--source", TINY],
    "refine": ["m.yoro", "train", "--val", "val", "--out", "new.yoro", "--epochs", "1", "--canvas", "32"],
    "parties agree": ["new", "--parties", "a,b", "--classes", "a,b", "--like", "z.npz"],
    "parties join": ["joining", "--party", "a", "--key", "new.key"],
    "parties mask": ["masking", "z.npz", "--key", "masking-a.key"],
    "parties confirm": ["confirming", "--key", "confirming-a.key"],
    "parties sum": ["summing", "--out", "new.stats"],
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
    write_folder(folder / "photos", count=2)
    shutil.copytree(MODELS / "images.yoro", folder / "images.yoro")
    parts = dealt(responses, labels, ("a", "b"))
    write_agreement(agreement_of(["a", "b"], ["a", "b"], Origin(), Layout.of(4)), folder / "joining")
    session = begin(folder / "masking", ("a", "b"), ("a", "b"), Layout.of(4))
    send(session, parts["b"], key(session.folder, "b"))
    session = begin(folder / "confirming", ("a", "b"), ("a", "b"), Layout.of(4))
    for party, part in parts.items():
        send(session, part, key(session.folder, party))
    confirm(session, key(session.folder, "b"))
    play(folder / "summing", parts)
    return folder


@pytest.mark.parametrize("verb", ["forget --receipt", "predict --force", "parties mask"])
def test_killed_while_it_moves_files_a_verb_loses_nothing_and_runs_again(
    verb: str, files: Path, tmp_path: Path
) -> None:
    kill_everywhere(verb, files, tmp_path, MOVING)


@pytest.mark.long
@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "refine"])
def test_killed_at_any_change_of_a_file_a_verb_loses_nothing_and_runs_again(
    verb: str, files: Path, tmp_path: Path
) -> None:
    kill_everywhere(verb, files, tmp_path, CHANGING)


@pytest.mark.long
@pytest.mark.torch
def test_killed_while_it_moves_files_a_refinement_loses_nothing_and_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("YORO_CACHE", os.devnull)  # what is cached in the first run is not written in the others
    files = tmp_path / "files"
    for name, seed in (("train", 0), ("val", 1)):
        write_folder(files / name, count=4, names=("cat", "coffee"), seed=seed)
    yoro.fit(files / "train", source="embedded:lite0?side=32", read="logits").save(files / "m.yoro")
    kill_everywhere("refine", files, tmp_path, ("rename", "renameat2"))


def kill_everywhere(verb: str, files: Path, tmp_path: Path, wanted: tuple[str, ...]) -> None:
    """Run the verb, killed at each call in turn; look at what is left, and run it again."""
    named = [word for word in verb.split() if not word.startswith("-")]
    words, work, trace = [*named, *VERBS[verb]], tmp_path / "work", tmp_path / "trace"
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
                assert apart(lambda: act(words, work)) == 0, (call, when)
                assert state(work) == made, (call, when)


def apart(act: Callable[[], None]) -> int:
    """How a child ended that did `act`: engines whose threads run here would stand still in the next child."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def act(words: list[str], work: Path) -> None:
    """The verb; ends this process. It leaves no bytecode, whose writing would count among its calls once."""
    sys.dont_write_bytecode = True
    ended = invoke(*words, cwd=work)
    if ended.code:
        os.write(2, ended.stderr.encode())
    os._exit(ended.code)


def state(folder: Path) -> dict[str, object]:
    """What each output holds; the weights of a model, which must load."""
    found: dict[str, object] = {}
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue  # a draft that the next writer removes
        if path.suffix == ".yoro":
            found[path.name] = read_model(path).mapping.weights.tobytes()
        elif path.is_dir():
            found |= {f"{path.name}/{name}": content for name, content in state(path).items()}
        elif path.suffix in (".key", ".public") or path.name == "agreement.json":  # drawn at random
            table = json.loads(path.read_bytes())
            found[path.name] = [table.get(name) for name in ("party", "parties", "masked", "confirmed")]
        elif path.suffix in (".stats", ".undo", ".masked"):  # safetensors: the entries of its header come in any order
            found[path.name] = sorted(path.read_bytes())
        elif path.name == "new.json":  # a receipt has a date
            found[path.name] = read_receipt(path).removed
        else:
            found[path.name] = path.read_bytes()
    return found
