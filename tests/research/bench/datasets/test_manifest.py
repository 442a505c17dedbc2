from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from yoro.data.examples import Dataset, Example
from yoro.errors import InputError
from yoro.research.bench.datasets.dataset import take_manifest


@pytest.fixture
def copy(tmp_path: Path) -> Dataset:
    examples = []
    for number in range(4):
        path = tmp_path / "images" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes([number]) * 10)
        examples.append(Example(path, "ab"[number % 2], path.name, split="train"))
    return Dataset(tuple(examples))


def test_an_unchanged_file_is_not_read_again(copy, tmp_path):
    file = tmp_path / "cache.json"
    first = take_manifest(copy, file)
    assert (first.changed, first.added, first.removed) == ((), (), ())
    image = copy.examples[2].image
    times = image.stat()
    image.write_bytes(b"?" * 10)
    os.utime(image, ns=(times.st_atime_ns, times.st_mtime_ns))  # the same size and time
    assert take_manifest(copy, file) == first
    os.utime(image, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    second = take_manifest(copy, file)
    assert second.changed == ("2.png",)
    assert second.digest != first.digest
    assert take_manifest(copy, file).changed == ()


def test_the_digest_is_of_contents_not_of_times_or_order(copy, tmp_path):
    first = take_manifest(copy, None)
    os.utime(copy.examples[0].image, (1, 1))
    assert take_manifest(Dataset(copy.examples[::-1]), None) == first


@pytest.mark.parametrize("change", [{"label": "z"}, {"split": "test"}, {"group": "g"}, {"name": "other"}])
def test_labels_splits_groups_and_names_are_in_the_digest(copy, change):
    from dataclasses import replace

    other = Dataset((replace(copy.examples[0], **change), *copy.examples[1:]))
    assert take_manifest(other, None).digest != take_manifest(copy, None).digest


def test_added_and_removed_files_are_named(copy, tmp_path):
    file = tmp_path / "cache.json"
    take_manifest(Dataset(copy.examples[:3]), file)
    found = take_manifest(Dataset(copy.examples[1:]), file)
    assert (found.changed, found.added, found.removed) == ((), ("3.png",), ("0.png",))


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"0.png": [1, 2]}', '{"0.png": ["a", 2, "b"]}', "[" * 100_000])
def test_a_damaged_cache_is_ignored_and_made_anew(copy, tmp_path, damage):
    file = tmp_path / "cache.json"
    wanted = take_manifest(copy, None)
    file.write_text(damage)
    assert take_manifest(copy, file) == wanted
    assert set(json.loads(file.read_text())) == {"0.png", "1.png", "2.png", "3.png"}


def test_arrays_and_bytes_have_contents_too():
    def digest(image):
        return take_manifest(Dataset((Example(image, "a", "x"),)), None).digest

    pixels = np.arange(12, dtype=np.uint8)
    digests = [digest(pixels.reshape(3, 4)), digest(pixels.reshape(4, 3)), digest(pixels.tobytes()),
               digest(pixels.reshape(3, 4).view(np.int8))]  # fmt: skip
    assert len(set(digests)) == 4
    assert digest(np.asfortranarray(pixels.reshape(3, 4))) == digests[0]


def test_one_name_for_two_images_is_an_error():
    with pytest.raises(InputError, match=r"'x' have different contents"):
        take_manifest(Dataset((Example(b"1", "a", "x"), Example(b"2", "a", "x"))), None)


def test_progress_is_told_every_name(copy):
    told = []
    take_manifest(copy, None, told.append)
    assert told == ["0.png", "1.png", "2.png", "3.png"]


def test_a_file_that_vanished_is_an_error(copy):
    copy.examples[1].image.unlink()
    with pytest.raises(InputError, match=r"1.png' cannot be read"):
        take_manifest(copy, None)
