"""Python objects as a Dataset: arrays, lists, tables, datasets of torch and of Hugging Face, generators.

Nothing here imports torch, pandas or datasets: objects are recognised by their methods. If the labels can be had
without the images, an image is read when its turn comes and not kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from yoro import limits
from yoro.data.examples import SPLITS, Dataset, Example, Later, Member, Picture, class_name, shown, storable
from yoro.data.lists import split_named
from yoro.errors import ImageError, InputError

Label: TypeAlias = str | int  # of a class, as it was given: names, or whole numbers


# Tables with named columns can be iterated, and datasets of torch are at least as long as they say.
Data: TypeAlias = str | os.PathLike[str] | Iterable[object] | NDArray[np.generic] | Image.Image | Sized

IMAGE_COLUMNS = ("image", "img", "path", "file_name", "filename", "file", "filepath", "image_path", "picture", "pixels")
LABEL_COLUMNS = ("label", "labels", "class", "target", "category", "fine_label", "y")
CHANNELS = (1, 3, 4)
ACCEPTED = (
    "a folder, a list file, (images, labels), pairs (image, label), a table with a column of images and one of labels, "
    "or a dataset of torch or Hugging Face"
)

UNLABELLED = (
    "images: a path or several, a folder, an archive, a list file, a URL, a PIL image, an array, the bytes of a file, "
    "several of these, or responses"
)


def accept(data: object, *, labelled: bool = True) -> Dataset:
    """Examples of anything but a path, in the order given; without labels if `labelled` is False."""
    if isinstance(data, Dataset):
        return data
    for fits, examples_of in KINDS:
        if fits(data):
            examples = tuple(examples_of(data, labelled))
            break
    else:
        raise InputError(
            f"Cannot read data of type {type(data).__name__}; expected {ACCEPTED if labelled else UNLABELLED}."
        )
    if not examples and labelled:
        raise InputError("The data given are empty; expected at least one (image, label).")
    whole = bool(examples) and all(isinstance(example.label, _Whole) for example in examples)
    return Dataset(examples, integers=labelled and whole)


def joined(data: object, labels: object) -> object:
    """Data with the labels that were given beside them, if any were."""
    if labels is None:
        return data
    if not _are_labels(labels):
        raise InputError(f"The labels are {type(labels).__name__}; expected a list, an array or a column.")
    return data, labels


def integer_labels(data: object) -> bool:
    """Whether the labels of a Dataset, or of (responses, labels), were given as whole numbers."""
    if isinstance(data, Dataset):
        return data.integers
    return isinstance(data, tuple) and np.asarray(data[-1]).dtype.kind in "iu"


class _Whole(str):
    """The text of a label that was given as a whole number."""

    __slots__ = ()


# --- each kind of data: how it is known, and its examples


def _has(*names: str) -> Callable[[object], bool]:
    return lambda data: all(hasattr(data, name) for name in names)


def _is_single(data: object) -> bool:
    if isinstance(data, bytes | Image.Image) or callable(getattr(data, "read", None)):
        return True
    shape = _shape(data)
    return len(shape) == 2 or (len(shape) == 3 and _has_channels(shape, _is_tensor(data)))


def _single(data: object, labelled: bool) -> Iterator[Example]:
    if labelled:
        raise InputError(f"A single image has no label; expected {ACCEPTED}.")
    yield _example(data, None, 0, False)


def _is_pair(data: object) -> bool:
    """Whether data are (images, labels), not two items."""
    return isinstance(data, tuple) and len(data) == 2 and _are_labels(data[1]) and not isinstance(data[0], str | bytes)


def _pair(data: Any, labelled: bool) -> Iterator[Example]:
    given, labels = data
    if isinstance(given, tuple) and isinstance(labels, tuple) and len(given) == len(labels) == 2:
        raise InputError(
            "Two tuples of two items are ambiguous: two pairs, or images and labels? Give a list of pairs "
            "[(image, label), ...], or lists ([images], [labels])."
        )
    images = _stack(given) if _shape(given) else list(cast("Iterable[object]", given))
    names = _values(labels)
    if len(images) != len(names):
        raise InputError(f"There are {len(images):,} images but {len(names):,} labels; expected one label per image.")
    for number, (image, label) in enumerate(zip(images, names, strict=True)):
        yield _example(image, label, number, labelled)


def _are_splits(data: object) -> bool:
    """Whether data are a table of splits, as Hugging Face gives a whole dataset."""
    return isinstance(data, Mapping) and bool(data) and all(str(key).lower() in SPLITS for key in data)


def _splits(data: Any, labelled: bool) -> Iterator[Example]:
    for key, part in data.items():
        for example in accept(part, labelled=labelled):
            yield replace(example, split=SPLITS[str(key).lower()], name=f"{key}: {example.name}")


def _is_table(data: object) -> bool:
    return hasattr(data, "columns") and hasattr(data, "__getitem__") and not callable(data.columns)


def _table(data: Any, labelled: bool) -> Iterator[Example]:
    columns = [str(name) for name in data.columns]
    image, label = _columns(columns, columns[:2] if len(columns) == 2 else [], labelled)
    images, labels = _values(data[image]), _values(data[label]) if label else None
    more = {name: _values(data[name]) for name in ("split", "group") if name in columns}
    for number, picture in enumerate(images):
        example = _example(picture, labels and labels[number], number, labelled)
        group, split = (str(more[key][number]) if key in more else None for key in ("group", "split"))
        yield replace(example, group=group and storable(group), split=split_named(split, f"Row {number}"))


def _hugging_face(data: Any, labelled: bool) -> Iterator[Example]:
    features = dict(data.features or {})
    columns = list(data.column_names or features)
    typed = [name for kind in ("Image", "ClassLabel") for name in columns if type(features.get(name)).__name__ == kind]
    image, label = _columns(columns, typed if len(typed) == 2 else [], labelled)
    names = getattr(features.get(label), "names", None) if label else None
    if not hasattr(data, "__len__"):  # a stream: what has been read is kept
        for number, row in enumerate(data):
            yield _example(row[image], _named(row[label], names) if label else None, number, labelled)
        return
    labels = _values(data[label]) if label else None
    images = data.select_columns([image])
    for number in range(len(data)):
        later = _later(lambda i: images[i][image], number)
        yield _example(later, labels and _named(labels[number], names), number, labelled)


def _image_folder(data: Any, labelled: bool) -> Iterator[Example]:
    """The files themselves: how they are resized and normalised is the source's to say, not the dataset's."""
    for number, (path, code) in enumerate(data.samples):
        yield _example(path, _named(code, data.classes), number, labelled)


def _is_subset(data: object) -> bool:
    return hasattr(data, "dataset") and (hasattr(data, "indices") or hasattr(data, "batch_sampler"))


def _subset(data: Any, labelled: bool) -> Iterator[Example]:
    """A subset's own items; of a loader all items of its dataset, which is read in batches of ours."""
    whole = accept(data.dataset, labelled=labelled).examples
    for number in getattr(data, "indices", range(len(whole))):
        yield whole[int(number)]


