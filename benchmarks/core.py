"""The core's budget: statistics, six shrinkages, leave-one-out, low rank and memory, each beside its peer."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from timing import medians, peak_memory, print_machine, print_table
from yoro import ResponseStatistics
from yoro.discriminant.leave_one_out import LeaveOneOut
from yoro.discriminant.reservoir import Members
from yoro.discriminant.selection import PAPER_GRID, Evidence, by_leave_one_out
from yoro.discriminant.shrinkage import dense_spectrum, low_rank_spectrum
from yoro.discriminant.solve import solve_path

CLASSES = 100


def data(n: int, width: int, classes: int = CLASSES) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % classes
    means = rng.normal(size=(classes, width))
    responses = rng.normal(size=(n, width)) + means[labels]
    return responses, np.array([f"class {i:03d}" for i in labels])


def statistics_of(responses: np.ndarray, labels: np.ndarray, batch: int) -> ResponseStatistics:
    statistics = ResponseStatistics()
    for i in range(0, len(labels), batch):
        statistics.update(responses[i : i + batch], labels[i : i + batch])
    return statistics


def bare_product(responses: np.ndarray, batch: int) -> np.ndarray:
    total = np.zeros((responses.shape[1],) * 2)
    for i in range(0, len(responses), batch):
        block = responses[i : i + batch]
        total += block.T @ block
    return total


def bench_statistics() -> None:
    rows = []
    for n, width in [
        (1000, 128),
        (10_000, 128),
        (100_000, 128),
        (1000, 1000),
        (10_000, 1000),
        (50_000, 1000),
        (10_000, 2048),
    ]:
        responses, labels = data(n, width)
        batch = min(n, 2048)
        ours, bare = medians(
            lambda: statistics_of(responses, labels, batch), lambda: bare_product(responses, batch), repeats=5
        )
        rows.append([f"{n:,}", f"{width}", f"{batch}", f"{ours:.3f}", f"{bare:.3f}", f"{bare / ours:.2f}"])
    print_table(
        "Statistics update against the bare float64 product of the same shapes (bar: at least 0.7)",
        ["n", "width", "batch", "ours (s)", "bare (s)", "bare / ours"],
        rows,
    )


def bench_shrinkages() -> None:
    rows = []
    for n, width, repeats in [(1000, 128, 5), (10_000, 512, 3), (50_000, 1000, 3)]:
        responses, labels = data(n, width)

        def ours() -> None:
            statistics = statistics_of(responses, labels, 2048)
            solve_path(statistics, dense_spectrum(statistics), PAPER_GRID)

        def peer() -> None:
            for rho in PAPER_GRID:
                LinearDiscriminantAnalysis(solver="lsqr", shrinkage=rho).fit(responses, labels)

        mine, theirs = medians(ours, peer, repeats=repeats)
        rows.append([f"{n:,}", f"{width}", f"{mine:.3f}", f"{theirs:.2f}", f"{theirs / mine:.1f}"])
    print_table(
        "Six shrinkages, fit and solve, against six fits of scikit-learn's LDA, lsqr (bar: 10 at 50,000 x 1000)",
        ["n", "width", "ours (s)", "scikit-learn (s)", "times faster"],
        rows,
    )


def bench_leave_one_out() -> None:
    rows = []
    for n, width in [(1000, 128), (2000, 1000), (8192, 1000)]:
        responses, labels = data(n, width)
        statistics = statistics_of(responses, labels, 2048)
        members = Members(responses, labels, np.array([""] * n), np.ones(n))
        spectrum = dense_spectrum(statistics)
        left_out = LeaveOneOut(statistics, spectrum, members)
        one, choice = medians(
            lambda: left_out.scores(0.1), lambda: by_leave_one_out(Evidence(statistics, spectrum, members)), repeats=3
        )
        rows.append([f"{n:,}", f"{width}", f"{one:.3f}", f"{choice:.2f}"])
    print_table(
        "Exact leave-one-out: one shrinkage, and the whole choice among 17 with temperatures",
        ["responses", "width", "one (s)", "choice (s)"],
        rows,
    )


def bench_low_rank() -> None:
    rows = []
    for classes, sentences, dimension in [
        (37, 5, 512),
        (37, 20, 512),
        (37, 60, 512),
        (101, 20, 512),
        (397, 20, 512),
        (397, 20, 1024),
    ]:
        rng = np.random.default_rng(0)
        texts = rng.normal(size=(classes * sentences, dimension))
        vectors, labels = data(16 * classes, dimension, classes)
        statistics = statistics_of(vectors, labels, 2048)

        def low() -> None:
            solve_path(statistics, low_rank_spectrum(statistics, texts, 100.0), PAPER_GRID)

        seconds = f"{medians(low, repeats=3)[0]:.2f}"
        dense = "-"
        if classes * sentences <= 2300:
            responses = 100.0 * vectors @ texts.T

            def explicit() -> None:
                explicit_statistics = statistics_of(responses, labels, 2048)
                solve_path(explicit_statistics, dense_spectrum(explicit_statistics), PAPER_GRID)

            dense = f"{medians(explicit, repeats=1)[0]:.2f}"
        rows.append([f"{classes}", f"{sentences}", f"{dimension}", f"{classes * sentences:,}", seconds, dense])
    print_table(
        "Low rank: six shrinkages on classes x sentences responses; the dense path beside it where it fits",
        ["classes", "sentences", "dimension", "response width", "low rank (s)", "dense (s)"],
        rows,
    )


def bench_memory() -> None:
    rows, peaks = [], []
    with tempfile.TemporaryDirectory() as folder:
        for n in (10_000, 100_000):
            file = Path(folder) / f"{n}.npz"
            rng = np.random.default_rng(0)
            responses = rng.normal(size=(n, 500)).astype(np.float32)
            np.savez(file, responses=responses, labels=np.arange(n) % 50)
            del responses
            peaks.append(peak_memory(f"import yoro; yoro.fit({str(file)!r})"))
            rows.append([f"{n:,}", f"{file.stat().st_size / 2**20:.0f}", f"{peaks[-1]:.0f}"])
    print_table(
        f"Peak memory of fitting a response file of width 500 (bar: equal within 5 %; ratio {peaks[1] / peaks[0]:.3f})",
        ["n", "file (MB)", "peak (MB)"],
        rows,
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print_machine()
    for bench in (bench_statistics, bench_shrinkages, bench_leave_one_out, bench_low_rank, bench_memory):
        bench()
