"""The page in a real Chromium, as a person uses it."""

from __future__ import annotations

import base64
import json
import shutil
import zipfile
from pathlib import Path

import pytest

import yoro
from browser import served
from child import wait_until
from command_line import run
from studios import studio_at

pytestmark = pytest.mark.long

AXE = Path(__file__).parents[1] / "web" / "node_modules" / "axe-core" / "axe.min.js"


def add_class(page, name, files):
    number = page.count("#classes li") + 1
    page.type("#new-name", name)
    page.click("#new-class button")
    page.until("return document.querySelectorAll('#classes li').length === arguments[0]", number)
    page.until("return document.getElementById('gallery-title').innerText === arguments[0]", name)
    page.give("#files", files)
    page.until("return document.querySelectorAll('#gallery li').length === arguments[0]", len(files))


def shows(page, text):
    page.until("return document.getElementById('score-text').innerText.includes(arguments[0])", text)


def answer(page, file):
    page.run("document.getElementById('answer').replaceChildren()")
    page.give("#try-file", [file])
    page.until("return document.querySelectorAll('#answer .bars li').length > 0")
    return page.text("#answer .bars .name")


def complaints(page, studio):
    """What the console says of this studio's page; a page before it may miss its own."""
    return [fault for fault in page.faults if str(studio.client.base_url) in fault]


def test_a_classifier_is_made_tried_changed_and_taken_home(chromium, tmp_path, photos):
    names = ("cat", "coffee", "<b>rocket</b>")
    with studio_at(tmp_path / "work") as studio:
        chromium.open(f"{studio.client.base_url}/studio/")
        chromium.until("return document.getElementById('empty-title').innerText.startsWith('Name two classes')")
        for name in names:
            add_class(chromium, name, sorted((photos / name.strip("<>/b")).iterdir())[:5])
        assert chromium.count("#classes b") == 0
        shows(chromium, "15 photos")
        others = [photos / name / "005.jpg" for name in ("cat", "coffee", "rocket")]
        assert [answer(chromium, file) for file in others] == list(names)
        chromium.until("return document.querySelectorAll('#why .near img').length > 0")

        chromium.click("#gallery li:nth-child(2)")
        chromium.keys("delete")
        shows(chromium, "14 photos")
        chromium.until("return document.querySelectorAll('#gallery li').length === 4")
        chromium.keys("control", "z")
        shows(chromium, "15 photos")
        chromium.keys("control", "shift", "z")
        shows(chromium, "14 photos")
        chromium.keys("control", "z")
        shows(chromium, "15 photos")
        chromium.until("return document.querySelectorAll('#gallery li').length === 5")

        chromium.click("#gallery li:nth-child(1)")
        chromium.keys("1")  # a rocket becomes a cat
        chromium.until("return document.querySelectorAll('#gallery li').length === 4")
        chromium.until("return document.querySelector('#lists li:nth-child(2) .count').innerText !== '0'")
        chromium.keys("control", "z")
        chromium.until("return document.querySelectorAll('#gallery li').length === 5")

        chromium.reload()
        shows(chromium, "15 photos")
        wait_until(lambda: studio.get("state")["settled"])
        assert [answer(chromium, file) for file in others] == list(names)
        shares = [studio.tried(file.read_bytes())["bars"][0]["probability"] for file in others]

        chromium.click("#downloads summary")
        chromium.click("#downloads a")
        packed = chromium.folder / "studio.yoro.zip"
        wait_until(packed.exists)
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(tmp_path)
        rows = run("predict", tmp_path / "studio.yoro", *others, "--format", "jsonl").stdout.splitlines()
        assert [json.loads(row)["label"] for row in rows] == list(names)
        assert [json.loads(row)["probability"] for row in rows] == pytest.approx(shares, abs=2e-6)
        assert complaints(chromium, studio) == []


