"""Everything that people hold in Python goes into a fit, a prediction, a change and a score, and comes out alike."""

from __future__ import annotations

import io
import os
from decimal import Decimal
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pytest
from PIL import Image

import yoro
from yoro.data.python_data import accept
from yoro.errors import InputError

COLOURS = {"bright": (190, 190, 190), "dark": (60, 60, 60), "red": (190, 60, 60)}
NAMES = tuple(COLOURS)
EACH = 6
SOURCE = f"onnx:{Path(__file__).parents[1] / 'models' / 'tiny.onnx'}?mean=0,0,0&std=1,1,1"  # of width 6, and quick


@pytest.fixture(scope="module")
def photos() -> tuple[np.ndarray, list[str]]:
    """Images (n, height, width, 3) of noise about a colour, and the name of each."""
    rng = np.random.default_rng(0)
    images = [rng.normal(colour, 60, (40, 30, 3)) for colour in COLOURS.values() for _ in range(EACH)]
    return np.clip(images, 0, 255).astype(np.uint8), [name for name in NAMES for _ in range(EACH)]


@pytest.fixture(scope="module")
def paths(photos, tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("inputs")
    written = []
    for number, (image, name) in enumerate(zip(*photos, strict=True)):
        (folder / name).mkdir(exist_ok=True)
        written.append(folder / name / f"{number:02}.png")
        Image.fromarray(image).save(written[-1])
    return written


class Bare:
    """A dataset of torch that lists no labels: items by their number, and no end that an iteration would see."""

    def __init__(self, images, labels):
        self.images, self.labels_of_mine = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, number):
        return self.images[number % len(self.images)], self.labels_of_mine[number % len(self.images)]


class Listed(Bare):
    """One that lists its labels, by number, and the names of its classes, as those of torchvision do."""

    def __init__(self, images, labels):
        super().__init__(images, labels)
        self.classes, self.targets, self.read = list(NAMES), [NAMES.index(label) for label in labels], []

    def __getitem__(self, number):
        self.read.append(number)
        return Image.fromarray(self.images[number]), self.targets[number]


def codes(labels):
    return [NAMES.index(label) + 8 for label in labels]  # 8, 9, 10: as text these sort otherwise


def hugging_face(images, labels):
    features = datasets.Features({"img": datasets.Image(), "kind": datasets.ClassLabel(names=list(NAMES))})
    rows = {"img": [Image.fromarray(image) for image in images], "kind": labels}
    return datasets.Dataset.from_dict(rows, features=features)


def image_folder(images, labels, paths):
    torchvision = pytest.importorskip("torchvision")
    return torchvision.datasets.ImageFolder(str(paths[0].parents[1]), transform=torchvision.transforms.ToTensor())


def tensors(images, labels, paths):
    torch = pytest.importorskip("torch")
    planes = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
    return torch.utils.data.TensorDataset(planes, torch.tensor(codes(labels)))


def subset(images, labels, paths):
    torch = pytest.importorskip("torch")
    return torch.utils.data.Subset(Listed(images, labels), list(range(len(labels))))


def loader(images, labels, paths):
    torch = pytest.importorskip("torch")
    return torch.utils.data.DataLoader(Bare(images, labels), batch_size=5)


