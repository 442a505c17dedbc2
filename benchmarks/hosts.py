"""Many images through a Ray cluster of several hosts, and the memory of every host over time.

The hosts are network namespaces of this machine, each with its own Ray node and folder; the images, crops of
photographs, lie as Parquet on an S3 server. Needs root, `ip` and `unshare`, and installs the server in the folder.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as arrow
from PIL import Image
from pyarrow import parquet

from timing import print_machine, print_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from cluster.hosts import BUCKET, PORT, Host, install_storage, lacking, network, serve_s3
from cluster.models import assert_same
from photos import PHOTOS, photograph
from yoro.cluster.tree import FAN_IN
from yoro.model.store import read_model

FILE = 10_000  # images of a Parquet file
SHARDS = f"s3://{BUCKET}/shards"
WATCH = f"""
import time
import s3fs
while True:
    names = s3fs.S3FileSystem(use_listings_cache=False).find("{BUCKET}/shards")
    print(*[name.rpartition("/")[2].partition("-")[0] for name in names if name.endswith(".stats")], flush=True)
    time.sleep(2)
"""


@dataclass(frozen=True)
class Moment:
    """How far the run was, and the memory of each host."""

    seconds: float
    images: int
    memory: list[float]  # MB


def crop(rng: np.random.Generator, name: str, side: int) -> bytes:
    """A JPEG of a random square of a photograph, of this side."""
    photo = photograph(name)
    size = int(rng.integers(side, min(photo.shape[:2])))
    top, left = (int(rng.integers(0, length - size + 1)) for length in photo.shape[:2])
    content = io.BytesIO()
    Image.fromarray(photo[top : top + size, left : left + size]).resize((side, side)).save(content, "JPEG", quality=88)
    return content.getvalue()


def write_images(folder: Path, count: int, side: int, block: int) -> Path:
    """Parquet files of crops in random order of classes; what is there already is kept."""
    names, target = sorted(PHOTOS), folder / f"images-{count}-{side}"
    if target.exists():
        return target
    draft = folder / "draft"
    draft.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for start in range(0, count, FILE):
        chosen = [names[i] for i in rng.integers(0, len(names), min(FILE, count - start))]
        table = arrow.table({"image": [crop(rng, name, side) for name in chosen], "label": chosen})
        parquet.write_table(table, draft / f"part-{start:09}.parquet", row_group_size=block, compression="none")
    return draft.rename(target)


def memory(host: Host) -> float:
    """MB of all processes of a host; what several share is divided among them."""
    total = 0
    for number in host.processes():
        try:
            lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
        except OSError:  # it ended
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1000


def watched(hosts: list[Host], run: subprocess.Popen[str], block: int, count: int, every: float) -> list[Moment]:
    """Looks at all hosts until a run ends."""
    *_, s3 = hosts
    began, moments = time.perf_counter(), list[Moment]()
    s3.start(sys.executable, "-c", WATCH, log="watch")
    ended = threading.Event()
    threading.Thread(target=lambda: (run.wait(), ended.set()), daemon=True).start()
    while not ended.wait(every):
        lines = (s3.folder / "watch").read_text().splitlines()
        done = sum(block * FAN_IN ** int(level) for level in lines[-1].split()) if lines else 0
        before = moments[-1].images if moments else 0
        seen = max(before, min(count, done))
        moments.append(Moment(time.perf_counter() - began, seen, [memory(host) for host in hosts]))
    return moments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--side", type=int, default=64, help="of the images and of the network's input")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--block", type=int, default=512)
    parser.add_argument("--read", default="features")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two looks")
    parser.add_argument("--folder", type=Path, required=True, help="kept: the images and the S3 server")
    chosen = parser.parse_args()
    if reason := lacking():
        sys.exit(reason)
    folder: Path = chosen.folder.absolute()
    images = write_images(folder, chosen.images, chosen.side, chosen.block)
    if not (folder / "packages").exists() and (problem := install_storage(folder / "packages")):
        sys.exit(problem)
    print_machine()
    words = ["--source", f"embedded:lite0?side={chosen.side}", "--read", chosen.read, "--ray-block", chosen.block]
    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place,
        network(Path(place), chosen.hosts, folder / "packages") as hosts,
    ):
        head, *others, s3 = hosts
        serve_s3(s3, *sorted(images.iterdir()))
        head.ray("--head", f"--port={PORT}", "--include-dashboard=false")
        for other in others:
            other.ray(f"--address={head.address}:{PORT}")
        print(f"{chosen.hosts} nodes and the images on S3: {time.perf_counter() - started:.0f} s", flush=True)
        fit = [
            sys.executable, "-m", "yoro", "fit", f"s3://{BUCKET}/part-*.parquet", "--out", "m.yoro", *words,
            "--ray", f"{head.address}:{PORT}", "--ray-storage", SHARDS,
        ]  # fmt: skip
        started = time.perf_counter()
        run = head.start(*fit, log="fit")
        moments = watched(hosts, run, chosen.block, chosen.images, chosen.every)
        seconds = time.perf_counter() - started
        print(head.said("fit"), flush=True)
        if run.returncode:
            sys.exit(run.returncode)
        model = read_model(head.folder / "m.yoro")
    report(moments, chosen.hosts, seconds, chosen.images)
    started = time.perf_counter()
    fit = [sys.executable, "-m", "yoro", "fit", images / "*.parquet", "--out", folder / "alone.yoro", "--force"]
    subprocess.run([str(word) for word in [*fit, *words]], check=True, stdout=subprocess.DEVNULL)
    print(f"One machine, one process: {time.perf_counter() - started:.0f} s", flush=True)
    assert_same(model, read_model(folder / "alone.yoro"))
    print("The same mapping, statistics, sample and ledger to 1e-9; no image twice.")


def report(moments: list[Moment], nodes: int, seconds: float, images: int) -> None:
    """The memory over time, and in each quarter of the images."""
    heads = ["head and driver, MB", *(f"node {number}, MB" for number in range(2, nodes + 1)), "S3 server, MB"]
    rows = [[f"{m.seconds:.0f}", f"{m.images:,}", *(f"{mb:,.0f}" for mb in m.memory)] for m in moments]
    print_table("Memory of every host (PSS) during the fit", ["seconds", "images", *heads], rows)
    quarters = []
    for quarter in range(4):
        low, high = quarter * images / 4, (quarter + 1) * images / 4
        found = [m.memory for m in moments if low < m.images <= high and m.images < images]  # later only sums are read
        if found:
            quarters.append([f"{quarter + 1}", *(f"{mb:,.0f}" for mb in np.mean(found, axis=0))])
    print_table("Mean in each quarter of the images", ["quarter", *heads], quarters)
    print(f"{images:,} images in {seconds:.0f} s, {images / seconds:.0f} a second.", flush=True)


if __name__ == "__main__":
    main()
