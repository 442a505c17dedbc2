"""The page in a real Chromium, used by the words on it: what a teacher or a shop owner would press and read."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from child import wait_until
from photos import write_folder, write_leaves
from studios import studio_at

pytestmark = pytest.mark.long

AXE = Path(__file__).parents[1] / "web" / "node_modules" / "axe-core" / "axe.min.js"
FIND = """
    const shown = (one) => one.checkVisibility() && !one.disabled;
    const words = (one) => (one.innerText.trim() || one.getAttribute("aria-label") || "").split("\\n")[0];
    const all = [...document.querySelectorAll("button, summary, a, [role=option]")].filter(shown);
    const found = all.find((one) => words(one) === arguments[0] || one.getAttribute("aria-label") === arguments[0]);
"""

NARROW = """
    const small = (one) => [one.offsetWidth, one.offsetHeight].some((side) => side < 44);
    return [...document.querySelectorAll("button")].filter((one) => one.checkVisibility() && small(one))
      .map((one) => one.getAttribute("aria-label") || one.innerText);
"""


def press(page, words):
    """Press what says these words, once it is there."""
    page.until(f"{FIND} if (found) found.click(); return Boolean(found)", words)


def reads(page, words):
    """Wait until these words are to be read on the page."""
    page.until("return document.body.innerText.replaceAll('\\u00a0', ' ').includes(arguments[0])", words)


def said(page):
    return page.run("return document.body.innerText.replaceAll('\\u00a0', ' ')")


def opened(page, studio, width=1280, height=900, **kind):
    page.resize(width, height, **kind)
    page.open(f"{studio.client.base_url}/studio/")
    page.until("return document.querySelectorAll('#lists li').length > 0")


def name_class(page, name):
    page.type("#new-name", name)
    press(page, "Add")
    page.until("return document.getElementById('gallery-title').innerText === arguments[0]", name)


def faultless(page):
    """Nothing that axe-core calls a violation."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make .venv/pages.stamp brings it")
    page.run(AXE.read_text())
    found = page.run("return axe.run().then((result) => result.violations)")
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []


def drag(page, start, end, kind, data):
    """Drag something onto an element, as the browser would tell it."""
    page.run(
        """
        const carried = new DataTransfer(), tell = (kind, on) => document.querySelector(on).dispatchEvent(
          new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
        tell("dragstart", arguments[0]);
        if (arguments[3]) carried.setData(arguments[2], arguments[3]);
        tell("dragover", arguments[1]);
        tell("drop", arguments[1]);
        """,
        start,
        end,
        kind,
        data,
    )


def test_a_refused_photo_never_stands_above_the_answer_to_another(chromium, tmp_path, photos):
    huge = tmp_path / "huge.png"
    Image.new("1", (20_000, 20_000)).save(huge)
    with studio_at(tmp_path / "work", photos) as studio:
        studio.settled()
        opened(chromium, studio)
        chromium.give("#try-file", [photos / "cat" / "005.jpg"])
        chromium.until("return document.querySelectorAll('#answer .bars li').length > 0")
        chromium.give("#try-file", [huge])
        reads(chromium, "No answer")
        assert chromium.count("#answer .bars li") == 0
        assert chromium.count("#why img") == 0
        faultless(chromium)
        studio.post("classes", name="another")  # news come, and the error stays with its photo
        studio.settled()
        reads(chromium, "another")
        assert "No answer" in said(chromium)
        chromium.give("#try-file", [photos / "cat" / "005.jpg"])
        chromium.until("return document.querySelectorAll('#answer .bars li').length > 0")
        assert "No answer" not in said(chromium)


def test_a_message_goes_when_the_next_action_succeeds(chromium, tmp_path):
    with studio_at(tmp_path / "work") as studio:
        opened(chromium, studio)
        name_class(chromium, "cat")
        chromium.type("#new-name", "cat")
        press(chromium, "Add")
        reads(chromium, "already exists")
        faultless(chromium)
        press(chromium, "Rename cat")
        chromium.until("return document.querySelector('.rename input') === document.activeElement")
        chromium.run("document.activeElement.value = 'dog'")
        press(chromium, "OK")
        chromium.until("return document.getElementById('message').hidden")
        press(chromium, "Undo: Rename cat to dog")


