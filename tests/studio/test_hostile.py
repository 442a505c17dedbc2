"""What strangers send to a studio: an error or an escape, and no file outside the work folder."""

from __future__ import annotations

import io
import json
import select
import socket
import struct
import subprocess
import sys
import zipfile
import zlib
from contextlib import suppress

import pytest
from fastapi.openapi.utils import get_openapi
from PIL import Image

from child import BOUND
from studios import API, studio_at
from yoro import limits
from yoro.http.settings import ServeSettings
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import PipelineSettings
from yoro.studio.app import make_app
from yoro.studio.live_studio import Studio
from yoro.studio.workspace import Workspace


def png_of(width: int, height: int) -> bytes:
    """The head of a PNG that declares a size."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + head
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(head)) + chunk + struct.pack(">I", zlib.crc32(chunk))


def test_what_is_no_photo_is_named_and_the_rest_is_added(studio, photos):
    good = (photos / "cat" / "000.jpg").read_bytes()
    files = {"text.jpg": b"just text", "huge.png": png_of(50_000, 50_000), "good.jpg": good, "empty.jpg": b""}
    added = studio.send(files)
    assert added["new"] == 1
    assert [sentence.split("'")[1] for sentence in added["refused"]] == ["text.jpg", "huge.png", "empty.jpg"]
    studio.post("undo")


def test_a_path_as_a_name_leads_nowhere(studio, photos):
    before = {path for path in studio.work.parent.rglob("*") if not path.is_relative_to(studio.work)}
    name = "../../../../outside.jpg"
    assert studio.send({name: (photos / "cat" / "001.jpg").read_bytes()})["new"] == 1
    assert studio.photos(0)[0]["name"] == "outside.jpg"
    assert {path for path in studio.work.parent.rglob("*") if not path.is_relative_to(studio.work)} == before
    studio.post("undo")
    for place in ("../work.sqlite", "..%2fwork.sqlite", "%2e%2e/work.sqlite", "a" * 31, "A" * 32):
        assert studio.client.get(f"{API}/small/{place}").status_code in (404, 422)
    for place in ("..%2fapp.py", "../app.py", "app.py"):
        assert studio.client.get(f"/studio/page/{place}").status_code == 404


def test_archives_beyond_all_use_are_refused(studio):
    bomb, odd = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cat/big.jpg", bytes(700 * limits.MB))
    with zipfile.ZipFile(odd, "w") as archive:
        archive.writestr("../outside/a.jpg", b"x")
    answer = studio.send(
        {"bomb.zip": bomb.getvalue(), "odd.zip": odd.getvalue(), "no.zip": b"no archive", "a.rar": b"x"}
    )
    assert answer["new"] == 0
    assert len(answer["refused"]) == 4
    assert not any(str(studio.work.parent) in sentence for sentence in answer["refused"])


def test_pages_of_other_sites_may_not_ask(studio):
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        for route in ("classes", "undo", "photos", "try", "move", "remove"):
            answer = studio.client.post(f"{API}/{route}", json={"name": "x"}, headers=headers)
            assert answer.status_code == 403, (route, headers)
        for look in ("state", "photos?belongs=0", "studio.onnx", f"small/{'0' * 32}", "cell?truth=a&answer=b"):
            assert studio.client.get(f"{API}/{look}", headers=headers).status_code == 403, (look, headers)
    for path in ("/studio/", f"{API}/state"):
        assert studio.client.get(path, headers={"host": "rebound.example"}).status_code == 403
    assert studio.client.get("/studio/", headers={"sec-fetch-site": "cross-site"}).status_code == 200  # a link to it
    upgrade = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "eA==",
    }
    for path in ("/studio/", f"{API}/state"):
        answer = studio.client.get(path, headers=upgrade | {"origin": "https://evil.example"})
        assert answer.status_code != 101, path
    stream = {"accept": "text/event-stream", "origin": "https://evil.example"}
    answer = studio.client.get(f"{API}/state", headers=stream)
    assert answer.status_code == 403
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_html_in_a_class_name_is_text_and_the_page_runs_nothing_of_others(studio):
    name = "<img src=x onerror=alert(1)>"
    studio.post("classes", name=name)
    answer = studio.client.get(f"{API}/state")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["classes"][0]["name"] == name
    studio.post("undo")
    page = studio.client.get("/studio/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in page.text
    assert "style=" not in page.text
    assert "//" not in page.text.replace("<!doctype html>", "")


@pytest.mark.parametrize(
    ("route", "body", "status"),
    [
        ("classes", {"name": " "}, 422),
        ("classes", {"name": "x" * 300}, 422),
        ("classes", {}, 422),
        ("classes/77/name", {"name": "x"}, 422),
        ("move", {"photos": ["0" * 32], "to": 0}, 422),
        ("move", {"photos": [], "to": 0}, 422),
        ("remove", {"photos": ["../x"]}, 422),
        ("nothing", {}, 404),
        ("redo", {}, None),
        ("try", {"images": ["eA=="]}, 422),
    ],
)
def test_odd_requests_are_refused_with_a_sentence(studio, route, body, status):
    answer = studio.client.post(f"{API}/{route}", json=body)
    assert answer.status_code == status or status is None
    if status is None:  # there may be something to do again
        studio.client.post(f"{API}/undo", json={})
    else:
        assert answer.json()["error"].endswith((".", ". "))


def test_ten_thousand_classes_are_refused(studio):
    stream, small = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (8, 8)).save(small, "PNG")
    with zipfile.ZipFile(stream, "w") as archive:
        for i in range(10_000):
            archive.writestr(f"class {i}/a.png", small.getvalue())
    form = [("files", ("many.zip", stream.getvalue(), "application/zip"))]
    answer = studio.client.post(f"{API}/photos", files=form)
    assert answer.status_code == 422
    assert "more than 1,000 classes" in answer.json()["error"]
    assert studio.get("state")["classes"] == []


def talk(studio, head: str) -> socket.socket:
    """A connection on which a request has begun."""
    sock = socket.create_connection(("127.0.0.1", studio.port), timeout=BOUND)
    sock.sendall(head.encode())
    return sock


def test_two_gigabytes_are_refused_before_they_come(studio):
    before, sent = studio.memory(), 0
    head = f"POST {API}/photos HTTP/1.1\r\nhost: localhost\r\ncontent-type: image/jpeg\r\n"
    with talk(studio, f"{head}content-length: {2 * limits.GB}\r\n\r\n") as sock:
        assert b" 413 " in sock.recv(100).split(b"\r\n")[0]
    chunk = b"100000\r\n" + bytes(limits.MB) + b"\r\n"
    with talk(studio, f"{head}transfer-encoding: chunked\r\n\r\n") as sock:
        answer = b""
        while not answer and sent < 2 * limits.GB:
            with suppress(ConnectionError):  # it may close while more is on its way
                sock.sendall(chunk)
            sent += limits.MB
            answer = sock.recv(100) if select.select([sock], [], [], 0)[0] else b""
    assert b" 413 " in answer
    assert sent < 400 * limits.MB  # a whole archive may have 256
    assert studio.memory() - before < 800 * limits.MB
    assert studio.get("state")["photos"] == 0


def test_slow_clients_keep_nobody_waiting(studio, photos):
    head = f"POST {API}/photos HTTP/1.1\r\nhost: localhost\r\ncontent-type: image/jpeg\r\ncontent-length: 999\r\n\r\n"
    slow = [talk(studio, begun) for begun in ("", "POST /stu", head) for _ in range(20)]
    for drip in range(3):
        for sock in slow[40:]:
            sock.sendall(b"x")
        assert studio.send([photos / "cat" / f"00{drip}.jpg"])["new"] == 1
        assert studio.settled()["unsorted"] == 1
        studio.post("undo")
    for sock in slow:
        sock.close()
    assert studio.settled()["photos"] == 0


@pytest.mark.long
def test_whatever_the_routes_take_is_no_error_of_the_studio(tmp_path, photos):
    """The page is the only client, so the studio shows no description; here one is made of its routes."""
    made = Studio(Workspace(tmp_path / "other"), make_pipeline(PipelineSettings(read="logits")))
    app = make_app(made, ServeSettings(), lambda _: None)._app
    made.work.close()
    schema = get_openapi(title="studio", version="1", routes=app.routes)
    (tmp_path / "openapi.json").write_text(json.dumps(schema))
    with studio_at(tmp_path / "work", photos) as studio:
        studio.settled()
        words = ["run", str(tmp_path / "openapi.json"), "--url", str(studio.client.base_url), "--max-examples", "40"]
        words += ["--seed", "1", "--phases", "examples,coverage,fuzzing", "--checks", "not_a_server_error"]
        code = "from schemathesis.cli import schemathesis; schemathesis()"
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-5000:]
        assert "Traceback" not in studio.log.read_text()
        assert studio.settled()["settled"]
