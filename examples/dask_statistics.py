"""One fit on Dask: every task writes the statistics of its part of the data, and `yoro merge` adds the parts up.

    pip install dask distributed
    python dask_statistics.py photos/ parts/ mine.yoro --parts 8 [--scheduler tcp://head:8786]

Without --scheduler it starts two workers on this machine. The data and the folder of the parts must be visible to all
workers under the same path, or be URLs. A part that is there already is not read again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def read_part(data: str, part: int, of: int, out: str) -> str:
    """The statistics of one part of the data, as a file."""
    words = ["stats", data, "--part", f"{part}/{of}", "--out", out, "--resume", "--quiet"]
    done = subprocess.run([sys.executable, "-m", "yoro", *words], capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: some images could not be read, and are listed
        raise RuntimeError(done.stderr.strip())
    return out


def main() -> None:
    """Spread the parts, then merge them."""
    from dask.distributed import Client

    parser = argparse.ArgumentParser(description="Fit a classifier on Dask.")
    parser.add_argument("data")
    parser.add_argument("folder", type=Path)
    parser.add_argument("model")
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--scheduler")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    files = [str(given.folder / f"{part}.stats") for part in range(1, given.parts + 1)]
    local = {} if given.scheduler else {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with Client(given.scheduler, **local) as client:
        tasks = [
            client.submit(read_part, given.data, part, given.parts, file, pure=False)
            for part, file in enumerate(files, 1)
        ]
        client.gather(tasks)
    subprocess.run([sys.executable, "-m", "yoro", "merge", *files, "--out", given.model], check=True)


if __name__ == "__main__":
    main()
