"""The runtime of the page: ONNX Runtime's WebAssembly build, which comes with this package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from yoro import limits
from yoro.errors import InputError

PACKAGE = Path("node_modules", "onnxruntime-web")
FILES = {"ort.js": "ort.wasm.bundle.min.mjs", "ort.packed": "ort-wasm-simd-threaded.wasm"}  # ours: the package's


# The npm package has neither text: the licence lies beside this module, the notices in the wheel of the same project.
LICENCES: dict[str, tuple[str, str]] = {  # ours: the package, and its name there
    "ort-license.txt": ("yoro.web", "ort-license.txt"),
    "ort-notices.txt": ("onnxruntime", "ThirdPartyNotices.txt"),
}


@dataclass(frozen=True)
class Runtime:
    """The files to copy by their new names, and their version."""

    files: dict[str, Path]
    version: str


def find_runtime(folder: Path | None = None) -> Runtime:
    """The runtime in a folder; by default the one in this package, or in `node_modules` here or in a folder above."""
    if folder is not None:
        places = [folder, folder / "dist", folder / PACKAGE.name / "dist", folder / PACKAGE / "dist"]
    else:
        here = Path.cwd()
        own = Path(str(files("yoro.web"))) / "engine" / "dist"  # put there by hatch_build.py
        places = [own, *(above / PACKAGE / "dist" for above in (here, *here.parents))]
    for place in places:
        found = {ours: place / theirs for ours, theirs in FILES.items()}
        if all(file.is_file() for file in found.values()):
            return Runtime({ours: _checked(file) for ours, file in found.items()}, _version(place.parent))
    if folder is not None:
        raise InputError(f"{folder} lacks {' or '.join(FILES.values())}; expected the folder of onnxruntime-web.")
    raise InputError(
        "This copy of yoro was built without the browser's runtime, because npm's packages could not be reached then. "
        "Install yoro again with a network, or run `npm install onnxruntime-web` here."
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
