"""`yoro predict`: what people type, what they get, and the images sorted and shown."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageChops

import yoro
from child import finish
from command_line import run
from photos import write_folder
from yoro.data.sorting import UNSURE
from yoro.errors import InputError
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import PipelineSettings


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("predict")
    write_folder(root / "photos", 6, names=("cat", "rocket"))
    write_folder(root / "new", 2, seed=5, names=("cat", "rocket"))
    yoro.fit(root / "photos").save(root / "m.yoro")
    return root


@pytest.fixture
def work(trained, tmp_path):
    for name in ("new", "m.yoro"):
        shutil.copytree(trained / name, tmp_path / name)
    return tmp_path


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_several_images_folders_and_archives(work):
    shutil.make_archive(str(work / "packed"), "zip", work / "new")
    words = ["new/rocket/001.jpg", "new/cat/000.jpg", "new/cat", "packed.zip"]
    found = rows(run("predict", "m.yoro", *words, cwd=work).stdout)
    assert [row["path"] for row in found] == [
        "new/rocket/001.jpg", "new/cat/000.jpg", "new/cat/000.jpg", "new/cat/001.jpg",
        *(f"packed.zip/{name}/{i:03}.jpg" for name in ("cat", "rocket") for i in range(2)),
    ]  # fmt: skip
    assert all(row["label"] in row["path"] for row in found)


def test_one_image_that_is_not_there_is_named_and_the_others_are_answered(work):
    done = run("predict", "m.yoro", "new/cat/000.jpg", "gone.jpg", cwd=work, code=1)
    assert len(rows(done.stdout)) == 1
    assert "'gone.jpg' cannot be read as an image: there is no such file" in done.stderr
    assert "1 image could not be read." in done.stderr


def test_an_interrupted_sorting_says_what_is_there_and_how_to_take_it_out(work):
    (work / "net.py").write_text(
        "from pathlib import Path\n\ncalls = []\n\ndef respond(images):\n    calls.append(1)\n"
        "    if len(calls) > 2 and Path('stop').exists():\n        raise KeyboardInterrupt\n"
        "    return images.reshape(len(images), -1)[:, ::5000]\n"
    )
    source = ["--source", "callable:net:respond", "--batch-size", "2", "--workers", "0"]
    run("fit", "new", "--out", "own.yoro", *source, cwd=work)
    (work / "stop").touch()
    words = ["predict", "own.yoro", "new", "--sort-into", "sorted"]
    done = run(*words, *source, cwd=work, code=130)
    assert "interrupted, with 2 images in sorted. Remove them with --undo." in done.stderr
    assert "2 images removed" in run(*words, "--undo", cwd=work).stderr


def test_no_image_is_wrong_usage(work):
    assert "No data" in run("predict", "m.yoro", cwd=work, code=2).stderr


def test_below_the_threshold_there_is_no_label(work):
    found = json.loads(run("predict", "m.yoro", "new", "--format", "json", "--threshold", 1, cwd=work).stdout)
    assert {row["label"] for row in found if row["probability"] < 1} <= {None}
    assert all(row["label"] for row in json.loads(run("predict", "m.yoro", "new", "--format", "json", cwd=work).stdout))
    assert "from 0 to 1" in run("predict", "m.yoro", "new", "--threshold", 80, cwd=work, code=2).stderr


def test_images_are_sorted_into_folders_and_taken_out_again(work):
    before = {path: path.read_bytes() for path in (work / "new").rglob("*.jpg")}
    words = ["predict", "m.yoro", "new", "--sort-into", "sorted"]
    done = run(*words, cwd=work)
    assert done.stdout == ""
    assert "sorted: 4 images copied; cat 2, rocket 2." in done.stderr
    assert sorted(p.name for p in (work / "sorted").iterdir() if p.is_dir()) == ["cat", "rocket"]
    assert (work / "sorted/cat/000.jpg").read_bytes() == (work / "new/cat/000.jpg").read_bytes()
    assert "4 images removed" in run(*words, "--undo", cwd=work).stderr
    assert not (work / "sorted").exists()
    assert {path: path.read_bytes() for path in (work / "new").rglob("*.jpg")} == before
    run(*words, "--link", "--threshold", 1, "--out", "rows.csv", cwd=work)
    assert len(rows((work / "rows.csv").read_text())) == 4
    assert all(path.is_symlink() for path in (work / "sorted").rglob("*.jpg"))
    assert (work / "sorted" / UNSURE).is_dir()


def test_an_archive_is_sorted_too_but_not_linked_to(work):
    shutil.make_archive(str(work / "packed"), "gztar", work / "new")
    run("predict", "m.yoro", "packed.tar.gz", "--sort-into", "sorted", cwd=work)
    assert len(list((work / "sorted").rglob("*.jpg"))) == 4
    done = run("predict", "m.yoro", "packed.tar.gz", "--sort-into", "other", "--link", cwd=work, code=1)
    assert "cannot be linked" in done.stderr
    assert not (work / "other").exists()


def test_what_cannot_be_sorted_into_is_found_before_the_first_image(work):
    done = run("predict", "m.yoro", "new", "--sort-into", "new/cat", cwd=work, code=1)
    assert "did not put there" in done.stderr
    assert "needs --sort-into" in run("predict", "m.yoro", "new", "--undo", cwd=work, code=2).stderr
    assert "needs --sort-into" in run("predict", "m.yoro", "new", "--link", cwd=work, code=2).stderr


def test_the_gallery_shows_every_image_the_most_doubtful_first(work):
    done = run("predict", "m.yoro", "new", "--html", "page.html", "--threshold", 1, cwd=work)
    assert "page.html" in done.stderr
    page = (work / "page.html").read_text()
    shares = [float(share) for share in re.findall(r"</b> ([0-9.]+)\s%", page)]
    assert len(shares) == 4
    assert shares == sorted(shares)
    assert "cat/<wbr>000.<wbr>jpg" in page
    assert "<script" not in page
    assert page.count("data:image/jpeg") == 4
    assert 'class="unsure"' in page
    run("predict", "m.yoro", "new", "--html", "page.html", cwd=work, code=1)


def test_heic_without_its_extra_is_named_in_every_verb(work, monkeypatch):
    import sys

    heif = pytest.importorskip("pillow_heif")
    from PIL import Image

    for name in ("cat", "rocket"):
        heif.from_pillow(Image.open(work / "new" / name / "000.jpg")).save(work / "new" / name / "phone.heic")
    assert len(rows(run("predict", "m.yoro", "new", "--workers", 1, cwd=work).stdout)) == 6
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    for words in (
        ["predict", "m.yoro", "new"], ["evaluate", "m.yoro", "new"], ["fit", "new", "--out", "n.yoro"],
        ["update", "m.yoro", "new"], ["forget", "m.yoro", "new"], ["respond", "new", "--out", "z.npz"],
    ):  # fmt: skip
        done = run(*words, "--workers", 0, cwd=work, code=1)
        assert "phone.heic' cannot be read as an image: it is a HEIC" in done.stderr
        assert "pip install '.[heif]'" in done.stderr


def test_prefixes_lead_to_the_files(work):
    (work / "lists").mkdir()
    (work / "lists" / "l.csv").write_text("path\n../new/cat/000.jpg\n")
    (work / "lists" / "here.csv").write_text("image\nnew/cat/000.jpg\n")
    for data in ("new/", "./new", "lists/l.csv", "lists/here.csv"):
        for row in rows(run("predict", "m.yoro", data, cwd=work).stdout):
            assert (work / Path(row["path"])).is_file()


def test_undoing_a_sorting_needs_no_model(work):
    run("predict", "m.yoro", "new", "--sort-into", "sorted", cwd=work)
    said = run("predict", "m.yoro", "new", "--sort-into", "sorted", cwd=work).stderr
    assert "0 images copied, 4 already there" in said
    assert "4 images removed" in run("predict", "--sort-into", "sorted", "--undo", cwd=work).stderr
    assert "M.yoro is missing" in run("predict", cwd=work, code=2).stderr


def test_unknown_classes_are_listed_and_the_others_measured_if_asked(work):
    for name in ("dog", "owl"):
        shutil.copytree(work / "new" / "cat", work / "new" / name)
    said = run("evaluate", "m.yoro", "new", cwd=work, code=1).stderr
    assert "does not know 2 classes ('dog', 'owl')" in said
    assert "--known" in said
    done = run("evaluate", "m.yoro", "new", "--known", "--json", cwd=work)
    assert json.loads(done.stdout)["n"] == 4
    assert "Left out: 4 images of classes that the model does not know, 'dog', 'owl'." in done.stderr
    shutil.rmtree(work / "new" / "cat")
    shutil.rmtree(work / "new" / "rocket")
    assert "knows none of the classes" in run("evaluate", "m.yoro", "new", "--known", cwd=work, code=1).stderr


def test_responses_of_known_classes_are_measured_as_if_the_others_were_not_there(digits, tmp_path):
    responses, labels = digits[0][:400], digits[1][:400]
    few = np.isin(labels, ["0", "1", "2"])
    yoro.fit((responses[:200][few[:200]], labels[:200][few[:200]])).save(tmp_path / "m.yoro")
    np.savez(tmp_path / "test.npz", responses=responses[200:], labels=labels[200:])
    assert "--known" in run("evaluate", "m.yoro", "test.npz", cwd=tmp_path, code=1).stderr
    done = run("evaluate", "m.yoro", "test.npz", "--known", "--json", "--html", "r.html", cwd=tmp_path)
    expected = yoro.load(tmp_path / "m.yoro").evaluate((responses[200:][few[200:]], labels[200:][few[200:]]))
    found = json.loads(done.stdout)
    assert (found["n"], found["accuracy"]) == (int(few[200:].sum()), expected.accuracy)
    assert f"Left out: {200 - found['n']} responses of classes that the model does not know." in done.stderr
    np.savez(tmp_path / "all.npz", responses=responses[few], labels=labels[few])
    assert "Left out" not in run("evaluate", "m.yoro", "all.npz", "--known", cwd=tmp_path).stderr


def test_new_classes_are_named_and_wanted_where_all_are_new(work):
    (work / "new" / "cat").rename(work / "new" / "dog")
    assert "New class: 'dog'." in run("update", "m.yoro", "new", "--out", "n.yoro", cwd=work).stderr
    (work / "new" / "rocket").rename(work / "new" / "ship")
    before = (work / "m.yoro" / "config.json").read_bytes()
    said = run("update", "m.yoro", "new", cwd=work, code=1).stderr
    assert "All classes of the data are new to the model: 'dog', 'ship'" in said
    assert (work / "m.yoro" / "config.json").read_bytes() == before
    run("update", "m.yoro", "new", "--new-classes", cwd=work)
    assert yoro.load(work / "m.yoro").classes == ("cat", "dog", "rocket", "ship")


def test_a_graph_is_written_where_its_name_is_given(work):
    run("export", "m.yoro", "m.onnx", cwd=work)
    assert (work / "m.onnx").stat().st_size > 1e6
    assert "expected FILE.onnx" in run("export", "m.yoro", "m.pb", cwd=work, code=2).stderr


def test_predict_says_what_it_takes(work):
    with pytest.raises(InputError, match="NoneType; expected images: a path or several, a folder"):
        yoro.load(work / "m.yoro").predict(None)


def test_responses_of_the_papers_protocol_are_of_published_pixels(tmp_path):
    turned = Image.Exif()
    turned[0x0112] = 6
    for label, colour in (("red", (200, 30, 30)), ("blue", (30, 30, 200))):
        (tmp_path / "data" / label).mkdir(parents=True)
        picture = Image.linear_gradient("L").convert("RGB")
        ImageChops.multiply(picture, Image.new("RGB", picture.size, colour)).save(
            tmp_path / "data" / label / "a.jpg", exif=turned
        )
    settings = {"source": "embedded:lite0?side=32", "read": "logits"}
    for protocol in ("paper", "default"):
        words = ["--protocol", protocol, "--source", settings["source"], "--read", "logits", "--out", f"{protocol}.npz"]
        run("respond", "data", *words, cwd=tmp_path)
    found = {}
    for protocol in ("paper", "default"):
        with np.load(tmp_path / f"{protocol}.npz") as archive:
            found[protocol] = archive["responses"]
    pipeline = make_pipeline(PipelineSettings(**settings, published=True))
    paths = [tmp_path / "data" / label / "a.jpg" for label in ("blue", "red")]
    pixels = [np.asarray(Image.open(path).convert("RGB").resize((32, 32), Image.Resampling.BILINEAR)) for path in paths]
    np.testing.assert_allclose(found["paper"], pipeline.respond(np.stack(pixels)), atol=1e-5)
    assert np.abs(found["paper"] - found["default"]).max() > 0.1, "turned or not is another image"


def test_one_image_is_answered_without_what_takes_long_to_import(work):
    image = next((work / "new").rglob("*.*"))
    code = (
        f"import sys, yoro.cli.app\ntry:\n    yoro.cli.app.main(['predict', 'm.yoro', {str(image)!r}])\nfinally:\n"
        "    print([m for m in ('scipy', 'sklearn', 'torch', 'pandas') if m in sys.modules], file=sys.stderr)"
    )
    done = finish("-c", code, cwd=work)
    assert image.name in done.stdout
    assert done.stderr.strip().splitlines()[-1] == "[]"
