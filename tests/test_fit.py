from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import yoro
from child import BOUND, finish, start
from command_line import run
from photos import PHOTOS, crops, write_folder
from yoro.cli import demo
from yoro.data.find import find
from yoro.errors import ImageError, InputError, LabelWarning, OnePassError, SkippedWarning, SourceError, StatisticsError
from yoro.fit import run_fit
from yoro.model.gathered import Gathered
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import USUAL, FitSettings


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("photos") / "train")


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("photos") / "new", count=5, seed=1)


@pytest.fixture(scope="module")
def fitted(folder):
    return yoro.fit(folder)


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m.yoro"
    fitted.save(path)
    return path


def same(one, two, tolerance=1e-9):
    assert one.classes == two.classes
    a, b = one.model.mapping, two.model.mapping
    np.testing.assert_allclose(a.weights, b.weights, atol=tolerance * np.abs(b.weights).max())
    assert one.model.choice.shrinkage == two.model.choice.shrinkage


def test_photos_are_learnt_in_one_pass(fitted, new):
    assert fitted.classes == tuple(sorted(PHOTOS))
    assert fitted.evaluate(new).accuracy > 0.9
    event = fitted.model.history[0]
    assert (event["images"], event["passes"]) == (32, 1)
    assert event["peak_memory_mb"] > 50


def test_a_saved_model_reads_images_as_before(fitted, saved, new):
    again = yoro.load(saved)
    np.testing.assert_array_equal(again.predict_proba(new), fitted.predict_proba(new))
    card = (saved / "README.md").read_text()
    assert "embedded:lite0" in card
    assert "Apache-2.0" in card
    assert "| fit | 32 | 1 |" in card.replace("| " + fitted.model.history[0]["when"] + " ", "")


def test_every_kind_of_image_gives_the_same_answer(fitted, new):
    path = next((new / "cat").iterdir())
    content = path.read_bytes()
    pixels = np.asarray(Image.open(io.BytesIO(content)))
    kinds = [str(path), path, content, Image.open(io.BytesIO(content)), pixels, pixels / 255]
    probabilities = [fitted.predict_proba([kind])[0] for kind in kinds]
    for other in probabilities[1:]:
        np.testing.assert_allclose(other, probabilities[0], atol=1e-6)
    assert fitted.predict(path) == ["cat"]
    assert fitted.predict([(pixels)]) == ["cat"]


def test_iterables_of_images_and_labels_fit(new):
    pairs = [(crop, name) for name in PHOTOS for crop in crops(name, 6)]
    assert yoro.fit(iter(pairs)).evaluate(new).accuracy > 0.9


def test_training_data_cannot_be_traversed_twice(folder):
    stream = make_pipeline().stream(find(folder).examples, USUAL)
    assert sum(len(batch.names) for batch in stream) == 32
    with pytest.raises(OnePassError):
        list(stream)


def test_each_training_image_is_read_once(folder, monkeypatch):
    import yoro.data.processes

    read = []
    original = yoro.data.processes.decode_and_digest
    monkeypatch.setattr(
        yoro.data.processes,
        "decode_and_digest",
        lambda image, *a, **k: read.append(str(image)) or original(image, *a, **k),
    )
    yoro.fit(folder)
    assert len(read) == len(set(read)) == 32


def test_batches_and_workers_do_not_change_the_model(folder, fitted):
    for batch_size, workers in ((5, 0), (7, 2), (64, 1)):
        same(yoro.fit(folder, batch_size=batch_size, workers=workers), fitted, 1e-9)


def test_update_forget_and_merge_are_exact(folder, fitted, new):
    whole = yoro.fit(folder)
    whole.update(new)
    apart = yoro.fit(new)
    apart.merge(fitted)
    same(apart, whole)
    whole.forget(new)
    same(whole, fitted)
    with pytest.raises(StatisticsError, match="never added"):
        whole.forget(new)
    wrong = [(path, "rocket") for path in sorted((folder / "cat").iterdir())]
    with pytest.raises(StatisticsError, match="it was added as 'cat'"):
        whole.forget(wrong)


def test_a_class_may_come_later_and_go(folder, fitted):
    classifier = yoro.fit([(path, name) for name in ("cat", "coffee") for path in sorted((folder / name).iterdir())])
    rest = [(path, name) for name in ("astronaut", "rocket") for path in sorted((folder / name).iterdir())]
    classifier.update(rest)
    same(classifier, fitted)
    classifier.forget(rest)
    assert classifier.classes == ("cat", "coffee")


