"""The studio after a drop: how long until the first answer with the photo, and until everything is chosen anew.

By the clock, and by the seconds that its process computed meanwhile, which a busy machine changes less. News is waited
for as a page does. With `--folder`, of photos in a folder per class; else of crops of two photographs.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from images import write_photos
from timing import print_machine, print_table

API = "/studio/api"
DROPS = 5


@contextmanager
def studio(folder: Path, work: Path) -> Iterator[tuple[httpx.Client, int]]:
    """`yoro studio` with a folder of photos, and the number of its process, until the end of the block."""
    command = [sys.executable, "-m", "yoro", "studio", str(folder), "--work", str(work), "--port", "0"]
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


def measured(folder: Path, temporary: Path) -> list[str]:
    """A row of the table for one folder of photos: some of them are dropped one by one."""
    photos = sorted(folder.rglob("*.jpg"))
    late = [
        photo.rename(temporary / f"late {i}.jpg") for i, photo in enumerate(photos[:: len(photos) // DROPS][:DROPS])
    ]
    with studio(folder, temporary / f"{folder.name} work") as (client, process):
        before = settle(client)
        times = []
        for photo in late:
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
    given = parser.parse_args()
    print_machine()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for count in given.counts if given.folder is None else [0]:
            folder = Path(place) / f"{count}"
            if given.folder is None:
                write_photos(folder, count, 240, 240, given.classes)
            else:
                shutil.copytree(given.folder, folder)
            rows.append(measured(folder, Path(place)))
    print_table(
        f"The studio after the drop of one photo, median of {DROPS} drops",
        ["photos", "classes", "first answer (ms)", "computed (ms)", "settled (ms)", "computed (ms)"],
        rows,
    )
