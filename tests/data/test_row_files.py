from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from photos import write_folder
from row_files import photos_of, pixels_of, write_parquet, write_tar
from yoro.data import parquet_files
from yoro.data.decoding import decode, digest
from yoro.data.examples import Example, address_of, picture_at
from yoro.data.find import find
from yoro.data.geometry import Geometry
from yoro.data.roles import to_fit, to_measure
from yoro.data.row_files import FilePart, RowFiles, places_of
from yoro.errors import InputError
from yoro.model.one_pass import FITTED

pytest.importorskip("pyarrow", reason="the extra data is not installed")
fsspec = pytest.importorskip("fsspec", reason="the extra data is not installed")


def assert_photos(found: Iterable[Example], photos: list[tuple[Path, str]]) -> None:
    """The contents and labels of these photographs, in their order."""
    assert [(digest(e.image), e.label) for e in found] == [(digest(path), label) for path, label in photos]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return photos_of(write_folder(tmp_path_factory.mktemp("rows") / "photos", count=3))


@pytest.mark.parametrize("group", [1, 3, 5, 100])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_parts_of_a_parquet_file_hold_every_row_once_in_order(tmp_path, photos, group, size):
    rows = [{"image": path.read_bytes(), "label": label} for path, label in photos]
    parts = RowFiles((str(write_parquet(tmp_path / "a.parquet", rows, group)),)).parts(size)
    examples = [e for part in parts for e in FilePart.from_json(part.to_json()).examples(labelled=True)]
    assert_photos(examples, photos)
    assert_photos(find(tmp_path / "a.parquet"), photos)
    assert [e.name for e in examples] == [f"a.parquet#{i}" for i in range(len(photos))]


@pytest.mark.parametrize("order", [lambda n: range(n - 1, -1, -1), lambda n: [*range(1, n, 2), *range(0, n, 2)]])
def test_rows_are_read_in_any_order(tmp_path, photos, order):
    rows = [{"image": path.read_bytes(), "label": label} for path, label in photos]
    examples = list(find(write_parquet(tmp_path / "a.parquet", rows, 4)))
    for i in order(len(photos)):
        assert examples[i].image.fetch() == photos[i][0].read_bytes()


def test_images_may_be_bytes_paths_urls_pixels_or_as_hugging_face_writes_them(tmp_path, photos):
    path, label = photos[0]
    kinds = [
        {"image": path.read_bytes()}, {"path": str(path)}, {"path": f"file://{path}"}, pixels_of(path),
        {"image": {"bytes": path.read_bytes(), "path": None}},
    ]  # fmt: skip
    for i, kind in enumerate(kinds):
        file = write_parquet(tmp_path / f"{i}.parquet", [{**kind, "label": label, "group": "g", "split": "Valid"}])
        (example,) = find(file)
        assert (example.label, example.group, example.split) == (label, "g", "val")
        assert decode(example.image, Geometry(32)).shape == (32, 32, 3)


@pytest.mark.parametrize("label", ["cls", "txt", "json"])
def test_a_webdataset_shard_has_its_labels_beside_the_images(tmp_path, photos, label):
    write_tar(tmp_path / "x-000.tar", photos[:5], label)
    write_tar(tmp_path / "x-001.tar", photos[5:], label)
    places = places_of(f"wds:{tmp_path}/x-{{000..001}}.tar")
    assert places == places_of(f"wds:{tmp_path}/x-*.tar")
    examples = [e for part in RowFiles(tuple(places)).parts(1) for e in part.examples(labelled=True)]
    assert_photos(examples, photos)
    assert examples[0].name == "x-000.tar/part/00000"
    if label != "txt":  # a text may be anything, so that a tar with texts is a shard only if that is said
        assert_photos(find([tmp_path / "x-000.tar", tmp_path / "x-001.tar"]), photos)