def test_splits_are_found_and_the_test_split_left_alone(tmp_path, fitted):
    write_folder(tmp_path / "data" / "train")
    write_folder(tmp_path / "data" / "valid", count=3, seed=2)
    write_folder(tmp_path / "data" / "test", count=3, seed=3)
    told = []
    both = yoro.fit(tmp_path / "data", tell=told.append)
    assert both.model.statistics.total == 44
    assert any("12 validation examples are fitted too" in note for note in told)
    assert any("12 images of the test split are not used" in note for note in told)
    assert both.evaluate(tmp_path / "data").n == 12
    paper = yoro.fit(tmp_path / "data", protocol="paper")
    assert paper.model.statistics.total == 32
    assert paper.model.choice.rule == "validation"
    assert max(paper.model.choice.scores) <= 12


def test_validation_without_a_split_holds_out_a_tenth_and_says_so(folder):
    told = []
    classifier = yoro.fit(folder, shrinkage="validation", tell=told.append)
    assert classifier.model.statistics.total == 28
    assert any("28 for fitting, 4 held out, seed 0" in note for note in told)


def test_groups_are_kept_together(tmp_path, folder):
    rows = [
        (path, path.parent.name, f"{path.parent.name} {i // 4}") for i, path in enumerate(sorted(folder.rglob("*.jpg")))
    ]
    text = "path,label,group\n" + "".join(f"{path},{label},{group}\n" for path, label, group in rows)
    (tmp_path / "list.csv").write_text(text)
    classifier = yoro.fit(tmp_path / "list.csv")
    groups = classifier.model.reservoir.members().groups
    assert sorted(set(groups.tolist())) == sorted({group for _, _, group in rows})


@pytest.mark.parametrize("prompt", ["watermark", "padding", "legacy-padding"])
def test_prompts_are_saved_with_the_model(tmp_path, folder, new, prompt):
    classifier = yoro.fit(folder, prompt=prompt)
    classifier.save(tmp_path / "m.yoro")
    again = yoro.load(tmp_path / "m.yoro")
    assert again.pipeline.prompt.config() == classifier.pipeline.prompt.config()
    np.testing.assert_array_equal(again.predict_proba(new), classifier.predict_proba(new))


def test_the_start_of_the_frame_matters_and_is_saved(tmp_path, folder, new):
    grey, black = (yoro.fit(folder, prompt="padding", frame=frame) for frame in ("grey", "black"))
    assert not np.allclose(grey.predict_proba(new), black.predict_proba(new))
    black.save(tmp_path / "m.yoro")
    assert yoro.load(tmp_path / "m.yoro").pipeline.prompt.frame == "black"
    with pytest.raises(InputError, match="differ in the frame of their prompt"):
        grey.merge(black)


def test_features_can_be_read_instead_of_logits(tmp_path, folder, new):
    classifier = yoro.fit(folder, read="features")
    assert classifier.model.statistics.width == 1280
    classifier.save(tmp_path / "m.yoro")
    assert yoro.load(tmp_path / "m.yoro").evaluate(new).accuracy > 0.9
    with pytest.raises(InputError, match="reads the logits"):
        yoro.fit(folder, read="features", protocol="paper")


def test_a_broken_image_is_an_error_in_python_predictions(fitted, tmp_path):
    (tmp_path / "bad.jpg").write_text("no image")
    with pytest.raises(ImageError, match=r"bad\.jpg"):
        fitted.predict([tmp_path / "bad.jpg"])


