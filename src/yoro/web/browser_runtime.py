"""The runtime of the page: ONNX Runtime's WebAssembly build, as npm installs it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from yoro import limits
from yoro.errors import InputError

PACKAGE = Path("node_modules", "onnxruntime-web")
FILES = {"ort.js": "ort.wasm.bundle.min.mjs", "ort.wasm": "ort-wasm-simd-threaded.wasm"}  # ours: the package's


@dataclass(frozen=True)
class Runtime:
    """The files to copy by their new names, and their version."""

    files: dict[str, Path]
    version: str


def find_runtime(folder: Path | None = None) -> Runtime:
    """The runtime in a folder, or in `node_modules` of the working directory or one above it."""
    if folder is not None:
        places = [folder, folder / "dist", folder / PACKAGE.name / "dist", folder / PACKAGE / "dist"]
    else:
        here = Path.cwd()
        places = [above / PACKAGE / "dist" for above in (here, *here.parents)]
    for place in places:
        files = {ours: place / theirs for ours, theirs in FILES.items()}
        if all(file.is_file() for file in files.values()):
            return Runtime({ours: _checked(file) for ours, file in files.items()}, _version(place.parent))
    where = f"in {folder}" if folder else "in node_modules here or in a folder above"
    raise InputError(
        f"The page needs onnxruntime-web, which was not found {where}: {' and '.join(FILES.values())} are missing. "
        "Install it with `npm install onnxruntime-web`, or name its folder with --runtime."
    )


def _checked(file: Path) -> Path:
    if file.stat().st_size > limits.WEB_RUNTIME_BYTES:
        raise InputError(f"{file} has {file.stat().st_size:,} bytes; expected at most {limits.WEB_RUNTIME_BYTES:,}.")
    return file


def _version(package: Path) -> str:
    """The version that the package declares, for information only."""
    try:
        with (package / "package.json").open("rb") as file:
            said = json.loads(file.read(limits.WEB_PACKAGE_BYTES))
        return str(said["version"])[:40]
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"
