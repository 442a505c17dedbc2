"""The cache directory, with text vectors and graphs: a model encodes every sentence once, a graph is built once."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path
from tqdm import tqdm

from yoro.discriminant.readings import Layout
from yoro.errors import InputError, SourceError, StoreError
from yoro.files.atomic import drafted_file, write_file
from yoro.files.tensors import Arrays, Metadata, pack_tensors, parse_tensors
from yoro.sources.protocol import Responses

TEXTS, GRAPH = "yoro-text-vectors", "yoro-graph"
MOST_GRAPHS = 16  # of 20 MB
PRIVATE = 0o600  # mode of what is written
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
    vectors = _read(file, TEXTS)[0].get("vectors")
    if vectors is None or vectors.shape != (len(unique), dimension) or vectors.dtype != np.float32:
        parts = []
        with tqdm(total=len(unique), desc="sentences", disable=None if progress else True, leave=False) as bar:
            for start in range(0, len(unique), SENTENCES_PER_STEP):
                parts.append(encode(unique[start : start + SENTENCES_PER_STEP]))
                bar.update(len(parts[-1]))
        vectors = np.concatenate(parts)
        _write(file, {"vectors": vectors}, {"kind": TEXTS})
    place = {sentence: i for i, sentence in enumerate(unique)}
    return vectors[[place[sentence] for sentence in sentences]].astype(np.float32, copy=False)


def cached_graph(key: str, build: Callable[[], tuple[bytes, Layout]]) -> tuple[bytes, Layout]:
    """A graph and the layout of its responses, from the cache or built now.

    The file has a digest of both, so that one that was damaged is not used. The oldest files make room for new ones.
    """
    file = graphs_directory() / f"{key}.safetensors"
    arrays, said = _read(file, GRAPH)
    graph = arrays.get("graph", np.empty(0, np.uint8)).tobytes()
    if said.get("digest") == _digest(graph, said.get("layout")):
        with suppress(InputError):
            return graph, Layout.from_config(said.get("layout"))
    graph, layout = build()
    said = {"kind": GRAPH, "layout": layout.config(), "digest": _digest(graph, layout.config())}
    _write(file, {"graph": np.frombuffer(graph, np.uint8)}, said)
    with suppress(OSError):  # another process makes room too
        for old in sorted(file.parent.glob("*.safetensors"), key=lambda path: path.stat().st_mtime)[:-MOST_GRAPHS]:
            old.unlink()
    return graph, layout


def graphs_directory() -> Path:
    """Where the graphs are; not created here."""
    return cache_directory() / "graphs"


def _digest(graph: bytes, layout: object) -> str:
    digest = hashlib.sha256(json.dumps(layout, sort_keys=True).encode())
    digest.update(graph)
    return digest.hexdigest()


def _read(file: Path, kind: str) -> tuple[Arrays, Metadata]:
    """What is in a file of the cache: nothing if it is missing or damaged, or another user may have written it."""
    with suppress(OSError, StoreError):
        if file.is_file():
            with file.open("rb") as stream:
                if _is_ours(os.fstat(stream.fileno())):
                    return parse_tensors(stream.read(), kind, str(file))
    return {}, {}


def _is_ours(found: os.stat_result) -> bool:
    """Whether nobody but this user and the system's administrator can write to a file."""
    return sys.platform == "win32" or (found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022)


def _write(file: Path, arrays: Arrays, said: Metadata) -> None:
    """Write a file of the cache for this user alone, if it can be written: without it, all only takes longer."""
    with suppress(OSError, StoreError):
        file.parent.mkdir(0o700, parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # a file that replaces another would take its mode
        with drafted_file(file) as draft:
            draft.chmod(PRIVATE)
            draft.write_bytes(pack_tensors(arrays, said))


def cache_directory() -> Path:
    """`$YORO_CACHE`, else the user's cache directory of the platform; not created here.

    Where no home is known it is a place that cannot be: never one below the working directory.
    """
    own = os.environ.get("YORO_CACHE")
    with suppress(RuntimeError):
        return (Path(own) if own else user_cache_path("yoro", appauthor=False)).expanduser()
    return Path(os.devnull) / "yoro"


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