INPUTS = {  # kind: how it is made of images, names and paths; whether its labels are whole numbers
    "arrays": (lambda x, y, p: (x, np.array(y)), False),
    "arrays and integers": (lambda x, y, p: (x, np.array(codes(y))), True),
    "small integers": (lambda x, y, p: (x, np.array(codes(y), dtype=np.uint8)), True),
    "grey arrays": (lambda x, y, p: (x.mean(axis=3).astype(np.uint8), y), False),
    "channels first": (lambda x, y, p: (np.moveaxis(x, 3, 1) / 255, y), False),
    "an array of objects": (lambda x, y, p: (pd.Series([Image.fromarray(i) for i in x]).to_numpy(), y), False),
    "tensors": (lambda x, y, p: tuple(tensors(x, y, p).tensors), True),
    "paths and labels": (lambda x, y, p: ([str(path) for path in p], y), False),
    "columns": (lambda x, y, p: (pd.Series([str(path) for path in p]), pd.Series(y, dtype="category")), False),
    "pairs": (lambda x, y, p: list(zip(p, y, strict=True)), False),
    "pairs of integers": (lambda x, y, p: list(zip(p, codes(y), strict=True)), True),
    "a generator": (lambda x, y, p: ((image, label) for image, label in zip(x, y, strict=True)), False),
    "batches": (lambda x, y, p: ((x[i : i + 5], y[i : i + 5]) for i in range(0, len(x), 5)), False),
    "batches, channels first": (lambda x, y, p: [(np.moveaxis(x, 3, 1) / 255, np.array(codes(y)))], True),
    "open files": (lambda x, y, p: [(io.BytesIO(path.read_bytes()), n) for path, n in zip(p, y, strict=True)], False),
    "rows": (lambda x, y, p: [{"image": i, "label": n} for i, n in zip(x, codes(y), strict=True)], True),
    "a frame": (lambda x, y, p: pd.DataFrame({"filename": map(str, p), "species": y}), False),
    "a frame of integers": (lambda x, y, p: pd.DataFrame({"n": 1, "path": p, "target": codes(y)}), True),
    "a dataset": (lambda x, y, p: Bare(x, y), False),
    "a dataset of integers": (lambda x, y, p: Bare(x, codes(y)), True),
    "a dataset with names": (lambda x, y, p: Listed(x, y), False),
    "a tensor dataset": (tensors, True),
    "a subset": (subset, False),
    "a loader": (loader, False),
    "an image folder": (image_folder, False),
    "hugging face": (lambda x, y, p: hugging_face(x, y), False),
    "hugging face, streamed": (lambda x, y, p: hugging_face(x, y).to_iterable_dataset(), False),
    "hugging face, splits": (lambda x, y, p: datasets.DatasetDict(train=hugging_face(x, y)), False),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_what_people_hold_is_fitted_answered_changed_and_kept(kind, photos, paths, tmp_path):
    make, integers = INPUTS[kind]

    def data():
        return make(*photos, paths)

    truth = codes(photos[1]) if integers else photos[1]
    classifier = yoro.fit(data(), source=SOURCE)
    assert classifier.classes == tuple(sorted(set(truth)))
    assert [type(label) for label in classifier.classes] == [int if integers else str] * 3
    answers = classifier.predict(data())
    assert np.mean([answer == label for answer, label in zip(answers, truth, strict=True)]) > 0.7
    assert classifier.score(data()) > 0.7
    assert [classifier.classes[i] for i in classifier.predict_proba(data()).argmax(axis=1)] == answers
    classifier.save(tmp_path / "m.yoro")
    again = yoro.load(tmp_path / "m.yoro")
    assert again.predict(data()) == answers
    again.update(data())
    assert again.model.statistics.total == 2 * len(truth)
    again.forget(data())
    assert again.classes == classifier.classes
    np.testing.assert_allclose(again.predict_proba(data()), classifier.predict_proba(data()), atol=1e-6)
    assert list(again.to_frame(data())["label"]) == answers


def test_a_batch_that_lacks_labels_is_refused(photos):
    images, labels = photos
    with pytest.raises(InputError, match="A batch has 6 images but 5 labels"):
        yoro.fit([(images[:6], labels[:5])], source=SOURCE)


def test_labels_may_stand_beside_the_images(photos):
    images, labels = photos
    classifier = yoro.fit(images, codes(labels), source=SOURCE)
    assert classifier.score(images, codes(labels)) == 1.0
    assert classifier.evaluate(images, codes(labels)).n == len(labels)
    classifier.update(images[:2], codes(labels)[:2])
    classifier.forget(images[:2], codes(labels)[:2])
    assert classifier.model.statistics.total == len(labels)


def test_whole_numbers_stay_whole_numbers_until_a_name_comes(photos):
    images, labels = photos
    classifier = yoro.fit(images, codes(labels), source=SOURCE)
    classifier.relabel({"8": "white"})
    assert classifier.classes == ("10", "9", "white")
    responses = np.random.default_rng(0).normal(size=(40, 3))
    assert yoro.fit(responses, np.arange(40) % 12).classes == tuple(range(12))
    assert yoro.fit(responses, [f"0{i % 12}" for i in range(40)]).classes[1] == "01"


@pytest.mark.parametrize(
    "one",
    [
        lambda path: str(path),
        lambda path: path,
        lambda path: path.read_bytes(),
        lambda path: io.BytesIO(path.read_bytes()),
        lambda path: Image.open(path),
        lambda path: np.asarray(Image.open(path)),
        lambda path: [path],
        lambda path: [{"image": {"bytes": None, "path": str(path)}}],
    ],
)
def test_a_single_image_of_any_kind_is_answered(one, photos, paths):
    classifier = _classifier(photos)
    assert classifier.predict(one(paths[0])) == ["bright"]


@pytest.mark.parametrize("nothing", [[], (), np.empty((0, 8, 8, 3), np.uint8), pd.DataFrame({"image": []}), iter(())])
def test_nothing_asked_is_nothing_answered(nothing, photos):
    classifier = _classifier(photos)
    assert classifier.predict(nothing) == []
    assert classifier.predict_proba([]).shape == (0, 3)
    assert len(classifier.to_frame([])) == 0


def test_images_of_a_dataset_with_known_labels_are_read_once_and_not_kept(photos):
    held = Listed(*photos)
    found = accept(held)
    assert held.read == []
    assert found.examples[0].label == "bright"
    yoro.fit(held, source=SOURCE)
    assert held.read == list(range(len(held)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda x, y, p: x, "has no labels"),
        (lambda x, y, p: (x, y[:-1]), "18 images but 17 labels"),
        (lambda x, y, p: (x.reshape(len(x), -1), y), "expected images"),
        (lambda x, y, p: (x, np.linspace(0, 1, len(x))), "expected text or an integer"),
        (lambda x, y, p: (x, [True] * len(x)), "expected text or an integer"),
        (lambda x, y, p: [], "are empty"),
        (lambda x, y, p: 7, "data of type int"),
        (lambda x, y, p: {"cat": x}, "data of type dict"),
        (lambda x, y, p: [7], "expected a pair"),
        (lambda x, y, p: [(7, "cat")], "is int; expected a path"),
        (lambda x, y, p: [(io.StringIO("text"), "cat")], "open as text"),
        (lambda x, y, p: x[0], "single image has no label"),
        (lambda x, y, p: (("a.jpg", "cat"), ("b.jpg", "dog")), "Two tuples of two"),
        (lambda x, y, p: pd.DataFrame({"a": p, "b": y, "c": 1}), "No column holds the images; there are a, b, c"),
        (lambda x, y, p: pd.DataFrame({"path": p, "b": y, "c": 1}), "No column holds the labels"),
        (lambda x, y, p: pd.DataFrame({"path": p, "label": y, "split": "x"}), "split is 'x'"),
    ],
)
def test_what_cannot_be_meant_is_told(data, message, photos, paths):
    with pytest.raises(InputError, match=message):
        yoro.fit(data(*photos, paths), source=SOURCE)


