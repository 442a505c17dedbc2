"""Pictures of the studio, to be looked at: `python tests/screenshots.py FOLDER PHOTOS [IMAGE]`.

Empty, while it reads, with a folder of labelled photos, with an image that is unknown, with an error, and begun with a
model; on a desk and on a phone, in light and in dark.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

import yoro
from chromium import Browser, browsing
from studios import Studio, studio_at

SIZES = {"desk": (1280, 900), "phone": (390, 844)}
TALLEST = 2600  # pixels of a picture


def views(browser: Browser, studio: Studio) -> Iterator[str]:
    """The page open in every size and scheme, as their names."""
    for name, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            browser.size(width, height)
            browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.open(f"{studio.client.base_url}/studio/")
            browser.until("return document.querySelectorAll('#lists li').length > 0")
            yield f"{name}-{scheme}"


def tried(browser: Browser, image: Path) -> None:
    """The page with an answer and the matrix, one photo selected."""
    browser.type("#try-file", str(image))
    browser.until("return document.querySelectorAll('#answer .bars li').length > 0")
    browser.run("document.querySelector('#confusion').open = true")
    browser.until("return document.querySelectorAll('#matrix td').length > 0")
    browser.run("document.querySelector('#gallery li:nth-child(2)')?.click(); scrollTo(0, 0)")


def shot(browser: Browser, file: Path, *, whole: bool = True) -> None:
    """The page as it is, at the height of all of it if it is narrow."""
    browser.until("return [...document.images].slice(0, 9).every((image) => image.complete)")
    if whole and int(browser.run("return innerWidth")) < 700:  # type: ignore[call-overload]
        tall = int(browser.run("return document.documentElement.scrollHeight"))  # type: ignore[call-overload]
        browser.size(390, min(tall, TALLEST))
    browser.picture(file)


def main(folder: Path, photos: Path, image: Path | None = None) -> None:
    """Take all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    some = image or next(path for path in sorted(photos.rglob("*")) if path.suffix.lower() in (".jpg", ".png"))
    with tempfile.TemporaryDirectory() as temporary, browsing(Path(temporary)) as browser:
        place = Path(temporary)
        noise, text = place / "noise.png", place / "text.jpg"
        Image.effect_noise((300, 300), 120).convert("RGB").save(noise)
        text.write_text("just text")
        with studio_at(place / "empty") as studio:
            for view in views(browser, studio):
                shot(browser, folder / f"empty-{view}.png")
        with studio_at(place / "work", photos) as studio:
            next(iter(views(browser, studio)))
            shot(browser, folder / "reading-desk-light.png")
            studio.settled()
            for view in views(browser, studio):
                tried(browser, some.resolve())
                shot(browser, folder / f"taught-{view}.png")
            for view in views(browser, studio):
                tried(browser, noise)
                browser.type("#files", str(text))
                browser.until("return !document.getElementById('message').hidden")
                shot(browser, folder / f"unknown-{view}.png")
        yoro.fit(photos, read="logits").save(place / "m.yoro")
        with studio_at(place / "begun", place / "m.yoro") as studio:
            studio.settled()
            for view in views(browser, studio):
                shot(browser, folder / f"model-{view}.png")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
