"""GTSRB, the German traffic signs: folders of tracks to train on, and test images with a list."""

from __future__ import annotations

import csv
from pathlib import Path

from yoro.bench.datasets.contract import Copy
from yoro.data.examples import Dataset, Example, shown
from yoro.errors import DatasetError

TRAINING = ("GTSRB/Training", "Training")  # from the dataset's folder on
TEST = ("GTSRB/Final_Test/Images", "Final_Test/Images")
LIST = "GT-final_test.csv"
LISTS = ("", "GTSRB", "GTSRB/Final_Test/Images", "Final_Test/Images")
MOST_LIST = 16 << 20  # bytes
COMPETITION = "GTSRB/Final_Training"  # the larger training set of the makers' own page

SIGNS = (
    "speed limit 20 km/h", "speed limit 30 km/h", "speed limit 50 km/h", "speed limit 60 km/h", "speed limit 70 km/h",
    "speed limit 80 km/h", "end of speed limit 80 km/h", "speed limit 100 km/h", "speed limit 120 km/h", "no passing",
    "no passing for vehicles over 3.5 t", "right of way at the next intersection", "priority road", "yield", "stop",
    "no vehicles", "no vehicles over 3.5 t", "no entry", "general caution", "dangerous curve to the left",
    "dangerous curve to the right", "double curve", "bumpy road", "slippery road", "road narrows on the right",
    "road work", "traffic signals", "pedestrians", "children crossing", "bicycles crossing", "beware of ice or snow",
    "wild animals crossing", "end of all speed and passing limits", "turn right ahead", "turn left ahead", "ahead only",
    "go straight or right", "go straight or left", "keep right", "keep left", "roundabout mandatory",
    "end of no passing", "end of no passing for vehicles over 3.5 t",
)  # fmt: skip


def read_gtsrb(folder: Path) -> Copy | None:
    """Training folders and listed test images of a folder, or None if it holds neither.

    Groups are tracks: thirty photographs of one sign from nearing it.
    """
    training = next((folder / name for name in TRAINING if (folder / name).is_dir()), None)
    test = next((folder / name for name in TEST if (folder / name).is_dir()), None)
    if training is None and test is None:
        return None
    listing = next((folder / name / LIST for name in LISTS if (folder / name / LIST).is_file()), None)
    if training is None or test is None or listing is None:
        missing = TRAINING[0] if training is None else TEST[0] if test is None else LIST
        hint = f" '{COMPETITION}' is there: it is another training set (39,209)." if _competition(folder) else ""
        raise DatasetError(
            f"GTSRB in '{shown(folder)}' lacks '{missing}'; expected {TRAINING[0]}, {TEST[0]} and {LIST}.{hint}",
            state="partial",
            looked=[shown(folder / missing)],
        )
    examples = _training(training)
    tests, gone = _tests(test, listing)
    problem = (
        f"'{shown(test)}' lacks {len(gone):,} of the images that '{LIST}' lists, first {gone[0]!r}." if gone else ""
    )
    return Copy(Dataset((*examples, *tests)), shown(folder), problem)


def _competition(folder: Path) -> bool:
    return (folder / COMPETITION).is_dir() or (folder / Path(COMPETITION).name).is_dir()


def _training(folder: Path) -> list[Example]:
    examples = []
    for number, sign in enumerate(SIGNS):
        for image in sorted((folder / f"{number:05d}").glob("*.ppm")):
            track = f"{number:05d}/{image.stem.partition('_')[0]}"
            examples.append(Example(image, sign, f"Training/{number:05d}/{image.name}", track, "train"))
    return examples


def _tests(folder: Path, listing: Path) -> tuple[list[Example], list[str]]:
    """Examples of the listed images, and the names of those that are not there."""
    if listing.stat().st_size > MOST_LIST:
        raise _broken(listing, f"it has {listing.stat().st_size:,} bytes")
    text = listing.read_bytes().decode("utf-8-sig", "replace")
    examples, gone = [], []
    for row in csv.DictReader(text.splitlines(), delimiter=";"):
        name, number = row.get("Filename") or "", row.get("ClassId") or ""
        if not name or name != Path(name).name or not number.isdecimal() or int(number) >= len(SIGNS):
            raise _broken(listing, f"a row has the file {name!r} and the class {number!r}")
        if (folder / name).is_file():
            examples.append(Example(folder / name, SIGNS[int(number)], f"Final_Test/{name}", split="test"))
        else:
            gone.append(name)
    return examples, gone


def _broken(listing: Path, reason: str) -> DatasetError:
    return DatasetError(
        f"'{shown(listing)}' is no list of GTSRB's test images: {reason}; expected columns Filename and ClassId.",
        looked=[shown(listing)],
    )
