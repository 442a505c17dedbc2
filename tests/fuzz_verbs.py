"""Damaged files of every kind through every verb that takes them: a result or a plain error, and models stay whole."""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

import yoro
from command_line import invoke
from fuzz import (
    ENDPOINT,
    MODELS,
    TINY,
    _checkpoint,
    _damaged_part,
    _pictures,
    _session,
    _statistics,
    damaged,
    damaged_model,
    damaged_responses,
    rearranged,
)
from yoro.model.store import read_model
from yoro.trust.label_cleaning import clean, write_undo

Maker = Callable[[random.Random, Path], None]
WITH_TINY = ("--source", TINY, "--workers", "0")


@cache
def _sound() -> dict[str, bytes]:
    """A folder with one sound file of each kind, by name."""
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        generator = np.random.default_rng(0)
        labels = np.array(["red", "dark", "bright"] * 8)
        np.savez(place / "z.npz", responses=generator.normal(size=(24, 6)), labels=labels)
        np.savez(place / "some.npz", responses=np.load(place / "z.npz")["responses"][:3], labels=labels[:3])
        fitted = yoro.fit(place / "z.npz")
        fitted.save(place / "m.yoro")
        rows = [issue.row() | {"action": "remove"} for issue in list(fitted.issues(place / "z.npz"))[:1]]
        keys = ("path", "label", "action", "proposed", "digest")
        lines = [",".join(keys), *(",".join(str(row.get(key) or "") for key in keys) for row in rows)]
        (place / "list.csv").write_text("\n".join(lines))
        _, done = clean(yoro.load(place / "m.yoro"), place / "list.csv")
        write_undo(place / "x.undo", done)
        (place / "f.yoro").mkdir()
        shutil.copytree(place / "m.yoro", place / "f.yoro", dirs_exist_ok=True)
        assert invoke("forget", place / "f.yoro", place / "some.npz", "--receipt", place / "r.json").code == 0
        for number in range(6):
            (place / f"{number}.png").write_bytes(_pictures()[2 + number % 3])
        with zipfile.ZipFile(place / "images.zip", "w") as packed:
            for number in range(6):
                packed.write(place / f"{number}.png", f"{'red' if number % 2 else 'dark'}/{number}.png")
        images = [{"bytes": _pictures()[2 + number % 3]} for number in range(6)]
        table = pyarrow.table({"image": images, "label": ["red", "dark"] * 3})
        pyarrow.parquet.write_table(table, place / "t.parquet")
        return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def _changed(name: str, case: str) -> Maker:
    """A sound file with damage to its bytes."""
    return lambda draw, folder: _write(folder / case, damaged(_sound()[name], draw))


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _undo(draw: random.Random, folder: Path) -> None:
    _write(folder / "case.undo", _damaged_part(_sound()["x.undo"], ".undo", draw))