def test_test_rows_are_left_alone_by_a_fit_and_answered_by_a_prediction(tmp_path, photos):
    rows = [
        {"path": str(p), "label": name, "split": "test" if i % 2 else "train"} for i, (p, name) in enumerate(photos)
    ]
    file = str(write_parquet(tmp_path / "a.parquet", rows))
    (part,) = RowFiles((file,), FITTED).parts(100)
    assert len(part.examples(labelled=True)) == len(photos) // 2
    assert len(find(file, labelled=False)) == len(photos)
    (train,), held, _ = to_fit(file, None, rule="loo", seed=0)
    assert (len(train), len(held)) == (len(photos) // 2, 0)
    assert len(to_measure(file)[0]) == len(photos) - len(photos) // 2


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "Parquet"), (b"PAR1 and nothing of the kind PAR1", "Parquet"), (None, "cannot be read")]
)
def test_what_is_no_parquet_file_is_an_error_that_says_so(tmp_path, content, why):
    if content is not None:
        (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(InputError, match=why):
        find(tmp_path / "a.parquet")


def test_a_row_without_a_label_is_named(tmp_path, photos):
    file = write_parquet(tmp_path / "a.parquet", [{"path": str(photos[0][0])}])
    with pytest.raises(InputError, match=r"a\.parquet#0 has no label"):
        find(file)


def test_a_damaged_shard_is_an_error_that_names_it(tmp_path, photos):
    shard = write_tar(tmp_path / "x.tar", photos)
    shard.write_bytes(shard.read_bytes()[:700])
    with pytest.raises(InputError, match=r"x\.tar"):
        find(f"wds:{shard}")


def test_files_of_rows_may_stand_beside_folders(tmp_path, photos):
    rows = [{"image": path.read_bytes(), "label": label} for path, label in photos]
    file = write_parquet(tmp_path / "a.parquet", rows)
    folder = photos[0][0].parents[1]
    assert len(find([file, folder])) == 2 * len(photos)
    assert places_of([str(file), str(folder)]) is None
    assert places_of(str(folder)) is None
    assert places_of(None) is None


def test_a_tar_of_class_folders_stays_one_even_with_texts_beside_its_images(tmp_path, photos):
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        for path, label in photos:
            archive.add(path, f"{label}/{path.name}")
            (tmp_path / "caption.txt").write_text("a nice one")
            archive.add(tmp_path / "caption.txt", f"{label}/{path.stem}.txt")
    assert places_of(str(tmp_path / "photos.tar")) is None
    assert_photos(find(tmp_path / "photos.tar"), photos)


def test_a_folder_at_a_url_is_read_as_one_on_this_disk(tmp_path, photos):
    folder = photos[0][0].parents[1]
    memory = fsspec.filesystem("memory")
    memory.pipe({f"/test-photos/{label}/{path.name}": path.read_bytes() for path, label in photos})
    try:
        for url in (f"file://{folder}", "memory://test-photos"):
            found = find(url)
            assert_photos(found, photos)
            assert [e.name for e in found] == [e.name for e in find(folder)]
            assert len(find(url, labelled=False)) == len(photos)
    finally:
        memory.rm("/test-photos", recursive=True)
    one = find(f"file://{photos[0][0]}", labelled=False)
    assert [digest(e.image) for e in one] == [digest(photos[0][0])]


def test_a_shard_at_a_url_is_copied_and_read(tmp_path, photos):
    write_tar(tmp_path / "x-0.tar", photos[:5])
    write_tar(tmp_path / "x-1.tar", photos[5:])
    assert_photos(find(f"file://{tmp_path}/x-*.tar"), photos)


def test_a_url_that_is_not_there_is_an_error_that_names_it(tmp_path):
    with pytest.raises(InputError, match="no-such-place"):
        find("memory://no-such-place")
    with pytest.raises(InputError, match="no-such-protocol"):
        find("no-such-protocol://x")
    with pytest.raises(InputError, match=r"gone\.parquet"):
        find(f"file://{tmp_path}/gone.parquet")


@pytest.mark.parametrize(("package", "data"), [("pyarrow", "a.parquet"), ("fsspec", "s3://bucket/photos")])
def test_without_the_package_the_error_names_the_extra(tmp_path, monkeypatch, photos, package, data):
    rows = [{"image": path.read_bytes(), "label": label} for path, label in photos]
    write_parquet(tmp_path / "a.parquet", rows)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"{package}.*\[data\]"):
        find(data)


def test_more_rows_than_bytes_are_refused(tmp_path, photos, monkeypatch):
    file = write_parquet(tmp_path / "a.parquet", [{"path": str(photos[0][0]), "label": "a"}])
    monkeypatch.setattr(parquet_files, "stamp_of", lambda place: "0 0")
    with pytest.raises(InputError, match="rows"):
        find(file)


def test_pictures_are_found_again_by_their_address(tmp_path, photos):
    rows = [{"image": path.read_bytes(), "label": label} for path, label in photos]
    for data in (write_parquet(tmp_path / "a.parquet", rows), write_tar(tmp_path / "x.tar", photos),
                 f"file://{photos[0][0].parents[1]}", photos[0][0].parents[1]):  # fmt: skip
        for example in find(data):
            address = json.loads(json.dumps(address_of(example.image)))
            assert digest(picture_at(address)) == digest(example.image)