@pytest.mark.parametrize(
    "labels", ["cat", {0: "cat"}, 3, iter("ab"), [("a", "b")]], ids=["text", "table", "number", "iterator", "pairs"]
)
def test_labels_beside_the_images_must_be_a_column(labels, photos):
    with pytest.raises(InputError, match="expected a list, an array or a column"):
        yoro.fit(photos[0], labels, source=SOURCE)


def test_a_picture_that_was_normalised_is_told_what_it_lacks(photos):
    with pytest.raises(InputError, match="leave out any normalisation"):
        yoro.fit(photos[0] / 127.5 - 1, photos[1], source=SOURCE)


def test_a_frame_may_have_splits_and_groups(photos, paths):
    splits = ["test" if i % EACH == 0 else "train" for i in range(len(paths))]
    frame = pd.DataFrame({"path": paths, "label": photos[1], "split": splits, "group": range(len(paths))})
    classifier = yoro.fit(frame, source=SOURCE)
    assert classifier.model.statistics.total == 15
    assert classifier.evaluate(frame).n == 3
    assert len(set(classifier.model.reservoir.members().groups.tolist())) == 15


def test_paths_of_any_kind_name_folders(paths):
    class Place(os.PathLike):
        def __fspath__(self):
            return str(paths[0].parents[1])

    assert len(accept([(path, "cat") for path in paths])) == 18
    assert yoro.fit(Place(), source=SOURCE).model.statistics.total == 18