def _is_numbered(data: object) -> bool:
    known = isinstance(data, Sequence | Mapping | np.ndarray) or hasattr(data, "tolist") or hasattr(data, "to_list")
    return not known and hasattr(data, "__len__") and hasattr(data, "__getitem__")


def _numbered(data: Any, labelled: bool) -> Iterator[Example]:
    """A dataset of torch: its labels first where it lists them, so that images need not be kept."""
    names = getattr(data, "classes", None)
    targets = next((getattr(data, key) for key in ("targets", "labels") if hasattr(data, key)), None)
    changed = getattr(data, "target_transform", None) is not None
    known = _values(targets) if targets is not None and not changed else []
    for number in range(len(data)):
        if len(known) == len(data) or not labelled:
            label = _named(known[number], names) if labelled else None
            yield _example(_later(lambda i: _first(data[i]), number), label, number, labelled)
            continue
        item = _pair_of(data[number], number)
        yield _example(item[0], _named(item[1], names), number, labelled)


def _stacked(data: object, labelled: bool) -> Iterator[Example]:
    if labelled:
        raise InputError(f"An array of shape {_shape(data)} has no labels; expected {ACCEPTED}.")
    for number, image in enumerate(_stack(data)):
        yield _example(image, None, number, False)


def _items(data: Any, labelled: bool) -> Iterator[Example]:
    for number, item in enumerate(_one_by_one(data)):
        if isinstance(item, Example):
            if labelled and item.label is None:
                raise InputError(f"Item {number} ('{item.name}') has no label; expected one for every image.")
            yield item
        elif isinstance(item, Mapping):
            image, label = _columns([str(key) for key in item], [], labelled)
            yield _example(item[image], item[label] if label else None, number, labelled)
        elif labelled:
            yield _example(*_pair_of(item, number), number, True)
        else:
            yield _example(_first(item), None, number, False)


