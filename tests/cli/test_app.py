from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import yoro
from child import finish
from command_line import run
from yoro.model.store import _config_digest

MODULES = 400  # that the help may load; it loads some 250, and numpy alone would bring 150 more


@pytest.fixture(scope="module")
def files(tmp_path_factory, digits):
    folder = tmp_path_factory.mktemp("responses")
    responses, labels = digits
    for name, start, stop in (("train", 0, 900), ("val", 900, 1200), ("test", 1200, 1797), ("some", 100, 130)):
        np.savez(folder / f"{name}.npz", responses=responses[start:stop].astype("f4"), labels=labels[start:stop])
    yoro.fit(folder / "train.npz").save(folder / "m.yoro")
    return folder


@pytest.fixture
def work(files, tmp_path):
    for file in files.glob("*.npz"):
        (tmp_path / file.name).symlink_to(file)
    return tmp_path


@pytest.fixture
def model(files, work):
    return shutil.copytree(files / "m.yoro", work / "m.yoro")


def test_fit_predict_and_evaluate(work, digits):
    done = run("fit", "train.npz", "--val", "val.npz", "--out", "m.yoro", "--json", cwd=work)
    summary = json.loads(done.stdout)
    assert summary["examples"] == 1200
    assert "300 validation examples are fitted too" in done.stderr
    assert "Expected accuracy" in done.stderr
    evaluation = json.loads(run("evaluate", "m.yoro", "test.npz", "--json", cwd=work).stdout)
    assert evaluation["accuracy"] > 0.9
    assert evaluation["n"] == 597
    assert evaluation["interval"][0] < evaluation["accuracy"] < evaluation["interval"][1]
    table = run("evaluate", "m.yoro", "test.npz", cwd=work).stdout
    assert "balanced accuracy" in table
    assert "predicted as" in table
    rows = list(csv.DictReader(io.StringIO(run("predict", "m.yoro", "test.npz", "--top", "2", cwd=work).stdout)))
    assert len(rows) == 597
    assert list(rows[0]) == ["path", "label", "probability", "label_2", "probability_2"]
    accuracy = np.mean([row["label"] == truth for row, truth in zip(rows, digits[1][1200:], strict=True)])
    assert accuracy == pytest.approx(evaluation["accuracy"])


def test_the_papers_protocol(work):
    run("fit", "train.npz", "--val", "val.npz", "--protocol", "paper", "--out", "p.yoro", cwd=work)
    facts = json.loads(run("inspect", "p.yoro", "--json", cwd=work).stdout)
    assert facts["rule"] == "validation"
    assert facts["temperature"] == 1.0
    assert list(facts["candidates"]) == ["0.01", "0.03", "0.1", "0.3", "0.5", "0.8"]


@pytest.mark.parametrize("shrinkage", ["loo", "k-fold", "oas", "rblw", "ledoit-wolf", "0.1"])
def test_every_rule_has_its_spelling(work, shrinkage):
    run("fit", "train.npz", "--shrinkage", shrinkage, "--out", "s.yoro", cwd=work)
    assert "<- chosen" in run("inspect", "s.yoro", cwd=work).stdout or shrinkage not in ("loo", "k-fold")


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl", "parquet"])
def test_predictions_in_every_format(work, model, kind):
    run("predict", "m.yoro", "some.npz", "--out", f"p.{kind}", cwd=work)
    file = work / f"p.{kind}"
    if kind == "parquet":
        from pyarrow import parquet

        rows = parquet.read_table(file).to_pylist()
    elif kind == "csv":
        rows = list(csv.DictReader(io.StringIO(file.read_text())))
    else:
        rows = json.loads(file.read_text()) if kind == "json" else [*map(json.loads, file.read_text().splitlines())]
    assert len(rows) == 30
    assert rows[0]["path"] == "some.npz#0"
    run("predict", "m.yoro", "some.npz", "--out", f"p.{kind}", cwd=work, code=1)
    run("predict", "m.yoro", "some.npz", "--out", f"p.{kind}", "--force", cwd=work)


