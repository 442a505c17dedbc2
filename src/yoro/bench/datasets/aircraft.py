"""FGVC Aircraft: images and the makers' lists of variants."""

from __future__ import annotations

from pathlib import Path

from yoro.bench.datasets.contract import Copy, said_counts, split_counts
from yoro.data.examples import Dataset, Example, class_name, shown
from yoro.errors import DatasetError

LISTS = {split: f"images_variant_{split}.txt" for split in ("train", "val", "test")}
INSIDE = ("", "data", "fgvc-aircraft-2013b/data")  # where lists and images lie in the dataset's folder
MOST_LIST = 16 << 20  # bytes


def read_aircraft(folder: Path) -> Copy | None:
    """The listed images of a folder, or None if it holds neither lists nor a folder 'images'."""
    homes = [folder / name for name in INSIDE]
    listed = [home for home in homes if any((home / file).is_file() for file in LISTS.values())]
    home = next(iter([*listed, *(home for home in homes if (home / "images").is_dir())]), None)
    if home is None:
        return None
    examples, gone = [], []
    wanted = {}
    for split, file in LISTS.items():
        rows = _rows(home / file)
        wanted[split] = len(rows)
        for name, label in rows:
            image = home / "images" / f"{name}.jpg"
            if image.is_file():
                examples.append(Example(image, label, image.name, split=split))
            else:
                gone.append(shown(image))
    dataset = Dataset(tuple(sorted(examples, key=lambda example: (example.label or "", example.name))))
    problem = ""
    if gone:
        have = split_counts(dataset)
        found = said_counts({split: have.get(split, 0) for split in wanted})
        problem = (
            f"found {found}; its lists name {said_counts(wanted)}. The first image that is missing is '{gone[0]}'."
        )
    return Copy(dataset, shown(folder), problem)


def _rows(path: Path) -> list[tuple[str, str]]:
    """(number of the image, variant) of each line."""
    if not path.is_file():
        raise DatasetError(
            f"FGVC Aircraft lacks the list '{shown(path)}'; expected {', '.join(LISTS.values())}.",
            state="partial",
            looked=[shown(path)],
        )
    if path.stat().st_size > MOST_LIST:
        raise DatasetError(f"'{shown(path)}' has {path.stat().st_size:,} bytes; at most {MOST_LIST:,} are read.")
    rows = []
    for line in path.read_bytes().decode("utf-8", "replace").splitlines():
        name, _, label = line.strip().partition(" ")
        if name and (not name.isdecimal() or not label.strip()):
            raise DatasetError(f"'{shown(path)}': {line[:80]!r} is no line 'NUMBER VARIANT'.", looked=[shown(path)])
        if name:
            rows.append((name, class_name(label)))
    return rows
