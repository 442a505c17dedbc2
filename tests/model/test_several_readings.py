"""A classifier of several readings: exact under every change, saved, exported, and with its mirror image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.command_line import invoke, run
from tests.photos import write_folder

import yoro
from yoro.errors import InputError, StoreError, YoroError

SOURCE = "embedded:lite0?side=64"


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("several")
    write_folder(place / "first", 6)
    write_folder(place / "more", 3, seed=1)
    write_folder(place / "new", 4, seed=2)
    return place


@pytest.fixture(scope="module")
def both(folders):
    everything = [
        (path, path.parent.name) for part in ("first", "more") for path in sorted((folders / part).rglob("*.jpg"))
    ]
    return yoro.fit(everything, source=SOURCE)


def same(one, two, folders) -> None:
    a, b = one.model, two.model
    assert [part.shrinkage for part in a.choice.parts] == [part.shrinkage for part in b.choice.parts]
    np.testing.assert_allclose([p.weight for p in a.choice.parts], [p.weight for p in b.choice.parts], atol=1e-6)
    np.testing.assert_allclose(one.predict_proba(folders / "new"), two.predict_proba(folders / "new"), atol=1e-7)


def test_update_merge_and_forget_equal_a_fresh_fit_choices_included(folders, both):
    updated = yoro.fit(folders / "first", source=SOURCE)
    updated.update(folders / "more")
    same(updated, both, folders)
    merged = yoro.fit(folders / "first", source=SOURCE)
    merged.merge(yoro.fit(folders / "more", source=SOURCE))
    same(merged, both, folders)
    updated.forget(folders / "more")
    same(updated, yoro.fit(folders / "first", source=SOURCE), folders)


def test_a_saved_model_answers_the_same_and_says_its_readings(folders, both, tmp_path):
    both.save(tmp_path / "m.yoro")
    again = yoro.load(tmp_path / "m.yoro")
    np.testing.assert_array_equal(again.predict_proba(folders / "new"), both.predict_proba(folders / "new"))
    told = invoke("inspect", tmp_path / "m.yoro").stdout
    for name in ("logits", "features", "layer-100", "layer-80", "layer-69"):
        assert name in told
    assert "layer-80" in (tmp_path / "m.yoro" / "README.md").read_text()


def test_a_graph_of_it_answers_as_it_does(both, tmp_path):
    both.save(tmp_path / "m.yoro")
    run("export", tmp_path / "m.yoro", "--onnx", tmp_path / "m.onnx")  # compares, and refuses what differs


def test_mirror_images_are_read_where_they_help(folders, tmp_path):
    done = run("fit", folders / "first", "--out", tmp_path / "m.yoro", "--source", SOURCE, "--views", "2", "-v")
    two = yoro.load(tmp_path / "m.yoro")
    views = two.model.statistics.layout.views
    assert ("two views" in done.stderr + done.stdout) == (views == 2)
    assert two.evaluate(folders / "new").accuracy > 0.9
    run("export", tmp_path / "m.yoro", "--onnx", tmp_path / "m.onnx")


def test_mirror_images_that_hurt_are_left_out(tmp_path):
    # Arrows to the left and to the right: their mirror images are each other.
    rng = np.random.default_rng(0)
    pairs = []
    for i in range(24):
        image = rng.integers(100, 140, (64, 64, 3), dtype=np.uint8)
        image[20:44, 4 + i % 6 : 24 + i % 6] = 250
        pairs += [(image, "left"), (np.ascontiguousarray(image[:, ::-1]), "right")]
    told = []
    classifier = yoro.fit(pairs, source=SOURCE, views=2, tell=told.append)
    assert classifier.model.statistics.layout.views == 1
    assert any("Mirror images are not used" in note for note in told)
    assert classifier.evaluate(pairs).accuracy > 0.9


def test_presets_and_the_paper(folders, tmp_path):
    fast = yoro.fit(folders / "first", preset="fast", source=SOURCE)
    assert fast.model.statistics.width == 1280
    assert fast.model.origin.name == SOURCE  # what is chosen by name stays
    paper = yoro.fit(folders / "first", val=folders / "more", protocol="paper", source=SOURCE)
    assert paper.model.statistics.width == 1000
    assert paper.model.choice.parts == ()
    with pytest.raises(InputError, match="no presets"):
        yoro.fit(folders / "first", protocol="paper", preset="best", source=SOURCE)
    with pytest.raises(InputError, match="preset 'quick'"):
        yoro.fit(folders / "first", preset="quick", source=SOURCE)
    both = invoke("fit", folders / "first", "--out", tmp_path / "x.yoro", "--fast", "--best")
    assert both.code == 2
    assert "not both" in both.stderr


def test_a_model_whose_parts_do_not_fit_is_refused(both, tmp_path):
    import hashlib
    import json

    both.save(tmp_path / "m.yoro")
    file = tmp_path / "m.yoro" / "config.json"
    for change in (
        lambda c: c["selection"]["parts"].pop(),
        lambda c: c["selection"]["parts"][0].update(weight=7),
        lambda c: c["selection"]["parts"][0].update(name="other"),
        lambda c: c["source"]["readings"]["of"].pop(),
        lambda c: c["source"]["readings"].update(views=5),
        lambda c: c["source"].pop("readings"),
    ):
        config = json.loads(file.read_text())
        before = file.read_text()
        change(config)
        plain = {key: value for key, value in config.items() if key != "digest"}
        config["digest"] = hashlib.sha256(json.dumps(plain, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
        file.write_text(json.dumps(config))
        with pytest.raises((StoreError, YoroError)):
            yoro.load(tmp_path / "m.yoro")
        file.write_text(before)
    yoro.load(tmp_path / "m.yoro")


def test_with_few_images_no_square_matrix_of_a_reading_is_kept(both):
    for part in both.model.statistics.parts:
        assert part.factor is not None
        assert len(part.factor) < part.width
