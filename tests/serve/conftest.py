from __future__ import annotations

import shutil

import pytest

from photos import write_folder
from services import running
from yoro.fit import fit


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("served") / "photos", count=6)


@pytest.fixture(scope="session")
def fitted(photos):
    """A model of the photos; tests that change it take a copy."""
    path = photos.parent / "m.yoro"
    fit(photos, read="logits", workers=0).save(path)
    return path


@pytest.fixture
def model(fitted, tmp_path):
    """A model of one's own."""
    return shutil.copytree(fitted, tmp_path / "own.yoro")


@pytest.fixture(scope="session")
def service(fitted, tmp_path_factory):
    """A service that no test changes."""
    with running(fitted, log=tmp_path_factory.mktemp("service") / "log") as found:
        yield found


@pytest.fixture(scope="session")
def cat(photos):
    return (photos / "cat" / "000.jpg").read_bytes()
