"""The studio after a drop: how long until the first answer with the photo, and until everything is chosen anew.

By the clock, and by the seconds that its process computed meanwhile, which a busy machine changes less. News is waited
for as a page does. With `--folder`, of photos in a folder per class; else of crops of two photographs. With `--keep`,
a second run need not read the photos again.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx

from images import write_photos
from timing import print_machine, print_table

API = "/studio/api"
DROPS = 5


@contextmanager
def studio(work: Path, *folders: Path) -> Iterator[tuple[httpx.Client, int]]:
    """`yoro studio` with folders of photos, and the number of its process, until the end of the block."""
    command = [sys.executable, "-m", "yoro", "studio", *map(str, folders), "--work", str(work), "--port", "0"]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stderr=log)
        try:
            address = None
            while address is None:
                time.sleep(0.1)
                log.seek(0)
                address = re.search(r"http://127.0.0.1:\d+", log.read())
                assert process.poll() is None, "the studio ended"
            with httpx.Client(base_url=address[0], timeout=600, trust_env=False) as client:
                yield client, process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def state(client: httpx.Client, after: object = -1) -> dict[str, object]:
    """The state, as soon as it is another one than that of a version."""
    return client.get(f"{API}/state", params={"after": after}).json()  # type: ignore[no-any-return]


def settle(client: httpx.Client) -> dict[str, object]:
    """The state, once everything is learned."""
    now = state(client)
    while not now["settled"] or not now["judged"]:
        now = state(client, now["version"])
    return now


def computed(process: int) -> float:
    """Seconds that a process has computed (Linux)."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def drop(client: httpx.Client, process: int, photo: Path) -> tuple[float, ...]:
    """Seconds from the drop of a photo to the first answer with it, and until it is settled; and those computed."""
    began, busy = time.perf_counter(), computed(process)
    form = [("files", (photo.name, photo.read_bytes(), "image/jpeg"))]
    client.post(f"{API}/photos", params={"belongs": 1}, files=form).raise_for_status()
    first, now = None, state(client)
    while not now["settled"]:
        if first is None and now.get("answered") == now["revision"]:
            first = time.perf_counter() - began, computed(process) - busy
        now = state(client, now["version"])
    took = time.perf_counter() - began, computed(process) - busy
    return *(first or took), *took


def prepared(place: Path, make: Callable[[Path], object]) -> None:
    """A folder of photos, a few of them apart, and a work folder in which the others are learned; made once."""
    if (place / "work").exists():
        return
    make(place / "photos")
    photos = sorted((place / "photos").rglob("*.jpg"))
    (place / "late").mkdir()
    for i, photo in enumerate(photos[:: len(photos) // DROPS][:DROPS]):
        photo.rename(place / "late" / f"{i}.jpg")
    with studio(place / "new", place / "photos") as (client, _):
        settle(client)
    (place / "new").rename(place / "work")


def measured(place: Path) -> list[str]:
    """A row of the table for what was prepared: the photos that are apart are dropped one by one."""
    with tempfile.TemporaryDirectory() as temporary:
        shutil.copytree(place / "work", work := Path(temporary) / "work")
        with studio(work) as (client, process):
            before, times = settle(client), []
            for photo in sorted((place / "late").iterdir()):
                times.append(drop(client, process, photo))
                settle(client)
    medians = [f"{1e3 * statistics.median(part):.0f}" for part in zip(*times, strict=True)]
    classes = before["classes"]
    assert isinstance(classes, list)
    return [f"{before['photos']}", f"{len(classes)}", *medians]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="*", default=[100, 740, 2000], help="of photos")
    parser.add_argument("--classes", type=int, default=50, help="of photos")
    parser.add_argument("--folder", type=Path, help="of photos, instead")
    parser.add_argument("--keep", type=Path, help="keep the photos and the work there, for another time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        top = given.keep or Path(temporary)
        if given.folder is None:
            write = partial(write_photos, width=240, height=240, classes=given.classes)
            makers = {top / f"{count}": partial(write, count=count) for count in given.counts}
        else:
            makers = {top / given.folder.name: lambda place: shutil.copytree(given.folder, place)}
        for place, make in makers.items():
            place.mkdir(parents=True, exist_ok=True)
            prepared(place, make)
        print_machine()
        rows = [measured(place) for place in makers]
    print_table(
        f"The studio after the drop of one photo, median of {DROPS} drops",
        ["photos", "classes", "first answer (ms)", "computed (ms)", "settled (ms)", "computed (ms)"],
        rows,
    )