def _receipt(draw: random.Random, folder: Path) -> None:
    """A receipt whose content is another; its digest may be right."""
    made = rearranged(json.loads(_sound()["r.json"]), draw)
    if isinstance(made, dict) and draw.random() < 0.7:
        signed = {key: value for key, value in made.items() if key != "digest"}
        plain = json.dumps(signed, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
        made["digest"] = hashlib.sha256(plain).hexdigest()
    _write(folder / "case.json", json.dumps(made).encode())


def _stats(draw: random.Random, folder: Path) -> None:
    _write(folder / "case.stats", _damaged_part(draw.choice(_statistics()), ".stats", draw))
    _write(folder / "sound.stats", _statistics()[0])


def _lists(draw: random.Random, folder: Path) -> None:
    """A list of images, or a reviewed list of issues."""
    images = "path,label,split,group\n" + "\n".join(f"{n}.png,{'red' if n % 2 else 'dark'},,g{n}" for n in range(6))
    _write(folder / "case.csv", damaged(draw.choice((images.encode(), _sound()["list.csv"])), draw))


def _bomb(draw: random.Random, folder: Path) -> None:
    """An archive of zeros, as images or as a response file."""
    size = draw.choice((10**6, 10**8, 3 * 10**8))
    with zipfile.ZipFile(folder / "case.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for number in range(draw.randint(1, 4)):
            packed.writestr(f"{'red' if number % 2 else 'dark'}/{number}.png", bytes(size // 10))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (draw.choice((1, 10**6, 10**12)), size // 8)}
    )
    with zipfile.ZipFile(folder / "case.npz", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("responses.npy", header.getvalue() + bytes(size // 10))
        packed.writestr("labels.npy", header.getvalue()[:80])


def _parties(draw: random.Random, folder: Path) -> None:
    files = dict(_session())
    name = draw.choice(sorted(files))
    suffix = ".stats" if name.endswith(".masked") else ".json"
    files[name] = damaged(files[name], draw) if draw.random() < 0.4 else _damaged_part(files[name], suffix, draw)
    (folder / "s").mkdir()
    for other, content in files.items():
        _write((folder if other.endswith(".key") else folder / "s") / other, content)


def _endpoint(draw: random.Random, folder: Path) -> None:
    _write(folder / "case.toml", damaged(ENDPOINT, draw))
    _write(folder / "case.jsonl", damaged(b'{"custom_id": "ab", "response": {"status_code": 200, "body": {}}}', draw))


def _plan(draw: random.Random, folder: Path) -> None:
    plans = sorted((MODELS.parents[1] / "configs").glob("*.toml"))
    _write(folder / "case.toml", damaged(draw.choice(plans).read_bytes(), draw))


def _bank(draw: random.Random, folder: Path) -> None:
    made = json.dumps(rearranged({"red": ["a red thing"], "dark": ["dark"], "bright": ["bright"]}, draw)).encode()
    _write(folder / "case.json", damaged(made, draw) if draw.random() < 0.5 else made)


def _weights(draw: random.Random, folder: Path) -> None:
    _write(folder / "case.onnx", damaged((MODELS / "tiny.onnx").read_bytes(), draw))
    _write(folder / "case.pth", damaged(_checkpoint("pth"), draw))


def _image(draw: random.Random, folder: Path) -> None:
    _write(folder / "0.png", damaged(draw.choice(_pictures()), draw))


def _model(draw: random.Random, folder: Path) -> None:
    damaged_model(draw, folder)
    shutil.copytree(folder / "case.yoro", folder / "spare.yoro")  # verbs may change the first


NEW = ("--out", "new.yoro")
CASE = "case.yoro"
DATA = (  # verbs that take data, with a place for them
    ["fit", "@", *NEW], ["fit", "@", "--out", "m.yoro", "--force"], ["update", "m.yoro", "@"],
    ["forget", "m.yoro", "@"], ["evaluate", "m.yoro", "@", "--json"], ["predict", "m.yoro", "@", "--top", "2"],
    ["stats", "@", "--out", "new.stats"], ["inspect", "m.yoro", "@", "--issues"], ["explain", "m.yoro", "@"],
    ["advise", "@"], ["fit", "z.npz", "--val", "@", *NEW],
)  # fmt: skip
IMAGES = (["fit", "@", *NEW, *WITH_TINY], ["respond", "@", "--out", "new.npz", *WITH_TINY], ["stats", "@", "--out",
          "new.stats", *WITH_TINY], ["predict", "images.yoro", "@", *WITH_TINY])  # fmt: skip
KINDS: dict[str, tuple[Maker, list[list[str]]]] = {
    "responses": (damaged_responses, [[word.replace("@", "case.npz") for word in words] for words in DATA]),
    "model": (_model, [
        ["inspect", CASE], ["inspect", CASE, "--json"], ["predict", CASE, "z.npz"], ["evaluate", CASE, "z.npz"],
        ["update", CASE, "z.npz"], ["forget", CASE, "some.npz"], ["relabel", CASE, "red=blue"], ["explain", CASE],
        ["merge", "m.yoro", CASE, "--out", "m.yoro", "--force"], ["verify", CASE, "r.json"],
        ["clean", CASE, "list.csv"], ["clean", CASE, "x.undo"], ["export", CASE, "--onnx", "new.onnx"],
        ["inspect", CASE, "z.npz", "--issues"],
    ]),
    "stats": (_stats, [
        ["merge", "sound.stats", "case.stats", *NEW], ["inspect", "case.stats"],
        ["merge", "m.yoro", "case.stats", "--out", "m.yoro", "--force"],
        ["merge", "case.stats", "--out", "new.stats"],
    ]),
    "undo": (_undo, [["clean", "m.yoro", "case.undo"], ["clean", "m.yoro", "list.csv"]]),
    "receipt": (_receipt, [["verify", "f.yoro", "case.json"], ["verify", "f.yoro", "case.json", "z.npz"],
                           ["forget", "m.yoro", "some.npz", "--receipt", "case.json"]]),
    "list": (_lists, [["clean", "m.yoro", "case.csv"],
                      *([word.replace("@", "case.csv") for word in words] for words in IMAGES)]),
    "archive": (_changed("images.zip", "case.zip"), [[w.replace("@", "case.zip") for w in words] for words in IMAGES]),
    "parquet": (_changed("t.parquet", "case.parquet"),
                [[w.replace("@", "case.parquet") for w in words] for words in IMAGES]),
    "bomb": (_bomb, [["fit", "case.zip", *NEW, *WITH_TINY], ["fit", "case.npz", *NEW], ["update", "m.yoro", "case.npz"],
                     ["predict", "m.yoro", "case.npz"]]),
    "image": (_image, [["fit", "list-of-images.csv", *NEW, *WITH_TINY],
                       ["predict", "images.yoro", "0.png", *WITH_TINY]]),
    "weights": (_weights, [["fit", "images.zip", *NEW, "--workers", "0", "--source",
                            "onnx:case.onnx?mean=0,0,0&std=1,1,1"]]),
    "plan": (_plan, [["bench", "run", "case.toml", "--dry-run"], ["bench", "table", "case.toml"]]),
    "endpoint": (_endpoint, [["endpoint", "check", "case.toml"], ["endpoint", "take", "case.toml", "case.jsonl"]]),
    "bank": (_bank, [["attributes", "check", "case.json"], ["attributes", "show", "case.json"],
                     ["attributes", "draw", "case.json", "--out", "new.json"]]),
    "parties": (_parties, [["parties", "show", "s"], ["parties", "confirm", "s", "--key", "s-a.key"],
                           ["parties", "sum", "s", "--out", "new.stats"]]),
}  # fmt: skip


def verb_case(draw: random.Random, folder: Path) -> None:
    """Damage one file, run one verb over it, and look at what is left."""
    shutil.rmtree(folder / "verbs", ignore_errors=True)
    place = folder / "verbs"
    for name, content in _sound().items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        _write(place / name, content)
    shutil.copytree(MODELS / "images.yoro", place / "images.yoro")
    (place / "list-of-images.csv").write_text("path,label\n0.png,red\n1.png,red\n2.png,dark\n3.png,dark\n")
    make, verbs = KINDS[draw.choice(sorted(KINDS))]
    make(draw, place)
    words = draw.choice(verbs)
    loads = {path: _loads(path) for path in place.glob("*.yoro")}
    ended = invoke(*words, cwd=place)
    assert ended.code in (0, 1, 2), (words, ended)
    assert ended.code == 0 or ended.stderr.strip(), f"{words}: ended with {ended.code} and no word"
    assert "Traceback" not in ended.stderr, (words, ended.stderr)
    for path in place.glob("*.yoro"):
        assert not loads.get(path, True) or _loads(path), f"{words} left {path.name} unloadable"


def _loads(path: Path) -> bool:
    try:
        read_model(path)
    except yoro.errors.YoroError:
        return False
    return True
