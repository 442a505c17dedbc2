"""What strangers send to a studio: an error or an escape, and no file outside the work folder."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import pytest
from PIL import Image

from studios import API
from yoro import limits


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
    for path in ("/studio/", f"{API}/state"):
        assert studio.client.get(path, headers={"host": "rebound.example"}).status_code == 403


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


def test_thousands_of_classes_are_refused(studio):
    stream, small = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (8, 8)).save(small, "PNG")
    with zipfile.ZipFile(stream, "w") as archive:
        for i in range(2_000):
            archive.writestr(f"class {i}/a.png", small.getvalue())
    form = [("files", ("many.zip", stream.getvalue(), "application/zip"))]
    answer = studio.client.post(f"{API}/photos", files=form)
    assert answer.status_code == 422
    assert "more than 1,000 classes" in answer.json()["error"]
    assert studio.get("state")["classes"] == []
