"""A soak: the service under load, and a classifier that is updated and made to forget again and again.

Both are bounded by seconds and by a number of requests or changes. Memory and errors are sampled on the way, and drawn
as curves at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from images import write_photos
from service import Server, ask, post, serving
from timing import print_machine, print_table, resident_memory
from yoro.fit import fit
from yoro.model.model import Model

CLIENTS = 8
BROKEN = 20  # every so many requests one is no image, and must be refused
LOOK = 0.25  # seconds between two samples
BLOCK = 40  # examples that one change moves
CHECKED = 10  # changes between two comparisons with a fit afresh


@dataclass
class Curves:
    """What was sampled: seconds since the start, memory in MB, and errors so far, or how far from a fit afresh."""

    seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    done: int = 0

    def add(self, began: float, memory: float, error: float) -> None:
        self.seconds.append(time.perf_counter() - began)
        self.memory.append(memory)
        self.errors.append(error)

    def growth(self) -> float:
        """Memory of the last quarter against that of the second, by their medians."""
        quarter = max(1, len(self.memory) // 4)
        before, after = self.memory[quarter : 2 * quarter] or self.memory, self.memory[-quarter:]
        return float(np.median(after) / np.median(before))


async def load(server: Server, requests: list[bytes], seconds: float, most: int) -> tuple[Curves, Counter[str]]:
    """Clients that ask for so long, or so often; a status that was not to be expected is an error."""
    curves, wrong = Curves(), Counter[str]()
    broken, began = post("/v1/predict", b"no image at all"), time.perf_counter()

    def over() -> bool:
        return time.perf_counter() - began >= seconds or curves.done >= most

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        while not over():
            curves.done += 1
            turn = curves.done
            request, expected = (broken, 4) if turn % BROKEN == 0 else (requests[turn % len(requests)], 2)
            status = await ask(reader, writer, request)
            if status // 100 != expected:
                wrong[str(status)] += 1
        writer.close()

    async def look() -> None:
        while not over():
            curves.add(began, server.memory(), wrong.total())
            await asyncio.sleep(LOOK)

    await asyncio.gather(look(), *(client() for _ in range(CLIENTS)))
    return curves, wrong


def soak_service(seconds: float, most: int) -> tuple[Curves, Counter[str]]:
    """The service, started as a user starts it, under load."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_photos(Path(temporary) / "photos", 80, 400, 300)
        fit(folder, workers=0).save(Path(temporary) / "m.yoro")
        requests = [post("/v1/predict", path.read_bytes()) for path in sorted(folder.rglob("*.jpg"))]
        with serving(Path(temporary) / "m.yoro") as server:
            asyncio.run(load(server, requests, seconds, 4 * CLIENTS))  # until nothing happens for the first time
            return asyncio.run(load(server, requests, seconds, most))


def difference(one: Model, two: Model) -> float:
    """The largest between two mappings, relative to their largest number."""
    size = max(1.0, float(np.abs(two.mapping.weights).max()), float(np.abs(two.mapping.bias).max()))
    weights = np.abs(one.mapping.weights - two.mapping.weights).max()
    return float(max(weights, np.abs(one.mapping.bias - two.mapping.bias).max())) / size


def soak_changes(seconds: float, most: int) -> Curves:
    """One classifier, updated and made to forget; at times compared with a fit afresh of what it then holds."""
    rng, curves = np.random.default_rng(0), Curves()
    responses, labels = load_digits(return_X_y=True)
    labels = labels.astype(str)
    blocks = [np.arange(i, i + BLOCK) for i in range(0, len(labels) - BLOCK, BLOCK)]
    held = set(range(len(blocks) // 2))
    half = np.concatenate([blocks[i] for i in sorted(held)])
    # Fewer responses are kept than there are, so that statistics are subtracted and not summed anew.
    classifier = fit((responses[half], labels[half]), shrinkage=0.1, reservoir=200)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds and curves.done < most:
        chosen = int(rng.integers(len(blocks)))
        data = responses[blocks[chosen]], labels[blocks[chosen]]
        if chosen in held and len(held) > 2:
            classifier.forget(data)
            held.remove(chosen)
        elif chosen not in held:
            classifier.update(data)
            held.add(chosen)
        else:
            continue
        curves.done += 1
        if curves.done % CHECKED == 0:
            rows = np.concatenate([blocks[i] for i in sorted(held)])
            fresh = fit((responses[rows], labels[rows]), shrinkage=0.1, reservoir=200)
            curves.add(began, resident_memory(), difference(classifier.model, fresh.model))
    return curves


def draw(service: Curves, changes: Curves, path: Path) -> None:
    """Four curves on one page."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, places = plt.subplots(2, 2, figsize=(10, 6), constrained_layout=True)
    for column, (curves, name, error) in enumerate(
        [
            (service, "requests to the service", "errors so far"),
            (changes, "updates and forgets", "difference from a fit"),
        ]
    ):
        top, foot = places[0][column], places[1][column]
        top.plot(curves.seconds, curves.memory)
        top.set(title=f"{curves.done:,} {name}", ylabel="memory (MB)", ylim=(0, 1.2 * max(curves.memory)))
        foot.plot(curves.seconds, curves.errors)
        foot.set(xlabel="seconds", ylabel=error)
    places[1][0].set_ylim(-0.05, 1.05 + max(service.errors))
    places[1][1].set_yscale("log")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def bench(seconds: float, requests: int, changes: int, out: Path) -> bool:
    """Whether everything went as it should."""
    served, wrong = soak_service(seconds, requests)
    changed = soak_changes(seconds, changes)
    draw(served, changed, out)
    rows = [
        ["service", f"{served.done:,}", f"{served.seconds[-1]:.0f}", f"{served.memory[0]:.0f}",
         f"{served.memory[-1]:.0f}", f"{served.growth():.3f}", f"{wrong.total()} errors"],
        ["changes", f"{changed.done:,}", f"{changed.seconds[-1]:.0f}", f"{changed.memory[0]:.0f}",
         f"{changed.memory[-1]:.0f}", f"{changed.growth():.3f}", f"{max(changed.errors):.1e} from a fit"],
    ]  # fmt: skip
    print_table(
        f"A soak of {seconds:g} s each; growth: memory of the last quarter against the second "
        f"(bars: no errors, 1e-9 from a fit, growth under 1.05); curves in {out}",
        ["what", "done", "seconds", "memory, first (MB)", "last (MB)", "growth", "at most"],
        rows,
    )
    return not wrong and max(changed.errors) < 1e-9


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="of each of the two")
    parser.add_argument("--requests", type=int, default=1_000_000, help="at most, to the service")
    parser.add_argument("--changes", type=int, default=1_000_000, help="at most, to the classifier")
    parser.add_argument("--out", type=Path, default=Path("soak.png"), help="where the curves are drawn")
    given = parser.parse_args()
    print_machine()
    raise SystemExit(0 if bench(given.seconds, given.requests, given.changes, given.out) else 1)