def test_a_model_cannot_make_us_run_code(tmp_path, folder, new, monkeypatch):
    (tmp_path / "coarse_pixels.py").write_text(
        "import numpy as np\ndef respond(images):\n    return images.reshape(len(images), -1)[:, ::5000].astype('f4')\n"
        "respond.side = 64\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    classifier = yoro.fit(folder, source="callable:coarse_pixels:respond")
    classifier.save(tmp_path / "m.yoro")
    with pytest.raises(SourceError, match="runs code"):
        yoro.load(tmp_path / "m.yoro").predict(new)
    allowed = yoro.load(tmp_path / "m.yoro", source="callable:coarse_pixels:respond")
    assert allowed.predict(new) == classifier.predict(new)


def test_other_weights_under_the_same_name_are_refused(saved, new, tmp_path):
    with pytest.raises(SourceError, match="its digest differs"):
        yoro.load(saved, source="embedded:lite1").predict(new)


def test_a_model_of_responses_cannot_read_images(digits, new):
    with pytest.raises(SourceError, match="fitted on responses alone"):
        yoro.fit((digits[0][:200], digits[1][:200])).predict(new)


def test_a_moved_source_must_read_images_as_before(tmp_path, folder, new):
    import onnx

    (tmp_path / "elsewhere").mkdir()
    onnx.save(make_pipeline().source.onnx_model(), tmp_path / "net.onnx")
    classifier = yoro.fit(folder, source=f"onnx:{tmp_path / 'net.onnx'}?mean=0,0,0&std=1,1,1")
    classifier.save(tmp_path / "m.yoro")
    moved = shutil.move(tmp_path / "net.onnx", tmp_path / "elsewhere" / "net.onnx")
    with pytest.raises(SourceError, match="its mean differs"):
        yoro.load(tmp_path / "m.yoro", source=f"onnx:{moved}").predict(new)
    again = yoro.load(tmp_path / "m.yoro", source=f"onnx:{moved}?mean=0,0,0&std=1,1,1")
    assert again.predict(new) == classifier.predict(new)


def test_update_and_forget_leave_the_test_split_alone(tmp_path, folder):
    write_folder(tmp_path / "data" / "train", count=3, seed=4)
    write_folder(tmp_path / "data" / "test", count=2, seed=5)
    classifier = yoro.fit(folder)
    classifier.update(tmp_path / "data")
    assert classifier.model.statistics.total == 44
    classifier.forget(tmp_path / "data")
    assert classifier.model.statistics.total == 32


def test_an_abandoned_stream_ends_in_one_line(saved, new, tmp_path):
    shutil.copytree(new, tmp_path / "more")
    (tmp_path / "more" / "cat").rename(tmp_path / "more" / "stranger")
    done = run("evaluate", saved, tmp_path / "more", "--batch-size", "2", code=1)
    assert done.stderr.startswith("yoro: The model does not know class 'stranger'")
    (tmp_path / "more" / "stranger").rename(tmp_path / "more" / "cat")
    (tmp_path / "more" / "cat" / "bad.jpg").write_text("no image")
    done = run("evaluate", saved, tmp_path / "more", "--batch-size", "1", "--strict", code=1)
    assert done.stderr.count("\n") == 1
    command = f"{sys.executable} -m yoro predict {saved} {new} --format jsonl --batch-size 1 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert "Fatal" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_output_is_noticed_before_any_work(folder, tmp_path):
    for out, message in (("bad", "ends in .yoro"), ("nowhere/m.yoro", "does not exist")):
        done = run("fit", folder, "--out", tmp_path / out, code=1)
        assert message in done.stderr
        assert "Found" not in done.stderr


@pytest.fixture
def odd(tmp_path, folder):
    """A folder with everything that folders of strangers hold."""
    root = tmp_path / "odd"
    shutil.copytree(folder, root)
    cat, photo = root / "cat", Image.open(folder / "cat" / "000.jpg")
    (cat / "zero.jpg").touch()
    (cat / "text.jpg").write_text("not an image")
    (cat / "cut.jpg").write_bytes((cat / "000.jpg").read_bytes()[:1500])
    exif = Image.Exif()
    exif[0x0112] = 6
    photo.save(cat / "rotated.jpg", exif=exif)
    photo.convert("CMYK").save(cat / "cmyk.jpg")
    Image.fromarray(np.asarray(photo.convert("L")).astype(np.uint16) * 257).save(cat / "deep.png")
    photo.save(cat / "moving.gif", save_all=True, append_images=[photo.rotate(90)])
    shutil.copy(cat / "001.jpg", cat / "ein Bild mit Umläuten.JPG")
    (cat / "loop").symlink_to(root)
    (root / "empty").mkdir()
    (root / ".hidden").mkdir()
    (root / "lönely one").mkdir()
    photo.save(root / "lönely one" / "a b.png")
    return root


def test_a_strangers_folder_runs_and_says_what_it_skipped(odd, tmp_path):
    done = run("fit", odd, "--out", tmp_path / "m.yoro", "--json", code=1)
    summary = json.loads(done.stdout)
    assert sorted(summary["skipped"]) == ["cat/cut.jpg", "cat/text.jpg", "cat/zero.jpg"]
    assert summary["examples"] == 38
    assert "lönely one" in summary["classes"]
    for words in ("hidden", "'empty'", "link back", "3 images could not be read", "Duplicates"):
        assert words in done.stderr
    done = run("predict", tmp_path / "m.yoro", odd, code=1)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 38
    assert all(Path(row["path"]).exists() for row in rows)
    assert "3 images could not be read" in done.stderr
    done = run("fit", odd, "--strict", "--out", tmp_path / "s.yoro", code=1)
    assert "cut.jpg" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "s.yoro").exists()


