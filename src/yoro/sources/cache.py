"""The cache directory, and the text vectors in it: a model encodes every sentence once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path
from tqdm import tqdm

from yoro.errors import SourceError, StoreError
from yoro.files.atomic import write_file
from yoro.files.tensors import read_tensors, write_tensors
from yoro.sources.protocol import Responses

KIND = "yoro-text-vectors"
SENTENCES_PER_STEP = 256  # of the progress bar


def cached_vectors(
    digest: str,
    sentences: Sequence[str],
    dimension: int,
    encode: Callable[[Sequence[str]], Responses],
    *,
    progress: bool = False,
) -> Responses:
    """Vectors (n, dimension) of the sentences, from the cache or encoded now by the model with that digest."""
    unique = list(dict.fromkeys(sentences))
    key = hashlib.sha256(json.dumps([digest, *unique]).encode()).hexdigest()
    file = cache_directory() / "texts" / f"{key}.safetensors"
    vectors = None
    if file.is_file():
        try:
            vectors = read_tensors(file, KIND)[0].get("vectors")
        except (StoreError, ValueError):
            vectors = None  # damaged: encoded again
    if vectors is None or vectors.shape != (len(unique), dimension) or vectors.dtype != np.float32:
        parts = []
        with tqdm(total=len(unique), desc="sentences", disable=None if progress else True, leave=False) as bar:
            for start in range(0, len(unique), SENTENCES_PER_STEP):
                parts.append(encode(unique[start : start + SENTENCES_PER_STEP]))
                bar.update(len(parts[-1]))
        vectors = np.concatenate(parts)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_tensors(file, {"vectors": vectors}, {"kind": KIND})
        except (OSError, StoreError):
            pass  # it only takes longer without a cache
    place = {sentence: i for i, sentence in enumerate(unique)}
    return vectors[[place[sentence] for sentence in sentences]].astype(np.float32, copy=False)


def cache_directory() -> Path:
    """`$YORO_CACHE`, else the user's cache directory of the platform; not created here."""
    own = os.environ.get("YORO_CACHE")
    return Path(own).expanduser() if own else user_cache_path("yoro", appauthor=False)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that another process sees all of it or none."""
    with writing_cache(f"the cache {str(path.parent)!r}", "Set YORO_CACHE to another directory."):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, data)


@contextmanager
def writing_cache(cache: str, advice: str) -> Iterator[None]:
    """Turn the system's errors into one that names the cache."""
    try:
        yield
    except (OSError, StoreError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        reason = cause.strerror if isinstance(cause, OSError) else error
        raise SourceError(f"Cannot write to {cache}: {reason}. {advice}") from error
