"""Images: found, decoded, split and handed on in batches; broken files are named, never fatal."""

from yoro.data.decoding import decode, digest
from yoro.data.duplicates import Duplicate, Duplicates, find_duplicates
from yoro.data.examples import Dataset, Example
from yoro.data.finding import find
from yoro.data.geometry import Geometry
from yoro.data.loading import Batch, OnePass, default_workers, load
from yoro.data.splits import describe_hold_out, few_shot, hold_out

__all__ = [
    "Batch",
    "Dataset",
    "Duplicate",
    "Duplicates",
    "Example",
    "Geometry",
    "OnePass",
    "decode",
    "default_workers",
    "describe_hold_out",
    "digest",
    "few_shot",
    "find",
    "find_duplicates",
    "hold_out",
    "load",
]
