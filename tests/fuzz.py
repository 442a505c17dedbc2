"""Damaged and hostile files by the thousand: whatever is in them, only errors of our own may come out.

`python tests/fuzz.py --seconds 600 --seed 7 model onnx` runs for a time and prints what escaped, each with the seed
that makes it again; `python tests/fuzz.py --case 12345 model` makes one again, with its traceback.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import io
import json
import random
import shutil
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save

import yoro
from parties_cases import play
from yoro.cli.inspect import facts, text
from yoro.cli.stats import shard_facts, shard_text
from yoro.data.decoding import decode
from yoro.data.find import find
from yoro.data.geometry import Geometry
from yoro.data.responses import ResponseFile
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.readings import Layout
from yoro.errors import YoroError
from yoro.model.card import model_card
from yoro.model.onnx_export import checked_export
from yoro.model.partial_pass import DataShare, gather_shard
from yoro.model.settings import FitSettings
from yoro.model.shards import Shard, solve_shards
from yoro.model.store import write_model
from yoro.parties.secure_aggregation import Session, confirm, total
from yoro.research.bench.plan import read_plan
from yoro.sources import open_source
from yoro.sources.endpoint.batch_files import take_answers
from yoro.sources.endpoint.description import parse_description
from yoro.sources.endpoint.journal import CallEvent
from yoro.sources.endpoint.source import open_endpoint
from yoro.sources.names import SourceName, parse_name
from yoro.sources.protocol import Calls
from yoro.sources.torch.network import read_state
from yoro.text.banks import make_bank, read_sentences

MODELS = Path(__file__).parent / "models"
TINY = f"onnx:{MODELS / 'tiny.onnx'}?mean=0,0,0&std=1,1,1"
NUMBERS = (b"\xff" * 8, b"\x00" * 4, b"\xff\xff\xff\x7f", b"\x80", b"\x00\x00\xf0\x7f", b"PK\x03\x04", b"\x93NUMPY")
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**64, 10**400, -(10**30), 1e308, 1e-320, 0.5, "", " ", "a", "\x1b[2J", "x" * 100_000,
    [], {}, [[]], [0] * 1000, ["a", "a"], {"a": 1}, {"": {}}, "F64", "F16", "I64", "../../etc", "__class__",
    "embedded:lite9", "callable:os:system", "onnx:/dev/null", "nan", "e\u0301", "\ud800", "a\x00b", "of a \udfff dog",
)  # fmt: skip


def damaged(content: bytes, draw: random.Random) -> bytes:
    """A copy with one to four edits anywhere: bytes changed, left out, doubled elsewhere, or the rest cut off."""
    made = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        place, length = draw.randrange(len(made) + 1), draw.choice((1, 2, 4, 8, 60))
        match draw.randrange(6):
            case 0:
                made[place : place + 1] = draw.randbytes(1)
            case 1:
                new = draw.choice(NUMBERS)
                made[place : place + len(new)] = new
            case 2:
                del made[place : place + length]
            case 3:
                other = draw.randrange(len(made) + 1)
                made[place:place] = made[other : other + length]
            case 4 if draw.random() < 0.2:
                del made[place:]
            case _:
                if place < len(made):
                    made[place] ^= 1 << draw.randrange(8)
    return bytes(made)


def rearranged(tree: Any, draw: random.Random) -> Any:
    """A copy of a JSON value in which one to three places hold something else, or nothing."""
    made = copy.deepcopy(tree)
    for _ in range(draw.randint(1, 3)):
        nodes = [(holder, key) for holder in _holders(made) for key in _keys(holder)]
        if not nodes:
            break
        holder, key = draw.choice(nodes)
        match draw.randrange(5):
            case 0:
                del holder[key]
            case 1:
                other, place = draw.choice(nodes)
                holder[key] = copy.deepcopy(other[place]) if place in _keys(other) else None
            case 2 if isinstance(holder[key], int | float):
                holder[key] = draw.choice((-1, 10, 0.3)) * min(holder[key], 2**99)
            case _:
                holder[key] = copy.deepcopy(draw.choice(VALUES))
    return made


def _holders(tree: Any) -> list[Any]:
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else []
    return [
        *([tree] if isinstance(tree, dict | list) else []),
        *(found for value in inner for found in _holders(value)),
    ]


def _keys(holder: Any) -> list[Any]:
    return list(holder) if isinstance(holder, dict) else list(range(len(holder)))


def archive(draw: random.Random, folder: Path) -> None:
    """A zip or tar of images, damaged, with names from anywhere; every image that it promises is read."""
    for name in ("red/1.png", "dark/2.png", "__MACOSX/._1.png"):
        path = folder / "packed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), draw.randrange(2**24)).save(path)
    kind = draw.choice(("zip", "tar", "gztar", "bztar"))
    made = Path(shutil.make_archive(str(folder / "case"), kind, folder / "packed"))
    made.write_bytes(damaged(made.read_bytes(), draw))
    for example in find(made, labelled=draw.random() < 0.5):
        with suppress(YoroError):
            decode(example.image, Geometry(8), name=example.name)


def npz(draw: random.Random, folder: Path) -> None:
    """A response file is read, predicted and fitted."""
    damaged_responses(draw, folder)
    path = folder / "case.npz"
    with ResponseFile(path) as opened:
        for _ in opened.batches(5):
            pass
    yoro.load(MODELS / "images.yoro").predict(path)
    yoro.fit(path)


def damaged_responses(draw: random.Random, folder: Path) -> None:
    """A response file, damaged as a whole or in one array of a sound archive."""
    generator = np.random.default_rng(draw.randrange(2**32))
    responses = generator.normal(size=(12, 6)).astype(draw.choice(("f2", "f4", "f8")))
    arrays: dict[str, Any] = {"responses": responses, "labels": np.array(["red", "dark", "bright"] * 4)}
    arrays |= {"splits": np.array(["train", "val", ""] * 4), "names": np.array([f"n{i}" for i in range(12)])}
    arrays["identity"] = np.array(json.dumps({"source": {"name": "x"}}))
    members = {}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        members[f"{name}.npy"] = buffer.getvalue()
    whole = draw.random() < 0.5
    if not whole:
        name = draw.choice(sorted(members))
        members[name] = damaged(members[name], draw)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as file:
        for name, content in members.items():
            file.writestr(name, content)
    (folder / "case.npz").write_bytes(damaged(archive.getvalue(), draw) if whole else archive.getvalue())


def damaged_model(draw: random.Random, folder: Path) -> str:
    """A model directory whose digests are right and whose content is not; the name of the sound one."""
    source = MODELS / draw.choice(("images.yoro", "sentences.yoro", "prompted.yoro", "grouped.yoro", "paper.yoro"))
    place = folder / "case.yoro"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)
    config = json.loads((place / "config.json").read_bytes())
    names = sorted(config["digests"])
    if draw.random() < 0.6:
        config = rearranged(config, draw)
    else:
        file = place / draw.choice(names)
        file.write_bytes(_damaged_part(file.read_bytes(), file.suffix, draw))
        config["digests"] = {name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in names}
    if isinstance(config, dict):
        config.pop("digest", None)
        plain = json.dumps(config, sort_keys=True, ensure_ascii=False)
        config["digest"] = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
    (place / "config.json").write_text(json.dumps(config))
    return source.name


def model(draw: random.Random, folder: Path) -> None:
    """A model directory whose digests are right and whose content is not; if it loads, it is used."""
    name = damaged_model(draw, folder)
    classifier = yoro.load(folder / "case.yoro", source=TINY if name == "images.yoro" else None)
    width = classifier.model.statistics.width
    rows = np.random.default_rng(0).normal(size=(8, width))
    steps: list[Callable[[], object]] = [
        lambda: json.dumps(facts(classifier.model)),
        lambda: text(classifier.model),
        lambda: classifier.predict(rows),
        lambda: classifier.save(folder / "again.yoro", force=True),
        lambda: classifier.relabel({classifier.classes[0]: "other"}),
        lambda: classifier.update((rows, ["a", "b"] * 4)),
        lambda: classifier.save(folder / "again.yoro", force=True),
        lambda: classifier.forget((rows, ["a", "b"] * 4)),
        lambda: classifier.predict([np.zeros((20, 20, 3), np.uint8)]),
        *([lambda: checked_export(classifier)] if draw.random() < 0.1 else []),  # it takes long
        lambda: model_card(json.loads((folder / "again.yoro" / "config.json").read_bytes())),
    ]
    for step in steps:
        try:
            step()
        except YoroError:  # that one verb refuses is fair; the next is tried
            continue


def _damaged_part(content: bytes, suffix: str, draw: random.Random) -> bytes:
    """Sentences or tensors with a changed value, a changed header, or changed numbers."""
    if suffix == ".json":
        return json.dumps(rearranged(json.loads(content), draw)).encode()
    length = struct.unpack("<Q", content[:8])[0]
    header, numbers = json.loads(content[8 : 8 + length]), content[8 + length :]
    match draw.randrange(4):
        case 0:
            return damaged(content, draw)
        case 1:
            numbers = damaged(numbers, draw)
        case 2:
            inner = {key: json.loads(value) for key, value in header["__metadata__"].items() if value[:1] in '[{"'}
            changed = rearranged(inner, draw)
            known = header["__metadata__"]
            header["__metadata__"] = known | {key: json.dumps(value) for key, value in changed.items()}
        case _:
            header = rearranged(header, draw)
    packed = json.dumps(header).encode()
    return struct.pack("<Q", len(packed)) + packed + numbers


def onnx(draw: random.Random, folder: Path) -> None:
    """An ONNX file."""
    path = folder / "case.onnx"
    path.write_bytes(damaged((MODELS / "tiny.onnx").read_bytes(), draw))
    source = open_source(f"onnx:{path}?mean=0,0,0&std=1,1,1", threads=1)
    source.respond(np.zeros((2, source.side, source.side, 3), np.uint8))


@cache
def _pictures() -> list[bytes]:
    pixels = np.random.default_rng(0).integers(0, 255, (40, 56, 3)).astype(np.uint8)
    made = []
    for kind, mode in (
        ("JPEG", "RGB"), ("JPEG", "CMYK"), ("PNG", "RGBA"), ("PNG", "P"), ("PNG", "I;16"), ("WEBP", "RGB"),
        ("TIFF", "F"), ("GIF", "P"), ("BMP", "RGB"), ("JPEG2000", "RGB"), ("ICO", "RGBA"), ("PPM", "RGB"),
    ):  # fmt: skip
        image = Image.fromarray(pixels)
        image = Image.fromarray(pixels[..., 0].astype(np.uint16)) if mode == "I;16" else image.convert(mode)
        buffer = io.BytesIO()
        image.save(buffer, kind)
        made.append(buffer.getvalue())
    return made


def image(draw: random.Random, _: Path) -> None:
    """An image of one of the usual formats."""
    decode(damaged(draw.choice(_pictures()), draw), Geometry(side=32))


def listing(draw: random.Random, folder: Path) -> None:
    """A list of images in a table, in lines of JSON, or a split file."""
    for file, number in (("a.png", 2), ("b.png", 3)):
        (folder / file).write_bytes(_pictures()[number])
    rows: list[dict[str, Any]] = [
        {"path": "a.png", "label": "x", "split": "train", "group": "g"},
        {"path": "b.png", "label": "y", "split": "val", "group": "h"},
    ]
    splits: dict[str, Any] = {"train": [["a.png", 0, "x"]], "val": [["b.png", 1, "y"]], "test": []}
    forms = {
        "case.csv": "path,label,split\na.png,x,train\nb.png,y,val\n",
        "case.jsonl": "\n".join(json.dumps(rearranged(row, draw)) for row in rows * 3),
        "case.json": json.dumps(rearranged(splits, draw)),
    }
    name = draw.choice(sorted(forms))
    content = forms[name].encode()
    (folder / name).write_bytes(content if name != "case.csv" and draw.random() < 0.7 else damaged(content, draw))
    yoro.fit(folder / name, source=TINY)


def bank(draw: random.Random, folder: Path) -> None:
    """A bank of sentences."""
    path = folder / "case.json"
    sound = {"red": ["a red thing", "very red"], "dark": ["dark"], "bright": ["a bright thing"]}
    content = json.dumps(rearranged(sound, draw)).encode()
    path.write_bytes(damaged(content, draw) if draw.random() < 0.5 else content)
    read_sentences(path)
    made, _ = make_bank(["red", "dark", "bright"], path)
    json.dumps(made.sentences, ensure_ascii=False).encode()  # as a model keeps them


def plan(draw: random.Random, folder: Path) -> None:
    """A plan of the bench."""
    plans = sorted((MODELS.parents[1] / "configs").glob("*.toml"))
    (folder / "case.toml").write_bytes(damaged(draw.choice(plans).read_bytes(), draw))
    read_plan(folder / "case.toml")


def checkpoint(draw: random.Random, folder: Path) -> None:
    """A weight file of torch, new or old format, or of safetensors, for a network of a library."""
    kind = draw.choice(("pth", "safetensors"))
    (folder / f"case.{kind}").write_bytes(damaged(_checkpoint(kind), draw))
    read_state(str(folder / f"case.{kind}"), SourceName("timm:x", "timm", "x"))


@cache
def _checkpoint(kind: str) -> bytes:
    state = {"a.weight": torch.arange(12.0).reshape(3, 4), "a.bias": torch.zeros(3)}
    if kind == "safetensors":
        return bytes(save(state))
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


ENDPOINT = b"""url = "https://h.example/v1?x=3"
answer = "data[0].embedding"
side = 8
journal = "case.sqlite"
rate = "600/min"
[headers]
authorization = {env = "MY_KEY", prefix = "Bearer "}
[body]
input = [{image = "{{image_data_url}}"}]
"""


def endpoint(draw: random.Random, folder: Path) -> None:
    """The file of an endpoint, and answers of a batch endpoint; nothing is asked."""
    (folder / "case.toml").write_bytes(damaged(ENDPOINT, draw) if draw.random() < 0.5 else ENDPOINT)
    source = open_endpoint(parse_name(f"endpoint:{folder / 'case.toml'}", ("endpoint",), ()), "all", Calls(dry=True))
    key = source.key(np.zeros((8, 8, 3), np.uint8))
    source.journal.write(source.request, [CallEvent(key, noted=True)])
    body = {"data": [{"embedding": [0.5, 1.5]}]}
    line = {"custom_id": key.hex(), "response": {"status_code": 200, "body": body}, "error": None}
    lines = "\n".join(json.dumps(rearranged(line, draw)) for _ in range(3)).encode()
    (folder / "case.jsonl").write_bytes(lines if draw.random() < 0.5 else damaged(lines, draw))
    take_answers(source, folder / "case.jsonl")
    (folder / "case.json").write_text(json.dumps(rearranged(DESCRIBED, draw)))
    parse_description((folder / "case.json").read_bytes(), "h.example")


DESCRIBED: dict[str, Any] = {
    "width": 3,
    "readings": {"views": 1, "of": [{"name": "logits", "width": 3, "transform": "plain"}]},
    "source": {
        "read": "logits", "side": 8, "mean": [0.5, 0.5, 0.5], "std": [1.0, 1.0, 1.0], "digest": "ab", "licence": None,
        "digest_of": "weights", "geometry": {"fit": "squash", "interpolation": "bilinear"},
    },
}  # fmt: skip


@cache
def _statistics() -> list[bytes]:
    rng, made = np.random.default_rng(0), []
    for sums_only in (True, False):
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary) / "z.npz"
            np.savez(place, responses=rng.normal(size=(12, 6)), labels=np.array(["red", "dark", "bright"] * 4))
            made.append(gather_shard(place, FitSettings(), DataShare(1, 2), sums_only=sums_only).shard.to_bytes())
    return made


def stats(draw: random.Random, folder: Path) -> None:
    """A file of statistics; if it can be read, it is shown, merged with a sound one, and solved."""
    content, sound = draw.choice(_statistics()), Shard.from_bytes(_statistics()[0], "sound")
    shard = Shard.from_bytes(_damaged_part(content, ".stats", draw), "case")
    json.dumps(shard_facts(shard))
    shard_text(shard)
    for shards in ([shard], [replace(sound, parts=()), shard]):
        with suppress(YoroError):
            made = solve_shards(shards, None, "empirical").model
            write_model(made, folder / "again.yoro", force=True)
            text(made)


@cache
def _session() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "s"
        part = JointStatistics(Layout.of(4))
        part.update(np.random.default_rng(0).normal(size=(9, 4)), ["red", "dark", "bright"] * 3)
        play(folder, {"a": part, "b": part, "c": part}, ["a", "b"])
        kept = [*folder.iterdir(), *folder.parent.glob("*.key")]
        return {path.name: path.read_bytes() for path in kept}


def parties(draw: random.Random, folder: Path) -> None:
    """The folder of a session in which one file is another."""
    place, files = folder / "s", dict(_session())
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    name = draw.choice(sorted(files))
    suffix = ".stats" if name.endswith(".masked") else ".json"
    content = files[name]
    files[name] = damaged(content, draw) if draw.random() < 0.4 else _damaged_part(content, suffix, draw)
    for other, content in files.items():
        (folder if other.endswith(".key") else place).joinpath(other).write_bytes(content)
    session = Session(place)
    for step in (session.joined, lambda: confirm(session, folder / "s-a.key"), lambda: total(session)):
        with suppress(YoroError):
            step()


def verbs(draw: random.Random, folder: Path) -> None:
    """A damaged file of any kind, through a verb of the command line that takes it."""
    from fuzz_verbs import verb_case

    verb_case(draw, folder)


TARGETS: dict[str, Callable[[random.Random, Path], None]] = {
    "npz": npz, "archive": archive, "model": model, "onnx": onnx, "image": image, "listing": listing, "bank": bank,
    "plan": plan, "checkpoint": checkpoint, "endpoint": endpoint, "stats": stats, "parties": parties,
    "verbs": verbs,
}  # fmt: skip


def attempt(target: str, seed: int, folder: Path) -> str | None:
    """Run one case; what escaped, as one line, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # hostile numbers overflow; what comes of them is what counts
            TARGETS[target](random.Random(f"{target} {seed}"), folder)
    except YoroError:
        return None
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {str(error)[:100]}"
    return None


def main() -> None:
    """Run until the time is over, and print each kind of escape once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=list(TARGETS), help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first of the seeds that are tried one after another")
    parser.add_argument("--case", type=int, help="one seed alone, with its traceback")
    words = parser.parse_args()
    escaped: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if words.case is not None:
            for target in words.targets:
                TARGETS[target](random.Random(f"{target} {words.case}"), folder)
            return
        end, seed = time.monotonic() + words.seconds, words.seed
        while time.monotonic() < end:
            for target in words.targets:
                found = attempt(target, seed, folder)
                if found and (kind := f"{target}: {found.partition(':')[0]}{found.split(':')[1]}") not in escaped:
                    escaped[kind] = f"{target} {seed}: {found}"
                    print(escaped[kind], flush=True)
            seed += 1
    print(f"{(seed - words.seed) * len(words.targets):,} cases, {len(escaped)} kinds of escape.")
    sys.exit(bool(escaped))


if __name__ == "__main__":
    main()
