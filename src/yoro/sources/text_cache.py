"""Text vectors, kept in the cache: sentences are encoded once for a model, not once for a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

import numpy as np
from tqdm import tqdm

from yoro.errors import StoreError
from yoro.files.cache import cache_directory
from yoro.files.tensors import read_tensors, write_tensors
from yoro.sources.contract import Responses

KIND = "yoro-text-vectors"
TOGETHER = 256  # sentences between two steps of the progress bar


def cached_vectors(
    digest: str,
    sentences: Sequence[str],
    dimension: int,
    encode: Callable[[Sequence[str]], Responses],
    *,
    progress: bool = False,
) -> Responses:
    """Vectors (n, dimension) of the sentences under the model of that digest; a repeated sentence is encoded once."""
    unique = list(dict.fromkeys(sentences))
    key = hashlib.sha256(json.dumps([digest, *unique]).encode()).hexdigest()
    file = cache_directory() / "texts" / f"{key}.safetensors"
    vectors = None
    if file.is_file():
        try:
            vectors = read_tensors(file, KIND)[0].get("vectors")
        except (StoreError, ValueError):
            vectors = None  # damaged: made anew
    if vectors is None or vectors.shape != (len(unique), dimension) or vectors.dtype != np.float32:
        parts = []
        with tqdm(total=len(unique), desc="sentences", disable=None if progress else True, leave=False) as bar:
            for start in range(0, len(unique), TOGETHER):
                parts.append(encode(unique[start : start + TOGETHER]))
                bar.update(len(parts[-1]))
        vectors = np.concatenate(parts)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_tensors(file, {"vectors": vectors}, {"kind": KIND})
        except (OSError, StoreError):
            pass  # without a cache it is only slower
    place = {sentence: i for i, sentence in enumerate(unique)}
    return vectors[[place[sentence] for sentence in sentences]].astype(np.float32, copy=False)
