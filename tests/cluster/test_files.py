from __future__ import annotations

import pytest

from cluster.shards_of_rows import photos_of, pixels_of, write_parquet, write_tar
from photos import write_folder
from yoro.cluster.files import FilePart, parts_of, places_of
from yoro.cluster.rows import read_examples
from yoro.errors import InputError

pytest.importorskip("pyarrow", reason="the extra ray is not installed")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return photos_of(write_folder(tmp_path_factory.mktemp("rows") / "photos", count=3))


@pytest.mark.parametrize("group", [1, 3, 5, 100])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_parts_of_a_parquet_file_hold_every_row_once_in_order(tmp_path, photos, group, size):
    rows = [{"image": path.read_bytes(), "label": label} for path, label in photos]
    parts = parts_of([str(write_parquet(tmp_path / "a.parquet", rows, group))], size)
    examples = [e for part in parts for e in read_examples(FilePart.from_json(part.to_json()), every=False)]
    assert [(e.image, e.label) for e in examples] == [(path.read_bytes(), label) for path, label in photos]
    assert [e.name for e in examples] == [f"a.parquet#{i}" for i in range(len(photos))]


def test_images_may_be_bytes_paths_urls_pixels_or_as_hugging_face_writes_them(tmp_path, photos):
    path, label = photos[0]
    kinds = [
        {"image": path.read_bytes()}, {"path": str(path)}, {"path": f"file://{path}"}, pixels_of(path),
        {"image": {"bytes": path.read_bytes(), "path": None}},
    ]  # fmt: skip
    for i, kind in enumerate(kinds):
        file = write_parquet(tmp_path / f"{i}.parquet", [{**kind, "label": label, "group": "g", "split": "Valid"}])
        (example,) = read_examples(parts_of([str(file)], 10)[0], every=False)
        assert (example.label, example.group, example.split) == (label, "g", "val")
        assert not isinstance(example.image, OSError)


@pytest.mark.parametrize("label", ["cls", "txt", "json"])
def test_a_webdataset_shard_has_its_labels_beside_the_images(tmp_path, photos, label):
    write_tar(tmp_path / "x-000.tar", photos[:5], label)
    write_tar(tmp_path / "x-001.tar", photos[5:], label)
    places = places_of(f"wds:{tmp_path}/x-{{000..001}}.tar")
    assert places == places_of(f"wds:{tmp_path}/x-*.tar")
    examples = [e for part in parts_of(places, 1) for e in read_examples(part, every=False)]
    assert [(e.image, e.label) for e in examples] == [(path.read_bytes(), name) for path, name in photos]
    assert examples[0].name == "x-000.tar/part/00000"


def test_test_rows_are_left_alone_by_a_fit_and_answered_by_a_prediction(tmp_path, photos):
    rows = [
        {"path": str(p), "label": name, "split": "test" if i % 2 else "train"} for i, (p, name) in enumerate(photos)
    ]
    (part,) = parts_of([str(write_parquet(tmp_path / "a.parquet", rows))], 100)
    assert len(read_examples(part, every=False)) == len(photos) // 2
    assert len(read_examples(part, every=True)) == len(photos)


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "Parquet"), (b"PAR1 and nothing of the kind PAR1", "Parquet"), (None, "cannot be read")]
)
def test_what_is_no_parquet_file_is_an_error_that_says_so(tmp_path, content, why):
    if content is not None:
        (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(InputError, match=why):
        parts_of([str(tmp_path / "a.parquet")], 10)


def test_a_row_without_a_label_is_named(tmp_path, photos):
    (part,) = parts_of([str(write_parquet(tmp_path / "a.parquet", [{"path": str(photos[0][0])}]))], 10)
    with pytest.raises(InputError, match=r"a\.parquet#0 has no label"):
        read_examples(part, every=False)


def test_a_damaged_shard_is_an_error_that_names_it(tmp_path, photos):
    shard = write_tar(tmp_path / "x.tar", photos)
    shard.write_bytes(shard.read_bytes()[:700])
    with pytest.raises(InputError, match=r"x\.tar"):
        read_examples(FilePart("tar", str(shard), ""), every=False)


def test_files_of_rows_are_not_given_beside_folders(tmp_path):
    with pytest.raises(InputError, match="given alone"):
        places_of(["a.parquet", str(tmp_path)])
    assert places_of(str(tmp_path)) is None
    assert places_of(None) is None
