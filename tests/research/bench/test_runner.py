"""Plans run for real: scikit-learn's digits through the embedded network on a small canvas."""

from __future__ import annotations

import json
import os
import random
import runpy
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import command_line
from child import finish, start, wait_until
from yoro.data.examples import Example
from yoro.errors import StoreError
from yoro.model.partial_pass import DataShare
from yoro.model.pipeline import Pipeline
from yoro.research.bench.cell_loading import open_pipeline
from yoro.research.bench.claims import Claims
from yoro.research.bench.plan import Plan, make_plan
from yoro.research.bench.response_cache import ResponseCache
from yoro.research.bench.results import Results, entries
from yoro.research.bench.run_forecast import forecast
from yoro.research.bench.runner import RunSettings, run_plan

PLAN = {
    "title": "Digits",
    "datasets": ["digits"],
    "methods": ["yoro", "bdm-validation", "bdm-oas"],
    "seeds": [0, 1],
    "limit": {"train": 8, "val": 3, "test": 8},
    "settings": [{"name": "lite0", "source": "embedded:lite0?side=64", "prompt": "watermark"}],
}
EXAMPLES = Path(__file__).parents[3] / "examples"
torch_needed = pytest.mark.torch


def run(plan: Plan, folder: Path, roots: list[Path] | None = None) -> tuple[object, list[str]]:
    said: list[str] = []
    return run_plan(plan, Results(folder), RunSettings(roots or [], tell=said.append, tell_done=said.append)), said


def cell_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "cells").glob("*.json")}


@pytest.fixture(scope="module")
def computed(tmp_path_factory) -> Path:
    """Results of the small plan, computed once."""
    folder = tmp_path_factory.mktemp("results")
    tally, _ = run(make_plan(PLAN), folder)
    assert (tally.total, tally.computed, tally.failed) == (6, 6, 0)
    return folder


@pytest.fixture
def finished(computed: Path, tmp_path: Path) -> Path:
    """Results of the small plan, to do with as a test likes."""
    return shutil.copytree(computed, tmp_path / "finished")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Digits as a user's folder with splits."""
    digits = load_digits()
    for i in range(200):
        split = "train" if i < 120 else "val" if i < 150 else "test"
        place = tmp_path / "photos" / split / f"digit {digits.target[i] % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(digits.images[i] * 255 / 16)).save(place / f"{i}.png")
    return tmp_path / "photos"


def test_the_paper_rule_is_the_same_by_the_product_and_by_the_peers(finished: Path):
    listed, odd = entries(make_plan(PLAN), Results(finished))
    assert not odd
    right = {(e.method, e.seed): e.result.correct for e in listed}
    assert right["yoro", 0] == right["bdm-validation", 0] > 40
    assert right["yoro", 1] == right["bdm-validation", 1]
    one = next(e.result for e in listed if e.method == "yoro")
    assert (one.tested, one.fitted, one.passes, one.validation[1]) == (80, 80, 1, 30)
    assert one.shrinkage in (0.01, 0.03, 0.1, 0.3, 0.5, 0.8)


@pytest.mark.long
def test_the_share_of_coordinates_that_is_kept_is_recorded(tmp_path: Path):
    plan = make_plan(PLAN | {"methods": ["bdm-conditional", "bdm-adaptive", "bdm-oas"], "seeds": [0]})
    assert run(plan, tmp_path)[0].computed == 3
    one, two, three = (entry.result for entry in entries(plan, Results(tmp_path))[0])
    assert (one.retained, three.retained) == (0.95, None)
    assert two.retained in (0.8, 0.85, 0.9, 0.95, 1.0)
    assert one.shrinkage in (0.01, 0.03, 0.1, 0.3, 0.5, 0.8)


def test_finished_cells_are_never_computed_again(finished: Path):
    before = cell_files(finished)
    tally, said = run(make_plan(PLAN), finished)
    assert (tally.found, tally.computed) == (6, 0)
    assert not said
    assert cell_files(finished) == before
    more, said = run(make_plan(PLAN | {"methods": ["yoro", "ncm"]}), finished)
    assert (more.found, more.computed) == (2, 2)
    assert said[0].startswith("[3 of 4] lite0, digits, ncm, seed 0: ")