def test_a_broken_validation_image_does_not_shadow_a_training_image_of_its_name(folder, tmp_path):
    write_folder(tmp_path / "val", count=3, seed=6)
    (tmp_path / "val" / "cat" / "001.jpg").write_text("no image")
    both = run_fit(folder, tmp_path / "val", FitSettings())
    assert both.classifier.model.statistics.total == 43
    assert [name for name, _ in both.skipped] == [f"{tmp_path / 'val'}: cat/001.jpg"]
    assert len(both.examples) == 43
    with pytest.warns(SkippedWarning, match="1 image could not be read"):
        assert yoro.fit(folder, val=tmp_path / "val", protocol="paper").model.statistics.total == 32


def test_the_same_image_in_two_classes_is_reported(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "d")
    shutil.copy(folder / "cat" / "000.jpg", tmp_path / "d" / "coffee" / "copy.jpg")
    told = "'cat/000.jpg' and 'coffee/copy.jpg' are the same image, once labelled 'cat' and once 'coffee'."
    assert told in run_fit(tmp_path / "d", None, FitSettings()).doubts
    with pytest.warns(LabelWarning, match="once labelled 'cat' and once 'coffee'"):
        yoro.fit(tmp_path / "d")


def test_all_verbs_on_images_from_the_command_line(folder, new, tmp_path):
    run("fit", folder, "--out", "m.yoro", "--html", "fit.html", cwd=tmp_path)
    assert "leave-one-out" in (tmp_path / "fit.html").read_text()
    done = run("evaluate", "m.yoro", new, "--json", "--html", "eval.html", cwd=tmp_path)
    assert json.loads(done.stdout)["accuracy"] > 0.9
    assert "http-equiv" in (tmp_path / "eval.html").read_text()
    run("respond", folder, "--out", "z.npz", cwd=tmp_path)
    run("fit", "z.npz", "--out", "z.yoro", cwd=tmp_path)
    np.testing.assert_allclose(
        yoro.load(tmp_path / "z.yoro").model.mapping.weights, yoro.load(tmp_path / "m.yoro").model.mapping.weights
    )
    run("update", "m.yoro", new, "--out", "more.yoro", cwd=tmp_path)
    run("update", "m.yoro", "z.npz", "--out", "twice.yoro", cwd=tmp_path)
    run("forget", "more.yoro", new, cwd=tmp_path)
    assert yoro.load(tmp_path / "more.yoro").model.statistics.total == 32
    run("merge", "m.yoro", "more.yoro", "--out", "both.yoro", cwd=tmp_path)
    assert "embedded:lite0" in run("inspect", "m.yoro", cwd=tmp_path).stdout
    assert "embedded:lite2" in run("models", cwd=tmp_path).stdout
    assert all("how" in row for row in json.loads(run("models", "--json", cwd=tmp_path).stdout))
    run("export", "m.yoro", "--onnx", "m.onnx", cwd=tmp_path)
    run("export", "m.yoro", "--onnx", "m.onnx", cwd=tmp_path, code=1)
    run("export", "z.yoro", "--onnx", "z.onnx", cwd=tmp_path, code=1)
    assert not (tmp_path / "z.onnx").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "DATA", "--source", "resnet18", "--out", "x.yoro"], "Did you mean"),
        (["fit", "DATA", "--prompt", "frame", "--out", "x.yoro"], "Unknown prompt"),
        (["fit", "DATA", "--prompt", "padding", "--frame", "7", "--out", "x.yoro"], "A frame starts"),
        (["fit", "DATA", "--read", "pixels", "--out", "x.yoro"], "'features' or 'all'"),
        (["fit", "DATA", "--device", "cuda", "--out", "x.yoro"], "runs on the CPU only"),
        (["fit", "DATA/cat", "--out", "x.yoro"], "give its parent folder"),
        (["fit", "nowhere", "--out", "x.yoro"], "does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_options_get_one_line(folder, tmp_path, words, message):
    done = run(*[word.replace("DATA", str(folder)) for word in words], cwd=tmp_path, code=1)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


CHECKPOINTED = """
import os, sys
import yoro.model.one_pass
yoro.model.checkpoint.SECONDS_BETWEEN = 0.0  # a checkpoint after every batch
yoro.model.checkpoint.SHARE_OF_TIME = 1e9
yoro.model.one_pass.ROWS_PER_UPDATE = 1
from yoro.cli.app import main
main(sys.argv[1:])
"""


DYING = CHECKPOINTED.replace(
    "from yoro",
    """
import signal, yoro.files.atomic as atomic
name, left = os.environ["DIES_AT"].split()
act, left = getattr(atomic, name), int(left)
def dying(*given):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return act(*given)
setattr(atomic, name, dying)
from yoro""",
    1,
)
MOMENTS = {  # functions of the writing of checkpoints, and the call of each that is the last
    "some": ["_sync 8", "_exchange 2"],
    "many": [
        "_beside 1", "_beside 3", "_sync 1", "_sync 11", "_move_into_place 1", "_flush 5", "_exchange 1", "_remove 4",
        "_take_after 9", "_clean 2",
    ],
}  # fmt: skip


def position(folder: Path) -> int:
    """How many examples a checkpoint covers; none if there is none."""
    file = folder / "gathered.stats"
    return Gathered.from_bytes(file.read_bytes(), "checkpoint")[1]["position"] if file.exists() else 0


@pytest.mark.parametrize("moments", ["some", pytest.param("many", marks=pytest.mark.long)])
def test_killed_at_any_moment_it_resumes_to_the_same_model(folder, fitted, tmp_path, monkeypatch, moments):
    words = ["fit", str(folder), "--out", str(tmp_path / "m.yoro"), "--batch-size", "3", "--workers", "1", "--resume"]
    positions = [0]
    for moment in MOMENTS[moments]:
        done = finish("-c", DYING, *words, env=os.environ | {"DIES_AT": moment})
        assert done.returncode == -signal.SIGKILL, (moment, done.stderr)
        positions.append(position(tmp_path / ".m.yoro.part"))
    assert positions == sorted(positions)  # nothing that was once kept is lost
    assert 0 < positions[-1] < 32
    done = finish("-c", CHECKPOINTED, *words)
    assert done.returncode == 0, done.stderr
    assert "Expected accuracy" in done.stderr
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".tmp")] == ["m.yoro"]
    model = yoro.load(tmp_path / "m.yoro")
    monkeypatch.setattr("yoro.model.one_pass.ROWS_PER_UPDATE", 1)
    reference = yoro.fit(folder, batch_size=3)
    assert model.model.statistics.total == 32
    scale = np.abs(reference.model.mapping.weights).max()
    np.testing.assert_allclose(model.model.mapping.weights / scale, reference.model.mapping.weights / scale, atol=1e-12)
    one, two = model.model.choice, reference.model.choice
    assert (one.rule, one.shrinkage, one.candidates) == (two.rule, two.shrinkage, two.candidates)
    np.testing.assert_allclose([one.temperature, *one.scores], [two.temperature, *two.scores], rtol=1e-9)
    same(model, fitted)


