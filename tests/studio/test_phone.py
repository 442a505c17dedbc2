"""A phone that sends photos: the studio on an address of the local network, and a real Chromium with a camera."""

from __future__ import annotations

import hashlib
import re
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import zxingcpp
from PIL import Image

from browser import browser
from child import BOUND, wait_until
from command_line import run
from studios import studio_at
from yoro.errors import InputError
from yoro.studio.phone import API, FILES, local_address

AXE = Path(__file__).parents[1] / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def address() -> str:
    try:
        return local_address()
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def studio(address, tmp_path_factory):
    with studio_at(tmp_path_factory.mktemp("phone") / "work", "--phone", "--phone-address", address) as found:
        found.post("classes", name="tulip")
        found.post("classes", name="<b>rose")
        yield found


@pytest.fixture(scope="module")
def link(studio, tmp_path_factory) -> str:
    """What the code on the page of the studio says, read from a picture of it by another library."""
    picture = tmp_path_factory.mktemp("code") / "code.png"
    with browser() as page:
        page.resize(390, 844, phone=True, dark=True)
        page.open(f"{studio.client.base_url}/studio/phone")
        page.photograph(picture)
        assert page.faults == []
    (code,) = zxingcpp.read_barcodes(Image.open(picture))
    return code.text


@pytest.fixture(scope="module")
def outside(link):
    """A client of the address of the phone, which takes whatever certificate there is."""
    with httpx.Client(base_url=link.partition("#")[0], verify=False, timeout=BOUND, trust_env=False) as client:
        yield client


def test_photos_of_the_phones_camera_arrive_in_the_class_chosen(studio, link, address, tmp_path, photos):
    with browser(reach=address) as page:
        page.resize(390, 844, phone=True)
        page.call("Security.setIgnoreCertificateErrors", ignore=True)
        page.open(link)
        page.until("document.documentElement.dataset.state === 'ready'")
        assert link.partition("#")[2] not in page.run("location.href")
        assert page.run("[...document.getElementById('class').options].map((one) => one.text)") == [
            "tulip", "<b>rose", "Unsorted",
        ]  # fmt: skip
        page.run("document.getElementById('class').value = document.getElementById('class').options[1].value")
        page.click("#take")
        page.until("document.getElementById('said').textContent === '1 photo sent to <b>rose.'")
        page.give("#files", sorted((photos / "cat").iterdir())[:2])
        page.until("document.getElementById('said').textContent === '3 photos sent to <b>rose.'")
        page.run(AXE.read_text())
        assert page.run("axe.run(document).then((done) => done.violations.map((one) => one.id))") == []
        assert page.faults == []
        assert all(asked.startswith((link.partition("#")[0], "blob:")) for asked in page.requests)
        page.reload()  # the token is kept as long as the tab
        page.until("document.documentElement.dataset.state === 'ready'")
    counts = {one["name"]: one["count"] for one in studio.get("state")["classes"]}
    assert counts == {"tulip": 0, "<b>rose": 3}


def test_the_network_reaches_the_page_of_the_phone_and_nothing_else(studio, outside, link):
    token = {"authorization": f"Bearer {link.partition('#')[2]}"}
    for path in FILES:
        assert outside.get(path).status_code == 200
    for path in (
        "/studio/",
        "/studio/phone",
        "/studio/api/state",
        "/studio/api/studio.yoro.zip",
        "/docs",
        "/openapi.json",
    ):
        assert outside.get(path, headers=token).status_code == 404, path
    for path in ("/studio/api/undo", "/studio/api/remove", "/studio/api/classes"):
        assert outside.post(path, headers=token, json={}).status_code == 404, path
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{outside.base_url.host}:{studio.port}/studio/", timeout=BOUND, trust_env=False)


def test_without_the_token_of_this_start_nothing_is_told_or_taken(studio, outside, photos):
    photo = next((photos / "coffee").iterdir()).read_bytes()
    before = studio.get("state")["photos"]
    for headers in ({}, {"authorization": "Bearer guessed"}):
        assert outside.get(f"{API}/classes", headers=headers).status_code == 401
        sent = outside.post(f"{API}/photos?belongs=1", headers=headers, files={"files": ("a.jpg", photo)})
        assert sent.status_code == 401
    assert studio.get("state")["photos"] == before


def test_the_certificate_is_for_the_address_and_has_the_fingerprint_that_is_said(studio, link):
    host, port = urlsplit(link).hostname, urlsplit(link).port
    pem = ssl.get_server_certificate((host, port), timeout=BOUND)
    fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).digest().hex(":").upper()
    assert fingerprint in studio.log.read_text()
    assert fingerprint in studio.client.get("/studio/phone").text
    trusting = ssl.create_default_context(cadata=pem)
    assert httpx.get(link.partition("#")[0], verify=trusting, timeout=BOUND, trust_env=False).status_code == 200
    assert link.partition("#")[2] not in studio.log.read_text()


def test_a_studio_that_was_not_asked_has_no_door_for_phones(tmp_path):
    with studio_at(tmp_path / "work") as studio:
        refused = studio.client.get("/studio/phone")
        assert (refused.status_code, "yoro studio --phone" in refused.text) == (404, True)
        assert studio.get("state")["phone"] is False
        assert "phone" not in studio.log.read_text()


def test_an_address_that_is_none_is_one_line(tmp_path):
    done = run("studio", "--phone", "--phone-address", "nowhere", "--no-browser", code=1, cwd=tmp_path)
    assert "'nowhere' is not an IP address" in done.stderr
    assert not re.search("Traceback", done.stderr)


def test_the_studio_ends_with_its_second_server(address, tmp_path):
    with studio_at(tmp_path / "work", "--phone", "--phone-address", address) as studio:
        assert studio.get("state")["phone"] is True  # it runs
        studio.process.terminate()
        wait_until(lambda: studio.process.poll() is not None)
        assert studio.process.returncode == 0