def test_a_heic_is_shown_as_the_studio_decoded_it(chromium, tmp_path, photos):
    pytest.importorskip("pillow_heif").register_heif_opener()
    file = tmp_path / "phone.heic"
    with Image.open(photos / "cat" / "005.jpg") as image:
        image.save(file, "HEIF")
    with studio_at(tmp_path / "work", photos) as studio:
        studio.settled()
        opened(chromium, studio)
        chromium.give("#try-file", [file])
        chromium.until("return document.querySelectorAll('#answer .bars li').length > 0")
        chromium.until(
            "const shown = document.getElementById('try-image'); return !shown.hidden && shown.naturalWidth > 50"
        )


def test_photos_that_were_not_sent_are_known_and_sent_again(chromium, tmp_path):
    many = write_folder(tmp_path / "photos", count=30)
    with studio_at(tmp_path / "work") as studio:
        port = studio.port
        opened(chromium, studio)
        chromium.run(
            """
            window.totals = new Set();
            new MutationObserver(() => {
              const found = /of (\\d+)/.exec(document.getElementById("working-text").innerText);
              if (found && !document.getElementById("progress").hidden) window.totals.add(found[1]);
            }).observe(document.getElementById("working-text"), { childList: true });
            """
        )
        chromium.give("#folder", [many])
        wait_until(lambda: 0 < studio.get("state")["photos"] < 120)
        studio.kill()
        chromium.until("return /\\d+ of 120 photos were not sent/.test(document.body.innerText)")
        assert chromium.run("return [...window.totals]") == ["120"]
        reads(chromium, "Next: Start the studio again")
    with studio_at(tmp_path / "work", port=port) as studio:
        before = studio.get("state")["photos"]
        assert 0 < before < 120
        chromium.until("return /\\d+ of 120 photos were not sent/.test(document.body.innerText)")
        reads(chromium, "Next: Send the photos again that the studio did not receive.")
        faultless(chromium)
        press(chromium, "Send them again")
        wait_until(lambda: studio.get("state")["photos"] == 120)
        chromium.until("return document.getElementById('unsent').hidden")
        assert studio.get("state")["undo"] == "Add 120 photos"
        studio.settled()
        press(chromium, "Undo: Add 120 photos")
        wait_until(lambda: studio.get("state")["photos"] == 0)
        assert studio.get("state")["classes"] == []


def test_a_new_page_offers_what_an_earlier_one_could_not_send(chromium, tmp_path):
    many = write_folder(tmp_path / "photos", count=30)
    with studio_at(tmp_path / "work") as studio:
        port = studio.port
        opened(chromium, studio)
        chromium.give("#folder", [many])
        wait_until(lambda: 0 < studio.get("state")["photos"] < 120)
        studio.kill()
        chromium.until("return /\\d+ of 120 photos were not sent/.test(document.body.innerText)")
        chromium.open("about:blank")
    with studio_at(tmp_path / "work", port=port) as studio:
        opened(chromium, studio)
        chromium.until("return /\\d+ of 120 photos were not sent/.test(document.body.innerText)")
        press(chromium, "Send them again")
        wait_until(lambda: studio.get("state")["photos"] == 120)
        chromium.until("return document.getElementById('unsent').hidden")


