from __future__ import annotations

import tracemalloc
import zipfile

import numpy as np
import pytest

from yoro.data.responses import ResponseBatch, ResponseFile, write_responses
from yoro.errors import InputError, NonFiniteError

RESPONSES = np.random.default_rng(0).normal(size=(5000, 6)).astype(np.float32)
LABELS = np.array(["tulip", "rosé"] * 2500)


def read(path, **options):
    with ResponseFile(path, **options) as file:
        return list(file.batches(rows=999))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_responses_come_back_as_they_were_saved(tmp_path, save, dtype, order):
    responses = np.asarray(RESPONSES.astype(dtype), order=order)
    save(tmp_path / "z.npz", responses=responses, labels=LABELS, groups=np.arange(5000) // 10)
    batches = read(tmp_path / "z.npz")
    np.testing.assert_array_equal(np.concatenate([b.responses for b in batches]), responses)
    assert [name for b in batches for name in b.labels] == LABELS.tolist()
    assert batches[0].groups[:11] == ["0"] * 10 + ["1"]
    assert batches[1].names[0] == "z.npz#999"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_large_file_is_never_held_whole(tmp_path, save, order):
    responses = np.ones((40_000, 200), dtype=np.float32, order=order)
    save(tmp_path / "z.npz", responses=responses, labels=np.arange(40_000) % 3)
    del responses
    tracemalloc.start()
    with ResponseFile(tmp_path / "z.npz") as file:
        count = sum(len(batch.responses) for batch in file.batches())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 40_000
    assert peak < 40_000 * 200 * 4 / 2


@pytest.mark.parametrize("labels", [np.array(["a", "b"]), np.array([b"a", b"b"]), np.array([0, 1])])
def test_labels_are_names_or_integers(tmp_path, labels):
    np.savez(tmp_path / "z.npz", responses=np.ones((2, 3)), labels=labels)
    assert read(tmp_path / "z.npz")[0].labels in (["a", "b"], ["0", "1"])


def test_labels_may_be_missing_where_they_are_not_needed(tmp_path):
    np.savez(tmp_path / "z.npz", responses=np.ones((2, 3)))
    assert read(tmp_path / "z.npz", labelled=False)[0].labels is None
    with pytest.raises(InputError, match="no array 'labels'; it holds responses"):
        read(tmp_path / "z.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"responses": np.ones((3, 2)), "labels": np.arange(2)}, "3 responses but labels of shape"),
        ({"responses": np.ones(3), "labels": np.arange(3)}, r"shape \(3,\); expected \(n, width\)"),
        ({"responses": np.ones((2, 2)), "labels": np.array([0.5, 1])}, "expected names or integers"),
        ({"responses": np.ones((2, 2)), "labels": np.array(["a", ""])}, "label of row 1 is empty"),
        ({"responses": np.array([["a"]]), "labels": np.arange(1)}, "expected float16"),
        ({"responses": np.array([[object()]]), "labels": np.arange(1)}, "expected float16"),
        ({"responses": np.ones((1, 1)), "labels": np.array([{}])}, "not read for safety"),
        ({"z": np.ones((1, 1))}, "no array 'responses'; it holds z"),
    ],
)
def test_bad_files_say_what_is_wrong(tmp_path, arrays, message):
    np.savez(tmp_path / "z.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "z.npz")


def test_missing_foreign_and_truncated_files_are_errors(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "no.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(InputError, match="is not a response file"):
        read(tmp_path / "text.npz")
    np.savez_compressed(tmp_path / "z.npz", responses=RESPONSES, labels=LABELS)
    content = (tmp_path / "z.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="is not a response file"):
        read(tmp_path / "cut.npz")
    damaged = bytearray(content)
    damaged[2000:2100] = bytes(100)
    (tmp_path / "bad.npz").write_bytes(damaged)
    with pytest.raises(InputError, match=r"damaged|truncated"):
        read(tmp_path / "bad.npz")


def test_nan_is_named_with_its_row(tmp_path):
    responses = RESPONSES.copy()
    responses[1500, 2] = np.nan
    np.savez(tmp_path / "z.npz", responses=responses, labels=LABELS)
    with pytest.raises(NonFiniteError, match=r"rows 999 to 1997: 1 of 999 .* index 501"):
        read(tmp_path / "z.npz")


def test_equal_responses_are_equal_files_whenever_they_are_written(tmp_path):
    batch = ResponseBatch(RESPONSES[:2], ["a", "b"], None, [b"1", b"2"], ["one", "two"])
    write_responses(tmp_path / "z.npz", [batch], 6, identity={"source": "mine"})
    with zipfile.ZipFile(tmp_path / "z.npz") as archive:
        times = {entry.filename: entry.date_time for entry in archive.infolist()}
    assert times == dict.fromkeys(("responses.npy", "names.npy", "labels.npy", "identity.npy"), (1980, 1, 1, 0, 0, 0))
