"""To choose and to solve: seconds and peak memory over examples and classes, with made-up responses as the default's.

With --million: a million made-up examples of ten thousand classes, gathered and solved in bounded memory. With
--imagenet: logits of ImageNet's size, 1,281,167 of 1,000 classes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator

import numpy as np

from timing import print_machine, print_table
from yoro.data.responses import ResponseBatch
from yoro.discriminant.readings import Layout, Reading
from yoro.environment import peak_memory
from yoro.mappings.batches import row_digests
from yoro.model.answers import left_out_evaluation
from yoro.model.gathered import Gathered
from yoro.model.model import Origin
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import PipelineSettings, SolveSettings
from yoro.model.solve import solve

NARROW = {"responses": 32}
NARROW_CASES = [(1_000, 500), (2_000, 1_000), (4_000, 2_000), (20_000, 10_000)]  # examples, classes
CASES = [(592, 37), (2_000, 50), (2_000, 102), (10_000, 1_000), (50_000, 100), (20_000, 10_000)]
MILLION = (NARROW, 1_000_000, 10_000)
IMAGENET = ({"logits": 1000}, 1_281_167, 1_000)
COLUMNS = ["width", "readings", "n", "classes", "gather", "solve", "its CPU", "report", "CPU", "before", "peak"]
COLUMNS += ["accuracy", "on"]
TOGETHER = 1024  # examples that are added at once


def usual_readings() -> dict[str, int]:
    """What the default reads of an image: names and widths."""
    return {reading.name: reading.width for reading in make_pipeline(PipelineSettings()).layout.readings}


def batches(n: int, width: int, classes: int) -> Iterator[ResponseBatch]:
    """Made-up responses of classes that overlap a little; every class has its share."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((classes, width), dtype=np.float32)
    means *= 6 / width**0.25
    codes = rng.permutation(np.arange(n) % classes)
    for start in range(0, n, TOGETHER):
        mine = codes[start : start + TOGETHER]
        responses = means[mine] + rng.standard_normal((len(mine), width), dtype=np.float32)
        names = [str(start + i) for i in range(len(mine))]
        yield ResponseBatch(responses, [f"class {c:05d}" for c in mine.tolist()], None, row_digests(responses), names)


def measured(readings: dict[str, int], n: int, classes: int) -> dict[str, float]:
    """Seconds to gather, and to choose and solve; leave-one-out accuracy; peak memory in MB of this process."""
    layout = Layout(tuple(Reading(name, width) for name, width in readings.items()))
    gathered, gathering, busy = Gathered.empty(SolveSettings.reservoir, 0, layout), 0.0, 0.0
    for batch in batches(n, layout.width, classes):
        began, worked = time.perf_counter(), time.process_time()
        gathered.add([batch])
        gathering, busy = gathering + time.perf_counter() - began, busy + time.process_time() - worked
    before, began, worked = peak_memory(), time.perf_counter(), time.process_time()
    model = solve(gathered, SolveSettings(), Origin())
    solving, chosen = time.perf_counter() - began, time.process_time() - worked
    found = left_out_evaluation(model)
    return {
        "gather": gathering, "solve": solving, "report": time.perf_counter() - began - solving, "before": before,
        "cpu": busy + chosen, "solve cpu": chosen, "peak": peak_memory(),
        "accuracy": found.accuracy if found else float("nan"), "on": found.n if found else 0,
    }  # fmt: skip


def in_a_fresh_process(readings: dict[str, int], n: int, classes: int) -> dict[str, float]:
    """`measured` where nothing was allocated before."""
    asked = json.dumps([readings, n, classes])
    done = subprocess.run([sys.executable, __file__, "--case", asked], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def bench(cases: list[tuple[dict[str, int], int, int]]) -> None:
    rows = []
    for readings, n, classes in cases:
        found = in_a_fresh_process(readings, n, classes)
        rows.append([
            f"{sum(readings.values()):,}", f"{len(readings)}", f"{n:,}", f"{classes:,}", f"{found['gather']:.1f}",
            f"{found['solve']:.1f}", f"{found['solve cpu']:.1f}", f"{found['report']:.1f}", f"{found['cpu']:.1f}",
            f"{found['before']:,.0f}", f"{found['peak']:,.0f}", f"{found['accuracy']:.3f}", f"{found['on']:,.0f}",
        ])  # fmt: skip
        print(".", end="", file=sys.stderr, flush=True)
    print_table(
        "Seconds to gather, to choose and solve (its CPU seconds beside), and to report; CPU seconds of the first two; "
        "peak memory (MB) before and in all; leave-one-out",
        COLUMNS,
        rows,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--million", action="store_true", help="a million examples of ten thousand classes instead")
    parser.add_argument("--imagenet", action="store_true", help="logits of ImageNet's size instead")
    parser.add_argument("--narrow", action="store_true", help="only the cases of width 32")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.case:
        print(json.dumps(measured(*json.loads(given.case))))
    else:
        print_machine()
        cases = [(NARROW, *case) for case in NARROW_CASES]
        cases += [] if given.narrow else [(usual_readings(), *case) for case in CASES]
        bench([MILLION] if given.million else [IMAGENET] if given.imagenet else cases)
