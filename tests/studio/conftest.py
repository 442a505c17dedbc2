from __future__ import annotations

import pytest

from browser import browser
from photos import write_folder
from studios import studio_at


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """A page of a real browser, which downloads into `folder`."""
    folder = tmp_path_factory.mktemp("chromium")
    with browser(folder) as page:
        page.folder = folder
        yield page


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """`class/number.jpg`, six photos of each of four things."""
    return write_folder(tmp_path_factory.mktemp("studio") / "photos", count=6)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """A studio without photos; its tests leave it so."""
    with studio_at(tmp_path_factory.mktemp("shared") / "work") as running:
        yield running


@pytest.fixture(scope="module")
def taught(tmp_path_factory, photos):
    """A studio with the photos; its tests undo what they do."""
    with studio_at(tmp_path_factory.mktemp("taught") / "work", photos) as running:
        running.settled()
        yield running