def test_a_download_says_what_it_does_closes_its_menu_and_needs_nothing_else(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        chromium.open(f"{studio.client.base_url}/studio/")
        shows(chromium, "24 photos")
        chromium.run("""
            globalThis.heard = [];
            const place = document.getElementById("download-text");
            new MutationObserver(() => heard.push(place.textContent)).observe(place, { childList: true });
        """)
        chromium.click("#downloads summary")
        chromium.click("#downloads a[href$='-web.zip']")
        chromium.until("return !document.getElementById('downloads').open")
        chromium.until("return heard.at(-1) === ''")
        heard = chromium.run("return heard")
        assert heard[0] == "Preparing: Web page (zip)…"
        assert heard[-2].startswith("Downloading: ")
        packed = chromium.folder / "studio-web.zip"
        wait_until(packed.exists)
        with zipfile.ZipFile(packed) as archive:
            assert "studio-web/ort.packed" in archive.namelist()
        assert chromium.text("#message") == ""
        assert complaints(chromium, studio) == []


def test_a_folder_becomes_classes_and_the_matrix_opens_its_cells(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work") as studio:
        chromium.open(f"{studio.client.base_url}/studio/")
        chromium.until("return document.querySelectorAll('#lists li').length > 0")
        chromium.run(
            "window.guided = []; const place = document.getElementById('guide-text');"
            "new MutationObserver(() => guided.push(place.innerText)).observe(place, { childList: true }); return true"
        )
        chromium.give("#folder", [photos])
        shows(chromium, "24 photos")
        chromium.until("return document.querySelectorAll('#classes li').length === 4")
        guided = chromium.run("return guided")
        assert "Next: Your photos are being added." in guided
        assert not any("second class" in said for said in guided)  # the folder brings it
        chromium.click("#confusion summary")
        chromium.until("return document.querySelectorAll('#matrix td button').length === 16")
        chromium.click("#matrix td button.right")
        chromium.until("return document.getElementById('gallery-title').innerText.includes('mistaken for')")
        chromium.until("return document.querySelectorAll('#gallery li').length > 0")
        assert complaints(chromium, studio) == []


def test_holding_the_camera_button_takes_a_burst(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work") as studio:
        chromium.open(f"{studio.client.base_url}/studio/")
        chromium.type("#new-name", "screen")
        chromium.click("#new-class button")
        chromium.until("return document.querySelectorAll('#classes li').length === 1")
        chromium.click("#camera-toggle")
        chromium.until("return document.getElementById('video').videoWidth > 0")
        chromium.press(".burst")
        wait_until(lambda: studio.get("state")["photos"] > 2)
        chromium.release()
        chromium.until("return document.querySelector('.burst.running') === null")  # it ends with the hold
        taken = studio.settled()["photos"]
        chromium.click("#live")
        studio.send([photos / "cat" / "000.jpg", photos / "cat" / "001.jpg"], name="cat")
        chromium.until("return document.querySelectorAll('#answer .bars li').length === 2")
        chromium.click("#camera-toggle")
        assert studio.settled()["photos"] == taken + 2
        assert complaints(chromium, studio) == []


def test_dropped_and_pasted_photos_go_where_they_are_meant(chromium, tmp_path, photos):
    sent = [base64.b64encode(path.read_bytes()).decode() for path in sorted((photos / "cat").iterdir())[:3]]
    given = """
        const transfer = new DataTransfer();
        for (const [i, text] of arguments[0].entries()) {
          const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
          transfer.items.add(new File([bytes], `${i}.jpg`, {type: "image/jpeg"}));
        }
    """
    with studio_at(tmp_path / "work") as studio:
        chromium.open(f"{studio.client.base_url}/studio/")
        chromium.until("return document.querySelectorAll('#lists li').length > 0")
        studio.post("classes", name="cat")
        chromium.until("return document.querySelectorAll('#classes li').length === 1")
        drop = "dispatchEvent(new DragEvent('drop', {dataTransfer: transfer, bubbles: true, cancelable: true}))"
        chromium.run(f"{given} document.querySelector('#classes li').{drop}", sent[:1])
        wait_until(lambda: studio.get("state")["classes"][0]["count"] == 1)
        chromium.run(f"{given} document.querySelector('#gallery').{drop}", sent[1:2])  # unsorted is shown
        wait_until(lambda: studio.get("state")["unsorted"] == 1)
        paste = "dispatchEvent(new ClipboardEvent('paste', {clipboardData: transfer, bubbles: true}))"
        chromium.click("#classes .open")
        chromium.until("return document.getElementById('gallery-title').innerText === 'cat'")
        chromium.run(f"{given} document.body.{paste}", sent[2:])
        wait_until(lambda: studio.get("state")["classes"][0]["count"] == 2)
        assert complaints(chromium, studio) == []


def test_two_tabs_show_the_same(chromium, tmp_path):
    with studio_at(tmp_path / "work") as studio:
        chromium.open(f"{studio.client.base_url}/studio/")
        chromium.until("return document.querySelectorAll('#lists li').length > 0")
        studio.post("classes", name="from another tab")
        chromium.until("return document.querySelector('#classes .name')?.innerText === 'from another tab'")


def test_on_a_phone_nothing_is_wider_than_the_page(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        studio.settled()
        chromium.resize(360, 740, phone=True)
        try:
            chromium.open(f"{studio.client.base_url}/studio/")
            shows(chromium, "24 photos")
            assert chromium.run("return document.documentElement.scrollWidth") <= 360
        finally:
            chromium.call("Emulation.clearDeviceMetricsOverride")


def test_html_in_names_runs_nothing_anywhere(chromium, tmp_path, photos):
    evil = "<img src=x onerror='window.hurt=1'><script>window.hurt=1</script>"
    with studio_at(tmp_path / "work") as studio:
        for name in (evil, "'\"><svg onload=window.hurt=1>"):
            files = sorted((photos / ("cat" if name == evil else "rocket")).iterdir())[:4]
            number = studio.post("classes", name=name)["id"]
            studio.send({f"{evil}{i}.jpg": file.read_bytes() for i, file in enumerate(files)}, belongs=number)
        studio.send({f"{evil}.jpg": b"no photo"})
        studio.settled()
        chromium.open(f"{studio.client.base_url}/studio/")
        shows(chromium, "8 photos")
        chromium.click("#confusion summary")
        chromium.until("return document.querySelectorAll('#matrix td button').length === 4")
        assert answer(chromium, photos / "cat" / "005.jpg") == evil
        chromium.until("return document.querySelectorAll('#why .near img').length > 0")
        chromium.click("#gallery li:nth-child(2)")
        chromium.click("#classes li button[title=Rename]")
        chromium.until("return document.querySelector('#classes form input').value.startsWith('<img')")
        assert chromium.run("return window.hurt === undefined")
        assert chromium.count("main script, #classes img, svg[onload]") == 0
        assert complaints(chromium, studio) == []


def test_a_page_of_another_origin_can_neither_look_nor_change(chromium, tmp_path, photos):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<!doctype html><title>Another site</title>")
    asking = """
        const api = arguments[0] + "/studio/api/";
        const tried = (doing) => doing().then(() => "done", () => "refused");
        const heard = (made, good) => new Promise((told) => {
          made[good] = () => told("done");
          made.onerror = () => told("refused");
        });
        const image = new Image(), seen = heard(image, "onload");
        image.src = api + "small/" + arguments[1];
        const json = { method: "POST", headers: { "content-type": "application/json" }, body: '{"name": "evil"}' };
        return Promise.all([
          tried(() => fetch(api + "state")), tried(() => fetch(api + "classes", json)), seen,
          heard(new EventSource(api + "state"), "onopen"),
          heard(new WebSocket(api.replace("http", "ws") + "state"), "onopen"),
          tried(() => fetch(api + "classes", { method: "POST", mode: "no-cors", body: '{"name": "evil"}' })),
          tried(() => fetch(api + "undo", { method: "POST", mode: "no-cors" })),
        ]);
    """
    with studio_at(tmp_path / "work") as studio, served(tmp_path / "site") as site:
        studio.add("cat", [photos / "cat" / "000.jpg"])
        before = studio.settled()
        chromium.open(site)
        words = [str(studio.client.base_url), studio.photos(1)[0]["digest"]]
        found = chromium.run(asking, *words)
        assert found == ["refused"] * 7  # of what was sent all the same, not even the refusal can be read
        same = ("revision", "undo", "redo", "photos", "classes")
        after = studio.settled()
        assert {one: after[one] for one in same} == {one: before[one] for one in same}


def test_a_model_is_opened_on_the_page(chromium, tmp_path, photos):
    yoro.fit(photos, read="logits").save(tmp_path / "things.yoro")
    packed = shutil.make_archive(str(tmp_path / "things.yoro"), "zip", tmp_path, "things.yoro")
    with studio_at(tmp_path / "work") as studio:
        chromium.open(f"{studio.client.base_url}/studio/")
        chromium.until("return document.querySelectorAll('#lists li').length > 0")
        chromium.give("#model-file", [Path(packed)])
        shows(chromium, "24 photos")
        chromium.until("return document.querySelectorAll('#classes li').length === 4")
        assert chromium.text("#classes .figures").startswith("6 from the model")
        assert "the model things" in chromium.text("#model")
        chromium.click("#classes .open")
        chromium.until("return document.getElementById('empty-title').innerText === '6 images from the model'")
        assert answer(chromium, photos / "rocket" / "005.jpg") == "rocket"
        chromium.give("#folder", [photos])
        chromium.until("return document.querySelector('#classes .figures').innerText.startsWith('6 photos')")
        shows(chromium, "24 photos")
        chromium.click("#undo")
        figures = "[...document.querySelectorAll('#classes .figures')].map((one) => one.innerText)"
        chromium.until(f"return {figures}.some((text) => text.startsWith('6 from the model'))")
        assert complaints(chromium, studio) == []


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: make .venv/pages.stamp brings it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(chromium, tmp_path, photos, scheme):
    with studio_at(tmp_path / "work", photos) as studio:
        studio.settled()
        chromium.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        chromium.open(f"{studio.client.base_url}/studio/")
        shows(chromium, "24 photos")
        answer(chromium, photos / "cat" / "005.jpg")
        chromium.click("#gallery li:nth-child(2)")
        chromium.click("#confusion summary")
        chromium.until("return document.querySelectorAll('#matrix td button').length === 16")
        chromium.run(AXE.read_text())
        found = chromium.run("return axe.run().then((result) => result.violations)")
        faults = [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
        assert [
            fault for fault, one in zip(faults, found, strict=True) if one["impact"] in ("serious", "critical")
        ] == []
