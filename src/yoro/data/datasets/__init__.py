"""The datasets of the bench: found in whatever layout they were unpacked, counted, and never guessed."""

from yoro.data.datasets.contract import BenchDataset, Found
from yoro.data.datasets.drawing import Drawn, draw, draw_published
from yoro.data.datasets.places import data_roots
from yoro.data.datasets.pointing import find_at
from yoro.data.datasets.registry import DATASETS, find_bench_dataset

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