def _one_by_one(data: Iterable[object]) -> Iterator[object]:
    """The items; a batch (images, labels), as loaders give it, is the pairs in it."""
    for item in data:
        if not (isinstance(item, tuple | list) and len(item) == 2 and len(_shape(item[0])) == 4):
            yield item
            continue
        images, labels = _stack(item[0]), _values(item[1])
        if len(images) != len(labels):
            raise InputError(f"A batch has {len(images):,} images but {len(labels):,} labels; expected one per image.")
        yield from zip(images, labels, strict=True)


KINDS: tuple[tuple[Callable[[object], bool], Callable[[Any, bool], Iterator[Example]]], ...] = (
    (_is_single, _single),
    (_is_pair, _pair),
    (_are_splits, _splits),
    (_has("features", "column_names"), _hugging_face),
    (_is_table, _table),
    (_has("samples", "classes", "class_to_idx"), _image_folder),
    (_is_subset, _subset),
    (_is_numbered, _numbered),
    (lambda data: len(_shape(data)) > 1, _stacked),
    (lambda data: isinstance(data, Iterable) and not isinstance(data, Mapping), _items),
)


# --- one item


def _example(image: object, label: object, number: int, labelled: bool) -> Example:
    """An example of an image in any form; its label is ignored unless `labelled`."""
    picture, name = _picture(image, number)
    return Example(picture, _text(label, number) if labelled else None, name)


def _picture(image: object, number: int) -> tuple[Picture, str]:
    """The image of an item and the name users are shown."""
    called = f"item {number}"
    if isinstance(image, Later):
        return image, image.name
    if isinstance(image, str | os.PathLike):
        return Path(image), shown(image)
    if isinstance(image, Mapping) and {"bytes", "path"} & set(image):  # an image of Hugging Face, not decoded
        return _picture(image.get("bytes") or image.get("path"), number)
    if isinstance(image, bytes | Image.Image):
        return image, called
    if callable(getattr(image, "read", None)):
        return _content(image, number)
    if len(_shape(image)) in (2, 3):
        return _upright(image), called
    raise InputError(
        f"The image of item {number} is {type(image).__name__}; expected a path, bytes, an open file, a PIL image or "
        "an array (height, width[, channels])."
    )


def _content(file: Any, number: int) -> tuple[bytes, str]:
    """What is left in an open file."""
    content = file.read(limits.IMAGE_FILE_BYTES + 1)
    name = getattr(file, "name", None)
    called = shown(name) if isinstance(name, str) else f"item {number}"
    if not isinstance(content, bytes):
        raise InputError(f"The file of item {number} is open as text; open images with open(path, 'rb').")
    if len(content) > limits.IMAGE_FILE_BYTES:
        raise InputError(f"The file of item {number} has more than {limits.IMAGE_FILE_BYTES:,} bytes.")
    return content, called


def _later(read: Callable[[int], object], number: int) -> Later:
    """An image that is fetched when it is decoded."""

    def fetch() -> bytes | Image.Image | NDArray[np.generic] | Path:
        picture = _picture(read(number), number)[0]
        if isinstance(picture, Later | Member | OSError):
            raise ImageError("it is not an image")
        return picture

    return Later(fetch, f"item {number}")


