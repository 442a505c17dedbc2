"""Pictures of the studio, to be looked at: `python tests/screenshots.py FOLDER PHOTOS [IMAGE]`.

Empty, while it reads, with a folder of labelled photos, with an image that is unknown, with an error, and begun with a
model; on a desk and on a phone, in light and in dark. Suspicious labels, the test set and groups on a small laptop.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

import yoro
from browser import Page, browser
from studios import Studio, studio_at

SIZES = {"desk": (1280, 900), "phone": (390, 844)}
TALLEST = 2600  # pixels of a picture


def views(page: Page, studio: Studio) -> Iterator[str]:
    """The page open in every size and scheme, as their names."""
    for name, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            page.resize(width, height, phone=width < 700, dark=scheme == "dark")
            page.open(f"{studio.client.base_url}/studio/")
            page.until("return document.querySelectorAll('#lists li').length > 0")
            yield f"{name}-{scheme}"


def tried(page: Page, image: Path) -> None:
    """The page with an answer and the matrix, one photo selected."""
    page.give("#try-file", [image])
    page.until("return document.querySelectorAll('#answer .bars li').length > 0")
    page.run("document.querySelector('#confusion').open = true")
    page.until("return document.querySelectorAll('#matrix td').length > 0")
    page.run("document.querySelector('#gallery li:nth-child(2)')?.click()")
    page.run("document.getElementById('tab-trial').click(); document.getElementById('trial').scrollTop = 0")


def lists(page: Page, studio: Studio, folder: Path) -> None:
    """Suspicious labels, the test set and groups of unsorted photos, on a small laptop."""
    first, second = (one["id"] for one in studio.get("state")["classes"][:2])
    studio.post("move", photos=[one["digest"] for one in studio.photos(first)[:2]], to=second)
    studio.post("aside-share", share=0.2)
    studio.post("move", photos=[one["digest"] for one in studio.photos(first)[:3]], to=0)
    studio.settled()
    page.resize(1024, 768)
    page.open(f"{studio.client.base_url}/studio/")
    for title, there in (
        ("Suspicious labels", ".review, #empty"),
        ("Test set", "[role=option]"),
        ("Unsorted", "#group"),
    ):
        opened = "[...document.querySelectorAll('#lists button')].find((one) => one.innerText.includes(arguments[0]))"
        page.until(f"const list = {opened}; list?.click(); return Boolean(list)", title)
        page.until("return document.querySelector(arguments[0])?.checkVisibility()", there)
        if title == "Unsorted":
            page.click("#group")
            page.until("return document.querySelector('#tray .group') !== null")
        shot(page, folder / f"{title.lower().replace(' ', '-')}-laptop.png")


def shot(page: Page, file: Path, *, whole: bool = True) -> None:
    """The page as it is, at the height of all of it if it is narrow."""
    page.until("return [...document.images].slice(0, 9).every((image) => image.complete)")
    if whole and int(page.run("return innerWidth")) < 700:  # type: ignore[call-overload]
        tall = int(page.run("return document.documentElement.scrollHeight"))  # type: ignore[call-overload]
        page.call(
            "Emulation.setDeviceMetricsOverride", width=390, height=min(tall, TALLEST), deviceScaleFactor=1, mobile=True
        )
    page.photograph(file, whole=False)


def main(folder: Path, photos: Path, image: Path | None = None) -> None:
    """Take all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    some = image or next(path for path in sorted(photos.rglob("*")) if path.suffix.lower() in (".jpg", ".png"))
    with tempfile.TemporaryDirectory() as temporary, browser() as page:
        place = Path(temporary)
        noise, text = place / "noise.png", place / "text.jpg"
        Image.effect_noise((300, 300), 120).convert("RGB").save(noise)
        text.write_text("just text")
        with studio_at(place / "empty") as studio:
            for view in views(page, studio):
                shot(page, folder / f"empty-{view}.png")
        with studio_at(place / "work", photos) as studio:
            next(iter(views(page, studio)))
            shot(page, folder / "reading-desk-light.png")
            studio.settled()
            for view in views(page, studio):
                tried(page, some.resolve())
                shot(page, folder / f"taught-{view}.png")
            for view in views(page, studio):
                tried(page, noise)
                page.give("#files", [text])
                page.until("return !document.getElementById('message').hidden")
                shot(page, folder / f"unknown-{view}.png")
            lists(page, studio, folder)
        yoro.fit(photos, read="logits").save(place / "m.yoro")
        with studio_at(place / "begun", place / "m.yoro") as studio:
            studio.settled()
            for view in views(page, studio):
                shot(page, folder / f"model-{view}.png")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
