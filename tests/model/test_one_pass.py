"""Every kind of data goes through the one pass, and what kind it was changes nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import yoro
from command_line import run
from photos import write_folder
from row_files import photos_of, write_parquet, write_tar
from yoro.data.find import find
from yoro.errors import InputError
from yoro.model.model import Model
from yoro.model.store import read_model

pytest.importorskip("pyarrow", reason="the extra data is not installed")
fsspec = pytest.importorskip("fsspec", reason="the extra data is not installed")

SOURCE = """
from pathlib import Path

HERE = Path(__file__).parent


def respond(images):
    with (HERE / "seen").open("a") as file:
        file.write(f"{len(images)}\\n")
    if (HERE / "interrupt").exists() and len((HERE / "seen").read_text().split()) > 40:
        raise KeyboardInterrupt
    return images.reshape(len(images), 4, 8, 4, 8, 3).mean(axis=(2, 4)).reshape(len(images), -1) / 64


respond.side = 32
respond.width = 48
"""
QUICK = {"source": "callable:quick:respond", "batch_size": 8}
WORDS = ["--source", "callable:quick:respond", "--batch-size", 8]
KINDS = [
    "rows.parquet", "paths.parquet", "parts", "[ab]*.parquet", "shard-{0..1}.tar", "wds:shard-*.tar",
    "file://{here}/photos", "memory://one-pass", "file://{here}/shard-*.tar", "file://{here}/rows.parquet",
]  # fmt: skip


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """The same photographs in every kind of data, and a quick source."""
    folder, before = tmp_path_factory.mktemp("kinds"), Path.cwd()
    os.chdir(folder)
    (folder / "quick.py").write_text(SOURCE)
    photos = photos_of(write_folder(folder / "photos", count=12))
    rows = [{"image": path.read_bytes(), "label": label} for path, label in photos]
    write_parquet(folder / "rows.parquet", rows, 10)
    write_parquet(folder / "paths.parquet", [{"path": str(p.relative_to(folder)), "label": n} for p, n in photos])
    (folder / "parts").mkdir()
    for name, start, stop in (("a", 0, 20), ("b", 20, 48)):
        write_parquet(folder / f"{name}.parquet", rows[start:stop], 7)
        write_parquet(folder / "parts" / f"{name}.parquet", rows[start:stop])
    write_tar(folder / "shard-0.tar", photos[:25])
    write_tar(folder / "shard-1.tar", photos[25:], "json")
    memory = fsspec.filesystem("memory")
    memory.pipe({f"/one-pass/{label}/{path.name}": path.read_bytes() for path, label in photos})
    yield folder
    memory.rm("/one-pass", recursive=True)
    os.chdir(before)


@pytest.fixture(scope="module")
def by_folder(work):
    return yoro.fit("photos", **QUICK)


def at(kind: str, work: Path) -> str:
    return kind.replace("{here}", str(work))


def assert_equal(one: Model, two: Model) -> None:
    """The same numbers in every bit, and the same contents in the same order."""
    np.testing.assert_array_equal(one.mapping.weights, two.mapping.weights)
    np.testing.assert_array_equal(one.mapping.bias, two.mapping.bias)
    assert one.mapping.classes == two.mapping.classes
    assert one.ledger.entries() == two.ledger.entries()


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_data_gives_the_model_and_the_answers_of_the_folder(work, by_folder, kind):
    data = at(kind, work)
    fitted = yoro.fit(data, **QUICK)
    assert_equal(fitted.model, by_folder.model)
    np.testing.assert_array_equal(fitted.predict_proba(data), by_folder.predict_proba("photos"))
    mine, theirs = fitted.evaluate(data), by_folder.evaluate("photos")
    assert (mine.accuracy, mine.log_loss, mine.fitted) == (theirs.accuracy, theirs.log_loss, theirs.fitted)


def test_processes_that_decode_change_nothing(work, by_folder):
    for data in ("rows.parquet", "shard-{0..1}.tar", f"file://{work}/photos", "memory://one-pass"):
        assert_equal(yoro.fit(data, **QUICK, workers=1).model, by_folder.model)


@pytest.mark.long
def test_the_verbs_take_them_as_they_are_typed(work):
    run("fit", "shard-0.tar", "shard-1.tar", "--out", "m.yoro", *WORDS)
    run("predict", "m.yoro", "rows.parquet", "--out", "p.csv", "--source", WORDS[1])
    run("predict", "m.yoro", "photos", "--out", "q.csv", "--source", WORDS[1])
    mine, theirs = (Path(name).read_text().splitlines() for name in ("p.csv", "q.csv"))
    assert [line.split(",")[1:] for line in mine] == [line.split(",")[1:] for line in theirs]
    assert mine[1].startswith("rows.parquet#0,")
    run("evaluate", "m.yoro", f"file://{work}/photos", "--source", WORDS[1])
    run("update", "m.yoro", "a.parquet", "--source", WORDS[1])
    assert read_model("m.yoro").statistics.total == 48 + 20
    run("forget", "m.yoro", "a.parquet", "--source", WORDS[1])
    run("stats", "rows.parquet", "--part", "1/2", "--out", "1.stats", *WORDS)
    run("stats", "rows.parquet", "--part", "2/2", "--out", "2.stats", *WORDS)
    run("merge", "1.stats", "2.stats", "--out", "both.yoro")
    assert sorted(read_model("both.yoro").ledger.entries()) == sorted(read_model("m.yoro").ledger.entries())
    run("predict", "m.yoro", "rows.parquet", "--sort-into", "sorted", "--source", WORDS[1])
    assert len(list(Path("sorted").glob("*/*"))) == 48


def test_draws_and_hold_outs_work_on_them_too(work):
    assert yoro.fit("rows.parquet", **QUICK, shots=3).model.statistics.total == 12
    held_out = yoro.fit("wds:shard-*.tar", **QUICK, shrinkage="validation")
    assert 36 <= held_out.model.statistics.total < 48


@pytest.mark.parametrize("kind", ["rows.parquet", "wds:shard-*.tar", "file://{here}/photos"])
def test_an_interrupted_fit_resumes_to_the_same_model(work, by_folder, kind):
    (work / "seen").unlink(missing_ok=True)
    (work / "seen").write_text("0\n" * 38)
    (work / "interrupt").touch()
    words = ["fit", at(kind, work), "--out", "cut.yoro", *WORDS, "--workers", 0]
    try:
        run(*words, code=130)
    finally:
        (work / "interrupt").unlink()
    (work / "seen").write_text("")
    run(*words, "--resume")
    assert sum(map(int, (work / "seen").read_text().split())) <= 48
    assert_equal(read_model("cut.yoro"), by_folder.model)
    shutil.rmtree("cut.yoro")


def test_responses_in_parquet_are_those_in_npz(work):
    run("respond", "rows.parquet", "--out", "z.npz", *WORDS)
    with np.load("z.npz") as file:
        values, labels = file["responses"], file["labels"]
    rows = [{"response": value.tolist(), "label": str(label)} for value, label in zip(values, labels, strict=True)]
    write_parquet(work / "z-0.parquet", rows[:30], 11)
    write_parquet(work / "z-1.parquet", rows[30:])
    one, two = yoro.fit("z-*.parquet"), yoro.fit("z.npz")
    np.testing.assert_allclose(one.model.mapping.weights, two.model.mapping.weights, rtol=1e-12, atol=1e-12)
    assert one.evaluate("z-*.parquet").accuracy == two.evaluate("z.npz").accuracy
    marked = [{**row, "split": "test" if i % 3 else "train"} for i, row in enumerate(rows)]
    split = yoro.fit(str(write_parquet(work / "marked.parquet", marked)))
    assert split.model.statistics.total == 16
    assert split.evaluate("marked.parquet").n == 32
    with pytest.raises(InputError, match="responses"):
        find(["z-0.parquet", "z-1.parquet"])
