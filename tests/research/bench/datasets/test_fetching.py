from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from yoro.errors import InputError
from yoro.research.bench.datasets import fetching
from yoro.research.bench.datasets.fetching import Download, downloads, fetch


def zipped(**files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "."), data)
    return content.getvalue()


def tarred(name: str, data: bytes) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


@pytest.fixture
def server():
    """Files over HTTP with ranges; the first answer on a name among `cut` stops half way."""
    files: dict[str, bytes] = {}
    cut: set[str] = set()
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            name, range_ = self.path[1:], self.headers.get("Range", "")
            asked.append((name, range_))
            start = int(range_[6:-1]) if range_ else 0
            data = files[name][start:]
            self.send_response(416 if start and not data else 206 if range_ else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if name in cut:
                cut.remove(name)
                data = data[: len(data) // 2]
            self.wfile.write(data)
            self.close_connection = True

        def log_message(self, *_):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}/", files, cut, asked
    running.shutdown()
    running.server_close()
    thread.join()


def md5(data: bytes) -> str:
    return f"md5:{hashlib.md5(data).hexdigest()}"


def test_a_file_is_checked_resumed_and_never_fetched_twice(server, tmp_path, monkeypatch):
    address, files, cut, asked = server
    files["inner.zip"] = zipped(a__tar__gz=tarred("images/one.txt", b"picture"))
    files["bank.json"] = b'{"cat": ["a sentence"]}' * 99
    git = hashlib.sha1(b"blob %d\0" % len(files["bank.json"]) + files["bank.json"]).hexdigest()
    wanted = [
        Download(f"{address}inner.zip", "pets", "free", md5(files["inner.zip"]), "archive"),
        Download(f"{address}bank.json", "attributes", "MIT", f"git:{git}"),
        Download(f"{address}bank.json", "attributes", "MIT", "md5:0", name="wrong.json"),
    ]
    monkeypatch.setattr(fetching, "downloads", lambda: {"oxfordpets": wanted})
    cut.add("bank.json")
    first = list(fetch("oxfordpets", tmp_path))
    assert "'inner.zip' fetched" in first[0]
    assert "Licence: free." in first[0]
    assert (tmp_path / "pets" / "images" / "one.txt").read_bytes() == b"picture"
    assert "was not fetched" in first[1]
    assert "the same command resumes" in first[1]
    assert "it was removed, try again" in first[2]
    assert "not complete" in first[3]
    asked.clear()
    second = list(fetch("oxfordpets", tmp_path))
    assert "is there" in second[0]
    assert "its digest is right" in second[1]
    assert (tmp_path / "attributes" / "bank.json").read_bytes() == files["bank.json"]
    assert asked[0] == ("bank.json", f"bytes={len(files['bank.json']) // 2}-")
    assert not (tmp_path / "attributes" / "wrong.json").exists()


def test_a_download_that_was_killed_just_before_its_check_is_not_stuck(server, tmp_path, monkeypatch):
    address, files, _, _ = server
    files["bank.json"] = b"{}"
    known = Download(f"{address}bank.json", "attributes", "MIT", md5(b"{}"))
    without = Download(f"{address}bank.json", "attributes", "MIT", name="free.json")
    monkeypatch.setattr(fetching, "downloads", lambda: {"templates": [known, without]})
    (tmp_path / ".downloads").mkdir()
    for name in ("bank.json", "free.json"):
        (tmp_path / ".downloads" / name).write_bytes(b"{}")
    first, second = fetch("templates", tmp_path)
    assert "its digest is right" in first
    assert "was not fetched" in second, "what cannot be checked comes again"
    assert "fetched into" in list(fetch("templates", tmp_path))[1]


def test_lists_are_read_from_python_without_running_it(server, tmp_path, monkeypatch):
    address, files, _, _ = server
    files["templates.py"] = b'import os\nos.abort()\nTEMPLATES = ["a photo of a {}.", "art of a {}."]\n'
    item = Download(f"{address}templates.py", "templates", "MIT", kind="list", name="imagenet.txt")
    monkeypatch.setattr(fetching, "downloads", lambda: {"templates": [item]})
    assert "no digest is published" in next(fetch("templates", tmp_path))
    assert (tmp_path / "templates" / "imagenet.txt").read_text() == "a photo of a {}.\nart of a {}.\n"


def test_offline_it_says_what_is_missing_and_where_it_looked(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    told = list(fetch("flowers102", tmp_path))
    assert len(told) == len(downloads()["flowers102"]) + 1
    assert "'102flowers.tgz' was not fetched from https://www.robots.ox.ac.uk" in told[0]
    assert "oxford_flowers" in told[0]
    assert "not complete" in told[-1]
    assert "KaiyangZhou/CoOp" in told[-1]
    assert not list(tmp_path.iterdir()), "no empty folders are left"


def test_nothing_is_written_outside_the_folder(server, tmp_path, monkeypatch):
    address, files, _, _ = server
    files["bad.tgz"] = tarred("../../escaped.txt", b"out")
    item = Download(f"{address}bad.tgz", "pets", "free", md5(files["bad.tgz"]), "archive")
    monkeypatch.setattr(fetching, "downloads", lambda: {"oxfordpets": [item]})
    assert "cannot be unpacked" in next(fetch("oxfordpets", tmp_path / "root"))
    assert not list(tmp_path.rglob("escaped.txt"))


def test_every_download_names_its_licence_and_lies_where_it_is_looked_for():
    from yoro.research.bench.datasets.attribute_files import bank_places
    from yoro.research.bench.datasets.bench_datasets import DATASETS

    with pytest.raises(InputError, match="Unknown dataset 'cifar'"):
        next(fetch("cifar", fetching.Path()))
    for name, items in downloads().items():
        assert all(item.licence and item.url.startswith("http") for item in items)
        if name in DATASETS and DATASETS[name].bank:
            places = [item.to + "/" + item.file for item in items if item.to in ("attributes", "causes")]
            for kind in ("des", "dist", "cse_1", "cse_2", "cse_3"):
                assert any(str(place) in places for place in bank_places(DATASETS[name], [fetching.Path()], kind)), kind
