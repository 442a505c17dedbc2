from __future__ import annotations

import pytest

import yoro
from hostile_endpoint import describe, hostile
from photos import write_folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path) -> None:
    """These sources are on the network: on this machine's own, and with nothing of the user's."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="session")
def few(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("few") / "photos", count=8)


@pytest.fixture(scope="session")
def undisturbed(few, tmp_path_factory):
    """The model of the few photos by an endpoint that never fails."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with hostile(folder) as endpoint:
        return yoro.fit(few, source=describe(folder, endpoint.url)).model
