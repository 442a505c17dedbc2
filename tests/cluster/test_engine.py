from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import yoro
from cluster.conftest import seen
from cluster.models import assert_same
from command_line import run
from row_files import photos_of, pixels_of, write_parquet, write_tar
from yoro.cluster.tables import join_tables
from yoro.errors import ImageError, InputError, SourceError, StoreError
from yoro.model.store import read_model

SOURCE = "callable:counting:respond"
QUICK = {"source": SOURCE, "batch_size": 8}
SPREAD = {**QUICK, "ray": "local", "ray_block": 16}


@pytest.fixture(scope="module")
def alone(work):
    """The fit of one machine."""
    return yoro.fit("photos", **QUICK).model


@pytest.fixture
def unseen(work):
    """Nothing was asked of the source so far."""
    shutil.rmtree(work / "seen", ignore_errors=True)
    return work


@pytest.mark.long
def test_two_workers_make_the_same_mapping_as_one_machine(ray, alone):
    assert_same(yoro.fit("photos", **SPREAD).model, alone)


@pytest.mark.long
def test_the_embedded_network_with_mirror_images_gives_the_same_as_one_machine(ray, work):
    options = {"views": 2, "shots": 8}
    spread = yoro.fit("photos", **options, ray="local", ray_block=32)
    assert_same(spread.model, yoro.fit("photos", **options).model)


@pytest.mark.long
def test_several_networks_give_the_same_as_on_one_machine(ray, work):
    options = {"source": ["embedded:lite0?side=64", "embedded:lite0?side=32"], "shots": 8}
    spread = yoro.fit("photos", **options, ray="local", ray_block=16)
    alone = yoro.fit("photos", **options)
    assert spread.model.statistics.layout.networks == ("lite0-64", "lite0-32")
    assert_same(spread.model, alone.model)


@pytest.mark.long
def test_a_worker_killed_in_the_middle_changes_nothing(ray, alone, unseen):
    (unseen / "die").touch()
    fitted = yoro.fit("photos", **SPREAD)
    assert not (unseen / "die").exists()  # somebody took it, and died
    assert_same(fitted.model, alone)


@pytest.mark.long
def test_rows_of_parquet_give_the_same_as_a_folder(ray, work, alone):
    photos = photos_of(work / "photos")
    rows = [{"image": path.read_bytes(), "label": label} for path, label in photos]
    write_parquet(work / "a.parquet", rows[:40], 7)
    write_parquet(work / "b.parquet", rows[40:])
    assert_same(yoro.fit("[ab].parquet", **SPREAD).model, alone)


@pytest.mark.long
def test_shards_of_webdataset_give_the_same_as_a_folder(ray, work, alone):
    photos = photos_of(work / "photos")
    for i, start in enumerate(range(0, len(photos), 30)):
        write_tar(work / f"x-{i}.tar", photos[start : start + 30])
    assert_same(yoro.fit("wds:x-{0..3}.tar", **SPREAD).model, alone)


@pytest.mark.long
def test_a_folder_at_a_url_gives_the_same_as_on_this_disk(ray, work, alone):
    storage = f"file://{work}/shards"
    assert_same(yoro.fit(f"file://{work}/photos", **SPREAD, ray_storage=storage).model, alone)


@pytest.mark.long
def test_images_that_are_decoded_already_are_read_as_they_are(ray, work):
    photos = photos_of(work / "photos")
    rows = [{**pixels_of(path), "label": label} for path, label in photos]
    spread = yoro.fit(str(write_parquet(work / "raw.parquet", rows)), **SPREAD)
    arrays = [np.frombuffer(row["pixels"], np.uint8).reshape(row["height"], row["width"], 3) for row in rows]
    assert_same(spread.model, yoro.fit(arrays, [label for _, label in photos], **QUICK).model)


@pytest.mark.long
def test_broken_images_are_named_and_left_out_or_end_the_run(ray, work):
    shutil.copytree(work / "photos", work / "broken")
    for name in ("cat/003.jpg", "rocket/020.jpg"):
        (work / "broken" / name).write_bytes(b"no image")
    done = run(
        "fit",
        "broken",
        "--out",
        "broken.yoro",
        "--ray",
        "--ray-block",
        16,
        "--batch-size",
        8,
        "--source",
        SOURCE,
        code=1,
    )
    assert "'cat/003.jpg' cannot be read as an image" in done.stderr
    assert "2 images could not be read." in done.stderr
    run("fit", "broken", "--out", "alone.yoro", "--batch-size", 8, "--source", SOURCE, code=1)
    assert_same(read_model(work / "broken.yoro"), read_model(work / "alone.yoro"))
    assert not list(work.glob(".*.part"))


