"""Pictures of the studio, to be looked at: `python tests/screenshots.py FOLDER PHOTOS [IMAGE]`.

Empty and with a folder of labelled photos, on a desk and on a phone, in light and in dark.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from chromium import Browser, browsing
from studios import Studio, studio_at

SIZES = {"desk": (1280, 900), "phone": (390, 844)}


def look(browser: Browser, studio: Studio, folder: Path, what: str, image: Path | None = None) -> None:
    """Take the pictures of one studio."""
    for name, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            browser.size(width, height)
            browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.open(f"{studio.client.base_url}/studio/")
            browser.until("return document.querySelectorAll('#lists li').length > 0")
            if image is not None:
                browser.type("#try-file", str(image))
                browser.until("return document.querySelectorAll('#answer .bars li').length > 0")
                browser.run("document.querySelector('#confusion').open = true")
                browser.until("return document.querySelectorAll('#matrix td').length > 0")
                browser.run("document.querySelector('#gallery li:nth-child(2)').click(); scrollTo(0, 0)")
            browser.until("return [...document.images].slice(0, 9).every((image) => image.complete)")
            if width < 700:
                tall = int(browser.run("return document.documentElement.scrollHeight"))  # type: ignore[call-overload]
                browser.size(width, min(tall, 2600))
            browser.picture(folder / f"{what}-{name}-{scheme}.png")


def main(folder: Path, photos: Path, image: Path | None = None) -> None:
    """Take all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    some = image or next(path for path in sorted(photos.rglob("*")) if path.suffix.lower() in (".jpg", ".png"))
    with tempfile.TemporaryDirectory() as place, browsing(Path(place)) as browser:
        with studio_at(Path(place) / "empty") as studio:
            look(browser, studio, folder, "empty")
        with studio_at(Path(place) / "work", photos) as studio:
            studio.settled()
            look(browser, studio, folder, "taught", some.resolve())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
