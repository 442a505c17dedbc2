"""Small lists in the form of the makers', from which CoOp's splits are drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.io import savemat


def write_flowers(folder: Path) -> None:
    savemat(folder / "imagelabels.mat", {"labels": np.array([[77] * 251 + [73] * 12], np.uint8)})


def write_pets(folder: Path) -> None:
    (folder / "annotations").mkdir()
    breeds = ("Abyssinian", "american_bulldog")
    for file, count in (("trainval", 6), ("test", 2)):
        lines = [f"{breed}_{i} {code + 1} {2 - code} 1\n" for code, breed in enumerate(breeds) for i in range(count)]
        (folder / "annotations" / f"{file}.txt").write_text("".join(lines))


def write_cars(folder: Path) -> None:
    (folder / "devkit").mkdir()
    names = np.empty((1, 2), object)
    names[0] = ["AM General Hummer SUV 2000", "Acura RL Sedan 2012"]
    savemat(folder / "devkit" / "cars_meta.mat", {"class_names": names})
    for file, count in (("devkit/cars_train_annos", 11), ("cars_test_annos_withlabels", 3)):
        entries = np.zeros((1, count), dtype=[("class", object), ("fname", object)])
        for i in range(count):
            entries[0, i] = (np.array([[2 - i % 2]]), f"{i + 1:05d}.jpg")
        savemat(folder / f"{file}.mat", {"annotations": entries})


def write_scenes(folder: Path) -> None:
    homes = ("/a/abbey", "/c/church/indoor")
    (folder / "ClassName.txt").write_text("".join(f"{home}\n" for home in homes))
    for file, count in (("Training", 5), ("Testing", 2)):
        lines = [f"{home}/sun_{file[0]}{i}.jpg\n" for home in homes for i in range(count)]
        (folder / f"{file}_01.txt").write_text("".join(lines))


def write_actions(folder: Path) -> None:
    home, actions = folder / "ucfTrainTestlist", ("ApplyEyeMakeup", "YoYo")
    home.mkdir()
    (home / "classInd.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(actions, 1)))
    for file, count in (("train", 7), ("test", 1)):
        lines = [
            f"{name}/v_{name}_g{i:02d}_c01.avi{f' {code + 1}' if file == 'train' else ''}\n"
            for code, name in enumerate(actions)
            for i in range(count)
        ]
        (home / f"{file}list01.txt").write_text("".join(lines))


WRITERS = {
    "flowers102": write_flowers, "oxfordpets": write_pets, "stanfordcars": write_cars, "sun397": write_scenes,
    "ucf101": write_actions,
}  # fmt: skip