@pytest.mark.long
def test_a_broken_image_ends_a_strict_run(ray, work):
    (work / "one" / "a").mkdir(parents=True)
    shutil.copytree(work / "photos" / "cat", work / "one" / "cat")
    (work / "one" / "a" / "x.jpg").write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"a/x\.jpg"):
        yoro.fit("one", **{**SPREAD, "ray_block": 48}, strict=True)


@pytest.mark.long
def test_a_source_that_fails_ends_the_run_with_its_own_words(ray, work):
    (work / "failing.py").write_text(
        "def respond(images):\n    if len(images) > 1:\n        raise RuntimeError('no more credit')\n"
        "    return images.mean(axis=(1, 2))\n"
    )
    with pytest.raises(SourceError, match="no more credit"):
        yoro.fit("photos", **{**SPREAD, "source": "callable:failing:respond"})


@pytest.mark.long
def test_a_full_disk_ends_the_run_and_it_goes_on_when_there_is_room(ray, alone, unseen):
    disk = unseen / "disk"
    disk.mkdir()
    size = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "none", disk], capture_output=True)
    if size.returncode:
        pytest.skip("no file system can be mounted here")
    words = {**SPREAD, "checkpoint": unseen / ".full.part", "ray_storage": str(disk)}
    try:
        with pytest.raises(StoreError, match="No space left"):
            yoro.fit("photos", **words)
        kept = len(list(disk.rglob("*.stats")))
        assert kept > 0
        subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
        shutil.rmtree(unseen / "seen")
        fitted = yoro.fit("photos", **words, resume=True)
    finally:
        subprocess.run(["umount", disk], check=True)
    assert_same(fitted.model, alone)
    assert seen(unseen) <= 96 - 16 * kept + 2  # and one image for each of two actors that ask for the width


@pytest.mark.long
def test_responses_in_parquet_are_fitted_like_those_of_one_machine(ray, work):
    run("respond", "photos", "--out", "z", "--ray", "--ray-block", 48, "--batch-size", 8, "--source", SOURCE)
    run("respond", "photos", "--out", "z.npz", "--batch-size", 8, "--source", SOURCE)
    run("fit", "z", "--out", "z.yoro", "--ray", "--ray-block", 60)
    run("fit", "z.npz", "--out", "npz.yoro")
    assert_same(read_model(work / "z.yoro"), read_model(work / "npz.yoro"))


def test_predictions_in_parquet_are_those_of_one_machine(ray, work, alone):
    from pyarrow import parquet

    yoro.fit("photos", **QUICK).save("m.yoro")
    words = ["predict", "m.yoro", "photos", "--source", SOURCE, "--unknown", 0.05]
    asked = (
        ["--prior", "uniform", "--top", 3],
        ["--top", 2, "--threshold", 0.9, "--coverage", 0.8, "--calibrate", "photos"],
    )
    for more in asked:
        run(*words, *more, "--out", "p.json", "--force")
        run(*words, *more, "--out", "p", "--ray", "--ray-block", 48, "--force")
        one = json.loads(Path("p.json").read_text())
        assert parquet.read_table("p").to_pylist() == one
    join_tables(sorted(Path("p").iterdir()), Path("p.parquet"))
    assert parquet.read_table("p.parquet").to_pylist() == one
    done = run(*words, "--out", "p", "--ray", code=2)
    assert "--force" in done.stderr


def test_a_model_without_a_ledger_has_the_same_mapping(alone):
    bare = yoro.fit("photos", **QUICK, ledger=False).model
    assert len(bare.ledger) == 0
    np.testing.assert_allclose(bare.mapping.weights, alone.mapping.weights, rtol=1e-9, atol=1e-12)


def test_images_in_memory_are_not_sent_about(ray):
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="Write the images to files"):
        yoro.fit(list(rng.integers(0, 255, (4, 40, 40, 3), dtype=np.uint8)), list("abab"), **SPREAD)


@pytest.mark.parametrize("words", [["--refine", "1"], ["--ray-actors", "99"], ["--ray-block", "0"]])
def test_what_cannot_be_meant_is_refused(ray, words):
    done = run("fit", "photos", "--out", "no.yoro", "--ray", "--source", SOURCE, *words, code=2 if "0" in words else 1)
    assert done.stderr.strip().splitlines()[-1].startswith("yoro: ")
    assert not Path("no.yoro").exists()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
