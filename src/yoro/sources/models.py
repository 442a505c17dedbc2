"""The catalogue of sources for `yoro models` and suggestions; timm, torchvision, open_clip and hubs have many more."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path

from yoro.environment import install
from yoro.errors import StoreError, one_line
from yoro.sources.added import added_names, read_added
from yoro.sources.embedded import NETWORKS, EmbeddedNetwork, read_catalogue, weight_file
from yoro.sources.minilm import model_folder
from yoro.sources.weight_caches import is_cached

EXTRAS = {"timm": "torch", "torchvision": "torch", "open_clip": "clip", "tokenizers": "clip-onnx", "httpx": "endpoint"}


@dataclass(frozen=True)
class CatalogueRow:
    """One source. `width` is that of its logits, or of the vectors of an image-text model.

    `installed` is said of the packages that it needs, `weights` of its weights; None where they depend on its name.
    `purpose` is set for those that are recommended. `multiply_adds` are billions for an image, `speed` images a second
    on this machine, `measured` or forecast; both are None until `speeds.with_speeds` finds them out.
    """

    name: str
    what: str
    width: int | None
    side: int | None
    installed: bool
    how: str
    licence: str
    weights: bool | None = None
    purpose: str = ""
    megabytes: float | None = None
    multiply_adds: float | None = None
    speed: float | None = None
    measured: bool | None = None

    @property
    def to_do(self) -> str:
        """What is left to do before it can be used; empty if nothing is."""
        if not self.installed:
            return self.how
        if self.weights is not False:
            return ""
        return "downloaded at first use" + ("" if self.name.startswith("hf:") else "; or a file, ?weights=FILE")


def list_sources() -> list[str]:
    """The names of the catalogue."""
    return [row.name for row in catalogue()]


def catalogue() -> list[CatalogueRow]:
    """The sources and whether they are installed; none is imported."""
    tables = read_catalogue()
    rows = [
        *map(_embedded_row, NETWORKS.values()),
        *(_added_row(name) for name in added_names()),
        *(_torch_row(**row) for row in tables["classifier"]),
        _conse_row(**tables["conse"]),
        *(_torch_row(**row) for row in tables["image-text"]),
        *(_hub_row(**row) for row in tables["hub"]),
        *(_open_row(**row) for row in tables["open"]),
    ]
    return [replace(row, purpose=tables["purposes"].get(row.name, "")) for row in rows]


def places_of(name: str) -> list[str]:
    """Where the weights of a source of the catalogue come from; none for any other, which its library knows."""
    rows = [*read_catalogue()["classifier"], *read_catalogue()["image-text"]]
    return [row["place"] for row in rows if row["name"] == name and "place" in row]


def installed(package: str) -> bool:
    """Whether a package and torch are installed; neither is imported."""
    return importlib.util.find_spec(package) is not None and importlib.util.find_spec("torch") is not None


def install_command(package: str) -> str:
    """The command that installs a package of the torch sources, and all they need beside it."""
    return install(EXTRAS[package])


def _embedded_row(network: EmbeddedNetwork) -> CatalogueRow:
    what, how = f"{network.what}, ImageNet-1K, no torch", network.install
    file = weight_file(network.name)
    there, size = file is not None, None if file is None else round(file.stat().st_size / 1e6, 1)
    row = CatalogueRow(f"embedded:{network.name}", what, 1000, network.side, there, how, network.licence, there)
    return replace(row, megabytes=size, multiply_adds=network.multiply_adds)


def _added_row(name: str) -> CatalogueRow:
    gone = f"forget it with `yoro models remove {name}`"
    try:
        added = read_added(name)
    except StoreError as error:
        return CatalogueRow(name, one_line(error), None, None, False, gone, "your own")
    there, how = Path(added.path).is_file(), f"its file is not there: put it back, or {gone}"
    what = f"added by you: {added.path}"
    return CatalogueRow(name, what, added.width, added.side, there, how, "your own", there)


def _conse_row(name: str, what: str, licence: str, width: int, side: int) -> CatalogueRow:
    there = model_folder() is not None
    return CatalogueRow(name, what, width, side, there, install_command("open_clip"), licence, there)


def _open_row(name: str, what: str, licence: str, package: str = "", how: str = "") -> CatalogueRow:
    """A name that stands for any network of a kind; what is open of it is for the user to say."""
    there = not package or importlib.util.find_spec(package) is not None
    return CatalogueRow(name, what, None, None, there, install_command(package) if package else how, licence)


def _torch_row(
    name: str, what: str, licence: str, width: int | None = None, side: int | None = None, place: str = ""
) -> CatalogueRow:
    package = name.partition(":")[0]
    weights = is_cached([place]) if place else None
    return CatalogueRow(name, what, width, side, installed(package), install_command(package), licence, weights)


def _hub_row(
    name: str, what: str, licence: str, width: int, side: int, megabytes: float, multiply_adds: float
) -> CatalogueRow:
    repository, _, file = name.removeprefix("hf:").partition("/onnx/")
    weights = is_cached([f"{repository}/onnx/{file or 'model.onnx'}"])
    row = CatalogueRow(name, f"{what}, no torch", width, side, True, "", f"{licence}, of the original", weights)
    return replace(row, megabytes=megabytes, multiply_adds=multiply_adds)
