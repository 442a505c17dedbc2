"""The plans beyond the paper's tables as a user runs them, on tiny copies of their datasets in the real layouts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clip_models import write_clip
from command_line import run
from research.bench.datasets.dataset_cases import (
    LAYOUTS,
    make_aircraft,
    make_cifar,
    make_published,
    make_svhn,
    rows_of,
    tiny,
)
from yoro.research.bench.datasets.bench_datasets import DATASETS
from yoro.research.bench.plan import read_plan
from yoro.research.bench.results import PlanEntry, Results, entries

CONFIGS = Path(__file__).parents[3] / "configs"
LABELS = ("ant", "bee", "cat", "dog")
COUNTS = {"train": 40, "val": 16, "test": 24}
VARIANTS = {
    "imagenet-v2": "imagenetv2/imagenetv2-matched-frequency-format-val", "imagenet-sketch": "imagenet-sketch/images",
    "imagenet-a": "imagenet-adversarial/imagenet-a", "imagenet-r": "imagenet-rendition/imagenet-r",
}  # fmt: skip

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::yoro.errors.DegenerateWarning"),  # one image of a class shows no spread
]


def paint(path: Path, code: int, number: int) -> None:
    """An image whose colour tells its class."""
    rng = np.random.default_rng([code, number])
    colour = np.array([[220, 40, 40], [40, 200, 40], [40, 40, 220], [200, 200, 40]][code])
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.clip(colour + rng.normal(0, 50, (20, 24, 3)), 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path, "PNG")


def make_split(root: Path, name: str) -> None:
    """A dataset with a split file, or the lists of FGVC Aircraft."""
    if name == "fgvc-aircraft":
        made = make_aircraft(root, counts=COUNTS, labels=LABELS)
        for image in (root / "fgvc-aircraft-2013b/data/images").iterdir():
            paint(image, int(image.stem) % len(LABELS), int(image.stem))
    else:
        layout = next(layout for layout in LAYOUTS if layout.dataset == name)
        made = make_published(root, layout, COUNTS, LABELS)
        for place, code, _ in (row for rows in rows_of(layout, COUNTS, LABELS).values() for row in rows):
            paint(root / layout.folder / layout.images / str(place), int(code), hash(str(place)) % 1000)
    DATASETS[name] = made
    (root / "attributes").mkdir(exist_ok=True)
    bank = {label: [f"a {label}, seen {i} times" for i in range(25)] for label in LABELS}
    (root / "attributes" / f"{DATASETS[name].bank}_des.json").write_text(json.dumps(bank))


def make_imagenet(root: Path) -> None:
    """ImageNet and its variants, two of which have half of the classes."""
    numbers = [f"n{i:08d}" for i in range(len(LABELS))]
    (root / "imagenet").mkdir()
    lines = (f"{number} {label}\n" for number, label in zip(numbers, LABELS, strict=True))
    (root / "imagenet" / "classnames.txt").write_text("".join(lines))
    places = {"imagenet/images/train": 20, "imagenet/images/val": 5, **dict.fromkeys(VARIANTS.values(), 4)}
    for place, count in places.items():
        half = place.endswith(("imagenet-a", "imagenet-r"))
        for code, number in enumerate(numbers[:2] if half else numbers):
            for i in range(count):
                paint(root / place / (str(code) if "v2" in place else number) / f"{i}.JPEG", code, i)
    DATASETS["imagenet"] = tiny("imagenet", {"train": 80, "test": 20}, 4)
    for name, place in VARIANTS.items():
        classes = 2 if place.endswith(("imagenet-a", "imagenet-r")) else 4
        DATASETS[name] = tiny(name, {"test": 4 * classes}, classes)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root, and the table of datasets as it was before once the test is over."""
    for name, dataset in DATASETS.items():
        monkeypatch.setitem(DATASETS, name, dataset)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def run_plan(root: Path, name: str, datasets: Sequence[str] = ()) -> list[PlanEntry]:
    """The entries of a plan of `configs/`, run on tiny sources with one seed, and its tables without a gap."""
    write_clip(root.parent / "clip")
    text = (CONFIGS / f"{name}.toml").read_text()
    text = re.sub(r'"open_clip:[^"]+"', f'"open_clip:local-dir:{root.parent / "clip"}"', text)
    text = re.sub(r'"torchvision:[^"]+"|"embedded:lite0[^"]*"', '"embedded:lite0?side=48"', text)
    text = re.sub(r"(?m)^seeds = .*\n", "", text)
    named = tuple(datasets) or read_plan(CONFIGS / f"{name}.toml").datasets
    text = re.sub(r"datasets = \[[^\]]*\]", f"seeds = [0]\ndatasets = {json.dumps(named)}", text, count=1)
    plan = root.parent / f"{name}.toml"
    plan.write_text(text)
    done = json.loads(run("bench", "run", plan.name, "--data", root, "--json", cwd=plan.parent).stdout)
    assert (done["failed"], done["computed"]) == (0, done["total"])
    found, odd = entries(read_plan(plan), Results(plan.parent / "results"))
    assert not odd
    assert len(found) == done["total"] == len(read_plan(plan).entries())
    table = run("bench", "table", plan.name, "--html", "page.html", cwd=plan.parent)
    assert not re.search(r"runs? (is|are|failed)", table.stdout)
    assert all(use.title in table.stdout for use in read_plan(plan).uses.values())
    assert "</table>" in (plan.parent / "page.html").read_text()
    return found