def test_classes_are_merged_by_renaming_and_by_dragging(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        studio.settled()
        opened(chromium, studio)
        press(chromium, "Rename coffee")
        chromium.until("return document.querySelector('.rename input') === document.activeElement")
        chromium.run("document.activeElement.value = 'cat'; document.activeElement.dispatchEvent(new Event('input'))")
        press(chromium, "Merge")
        reads(chromium, "coffee is merged into cat. Undo takes it apart again.")
        reads(chromium, "12 photos")
        drag(chromium, "#classes li:nth-child(3)", "#classes li:nth-child(1)", "", "")  # rocket onto astronaut
        reads(chromium, "rocket is merged into astronaut")
        counts = {one["name"]: one["count"] for one in studio.settled()["classes"]}
        assert counts == {"astronaut": 12, "cat": 12}
        press(chromium, "Undo: Merge rocket into astronaut")
        press(chromium, "Undo: Merge coffee into cat")
        counts = {one["name"]: one["count"] for one in studio.settled()["classes"]}
        assert counts == {"astronaut": 6, "cat": 6, "coffee": 6, "rocket": 6}


def test_the_class_on_show_can_be_removed_and_photos_added_after(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work") as studio:
        opened(chromium, studio)
        name_class(chromium, "cat")
        press(chromium, "Remove the class cat")
        chromium.until("return document.getElementById('gallery-title').innerText === 'Unsorted'")
        chromium.give("#files", [photos / "cat" / "000.jpg"])
        wait_until(lambda: studio.get("state")["unsorted"] == 1)
        assert "another page" not in said(chromium)


def test_many_classes_are_found_sorted_and_added_without_scrolling(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        for i in range(47):
            studio.post("classes", name=f"kind {i + 1}")
        studio.settled()
        opened(chromium, studio, 1024, 768)
        reads(chromium, "kind 47")
        inside = """
            const box = document.querySelector(arguments[0]).getBoundingClientRect();
            return box.top >= 0 && box.bottom <= innerHeight && box.right <= innerWidth;
        """
        for part in ("#new-name", "#pick-folder", "#camera-toggle", "#pick", "#try-drop"):
            assert chromium.run(inside, part), part
        rows = """
            const bottom = (one) => one.getBoundingClientRect().bottom;
            const end = bottom(document.getElementById("classes"));
            return [...document.querySelectorAll("#classes li")].filter((one) => bottom(one) <= end).length;
        """
        assert chromium.run(rows) >= 5
        chromium.run("document.getElementById('new-name').focus()")
        for _ in range(4):
            chromium.keys("tab")
        assert chromium.run("return document.activeElement.id") == "camera-toggle"
        faultless(chromium)
        chromium.type("#find-class", "kind 4")
        chromium.until("return document.querySelectorAll('#classes li').length === 9")  # 4 and 40 to 47
        chromium.run("document.getElementById('find-class').value = 'zebra'")
        chromium.type("#find-class", "s")
        reads(chromium, "No class has that name.")
        chromium.run(
            "for (const [id, value] of [['find-class', ''], ['sort-classes', 'name']]) {"
            "  document.getElementById(id).value = value;"
            "  document.getElementById(id).dispatchEvent(new Event('change'));"
            "}"
        )
        names = chromium.run("return [...document.querySelectorAll('#classes .name')].map((one) => one.innerText)")
        assert names == [*sorted(["astronaut", "cat", "coffee"]), *(f"kind {i + 1}" for i in range(47)), "rocket"]


def test_the_matrix_keeps_its_headers_when_it_is_scrolled(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        studio.settled()
        opened(chromium, studio)
        press(chromium, "What is mistaken for what (confusion matrix)")
        chromium.until("return document.querySelectorAll('#matrix td button').length === 16")
        kept = """
            const area = document.querySelector(".scroll"), head = area.querySelector("thead th:last-child");
            area.style.maxHeight = "90px";
            area.scrollTop = 60;
            const top = (one) => one.getBoundingClientRect().top;
            return [area.scrollTop > 0, Math.abs(top(head) - top(area)) < 3];
        """
        assert chromium.run(kept) == [True, True]


def planted(studio):
    """Two cats among the rockets, so that labels are suspicious."""
    numbers = {one["name"]: one["id"] for one in studio.settled()["classes"]}
    digests = [photo["digest"] for photo in studio.photos(numbers["cat"])[:2]]
    studio.post("move", photos=digests, to=numbers["rocket"])
    state = studio.settled()
    assert state["suspicious"] > 1
    return numbers, state


@pytest.mark.parametrize("dark", [False, True])
def test_suspicious_labels_are_accepted_and_kept_by_tile_or_key(chromium, tmp_path, photos, dark):
    with studio_at(tmp_path / "work", photos) as studio:
        numbers, state = planted(studio)
        opened(chromium, studio, dark=dark)
        press(chromium, "Suspicious labels")
        reads(chromium, f"About {state['wrong']} wrong labels")
        reads(chromium, "now rocket, rather cat, ")
        faultless(chromium)
        first = studio.photos(-1)[0]
        press(chromium, f"Accept: it is {first['guess']}")
        wait_until(lambda: first["digest"] in {one["digest"] for one in studio.photos(numbers[first["guess"]])})
        studio.settled()
        studio.post("undo")
        state = studio.settled()
        chromium.until("return document.querySelectorAll('.review').length === arguments[0]", state["suspicious"])
        listed = {one["digest"] for one in studio.photos(-1)}
        chromium.keys("k")
        wait_until(lambda: studio.settled()["suspicious"] == state["suspicious"] - 1)
        assert studio.get("state")["undo"] == "Keep 1 label"
        (kept,) = listed - {one["digest"] for one in studio.photos(-1)}
        labelled = studio.photos(numbers["rocket"]) + studio.photos(numbers["cat"])
        assert kept in {one["digest"] for one in labelled if not one["doubtful"]}


def test_a_photo_with_a_suspicious_label_goes_to_a_class_that_was_not_proposed(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        numbers, _ = planted(studio)
        opened(chromium, studio)
        press(chromium, "Suspicious labels")
        chromium.until("return document.querySelectorAll('.review').length > 1")
        digest = chromium.run("return document.querySelectorAll('.review')[1].dataset.digest")
        chromium.click(".review:nth-child(2) img")
        reads(chromium, "1 photo selected")
        chromium.run(
            "const list = document.getElementById('move-to'); list.value = arguments[0];"
            "list.dispatchEvent(new Event('change'))",
            str(numbers["coffee"]),
        )
        wait_until(lambda: digest in {one["digest"] for one in studio.photos(numbers["coffee"])})
        assert studio.get("state")["undo"] == "Move 1 photo to coffee"


def test_what_is_dropped_on_the_test_set_on_show_is_never_learned_from(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        before = studio.settled()
        opened(chromium, studio)
        press(chromium, "Test set")
        press(chromium, "Add a test folder…")
        chromium.give("#folder", [write_folder(tmp_path / "more", count=2, seed=5)])
        reads(chromium, "8 photos kept for testing, never learned from.")
        state = studio.settled()
        assert (state["tests"], state["measured"]) == (8, before["measured"])
        chromium.run(
            """
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File(["x"], "loose.jpg", { type: "image/jpeg" }));
            document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
            """
        )
        reads(chromium, "A photo to test with needs its class")
        assert studio.get("state")["unsorted"] == 0


def test_a_menu_closes_with_escape(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        studio.settled()
        opened(chromium, studio)
        press(chromium, "Download")
        reads(chromium, "Web page (zip)")
        chromium.keys("escape")
        chromium.until("return !document.getElementById('downloads').open")
        assert chromium.run("return document.activeElement.innerText") == "Download"


def test_on_a_phone_trying_is_a_tab(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        studio.settled()
        for dark in (False, True):
            opened(chromium, studio, 390, 844, phone=True, dark=dark)
            for tab in ("Classes", "Photos", "Try it"):
                press(chromium, tab)
                faultless(chromium)
                assert chromium.run("return document.documentElement.scrollWidth") <= 390
                assert chromium.run(NARROW) == []
        box = chromium.run(
            "const box = document.getElementById('try-drop').getBoundingClientRect(); return [box.top, box.bottom]"
        )
        assert 0 <= box[0] < box[1] <= 844
        opened(chromium, studio, 640, 450)  # 1280 by 900 at 200 %
        assert chromium.run("return document.documentElement.scrollWidth") <= 640


def test_a_photo_that_was_learned_from_says_why_it_has_two_figures(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        studio.settled()
        opened(chromium, studio)
        chromium.until("return document.querySelectorAll('#gallery li').length === 6")
        chromium.run(
            "document.querySelector('#gallery li').dispatchEvent(new MouseEvent('dblclick', { bubbles: true }))"
        )
        reads(chromium, "This is a training photo")
        assert "A classifier without it says " in said(chromium)
        assert "log-odds" not in said(chromium)
        press(chromium, "Show what mattered")
        reads(chromium, "Bright parts support")
        chromium.until("return document.querySelector('.mattered img')?.naturalWidth > 100")
        faultless(chromium)
        press(chromium, "Details")
        reads(chromium, "log-odds from each layer")


def test_photos_kept_for_testing_have_their_own_figure_and_report(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        before = studio.settled()
        opened(chromium, studio)
        press(chromium, "Test set")
        reads(chromium, "never learned from")
        press(chromium, "Keep a fifth of every class")
        reads(chromium, "Test set: ")
        state = studio.settled()
        assert (state["tests"], state["tested"]["measured"]) == (4, 4)
        assert state["measured"] == before["measured"] - 4
        chromium.until("return document.querySelectorAll('#gallery li').length === 4")
        faultless(chromium)
        press(chromium, "cat")
        chromium.until("return document.getElementById('gallery-title').innerText === 'cat'")
        chromium.until("return document.querySelectorAll('#gallery li[role=option]').length === 5")
        item = "[...document.querySelectorAll('#lists li')].findIndex((one) => one.innerText.includes('Test set')) + 1"
        place = chromium.run(f"return {item}")
        drag(chromium, "#gallery li", f"#lists li:nth-child({place})", "", "")
        wait_until(lambda: studio.settled()["tests"] == 5)
        press(chromium, "Download")
        press(chromium, "Report on the test set")
        report = chromium.folder / "studio-test.html"
        wait_until(report.exists)
        assert "5 labelled examples" in report.read_text()


def test_unsorted_photos_are_sorted_by_groups_and_by_what_is_expected(chromium, tmp_path, photos):
    with studio_at(tmp_path / "work") as studio:
        opened(chromium, studio)
        chromium.give("#files", sorted(photos.rglob("*.jpg")))
        wait_until(lambda: studio.get("state")["unsorted"] == 24)
        studio.settled()
        press(chromium, "In groups")
        reads(chromium, "Group 1: ")
        faultless(chromium)
        sizes = [len(group) for group in studio.get("tray")["groups"]]
        assert sum(sizes) == 24
        for name in ("first kind", "second kind"):
            before = studio.get("state")["unsorted"]
            chromium.until("return document.querySelector('#tray .group input')?.value === ''")
            chromium.type("#tray .group input", name)
            press(chromium, "Name")
            reads(chromium, name)
            wait_until(lambda before=before: studio.get("state")["unsorted"] < before)
            if studio.settled()["unsorted"] == 0:
                return
        reads(chromium, "expected to be right")
        state = studio.get("state")
        accepted = studio.get("tray")["accept"][-1]
        words = chromium.run(
            "return [...document.querySelectorAll('#tray button')].map((one) => one.innerText)"
            ".findLast((text) => text.startsWith('Accept'))"
        )
        press(chromium, words)
        wait_until(lambda: studio.get("state")["unsorted"] == state["unsorted"] - len(accepted["photos"]))


def test_a_teacher_with_five_kinds_of_leaves_follows_the_guide_in_twelve_steps(chromium, tmp_path):
    leaves = write_leaves(tmp_path / "leaves", 8)
    names = sorted(folder.name for folder in leaves.iterdir())
    with studio_at(tmp_path / "work") as studio:
        opened(chromium, studio)
        chromium.run("localStorage.clear()")
        reads(chromium, "Next: Name what you want to tell apart")  # 1 to 5: the classes
        press(chromium, "Name a class")
        for name in names:
            chromium.until("return document.activeElement.id === 'new-name'")
            chromium.call("Input.insertText", text=name)
            press(chromium, "Add")
            chromium.until("return document.getElementById('gallery-title').innerText === arguments[0]", name)
            if name == names[0]:
                reads(chromium, f"Next: Name a second class: what is not {name}?")
        for name in names:  # 6: their photos, by the button of the guide
            reads(chromium, f"Next: Add photos of {name}: it has none, and five are a good start.")
            press(chromium, "Add photos")
            chromium.until("return document.getElementById('gallery-title').innerText === arguments[0]", name)
            chromium.give("#files", sorted((leaves / name).iterdir())[:6])
            chromium.until("return document.querySelectorAll('#gallery li').length === 6")
        reads(chromium, "Next: Try it with a photo that it has not seen.")  # 7
        press(chromium, "Try a photo")
        chromium.give("#try-file", [leaves / "willow" / "007.jpg"])
        chromium.until("return document.querySelector('#answer .verdict')?.innerText === 'willow'")
        press(chromium, "Show what mattered")  # 8
        reads(chromium, "Bright parts support willow")
        faultless(chromium)
        state = studio.settled()
        assert state["right"] >= 24
        reads(chromium, f"{state['right']} of 30 photos right")  # 9
        press(chromium, "What is this?")
        reads(chromium, "classified by a classifier that had not learned from it")
        press(chromium, "Test set")  # 10
        press(chromium, "Keep a fifth of every class")
        reads(chromium, "Test set: ")
        press(chromium, "Undo: Keep 5 photos for testing")
        photo = studio.photos(studio.get("state")["classes"][0]["id"])[0]["digest"]  # 11: a wrong label
        studio.post("move", photos=[photo], to=studio.get("state")["classes"][4]["id"])
        assert studio.settled()["suspicious"]
        reads(chromium, "Next: Look at")
        press(chromium, "Show")
        press(chromium, f"Accept: it is {names[0]}")
        wait_until(lambda: len(studio.photos(studio.get("state")["classes"][0]["id"])) == 6)
        studio.settled()
        chromium.until("return !document.querySelector('#downloads').hidden")
        press(chromium, "Download")  # 12
        press(chromium, "Web page (zip)")
        wait_until((chromium.folder / "studio-web.zip").exists)
        press(chromium, "Hide the guide")
        chromium.until("return !document.body.innerText.includes('Next:')")
        press(chromium, "Guide")
        reads(chromium, "Next:")
        faultless(chromium)
        outside = [url for url in chromium.requests if url.startswith("http") and "127.0.0.1" not in url]
        assert outside == []