def test_update_forget_relabel_and_merge(work, model):
    run("fit", "val.npz", "--out", "v.yoro", cwd=work)
    run("merge", "m.yoro", "v.yoro", "--out", "both.yoro", cwd=work)
    done = run("update", "m.yoro", "val.npz", cwd=work)
    assert "900 -> 1,200 examples" in done.stderr
    one, two = yoro.load(work / "both.yoro"), yoro.load(model)
    np.testing.assert_allclose(one.model.mapping.weights, two.model.mapping.weights, atol=1e-9)
    run("forget", "m.yoro", "some.npz", "--out", "less.yoro", cwd=work)
    assert yoro.load(work / "less.yoro").model.statistics.total == 1170
    assert yoro.load(model).model.statistics.total == 1200
    run("relabel", "m.yoro", "0=round", "8=round", "1=straight", cwd=work)
    assert yoro.load(model).classes == ("2", "3", "4", "5", "6", "7", "9", "round", "straight")


def tampered(folder):
    file = folder / "mapping.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def newer(folder):
    config = json.loads((folder / "config.json").read_text()) | {"format": 99}
    config["digest"] = _config_digest(config)
    (folder / "config.json").write_text(json.dumps(config))


def truncated(folder):
    (folder / "statistics.safetensors").write_bytes((folder / "statistics.safetensors").read_bytes()[:1000])


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["fit", "no.npz", "--out", "x.yoro"], 1, "does not exist"),
        (["fit", "text.npz", "--out", "x.yoro"], 1, "not a response file"),
        (["fit", "lengths.npz", "--out", "x.yoro"], 1, "5 responses but labels of shape"),
        (["fit", "nan.npz", "--out", "x.yoro"], 1, "1 of 4 responses contain NaN"),
        (["fit", "one.npz", "--out", "x.yoro"], 1, "needs at least 2"),
        (["fit", "train.npz", "--val", "narrow.npz", "--out", "x.yoro"], 1, "width 3"),
        (["fit", "train.npz", "--out", "m.yoro"], 1, "exists already"),
        (["fit", "train.npz", "--out", "x"], 1, "ends in .yoro"),
        (["fit", "train.npz", "--out", "no/x.yoro"], 1, "does not exist"),
        (["fit", "train.npz", "--out", "x.yoro", "--html", "."], 1, "is a folder; expected the name of a file"),
        (["fit", "m.yoro", "--out", "x.yoro"], 1, "'m.yoro' is a saved model, not data"),
        (["fit", "train.npz", "--shrinkage", "validation", "--out", "x.yoro"], 1, "needs validation data"),
        (["fit", "train.npz", "--shrinkage", "2", "--out", "x.yoro"], 2, "shrinkage"),
        (["fit", "train.npz", "--protocol", "mine", "--out", "x.yoro"], 2, "Unknown protocol"),
        (["fit", "train.npz"], 2, "--out M.yoro is missing. Try `yoro fit --help`"),
        (["guess"], 2, "Unknown command"),
        (["predict", "m.yoro", "narrow.npz"], 1, "takes (n, 64)"),
        (["predict", "m.yoro", "some.npz", "--format", "xml"], 2, "xml"),
        (["predict", "train.npz", "some.npz"], 1, "is not a model"),
        (["evaluate", "m.yoro", "stranger.npz"], 1, "does not know class 'cat'"),
        (["forget", "m.yoro", "stranger.npz"], 1, "cannot be removed"),
        (["forget", "m.yoro", "twice.npz"], 1, "cannot be removed"),
        (["relabel", "m.yoro", "cat=dog"], 1, "No class is named 'cat'"),
        (["relabel", "m.yoro", "cat"], 2, "expected OLD=NEW"),
        (["update", "m.yoro", "narrow.npz"], 1, "width 3"),
        (["inspect", "tampered.yoro"], 1, "was changed"),
        (["inspect", "newer.yoro"], 1, "Upgrade"),
        (["inspect", "truncated.yoro"], 1, "damaged"),
        (["merge", "m.yoro", "--out", "x.yoro"], 2, "at least two"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_bad_input_gets_one_line_and_nothing_is_written(work, model, digits, words, code, message):
    for damage in (tampered, newer, truncated):
        shutil.copytree(model, work / f"{damage.__name__}.yoro")
        damage(work / f"{damage.__name__}.yoro")
    (work / "text.npz").write_text("no archive")
    ones = np.ones((5, 64), dtype=np.float32)
    np.savez(work / "lengths.npz", responses=ones, labels=np.arange(4))
    np.savez(
        work / "nan.npz", responses=np.where(np.eye(4, 64, 3) > 0, [[np.nan]] + [[1.0]] * 3, 1.0), labels=np.arange(4)
    )
    np.savez(work / "one.npz", responses=ones, labels=np.zeros(5, int))
    np.savez(work / "narrow.npz", responses=np.ones((5, 3)), labels=np.arange(5))
    np.savez(work / "stranger.npz", responses=ones, labels=np.array(["cat"] * 5))
    np.savez(work / "twice.npz", responses=digits[0][[0, 0]].astype("f4"), labels=digits[1][[0, 0]])
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
    done = run(*words, cwd=work, code=code)
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    if code == 1:
        assert len(done.stderr.strip().splitlines()) == 1
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before


def test_debug_shows_the_traceback_wherever_it_stands(work):
    words = ["fit", "no.npz", "--out", "x.yoro"]
    for line in ([*words, "--debug"], ["--debug", *words]):
        done = finish("-m", "yoro", *line, cwd=work)
        assert done.returncode == 1
        assert "Traceback" in done.stderr


def test_one_image_a_class_is_fitted_with_a_word_of_warning(work, digits):
    np.savez(work / "few.npz", responses=digits[0][:10], labels=digits[1][:10])
    done = run("fit", "few.npz", "--out", "f.yoro", cwd=work)
    assert "nearest class mean" in done.stderr


def test_help_is_quick_and_imports_nothing_heavy(tmp_path):
    heavy = ("numpy", "scipy", "sklearn", "torch", "onnx")
    code = (
        "import sys, yoro.cli.app\nyoro.cli.app.main(['--help'])\n"
        f"print([m for m in {heavy} if m in sys.modules], len(sys.modules), file=sys.stderr)"
    )
    done = finish("-c", code, cwd=tmp_path)
    assert "fit" in done.stdout
    loaded, count = done.stderr.strip().rsplit(" ", 1)
    assert loaded == "[]"
    assert int(count) < MODULES


@pytest.mark.parametrize("words", [["--version"], ["fit", "--help"], ["predict", "-h"]])
def test_a_verb_imports_itself_and_nothing_heavy(tmp_path, words):
    heavy = ("numpy", "PIL", "scipy", "sklearn", "torch", "onnx", "jinja2", "tqdm")
    code = (
        f"import sys, yoro.cli.app\ntry:\n    yoro.cli.app.main({words})\nfinally:\n"
        f"    print([m for m in {heavy} if m in sys.modules], file=sys.stderr)\n"
        "    print(*[m for m in sys.modules if m.startswith('yoro.cli.')], file=sys.stderr)"
    )
    loaded, verbs = finish("-c", code, cwd=tmp_path).stderr.strip().splitlines()
    assert loaded == "[]"
    assert "yoro.cli.refine" not in verbs


def test_version_and_no_arguments(tmp_path):
    assert finish("-m", "yoro", "--version", cwd=tmp_path).stdout.strip() == f"yoro {yoro.__version__}"
    assert finish("-m", "yoro", cwd=tmp_path).returncode == 2


def test_a_closed_pipe_is_no_traceback(work, model):
    done = subprocess.run(
        f"{sys.executable} -m yoro predict m.yoro train.npz | head -1",
        shell=True,
        cwd=work,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "path,label,probability\n"
    assert "Traceback" not in done.stderr
