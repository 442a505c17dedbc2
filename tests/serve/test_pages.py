"""What a person sees of the service, in a real Chromium with everything outside blocked."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from browser import Page, browser, lacking
from services import running

AXE = Path(__file__).parents[1] / "web" / "node_modules" / "axe-core" / "axe.min.js"
JPEG = {"content-type": "image/jpeg"}
READY = "document.documentElement.dataset.state === 'ready'"


def faults(page: Page) -> list[str]:
    if not AXE.is_file():
        lacking("axe-core is not installed: make .venv/pages.stamp")
    page.run(AXE.read_text())
    found = page.run("axe.run(document).then((done) => done.violations)")
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Page]:
    with browser() as page:
        yield page


@pytest.fixture
def page(chromium, service) -> Iterator[Page]:
    """The first page of the service; whatever a test does, nobody else is asked and no error is in the console."""
    address = str(service.client.base_url)
    chromium.resize(1280, 900)
    chromium.requests.clear()
    chromium.faults.clear()
    chromium.open(f"{address}/")
    chromium.until(READY)
    yield chromium
    assert chromium.faults == []
    assert all(asked.startswith((address, "blob:")) for asked in chromium.requests), chromium.requests


def test_a_photo_is_answered_as_by_the_api_and_noise_is_unknown(page, service, photos, tmp_path):
    noise = tmp_path / "noise.png"
    Image.effect_noise((200, 200), 120).convert("RGB").save(noise)
    cat = photos / "cat" / "000.jpg"
    page.give("#files", [cat, noise])
    page.until("document.querySelectorAll('#list .bars').length === 2")
    shown = page.run("import('./app.js').then((app) => app.rawAnswers())")
    asked = {"top": 4, "unknown": 0}
    said = service.client.post("/v1/predict", params=asked, content=cat.read_bytes(), headers=JPEG).json()[
        "predictions"
    ][0]
    assert [(one["name"], one["probability"]) for one in shown[0]["best"]] == [
        (one["label"], one["probability"]) for one in said["top"]
    ]
    assert shown[0]["typical"] == said["typicality"]
    verdicts = page.run("[...document.querySelectorAll('#list .verdict')].map((one) => one.textContent)")
    assert verdicts[0].startswith("cat, ")
    assert verdicts[1] == "Unknown"
    assert "sent to this service" in page.text("#about")


def test_the_camera_is_answered_live_and_a_file_that_is_no_image_says_so(page, tmp_path):
    page.run("document.getElementById('open-camera').click()")
    page.until("document.querySelectorAll('#live .bars li').length === 4")
    page.run("document.getElementById('keep').click()")
    page.until("document.querySelectorAll('#list .bars').length === 1")
    page.run("document.getElementById('close-camera').click()")
    (tmp_path / "0.jpg").write_text("a letter")
    page.give("#files", [tmp_path / "0.jpg"])
    page.until("document.querySelectorAll('#list .bad').length === 1")
    page.until("document.getElementById('video').srcObject === null")
    page.faults[:] = [fault for fault in page.faults if "422" not in fault]  # the browser notes every refusal


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_axe_finds_nothing_on_either_page(page, service, photos, width, dark):
    page.resize(width, 844, phone=width < 500, dark=dark)
    page.give("#files", [photos / "cat" / "000.jpg"])
    page.until("document.querySelectorAll('#list .bars').length === 1")
    assert faults(page) == []
    page.open(f"{service.client.base_url}/docs")
    page.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert faults(page) == []
    assert page.run("document.documentElement.scrollWidth <= innerWidth")


def test_the_description_names_every_route_and_needs_no_script(service):
    page = service.client.get("/docs")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    for path in service.client.get("/openapi.json").json()["paths"]:
        assert f" {path}<" in page.text
    assert "<script" not in page.text
    assert "//" not in page.text.replace(f"{service.client.base_url}/".replace("https", "http"), "")


def test_the_command_of_a_wrong_address_works(service, photos, tmp_path):
    if shutil.which("curl") is None:
        lacking("curl is not installed: apt-get install curl")
    lost = service.client.get("/predict")
    assert lost.status_code == 404
    assert "POST /v1/predict" in lost.json()["routes"]
    assert lost.json()["curl"] in lost.json()["error"]
    shutil.copy(photos / "cat" / "000.jpg", tmp_path / "photo.jpg")
    words = [*shlex.split(lost.json()["curl"]), "--silent", "--noproxy", "*"]
    said = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert '"label":"cat"' in said
    assert service.client.get("/v1/predict").json()["curl"] == lost.json()["curl"]  # 405


def test_the_start_names_both_pages(service):
    said = service.log.read_text()
    assert f"Try it at {service.client.base_url}/ in a browser" in said
    assert f"{service.client.base_url}/docs" in said


def test_a_service_with_a_token_asks_for_it_on_its_page(chromium, fitted, photos, tmp_path):
    with running(fitted, "--token", "sesame", log=tmp_path / "log") as service:
        assert "Bearer TOKEN" in service.client.get("/docs").text
        assert service.client.get("/model.json").status_code == 401
        chromium.open(f"{service.client.base_url}/")
        chromium.until("!document.getElementById('locked').hidden")
        assert faults(chromium) == []
        for token, then in (("wrong", "document.getElementById('token-wrong').textContent"), ("sesame", READY)):
            chromium.type("#token", token)
            chromium.click("#token-form button")
            chromium.until(then)
        chromium.give("#files", [photos / "cat" / "000.jpg"])
        chromium.until("document.querySelectorAll('#list .bars').length === 1")
        assert "sesame" not in service.log.read_text()


def test_a_backbone_alone_shows_its_description_first(tmp_path):
    with running("--responses=embedded:lite0?side=64", log=tmp_path / "log") as service:
        page = service.client.get("/", follow_redirects=True)
        assert page.url.path == "/docs"
        assert "POST /v1/responses" in page.text
        assert "/v1/responses" in service.client.get("/nothing").json()["curl"]