def test_two_workers_compute_every_cell_once_between_them(computed: Path, tmp_path: Path):
    plan, tallies = make_plan(PLAN), []
    threads = [threading.Thread(target=lambda: tallies.append(run(plan, tmp_path)[0])) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one, two = tallies
    assert one.computed + two.computed == 6
    assert all(tally.found + tally.computed + tally.elsewhere == 6 and not tally.failed for tally in tallies)
    assert _numbers(tmp_path) == _numbers(computed)
    assert not list((tmp_path / "claims").iterdir())


def test_shards_have_every_cell_once(computed: Path, tmp_path: Path):
    tallies = []
    for index in (1, 2, 3, 4):
        settings = RunSettings(share=DataShare(index, 4))
        tallies.append(run_plan(make_plan(PLAN), Results(tmp_path), settings))
    assert [tally.computed for tally in tallies] == [2, 2, 1, 1]
    assert _numbers(tmp_path) == _numbers(computed)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_the_scripts_for_schedulers_share_a_plan(computed: Path, tmp_path: Path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'title = "Digits"\ndatasets = ["digits"]\nmethods = ["yoro", "bdm-validation", "bdm-oas"]\nseeds = [0, 1]\n'
        "limit = { train = 8, val = 3, test = 8 }\n"
        '[[settings]]\nname = "lite0"\nsource = "embedded:lite0?side=64"\nprompt = "watermark"\n'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    job = {"PATH": path, "SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "3"}
    words = ["bash", EXAMPLES / "bench_slurm.sh", plan, tmp_path / "results", "--json"]
    done = subprocess.run(words, env=os.environ | job, capture_output=True, text=True, check=True)
    assert (json.loads(done.stdout)["total"], json.loads(done.stdout)["computed"]) == (2, 2)
    said = runpy.run_path(str(EXAMPLES / "bench_ray.py"))["work"](str(plan), str(tmp_path / "results"))
    assert said == "6 cells: 2 finished before, 4 computed"
    assert _numbers(tmp_path / "results") == _numbers(computed)


def test_a_cell_that_another_worker_failed_at_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plan, tried = make_plan(PLAN | {"methods": ["yoro"], "seeds": [0]}), []
    entry = plan.entries()[0]

    def taken(self, name):  # another worker has it, and fails
        tried.append(name)
        Results(tmp_path).fail(entry.cell, "no luck")

    monkeypatch.setattr("yoro.research.bench.runner.LOOK", 0.0)
    Results(tmp_path).fail(entry.cell, "long ago")
    os.utime(next((tmp_path / "failures").iterdir()), (1, 1))
    monkeypatch.setattr(Claims, "take", taken)
    tally, _ = run(plan, tmp_path)
    assert len(tried) == 1
    assert (tally.failed, list(tally.errors)) == (1, ["no luck"])


def test_responses_are_read_once_for_all_methods_and_seeds(finished: Path):
    folders = list((finished / "responses").iterdir())
    assert len(folders) == 1
    cache = ResponseCache(folders[0])
    seeds = 2 * (80 + 30) + 80  # what each seed draws, and test images that are the same
    assert 80 + 110 < len(cache) <= seeds
    stamps = {path: path.stat().st_mtime_ns for path in folders[0].iterdir()}
    run(make_plan(PLAN | {"methods": ["ridge"]}), finished)
    assert {path: path.stat().st_mtime_ns for path in folders[0].iterdir()} == stamps


def test_a_draw_is_written_as_a_split_file_that_can_be_read_again(photos: Path, tmp_path: Path):
    plan = make_plan(PLAN | {"datasets": [str(photos)], "seeds": [0, 1], "limit": {"train": 20, "val": 5}})
    run(plan, tmp_path / "results")
    listed, _ = entries(plan, Results(tmp_path / "results"))
    names = {e.seed: e.result.draw for e in listed}
    assert len({e.result.draw for e in listed}) == 2  # one a seed, shared by the methods
    (photos / "again.json").write_bytes((tmp_path / "results" / "draws" / f"{names[0]}.json").read_bytes())
    again = make_plan(PLAN | {"datasets": [str(photos / "again.json")], "seeds": [5], "limit": {}})
    run(again, tmp_path / "results")
    repeated, _ = entries(again, Results(tmp_path / "results"))
    first = {e.method: e.result.correct for e in listed if e.seed == 0}
    assert {e.method: e.result.correct for e in repeated} == first
    assert {e.result.draw for e in repeated} == {names[0]}


def test_a_method_that_fails_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "broken_method.py").write_text(
        "from yoro.research.peers.method import Method\n\ndef fit(task):\n    raise RuntimeError('no such luck')\n\n"
        "METHOD = Method('broken', fit)\n"
    )
    monkeypatch.chdir(tmp_path)
    plan = make_plan(PLAN | {"methods": ["broken_method:METHOD", "carprt", "ncm"], "seeds": [0]})
    tally, said = run(plan, tmp_path / "results")
    assert (tally.computed, tally.failed) == (1, 2)
    assert any("failed: RuntimeError: no such luck" in sentence for sentence in said)
    assert any("carprt" in sentence and "needs texts" in sentence for sentence in said)
    errors = {e.method: e.error for e in entries(plan, Results(tmp_path / "results"))[0]}
    assert errors["ncm"] is None
    assert "no such luck" in errors["broken_method:METHOD"]
    (tmp_path / "broken_method.py").write_text("from yoro.research.peers.nearest_mean import NEAREST_MEAN as METHOD\n")
    code = (
        "from pathlib import Path\nfrom yoro.research.bench.plan import make_plan\n"
        "from yoro.research.bench.results import Results\n"
        "from yoro.research.bench.runner import RunSettings, run_plan\n"
        f"print(run_plan(make_plan({PLAN | {'methods': ['broken_method:METHOD'], 'seeds': [0]}!r}), "
        f"Results(Path('results')), RunSettings()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "1 computed" in done.stdout
    assert Results(tmp_path / "results").error(plan.entries()[0].cell) is None  # the failure is forgotten


def test_an_interrupt_that_a_library_turns_into_an_error_still_stops_the_run(tmp_path, monkeypatch):
    (tmp_path / "stopped_method.py").write_text(
        "from yoro.research.peers.method import Method\n\ndef fit(task):\n    try:\n        raise KeyboardInterrupt\n"
        "    except BaseException:\n        raise RuntimeError('import failed')\n\nMETHOD = Method('stopped', fit)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(make_plan(PLAN | {"methods": ["stopped_method:METHOD", "ncm"], "seeds": [0]}), tmp_path)


def test_a_source_that_cannot_be_opened_fails_its_own_cells_only(tmp_path: Path):
    broken = {"name": "gone", "source": "onnx:gone.onnx", "prompt": "watermark"}
    tally, said = run(make_plan(PLAN | {"settings": [broken, *PLAN["settings"]], "seeds": [0]}), tmp_path)
    assert (tally.computed, tally.failed) == (3, 3)
    assert said[0].startswith("3 cells of digits failed: ")
    assert "gone.onnx" in said[0]


def test_a_source_is_opened_once_for_all_datasets(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from yoro.research.bench import cell_loading

    asked: list[str] = []
    monkeypatch.setattr(
        cell_loading, "open_pipeline", lambda cell, *rest: asked.append(cell.source) or open_pipeline(cell, *rest)
    )
    broken = {"name": "gone", "source": "onnx:gone.onnx", "prompt": "watermark"}
    plan = PLAN | {"datasets": ["digits", str(photos)], "settings": [broken, *PLAN["settings"]], "methods": ["ncm"]}
    tally, _ = run(make_plan(plan), tmp_path / "results")
    assert (tally.computed, tally.failed) == (4, 4)
    assert asked == ["onnx:gone.onnx", "embedded:lite0?side=64"]


def test_a_changed_file_under_finished_cells_is_noticed_and_said(photos: Path, tmp_path: Path):
    plan = make_plan(PLAN | {"datasets": [str(photos)], "methods": ["ncm"], "seeds": [0], "limit": {}})
    run(plan, tmp_path / "results")
    first = cell_files(tmp_path / "results")
    victim = next((photos / "train").rglob("*.png"))
    Image.new("L", (8, 8), 90).save(victim)
    assert [f.state for f in forecast(plan, Results(tmp_path / "results"), [])] == ["data changed"]
    tally, said = run(plan, tmp_path / "results")
    assert tally.computed == 1
    assert "1 files changed, 0 are new, 0 are gone" in said[0]
    assert victim.name in said[0]
    assert "1 finished cells were computed on other data" in said[0]
    assert len(cell_files(tmp_path / "results")) == 2
    assert set(first) < set(cell_files(tmp_path / "results"))
    _, odd = entries(plan, Results(tmp_path / "results"))
    assert any("1 cells also have older results" in sentence for sentence in odd)


def test_results_of_two_copies_in_one_table_are_said(photos: Path, tmp_path: Path):
    both, one = (
        make_plan(PLAN | {"datasets": [str(photos)], "methods": methods, "seeds": [0], "limit": {}})
        for methods in (["ncm", "ridge"], ["ridge"])
    )
    run(both, tmp_path / "results")
    next((photos / "test").rglob("*.png")).unlink()
    run(one, tmp_path / "results")
    _, odd = entries(both, Results(tmp_path / "results"))
    assert any("2 different copies of the data" in sentence for sentence in odd)


def test_an_image_that_cannot_be_read_fails_the_cells_and_is_named(photos: Path, tmp_path: Path):
    broken = photos / "train" / "digit 0" / "broken.png"
    broken.write_bytes(b"no image")
    plan = make_plan(PLAN | {"datasets": [str(photos)], "seeds": [0], "limit": {}})
    tally, said = run(plan, tmp_path / "results")
    assert (tally.computed, tally.failed) == (0, 3)
    assert "broken.png" in said[-1]


def test_a_missing_dataset_fails_its_cells_and_no_others(tmp_path: Path):
    tally, said = run(make_plan(PLAN | {"datasets": ["flowers102", "digits"], "seeds": [0]}), tmp_path, [tmp_path])
    assert (tally.computed, tally.failed) == (3, 3)
    assert said[0].startswith("3 cells of flowers102 failed: Flowers102 was not found. Looked for ")


def test_finished_cells_stay_when_their_data_or_source_is_gone(photos: Path, tmp_path: Path):
    plan = make_plan(PLAN | {"datasets": [str(photos)], "methods": ["ncm", "ridge"], "seeds": [0], "limit": {}})
    run(make_plan(PLAN | {"datasets": [str(photos)], "methods": ["ncm"], "seeds": [0], "limit": {}}), tmp_path / "r")
    before = cell_files(tmp_path / "r")
    photos.rename(tmp_path / "elsewhere")
    tally, said = run(plan, tmp_path / "r")
    assert (tally.found, tally.computed, tally.failed) == (1, 0, 1)
    assert said[0].startswith(f"Kept unchecked: 1 finished cell of {photos}: ")
    assert cell_files(tmp_path / "r") == before
    listed, _ = entries(plan, Results(tmp_path / "r"))
    assert [entry.result is not None for entry in listed] == [True, False]


@torch_needed
@pytest.mark.parametrize(
    ("own", "select", "fitted"), [(False, "test", 150), (False, "validation", 135), (True, "test", 120)]
)
def test_published_baselines_train_on_all_images_where_nothing_is_chosen_by_a_hold_out(
    own: bool, select: str, fitted: int, photos: Path, tmp_path: Path
):
    """CIFAR, SVHN and GTSRB have no validation images of their own; CoOp's are left alone by the published code."""
    pytest.importorskip("torch")
    if not own:
        for path in sorted((photos / "val").glob("*/*.png")):
            path.rename(photos / "train" / path.parent.name / path.name)
        shutil.rmtree(photos / "val")
    method = {"flm": {"epochs": 0, "select": select}}
    plan = make_plan(
        PLAN | {"datasets": [str(photos)], "methods": ["flm"], "seeds": [0], "limit": {}, "method": method}
    )
    assert run(plan, tmp_path / "r")[0].computed == 1
    ((entry,), _) = entries(plan, Results(tmp_path / "r"))
    assert entry.result.fitted == pytest.approx(fitted, abs=2)  # a tenth of each class


def test_published_draws_are_asked_for_by_name(tmp_path: Path):
    tally, said = run(make_plan(PLAN | {"draws": "published", "shots": 16, "limit": {}, "seeds": [1]}), tmp_path)
    assert tally.failed == 3
    assert "the published draw of 16 images per class for seed 1 was not found" in said[0]


def test_damaged_results_are_said_and_computed_again(computed: Path, finished: Path):
    files = sorted((finished / "cells").glob("*.json"))
    files[0].write_text("{")
    files[1].write_text(json.dumps(json.loads(files[1].read_text()) | {"correct": 10**6}))
    files[2].write_text(json.dumps(json.loads(files[2].read_text()) | {"edition": 0}))
    results = Results(finished)
    assert run_plan(make_plan(PLAN), results, RunSettings()).computed == 3
    assert len(results.odd) == 3
    assert "another edition" in " ".join(results.odd)
    assert {k: json.loads(v)["correct"] for k, v in cell_files(computed).items()} == {
        k: json.loads(v)["correct"] for k, v in cell_files(finished).items()
    }


def test_a_damaged_cache_is_an_error_that_says_what_to_do(tmp_path: Path):
    (tmp_path / "00000.npz").write_bytes(b"PK nothing")
    with pytest.raises(StoreError, match="Delete it"):
        ResponseCache(tmp_path)


DYING = """
import os, signal, sys
from pathlib import Path
from yoro.cli.app import main
from yoro.refining.checkpoint import TrainingCheckpoint
folder, finished = os.environ["CELLS"].rsplit(":", 1)
write = TrainingCheckpoint.write
def dying(*given):
    write(*given)
    if len(list(Path(folder).glob("*.json"))) >= int(finished):
        os.kill(os.getpid(), signal.SIGKILL)
TrainingCheckpoint.write = dying
main(sys.argv[1:])
"""


@pytest.mark.long
def test_eight_workers_killed_at_random_give_the_results_of_one(tmp_path: Path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'title = "Many"\ndatasets = ["digits"]\nmethods = ["yoro", "bdm-oas", "ncm", "ridge", "one-pass-blm"]\n'
        "seeds = [0, 1, 2, 3]\nlimit = { train = 6, val = 3, test = 6 }\n"
        + "".join(
            f'[[settings]]\nname = "s{side}"\nsource = "embedded:lite0?side={side}"\nprompt = "watermark"\n'
            for side in (32, 48)
        )
    )
    words = ["-m", "yoro", "bench", "run", plan, "--workers", "0", "--json", "--results"]
    command_line.run(*words[2:], tmp_path / "one")
    rng, many = random.Random(7), tmp_path / "many"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    workers = [start(*words, many, **quiet) for _ in range(8)]
    for finished in sorted(rng.sample(range(40), 5)):  # one dies when so many cells are there, and another one comes
        wait_until(lambda finished=finished: len(list((many / "cells").glob("*.json"))) >= finished)
        victim = workers.pop(rng.randrange(len(workers)))
        victim.kill()
        victim.wait()
        workers.append(start(*words, many, **quiet))
    assert [worker.wait() for worker in workers] == [0] * 8
    assert len(cell_files(many)) == 40
    assert _numbers(many) == _numbers(tmp_path / "one")
    assert not [path for path in (many / "claims").iterdir() if not path.name.startswith(".")]


@pytest.mark.long
@torch_needed
def test_a_killed_run_goes_on_where_it_was_and_ends_alike(tmp_path: Path):
    pytest.importorskip("torch")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'title = "Killed"\ndatasets = ["digits"]\nmethods = ["yoro", "yoro-fp", "flm", "blm+"]\nseeds = [0]\n'
        "limit = { train = 3, val = 2, test = 2 }\n"
        '[[settings]]\nname = "lite0"\nsource = "embedded:lite0?side=48"\nprompt = "watermark"\n'
        + "".join(f'[method."{name}"]\nepochs = 3\n' for name in ("yoro-fp", "flm", "blm+"))
    )
    words = ["bench", "run", plan, "--json", "--results"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command_line.run(*words, whole)
    for finished in (1, 2):  # in the midst of one training and of another
        done = finish("-c", DYING, *words, killed, env=os.environ | {"CELLS": f"{killed / 'cells'}:{finished}"})
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert len(cell_files(killed)) == finished
        assert any((killed / "trainings").glob("*/state.json"))
    stamps = {path: path.stat().st_mtime_ns for path in (killed / "cells").iterdir()}
    tally = json.loads(command_line.run(*words, killed).stdout)
    assert (tally["total"], tally["found"], tally["computed"]) == (4, 2, 2)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert _numbers(killed) == _numbers(whole)
    assert not list((killed / "trainings").iterdir())


def _numbers(folder: Path) -> dict[str, tuple[object, ...]]:
    found = (json.loads(content) for content in cell_files(folder).values())
    return {
        json.dumps(r["cell"], sort_keys=True): (
            r["correct"], r["validation"], r["depth"], r["shrinkage"], [e["correct"] for e in r["epochs"]],
        )
        for r in found
    }  # fmt: skip


def test_a_warning_of_a_cell_is_a_sentence_without_lines_of_code(tmp_path: Path):
    (tmp_path / "one.toml").write_text(
        'title = "One"\ndatasets = ["digits"]\nmethods = ["bdm-oas"]\nseeds = [0]\nlimit = { train = 1, test = 2 }\n'
        '[[settings]]\nname = "a"\nsource = "embedded:lite0?side=64"\nprompt = "watermark"\n'
    )
    done = command_line.run("bench", "run", "one.toml", cwd=tmp_path)
    assert "Note: 10 responses of 10 classes show no spread" in done.stderr
    assert "Warning" not in done.stderr
    assert "1 computed" in done.stderr


def test_a_timed_cell_makes_a_pass_of_its_own(finished: Path, monkeypatch: pytest.MonkeyPatch):
    passes: list[int] = []
    real = Pipeline.stream
    monkeypatch.setattr(
        Pipeline, "stream", lambda self, images, *more: passes.append(len(images)) or real(self, images, *more)
    )
    plan = make_plan(PLAN | {"methods": ["yoro"], "timed": True})
    run(plan, finished)
    assert passes == [80, 80], "one for each seed; the responses themselves were cached"
    timed, shared = ([e.result for e in entries(p, Results(finished))[0]] for p in (plan, make_plan(PLAN)))
    assert [r.correct for r in timed] == [r.correct for r in shared[:2]]
    assert timed[0].seconds != shared[0].seconds


def test_an_image_counts_the_time_of_the_part_it_was_read_in(finished: Path):
    (folder,) = (finished / "responses").iterdir()
    cache = ResponseCache(folder)
    for number, path in enumerate(sorted(folder.glob("*.npz"))):
        with np.load(path) as archive:
            parts = {name: archive[name] for name in archive.files}
        half = len(parts["names"]) // 2
        for piece, seconds in ((slice(None, half), 3.0), (slice(half, None), 50.0)):
            cut = {name: parts[name][piece] for name in ("responses", "names", "digests")}
            np.savez(folder / f"{number}-{seconds:g}.npz", seconds=seconds * len(cut["names"]), **cut)
        path.unlink()
    names = [str(name) for name in parts["names"]]
    slow, quick = (Example(np.zeros((1, 1)), None, name) for name in (names[-1], names[0]))
    assert len(ResponseCache(folder)) == len(cache)
    assert ResponseCache(folder).seconds_of([quick, slow, quick]) == pytest.approx(3.0 + 50.0 + 3.0)