def _text(label: object, number: int) -> str:
    """A label as text; the text remembers whether it was a whole number."""
    value = label.item() if hasattr(label, "item") and not isinstance(label, str) else label
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"The label of item {number} is {value!r}; expected text or an integer.")
    text = class_name(str(value))
    if not text:
        raise InputError(f"The label of item {number} is empty; expected text or an integer.")
    return text if isinstance(value, str) else _Whole(text)


def _pair_of(item: object, number: int) -> tuple[object, object]:
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    raise InputError(
        f"Item {number} is {type(item).__name__}, without a label; expected a pair (image, label), or images and "
        "labels apart, as in fit(images, labels)."
    )


def _first(item: object) -> object:
    """The image of an item that may have a label."""
    return item[0] if isinstance(item, tuple | list) and len(item) == 2 else item


def _named(label: object, names: Sequence[object] | None) -> object:
    """The name of a class given by its number, where the dataset has names."""
    value = label.item() if hasattr(label, "item") and not isinstance(label, str) else label
    if isinstance(value, bool) or not isinstance(value, int) or not isinstance(names, Sequence):
        return value
    return names[value] if 0 <= value < len(names) else value


def _columns(columns: Sequence[str], otherwise: Sequence[str], labelled: bool) -> tuple[str, str | None]:
    """The columns of images and of labels, by their names or else as given."""
    lower = {name.lower(): name for name in columns}
    image = next((lower[name] for name in IMAGE_COLUMNS if name in lower), None)
    label = next((lower[name] for name in LABEL_COLUMNS if name in lower), None)
    if otherwise and (image is None or label is None):
        image, label = otherwise
    if image is None and len(columns) == 1:
        image = columns[0]
    if image is None or (labelled and label is None):
        lacks, known = ("images", IMAGE_COLUMNS) if image is None else ("labels", LABEL_COLUMNS)
        raise InputError(
            f"No column holds the {lacks}; there are {', '.join(columns) or 'none'}. Name it {known[0]!r}, "
            f"or any of {', '.join(known[1:])}."
        )
    return image, label if labelled else None


# --- arrays


def _shape(data: object) -> tuple[int, ...]:
    """The shape of an array or a tensor; nothing for what is neither."""
    if isinstance(data, str | bytes | Image.Image) or not hasattr(data, "__array__"):
        return ()
    shape = getattr(data, "shape", ())
    return tuple(shape) if isinstance(shape, tuple) and not _is_table(data) else ()


def _is_tensor(data: object) -> bool:
    return hasattr(data, "detach") and hasattr(data, "cpu")


def _has_channels(shape: Sequence[int], tensor: bool) -> bool:
    return shape[-1] in CHANNELS or (tensor and shape[-3] in CHANNELS)


def _array(data: Any) -> NDArray[np.generic]:
    return np.asarray(data.detach().cpu().numpy() if _is_tensor(data) else data)


def _upright(image: object) -> NDArray[np.generic]:
    """An image with its channels last; a tensor, and an array that can be nothing else, has them first."""
    array = _array(image)
    if array.ndim == 3 and array.shape[0] in CHANNELS and (_is_tensor(image) or array.shape[-1] not in CHANNELS):
        return np.moveaxis(array, 0, -1)
    return array


def _stack(data: Any) -> list[object]:
    """The images of an array of them."""
    shape = _shape(data)
    if len(shape) == 1:
        return _values(data)
    if len(shape) not in (3, 4):
        raise InputError(
            f"The array has shape {shape}; expected images (n, height, width[, channels]), or responses (n, width) "
            "as floating-point numbers."
        )
    return list(data)


def _are_labels(data: object) -> bool:
    """Whether data are a column of labels."""
    if isinstance(data, str | bytes) or not (isinstance(data, Sequence) or hasattr(data, "__array__")):
        return False
    shape = _shape(data)
    if shape:
        return len(shape) == 1
    plain = str | int | float | np.generic | None
    return all(isinstance(label, plain) for label in cast("Sequence[object]", data))


def _values(column: Any) -> list[object]:
    """A column as a list of plain values."""
    for name in ("tolist", "to_list"):
        if hasattr(column, name):
            return list(getattr(column, name)())
    return list(column)