def test_a_full_disk_for_checkpoints_does_not_end_the_pass(folder, fitted, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("yoro.model.checkpoint.write_file", full)
    monkeypatch.setattr("yoro.model.checkpoint.SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr("yoro.model.one_pass.ROWS_PER_UPDATE", 8)
    with pytest.warns(UserWarning, match="No checkpoint could be written"):
        same(yoro.fit(folder, checkpoint=tmp_path / "part"), fitted)
    assert list(tmp_path.iterdir()) == []


def test_resuming_another_run_is_refused(folder, new, tmp_path):
    dying = (
        "import os, yoro.model.open_model; yoro.model.open_model.write_model = lambda *a, **k: os._exit(9)\nmain(sys"
    )
    code = CHECKPOINTED.replace("main(sys", dying)
    words = ["fit", str(folder), "--out", str(tmp_path / "m.yoro"), "--workers", "0", "--batch-size", "4"]
    assert finish("-c", code, *words).returncode == 9
    assert position(tmp_path / ".m.yoro.part") > 0
    done = run("fit", new, "--out", tmp_path / "m.yoro", "--resume", code=1)
    assert "belongs to another run" in done.stderr
    done = run(*words, "--resume")
    assert yoro.load(tmp_path / "m.yoro").model.statistics.total == 32


def test_ctrl_c_ends_with_130_and_can_be_resumed(folder, fitted, tmp_path):
    halting = CHECKPOINTED.replace(
        "from yoro",
        """
import threading, yoro.model.pipeline
batches = yoro.model.pipeline.Pipeline._batches
def halting(*given):
    for number, batch in enumerate(batches(*given)):
        if number == 6:
            print("halted", flush=True)
            threading.Event().wait()  # until Ctrl-C
        yield batch
yoro.model.pipeline.Pipeline._batches = halting
from yoro""",
        1,
    )
    words = ["fit", str(folder), "--out", str(tmp_path / "m.yoro"), "--batch-size", "2", "--workers", "1"]
    child = start("-c", halting, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout.readline() == "halted\n"
    assert (tmp_path / ".m.yoro.part").exists()
    child.send_signal(signal.SIGINT)
    _, talk = child.communicate(timeout=BOUND)
    assert child.returncode == 130, talk
    assert "Traceback" not in talk
    assert "interrupted. Resume with --resume." in talk
    assert not (tmp_path / "m.yoro").exists()
    run(*words, "--resume")
    same(yoro.load(tmp_path / "m.yoro"), fitted)


def test_everything_works_without_a_network(folder, new, tmp_path, socket_disabled):
    classifier = yoro.fit(folder)
    classifier.save(tmp_path / "m.yoro")
    assert yoro.load(tmp_path / "m.yoro").evaluate(new).accuracy > 0.9


def without_figures(text: str) -> list[list[str]]:
    """The words of each line, whatever the numbers."""
    return [re.sub(r"\d[\d.,]*", "#", line).split() for line in text.lstrip().splitlines()]


@pytest.mark.parametrize("images", [300, pytest.param(1797, marks=pytest.mark.long)])
def test_the_demonstration_runs_and_says_what_comes_next(tmp_path, monkeypatch, images):
    pictures, labels = demo.digits()
    assert len(pictures) == len(labels) == 1797
    monkeypatch.setattr(demo, "digits", lambda: (pictures[:images], labels[:images]))
    done = run("demo", cwd=tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if "%" in line}
    assert rows["photographs"][:2] == ["48", "120"]
    ours, theirs = (float(rows["photographs"][place].rstrip("%")) for place in (2, 4))
    assert min(ours, theirs) > 90  # pieces of photographs are easy, for logistic regression too
    if images == 1797:
        ours, theirs = (float(rows["digits"][place].rstrip("%")) for place in (2, 4))
        assert ours > theirs > 95
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    told = re.search(r"^## What `make demo` prints\n\n```\n(.*?)```", readme, re.DOTALL | re.MULTILINE)[1]
    assert without_figures(told) == without_figures(done.stdout)[: len(told.splitlines())]
    command = next(line for line in done.stdout.splitlines() if line.startswith("  yoro predict"))
    run(*command.split()[1:], cwd=tmp_path)
    assert (tmp_path / "yoro-demo" / "new.html").is_file()
    told = [line.split("  ->  ") for line in done.stdout.splitlines() if "  ->  " in line]
    assert sum(answer == Path(path).stem[:-3] for path, answer in told) > 4
    run("demo", cwd=tmp_path, code=1)


@pytest.mark.parametrize("kind", demo.KINDS)
def test_pieces_that_the_demonstration_tests_on_share_no_pixel_with_those_it_fits(kind):
    _, fitted, new = demo.KINDS[kind]
    assert fitted[2] <= new[0] or new[2] <= fitted[0]
    for left, top, right, bottom in (fitted, new):
        assert 0 <= left < right - demo.PIECE < 640
        assert 0 <= top < bottom - demo.PIECE < 427


@pytest.mark.long
def test_the_demonstration_needs_no_torch(tmp_path):
    code = """
import sys
import builtins
real = builtins.__import__
def without_torch(name, *rest, **options):
    if name.split(".")[0] in ("torch", "timm", "torchvision"):
        raise ModuleNotFoundError(name)
    return real(name, *rest, **options)
builtins.__import__ = without_torch
from yoro.cli.app import main
main(["demo"])
"""
    done = finish("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
