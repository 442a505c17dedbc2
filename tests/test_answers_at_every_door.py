"""Every question at every door: the same image, the same answer."""

from __future__ import annotations

import csv
import io
import json
import threading
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from PIL import Image

import yoro
from command_line import run
from photos import write_folder
from services import running
from yoro.data.decoding import decode
from yoro.data.geometry import Geometry
from yoro.errors import InputError
from yoro.model.question import Question
from yoro.reports.gallery import Gallery
from yoro.studio.page_data import STRANGE, answer_of
from yoro.studio.solving import Judgement, Learned

SURE = 0.97  # a threshold that some of the answers reach
SHARES = {"astronaut": 0.1, "cat": 0.6, "coffee": 0.1, "rocket": 0.2}
QUESTIONS: dict[str, dict[str, object]] = {
    "the best": {},
    "top 3": {"top": 3},
    "threshold": {"threshold": SURE},
    "unknown": {"unknown": STRANGE},
    "coverage": {"coverage": 0.8},
    "jackknife+, may be empty": {"coverage": 0.6, "sets_by": "jackknife+", "allow_empty": True},
    "calibrated": {"coverage": 0.5, "calibrate": "others"},
    "a uniform prior": {"prior": "uniform", "top": 2},
    "a prior of shares": {"prior": SHARES, "top": 3, "threshold": SURE, "unknown": STRANGE},
    "all at once": {"top": 3, "threshold": SURE, "unknown": STRANGE, "coverage": 0.8},
}
SERVICE, STUDIO = {"top", "threshold", "unknown", "coverage", "together"}, {"top", "unknown"}  # what they offer
GRAPH = {"top"}  # of the exported file, which gives the probabilities of all classes


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A model, data to calibrate on, and images that it was not fitted on: photographs, and one of noise."""
    folder = tmp_path_factory.mktemp("doors")
    write_folder(folder / "photos", 6)
    write_folder(folder / "others", 3, seed=7)
    write_folder(folder / "new", 2, seed=5)
    classifier = yoro.fit(folder / "photos", read="logits", workers=0)
    classifier.save(folder / "m.yoro")
    noise = np.random.default_rng(0).integers(0, 256, (120, 120, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "new" / "noise.png")
    files = sorted(path for path in (folder / "new").rglob("*.*") if path.is_file())
    return SimpleNamespace(folder=folder, files=files, model=folder / "m.yoro", classifier=yoro.load(folder / "m.yoro"))


@pytest.fixture(scope="module")
def service(work):
    with running(work.model, log=work.folder / "log") as found:
        yield found


def placed(work, question):
    """The question, with the folder to calibrate on where it is."""
    return {key: str(work.folder / value) if key == "calibrate" else value for key, value in question.items()}


def words_of(work, question):
    """The question as it is typed."""
    for key, value in placed(work, question).items():
        if key == "prior" and not isinstance(value, str):
            value = ",".join(f"{name}={share}" for name, share in value.items())
        yield from [f"--{key.replace('_', '-')}"] if value is True else [f"--{key.replace('_', '-')}", value]


def answers_of(rows):
    """Rows of a table as (label, best classes, their probabilities, typicality, set)."""
    for row in rows:
        ranks = ["", *(f"_{rank}" for rank in range(2, 9) if f"label_{rank}" in row)]
        label = row["label"] if isinstance(row["label"], str) and row["label"] else None
        best, shares = [row[f"label{rank}"] for rank in ranks[1:]], [float(row[f"probability{rank}"]) for rank in ranks]
        yield label, best, shares, row.get("typicality"), row.get("labels")


def by_json(work, question):
    """What the command writes as JSON; the other doors are held against it."""
    return by_json_and_gallery(work, question)[0]


def by_json_and_gallery(work, question):
    """One run that writes both: the rows, and what the page is made of."""
    pages, out = [], work.folder / "rows.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gallery, "page", lambda self, *_: pages.append(self) or "")
        words = ["--html", work.folder / "page.html", "--out", out, "--force", "-q", *words_of(work, question)]
        run("predict", work.model, *work.files, "--workers", 0, *words)
    return list(answers_of(json.loads(out.read_text()))), list(of_gallery(work, question, pages[0]))


def of_gallery(work, question, gallery):
    found = {answer.name: answer for answer in gallery.doubtful}
    assert gallery.unknown == sum(answer.unknown for answer in found.values())
    for file in work.files:
        one = next(answer for name, answer in found.items() if str(file).endswith(name))
        best = one.best[: question.get("top", 1)]
        shares, inside = [share for _, share in best], None if one.labels is None else list(one.labels)
        yield one.label, [label for label, _ in best[1:]], shares, one.typicality, inside


def by_csv(work, question):
    done = run("predict", work.model, *work.files, "--workers", 0, "-q", *words_of(work, question))
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    for row in rows:
        row |= {key: json.loads(row[key]) for key in ("typicality", "labels") if key in row}
    return list(answers_of(rows))


def by_python(work, question):
    return list(answers_of(work.classifier.to_frame(work.files, **placed(work, question)).to_dict("records")))


def by_service(work, question, service):
    sent = [("images", (file.name, file.read_bytes())) for file in work.files]
    found = service.client.post("/v1/predict", params=question, files=sent).json()["predictions"]
    for one in found:
        top = one.get("top", [one])
        best, shares = [row["label"] for row in top[1:]], [row["probability"] for row in top]
        yield one["label"], best, shares, one.get("typicality"), one.get("labels")


def by_studio(work, question):
    judgement = Judgement()
    judgement.make(work.classifier)
    learned = Learned(1, None, work.classifier, None, {}, 0.0, judgement=judgement)
    beside = SimpleNamespace(lock=threading.Lock(), state=SimpleNamespace(photos={}))
    for batch in work.classifier.answers(work.files):
        for response in batch.responses:
            one, top = answer_of(beside, learned, response), question.get("top", 1)
            bars, asked = one["bars"][:top], "unknown" in question
            label = None if asked and one["unknown"] else one["label"]
            best, shares = [bar["name"] for bar in bars[1:]], [bar["probability"] for bar in bars]
            yield label, best, shares, one["typicality"] if asked else None, None


def by_graph(work, question):
    """What ONNX Runtime makes of the exported file and its metadata."""
    path = work.classifier.export(work.folder / "m.onnx", force=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    told = session.get_modelmeta().custom_metadata_map
    classes, form = json.loads(told["yoro.classes"]), json.loads(told["yoro.input"])
    geometry = Geometry(form["side"], fit=form["fit"], interpolation=form["interpolation"])
    images = np.stack([decode(file, geometry) for file in work.files])
    labels, probabilities = session.run(["label", "probabilities"], {form["tensor"]: images})
    for label, row in zip(labels, probabilities, strict=True):
        best = np.argsort(-row, kind="stable")[: question.get("top", 1)]
        yield classes[label], [classes[i] for i in best[1:]], row[best].tolist(), None, None


def same(found, expected):
    found = list(found)
    assert len(found) == len(expected)
    for (*names, shares, typical, inside), (*others, shares_, typical_, inside_) in zip(found, expected, strict=True):
        assert (names, inside) == (others, inside_)
        # rounded to four or six digits, and an image's response differs in its last bits with its batch
        assert shares == pytest.approx(shares_, abs=2e-5)
        assert typical == (None if typical_ is None else pytest.approx(typical_, abs=1e-4))


@pytest.mark.parametrize("asked", QUESTIONS)
def test_the_same_answer_at_every_door(work, service, asked):
    question = QUESTIONS[asked]
    expected, of_page = by_json_and_gallery(work, question)
    same(of_page, expected)
    same(by_csv(work, question), expected)
    same(by_python(work, question), expected)
    if set(question) <= SERVICE:
        same(by_service(work, question, service), expected)
    if set(question) <= STUDIO:
        same(by_studio(work, question), expected)
    if set(question) <= GRAPH:
        same(by_graph(work, question), expected)


def test_the_table_asks_what_makes_a_difference(work):
    """Noise is rejected, some photographs are unsure, sets differ in size, and the prior moves probabilities."""
    labels = [label for label, *_ in by_json(work, {"threshold": SURE})]
    assert 0 < labels.count(None) < len(labels)
    assert None in [label for label, *_ in by_json(work, {"unknown": STRANGE})]
    assert len({len(inside) for *_, inside in by_json(work, QUESTIONS["jackknife+, may be empty"])}) > 1
    assert by_json(work, {"prior": SHARES}) != by_json(work, {})


@pytest.mark.filterwarnings("ignore::yoro.errors.DegenerateWarning", "ignore::yoro.errors.LabelWarning")
def test_images_answered_together_get_the_same_answers_at_every_door(tmp_path):
    """One label a class, so that the other images teach much."""
    write_folder(tmp_path / "photos", 1)
    write_folder(tmp_path / "new", 5, seed=5)
    (tmp_path / "new" / "cat" / "copy.jpg").write_bytes((tmp_path / "new" / "cat" / "000.jpg").read_bytes())
    classifier = yoro.fit(tmp_path / "photos", read="logits", workers=0)
    classifier.save(tmp_path / "m.yoro")
    files = sorted((tmp_path / "new").rglob("*.jpg"))
    work = SimpleNamespace(folder=tmp_path, files=files, model=tmp_path / "m.yoro", classifier=classifier)
    question = {"top": 3, "threshold": 0.9, "together": True}
    expected = by_json(work, question)
    assert [label for label, *_ in expected] != [label for label, *_ in by_python(work, question | {"together": False})]
    same(by_csv(work, question), expected)
    same(by_python(work, question), expected)
    with running(work.model, log=tmp_path / "log") as service:
        same(by_service(work, question, service), expected)
        same(by_service(work, question | {"together": False}, service), by_json(work, {"top": 3, "threshold": 0.9}))


def test_python_answers_are_made_of_its_other_answers(work):
    """A table holds what `predict`, `predict_proba`, `typicality` and `predict_sets` give by themselves."""
    model, files = work.classifier, work.files
    table = model.to_frame(files, unknown=0.0, coverage=0.8)
    assert table["label"].tolist() == model.predict(files)
    assert table["labels"].tolist() == model.predict_sets(files, 0.8)
    np.testing.assert_allclose(table["probability"], model.predict_proba(files).max(axis=1), atol=1e-12)
    np.testing.assert_allclose(table["typicality"], model.typicality(files), atol=1e-12)


WRONG: list[dict[str, object]] = [
    {"top": 0}, {"threshold": 1.5}, {"unknown": 1.0}, {"coverage": 1.0}, {"calibrate": "others"},
    {"coverage": 0.9, "sets_by": "half"}, {"coverage": 0.9, "prior": "uniform"},
]  # fmt: skip


@pytest.mark.parametrize("question", WRONG, ids=str)
def test_a_question_that_makes_no_sense_is_refused_at_every_door(work, question):
    with pytest.raises(InputError):
        Question(**question)
    with pytest.raises(InputError):
        work.classifier.to_frame(work.files, **question)
    words = ["predict", work.model, *work.files, *words_of(work, question)]
    run(*words, code=2)
    run(*words, "--ray", "--out", work.folder / "rows", code=2)


@pytest.mark.parametrize("question", [*(one for one in WRONG if set(one) <= SERVICE), {"threshold": 2}], ids=str)
def test_the_service_refuses_a_question_that_makes_no_sense(service, work, question):
    sent = [("images", ("a.png", work.files[-1].read_bytes()))]
    assert service.client.post("/v1/predict", params=question, files=sent).status_code == 422