def counted(found: list[PlanEntry], what: str) -> dict[tuple[str, str], set[int]]:
    """The values of a field of the results, by setting and method."""
    values: dict[tuple[str, str], set[int]] = {}
    for entry in found:
        values.setdefault((entry.setting, entry.method), set()).add(getattr(entry.result, what))
    return values


def right(found: list[PlanEntry], method: str) -> float:
    chosen = [entry.result for entry in found if entry.method == method]
    return sum(result.correct for result in chosen) / sum(result.tested for result in chosen)


def parts(short: list[str]) -> pytest.MarkDecorator:
    """A few datasets of a plan, and in the long run all."""
    return pytest.mark.parametrize("datasets", [short, pytest.param((), marks=pytest.mark.long)], ids=["few", "all"])


def made(root: Path, plan: str, datasets: Sequence[str]) -> None:
    for name in datasets or read_plan(CONFIGS / f"{plan}.toml").datasets:
        if name == "svhn":
            DATASETS[name] = make_svhn(root, {"train": 60, "test": 20})
        elif name == "cifar100":
            DATASETS[name] = make_cifar(root, name, 10)
        else:
            make_split(root, name)


@parts(["flowers102", "fgvc-aircraft"])
def test_one_to_sixteen_shots(root: Path, datasets: Sequence[str]):
    made(root, "shots", datasets)
    found = run_plan(root, "shots", datasets)
    for (setting, method), fitted in counted(found, "fitted").items():
        shots = int(setting.rpartition("-")[2])
        assert fitted == {4 * min(shots, 10)}, method  # of ten images a class
    assert right([entry for entry in found if entry.setting == "clip-rn50-16"], "yoro") > 0.5


@parts(["dtd", "ucf101"])
def test_base_and_new_classes(root: Path, datasets: Sequence[str]):
    made(root, "base-to-new", datasets)
    found = run_plan(root, "base-to-new", datasets)
    assert set().union(*counted(found, "tested").values()) == {12}  # test images of two of four classes
    assert {name for name, _ in counted(found, "tested")} == {"base", "new"}
    assert right(found, "yoro") > 0.75


def test_domain_shift(root: Path):
    make_imagenet(root)
    found = run_plan(root, "domain-shift")
    tested = {entry.dataset: (entry.result.fitted, entry.result.tested) for entry in found if entry.method == "yoro"}
    assert tested == {
        "imagenet": (64, 20), "imagenet>imagenet-v2": (64, 16), "imagenet>imagenet-sketch": (64, 16),
        "imagenet>imagenet-a": (32, 8), "imagenet>imagenet-r": (32, 8),
    }  # fmt: skip
    assert right(found, "yoro") > 0.5


def test_imagenet_whole(root: Path):
    make_imagenet(root)
    found = run_plan(root, "imagenet")
    assert counted(found, "fitted") == {("clip-rn50", "yoro"): {72}, ("clip-rn50", "bdm-oas"): {72}}
    assert counted(found, "tested") == {("clip-rn50", "yoro"): {20}, ("clip-rn50", "bdm-oas"): {20}}
    assert right(found, "yoro") > 0.5


@parts(["eurosat", "svhn"])
def test_a_thousand_examples(root: Path, datasets: Sequence[str], monkeypatch: pytest.MonkeyPatch):
    made(root, "thousand", datasets)
    changed = (CONFIGS / "thousand.toml").read_text().replace("examples = 1000", "examples = 25")
    (root / "thousand.toml").write_text(changed)
    monkeypatch.setattr(f"{__name__}.CONFIGS", root)
    found = run_plan(root, "thousand", datasets)
    assert {entry.result.fitted for entry in found} == {20}  # four fifths of 25
    assert right([entry for entry in found if entry.dataset == "eurosat"], "yoro") > 0.5


def test_few_labels_and_a_pile(root: Path):
    found = run_plan(root, "pile", ["digits"])
    assert counted(found, "fitted") == {
        (setting, method): {10 * shots}
        for setting, shots in (("one", 1), ("two", 2), ("four", 4))
        for method in ("yoro-pile", "bdm", "yoro")
    }
    four = [entry for entry in found if entry.setting == "four"]
    assert right(four, "yoro-pile") > 0.3