_KEPT: list[yoro.Classifier] = []


def _classifier(photos):
    if not _KEPT:
        _KEPT.append(yoro.fit(*photos, source=SOURCE))
    return _KEPT[0]


MISSING = {
    "a list": ["cat", "dog", None],
    "NaN in a list": ["cat", "dog", float("nan")],
    "objects": np.array(["cat", "dog", None], dtype=object),
    "numbers": np.array([0.0, 1.0, np.nan]),
    "Int64 of pandas": pd.array([0, 1, None], dtype="Int64"),
    "a Series": pd.Series(["cat", "dog", None]),
    "strings of pandas": pd.array(["cat", "dog", None], dtype="string"),
    "categories": pd.Categorical(["cat", "dog", None]),
    "masked": np.ma.array([0, 1, 2], mask=[False, False, True]),
    "masked in a list": ["cat", "dog", np.ma.masked],
    "dates": np.array(["2026-01-01", "2026-01-02", "NaT"], dtype="datetime64[D]"),
    "a decimal": ["cat", "dog", Decimal("nan")],
    "complex": ["cat", "dog", complex("nan")],
    "blank": ["cat", "dog", " "],
    "blank in an array": np.array(["cat", "", "dog"]),
}


@pytest.mark.parametrize("labels", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize("what", ["responses", "images"])
def test_a_missing_label_is_an_error_and_no_class(labels, what):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (9, 9, 3), dtype=np.uint8) for _ in range(3)]
    data = rng.normal(size=(3, 5)) if what == "responses" else images
    with pytest.raises(InputError, match=r"label"):
        yoro.fit(data, labels)
    if what == "responses":
        for take in (yoro.DiscriminantMapping().fit, yoro.ResponseStatistics().update):
            with pytest.raises(InputError, match="labels are missing"):
                take(data, labels)


@pytest.mark.parametrize("name", [None, float("nan"), pd.NA, 3])
def test_a_class_cannot_be_renamed_to_what_is_no_text(name):
    classifier = yoro.fit(np.random.default_rng(0).normal(size=(6, 5)), ["cat", "dog"] * 3)
    with pytest.raises(InputError, match="no text"):
        classifier.relabel({"cat": name})


def test_numbers_with_a_fraction_are_no_labels_and_whole_ones_of_pandas_are():
    responses = np.random.default_rng(0).normal(size=(6, 5))
    with pytest.raises(InputError, match="expected text or an integer"):
        yoro.fit(responses, np.array([0.0, 1.0] * 3))
    whole = pd.Series([0, 1] * 3, dtype="Int64")
    assert yoro.fit(responses, whole).classes == (0, 1)
    assert yoro.DiscriminantMapping().fit(responses, whole).classes_.dtype.kind == "i"
