"""Builds wheel and sdist into dist/, and uses both as a stranger would: `make release`. Nothing is uploaded."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
SCRIPTS = "Scripts" if sys.platform == "win32" else "bin"
NEEDED = (
    "src/yoro/py.typed",
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "pyproject.toml",
    "hatch_build.py",
    "tests/conftest.py",
    "src/yoro/web/engine/dist/ort-wasm-simd-threaded.wasm",
)
UNWANTED = ("node_modules", ".venv", "__pycache__", ".git/")
OUTPUT = ("dist/", "build/")  # at the top; the engine of the web page has a folder dist as well
LARGEST = 10 * 2**20  # bytes; weights and results do not belong into a package of code


def main() -> None:
    """Build, check and try both files."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)  # the wheel is built from the sdist
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    check_contents(wheel, sdist)
    for file in (wheel, sdist):
        with tempfile.TemporaryDirectory() as folder:
            try_out(file, Path(folder))
    print(f"{wheel.name} and {sdist.name} are ready in dist/.")


def check_contents(wheel: Path, sdist: Path) -> None:
    """Refuse files that lack something, or hold what is nobody's business."""
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        installed = set(archive.namelist())
    missing = [name for name in NEEDED if name not in packed]
    missing += [
        name for name in ("yoro/py.typed", "yoro/__main__.py", "yoro/web/engine/package.json") if name not in installed
    ]
    missing += [] if any(name.endswith("licenses/LICENSE") for name in installed) else ["LICENSE in the wheel"]
    unwanted = [name for name in packed | installed if any(part in f"/{name}" for part in UNWANTED)]
    unwanted += [name for name in packed if name.startswith(OUTPUT)]
    unwanted += [name for name in installed if not name.startswith(("yoro/", "yoro_vr-"))]
    large = [file.name for file in (wheel, sdist) if file.stat().st_size > LARGEST]
    if missing or unwanted or large:
        sys.exit(f"missing: {missing}\nunwanted: {unwanted[:10]}\nlarger than {LARGEST:,} bytes: {large}")


def try_out(file: Path, folder: Path) -> None:
    """Install one file into an empty environment, and fit and predict there, away from the sources."""
    print(f"Trying {file.name} in an empty environment.", flush=True)
    home = folder / "env"
    venv.create(home, with_pip=True)
    python, yoro = home / SCRIPTS / "python", home / SCRIPTS / "yoro"
    uv = Path(sys.executable).with_name("uv.exe" if sys.platform == "win32" else "uv")
    installer = [uv, "pip", "install", "--python", home] if uv.exists() else [python, "-m", "pip", "install"]
    run(*installer, "--quiet", file)
    run(yoro, "--version", cwd=folder)
    run(python, "-m", "yoro", "--version", cwd=folder)
    run(yoro, "demo", "--quiet", "--out", "demo", cwd=folder)
    (model,) = (folder / "demo").glob("*.yoro")
    run(yoro, "inspect", model, cwd=folder)


def run(*words: object, cwd: Path = ROOT) -> None:
    """Run a command, which must succeed."""
    subprocess.run([str(word) for word in words], cwd=cwd, check=True)


if __name__ == "__main__":
    main()
