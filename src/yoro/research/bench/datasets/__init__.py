"""The datasets of the bench: found in whatever layout they were unpacked, and checked by their counts."""

from yoro.research.bench.datasets.bench_datasets import DATASETS, find_at, find_bench_dataset
from yoro.research.bench.datasets.dataset import BenchDataset, Found
from yoro.research.bench.datasets.drawing import Drawn, draw, draw_published
from yoro.research.bench.datasets.finding import data_roots

__all__ = [
    "DATASETS",
    "BenchDataset",
    "Drawn",
    "Found",
    "data_roots",
    "draw",
    "draw_published",
    "find_at",
    "find_bench_dataset",
]
