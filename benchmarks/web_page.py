"""How long a stranger waits for the exported page: to its first answer, over a line of 20 Mbit/s, in real Chromium.

`python web_page.py SITE PHOTO` opens a folder that `yoro export --web` wrote, three times, each in a browser that has
never seen it, and once more without its server. The file server compresses nothing.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser import Page, browser, served

LINE = {
    "offline": False,
    "latency": 20,
    "downloadThroughput": 2.5e6,
    "uploadThroughput": 2.5e6,
}  # milliseconds, bytes/s
ROUNDS = 3
READY = "document.documentElement.dataset.state === 'ready'"


def first_answer(page: Page, address: str, photo: Path) -> tuple[float, float]:
    """Seconds until the page is ready, and until it has answered a photo that is given to it then."""
    start = time.perf_counter()
    page.open(address)
    page.until(READY)
    ready = time.perf_counter() - start
    page.give("#files", [photo])
    page.until("document.querySelectorAll('#list .bars').length === 1")
    return ready, time.perf_counter() - start


def main(site: Path, photo: Path) -> None:
    files = {file.name: file.stat().st_size for file in site.iterdir() if not file.name.endswith(".txt")}
    total = sum(files.values())
    print(f"{total / 1e6:.1f} MB in all, {total / LINE['downloadThroughput']:.1f} s of the line alone")
    for number in range(ROUNDS):
        with browser() as page:
            page.throttle(LINE)
            with served(site) as address:
                ready, answer = first_answer(page, address, photo)
                print(f"round {number + 1}: ready after {ready:.1f} s, first answer after {answer:.1f} s", flush=True)
                page.until("document.getElementById('offline').textContent !== ''")
            if number == ROUNDS - 1:
                ready, answer = first_answer(page, address, photo)
                print(f"again, without its server: first answer after {answer:.1f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
