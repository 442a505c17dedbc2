"""The model directory `NAME.yoro/`: safetensors, JSON and a card. Loading executes nothing and trusts nothing."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from yoro import limits
from yoro.data.geometry import Geometry
from yoro.discriminant.calibration import Prior
from yoro.discriminant.evidence import Choice
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.readings import Layout
from yoro.discriminant.reservoir import Reservoir
from yoro.discriminant.rules import RULES
from yoro.environment import __version__
from yoro.errors import InputError, StoreError, one_line
from yoro.files.atomic import check_writable, drafted_folder, recovered, write_file
from yoro.files.reading import json_digest, read_bounded, read_json, refusing
from yoro.files.tensors import Arrays, content_digest, parse_tensors, write_tensors
from yoro.mappings.affine import AffineMapping
from yoro.model.card import model_card
from yoro.model.gathered import Gathered
from yoro.model.ledger import Ledger
from yoro.model.model import Json, Model, Origin
from yoro.model.settings import PROTOCOLS
from yoro.prompts.prompt import restore_prompt
from yoro.text.banks import Bank, check_sentences
from yoro.text.encoded_bank import EncodedBank

if TYPE_CHECKING:
    from yoro.discriminant.semi_supervised import PileChoice

FORMAT = 6  # what this version reads; a model is written in the least format that can hold it
BANK = "bank.json"  # the sentences, readable as a bank again
KINDS = {
    f"{kind}.safetensors": f"yoro-{kind}" for kind in ("mapping", "statistics", "reservoir", "pile", "prompt", "bank")
}
OWN = frozenset({"config.json", "README.md", BANK, *KINDS})  # other files in the folder are somebody else's
PART = ("name", "weight", "shrinkage", "temperature", "candidates", "scores", "right")  # of one reading among several
ATTEMPTS = 50  # at reading a model that is being replaced meanwhile


def write_model(model: Model, path: str | Path, *, force: bool = False) -> None:
    """Write the directory beside its place, read it back, and move it there: it appears whole or not at all."""
    target = Path(path)
    check_target(target, force=force)
    with drafted_folder(target, own=OWN.__contains__) as draft:
        digests = {}
        for name, part in _parts(model).items():
            write_tensors(draft / name, *part)
            digests[name] = hashlib.sha256((draft / name).read_bytes()).hexdigest()
        if model.words is not None:
            sentences = json.dumps(model.words.bank.sentences, indent=1, ensure_ascii=False).encode()
            write_file(draft / BANK, sentences)
            digests[BANK] = hashlib.sha256(sentences).hexdigest()
        config = _config(model, digests)
        write_file(draft / "config.json", json.dumps(config, indent=1, ensure_ascii=False).encode())
        write_file(draft / "README.md", model_card(config).encode())
        try:
            _read(draft, target)
        except StoreError as error:
            raise StoreError(
                f"The model is not saved, because it could not be loaded again: {one_line(error)} "
                "Are its responses valid? What was saved before is unchanged."
            ) from error


def check_target(target: Path, *, force: bool) -> None:
    """Raise if a model cannot be written here; called before any work, and again before writing."""
    if target.suffix != ".yoro":
        raise StoreError(f"A model is a directory whose name ends in .yoro; write {target.name + '.yoro'!r}.")
    check_output(target, force=force)


def check_output(target: Path, *, force: bool) -> None:
    """Raise if an output exists and may not be replaced, or if nothing can be written there."""
    check_writable(target)
    if not target.exists():
        return
    if target.is_dir() and target.suffix != ".yoro":
        raise StoreError(f"{target} is a folder; expected the name of a file to write, such as {target / 'page.html'}.")
    if not force:
        raise StoreError(f"{target} exists already. Choose another name, or replace it with --force (force=True).")
    if target.suffix == ".yoro" and not (target / "config.json").is_file():
        raise StoreError(f"{target} exists and is not a model, so it is not replaced. Choose another name.")


def read_model(path: str | Path) -> Model:
    """Read a model directory; damage, tampering or a newer format is a StoreError that says so.

    Beside a writer it is the old model or the new one: what was replaced while it was read is read again.
    """
    for _ in range(ATTEMPTS):
        folder = recovered(Path(path))
        before = _identity(folder)
        try:
            return _read(folder, Path(path))
        except StoreError:
            if _identity(folder) == before:
                raise
    raise StoreError(f"{path} keeps being replaced; read it once its writer has finished.")


def _identity(folder: Path) -> tuple[int, int, int] | None:
    """Which directory stands under a name; another one if it was replaced, also where its number is used again."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _read(folder: Path, said: Path) -> Model:
    """The model in a folder, which the user calls `said`."""
    if not folder.exists():
        near = said.with_name(f"{said.name}.yoro")
        hint = f"Did you mean {near}?" if near.is_dir() else "Models are written by `yoro fit --out NAME.yoro`."
        raise StoreError(f"{said} does not exist. {hint}")
    if not (folder / "config.json").is_file():
        raise StoreError(
            f"{said} is not a model: it has no config.json. The model comes first, then the data. "
            "Models are written by `yoro fit --out NAME.yoro`."
        )
    try:
        config = _read_config(folder)
        return _assemble(config, _read_parts(folder, config))
    except (StoreError, MemoryError):
        raise
    except Exception as error:  # a hostile directory may hold anything in place of anything
        raise StoreError(f"{said} is damaged: {one_line(error)}") from error


def _parts(model: Model) -> dict[str, tuple[Arrays, Json]]:
    """The safetensors files by name: arrays and metadata."""
    ledger_arrays, ledger_names = model.ledger.to_arrays()
    parts: dict[str, tuple[Arrays, Json]] = {
        "mapping.safetensors": (
            {"weights": model.mapping.weights, "bias": model.mapping.bias},
            {"kind": "yoro-mapping"},
        ),
        "statistics.safetensors": (
            model.statistics.to_arrays() | ledger_arrays,
            {"kind": "yoro-statistics", "classes": list(model.statistics.classes), "digest_names": ledger_names},
        ),
    }
    for kind, kept in (("reservoir", model.reservoir), ("pile", model.gathered.pile)):
        if kept is not None:
            arrays, facts = kept.to_arrays()
            parts[f"{kind}.safetensors"] = arrays, {"kind": f"yoro-{kind}"} | facts
    if model.words is not None:
        parts["bank.safetensors"] = {"vectors": model.words.vectors}, {"kind": "yoro-bank"}
    if model.origin.prompt_arrays:
        parts["prompt.safetensors"] = model.origin.prompt_arrays, {"kind": "yoro-prompt"}
    return parts


def model_digest(model: Model) -> str:
    """One digest of all that a model is and was; it stays the same when the model is saved and loaded."""
    digests = {name: content_digest(*part) for name, part in _parts(model).items()}
    return _config_digest({key: value for key, value in _config(model, digests).items() if key != "versions"})


def _config(model: Model, digests: dict[str, str]) -> Json:
    choice, counts = model.choice, dict(zip(model.statistics.classes, model.statistics.counts.tolist(), strict=True))
    config: Json = {
        "format": _format(model),
        "classes": list(model.mapping.classes),
        "counts": counts,
        "width": model.mapping.width,
        **origin_table(model.origin),
        "prior": dict(model.prior) if not isinstance(model.prior, str) else model.prior,
        "protocol": model.protocol,
        "shrinkage": choice.shrinkage,
        "delta": model.delta,
        "selection": {
            "rule": choice.rule,
            "candidates": choice.candidates,
            "scores": choice.scores,
            **({"parts": [{key: getattr(part, key) for key in PART} for part in choice.parts]} if choice.parts else {}),
        },
        "temperature": choice.temperature,
        "history": model.history,
        "versions": {"yoro": __version__, "numpy": np.__version__},
        "digests": digests,
    }
    if model.integers:
        config["labels"] = "integers"
    if choice.pile is not None:
        config["pile"] = asdict(choice.pile)
    if model.words is not None:
        config["bank"] = model.words.bank.facts() | {"scale": model.words.scale, "votes": model.words.votes}
        config["alpha"] = choice.alpha
    return config | {"digest": _config_digest(config)}


def _format(model: Model) -> int:
    """The least format that can hold a model."""
    if model.words is not None and model.choice.parts:
        return 6
    if (model.origin.transform or {}).get("published"):
        return 5
    if model.gathered.pile is not None:
        return 4
    if "readings" in model.origin.source or model.choice.parts:
        return 3
    return 1 if model.words is None else 2


def _config_digest(config: Json) -> str:
    plain = {key: value for key, value in config.items() if key != "digest"}
    return json_digest(plain, ascii_only=False)


def _read_config(folder: Path) -> Json:
    file = folder / "config.json"
    with refusing(StoreError, f"{file} is damaged"):
        config = read_json(file, limits.MODEL_CONFIG_BYTES)
    if not isinstance(config, dict) or not isinstance(config.get("format"), int):
        raise StoreError(f"{file} is damaged: it has no format number.")
    if config["format"] > FORMAT:
        raise StoreError(
            f"{folder} has format {config['format']}; this version of yoro reads up to {FORMAT}. "
            "Upgrade: fetch newer sources and install them as you installed these."
        )
    if config["format"] < 1:
        raise StoreError(f"{folder} has format {config['format']}, which is not a valid format.")
    if config.get("digest") != _config_digest(config):
        raise StoreError(f"{file} was changed after it was written. To rename classes use `yoro relabel`.")
    return cast(Json, config)


def _read_parts(folder: Path, config: Json) -> dict[str, tuple[Arrays, Json]]:
    digests = config.get("digests")
    if not isinstance(digests, dict) or not {"mapping.safetensors", "statistics.safetensors"} <= set(digests):
        raise StoreError(f"{folder} is damaged: its config.json lists no tensor files.")
    odd = sorted(set(digests) - set(KINDS) - {BANK})
    if odd:
        raise StoreError(f"{folder} lists a file {odd[0]!r} that is not part of a model.")
    parts: dict[str, tuple[Arrays, Json]] = {}
    for name, digest in digests.items():
        with refusing(StoreError, f"{folder / name} is damaged"):
            content = read_bounded(
                folder / name, limits.MODEL_CONFIG_BYTES if name == BANK else limits.MODEL_FILE_BYTES
            )
        if hashlib.sha256(content).hexdigest() != digest:
            raise StoreError(f"{folder / name} is damaged or was changed: it does not match the digest in config.json.")
        if name == BANK:
            parts[name] = {}, {"sentences": _parse_bank(content, folder / name)}
        else:
            parts[name] = parse_tensors(content, KINDS[name], str(folder / name))
    return parts


def _parse_bank(content: bytes, file: Path) -> dict[str, list[str]]:
    try:
        return check_sentences(json.loads(content), BANK)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{file} is damaged: it holds no sentences ({type(error).__name__}).") from None


def _assemble(config: Json, parts: dict[str, tuple[Arrays, Json]]) -> Model:
    arrays, facts = parts["statistics.safetensors"]
    origin = checked_origin(config, parts["prompt.safetensors"][0] if "prompt.safetensors" in parts else {})
    statistics = JointStatistics.from_arrays(arrays, cast("list[object]", facts["classes"]), origin.layout)
    ledger = Ledger.from_arrays(arrays, cast("list[object]", facts["digest_names"]))
    mapping = _mapping(parts["mapping.safetensors"][0], config)
    if mapping.width != statistics.width or mapping.classes != statistics.classes:
        raise InputError("mapping and statistics do not belong together.")
    reservoir, pile = (
        Reservoir.from_arrays(*parts[name], statistics.width) if name in parts else None
        for name in ("reservoir.safetensors", "pile.safetensors")
    )
    choice = _choice(config, statistics.layout if statistics.width else None)
    listed = len(ledger) > 0 or statistics.total == 0
    gathered = Gathered(statistics, ledger, reservoir, noting=listed, pile=pile)
    gathered.check()
    _check_scores(mapping, statistics)
    return Model(
        gathered=gathered,
        mapping=mapping,
        choice=choice,
        prior=_prior(config["prior"], statistics.classes),
        protocol=_one_of(config["protocol"], PROTOCOLS),
        delta=_number(config["delta"], 0, 1e300),
        origin=origin,
        history=[_table(entry) for entry in _list(config["history"])],
        words=_words(config, parts, statistics),
        integers=config.get("labels") == "integers",
    )


def _check_scores(mapping: AffineMapping, statistics: JointStatistics) -> None:
    """Raise if a class mean has no finite scores; they are computed only where their largest terms might overflow."""
    largest = np.concatenate([np.maximum(part.means.max(0), -part.means.min(0)) for part in statistics.parts])
    steepest = np.maximum(mapping.weights.max(axis=1), -mapping.weights.min(axis=1))
    with np.errstate(over="ignore"):
        safe = np.isfinite(largest @ steepest) and not np.isnan(mapping.bias).any()
    means = np.hstack([part.means for part in statistics.parts]) if not safe else np.empty((0, mapping.width))
    if np.isnan(mapping(means[statistics.counts > 0]) if len(means) else means).any():
        raise InputError("its mapping gives no finite scores.")


def _choice(config: Json, layout: Layout | None) -> Choice:
    """What was chosen; of several readings, for each of them."""
    selection = _table(config["selection"])
    rule = _one_of(selection["rule"], (*RULES, "fixed"))
    whole = replace(_tried(rule, config | selection), alpha=_number(config.get("alpha", 0.0), 0, 1e300))
    parts = [_table(part) for part in _list(selection.get("parts", []))]
    if [part["name"] for part in parts] != (list(layout.names) if layout and len(layout.readings) > 1 else []):
        raise InputError("the choices do not match the layers.")
    pile = None if "pile" not in config else _pile(_table(config["pile"]))
    read = [replace(_one_part(rule, part), alpha=0.0 if i else whole.alpha) for i, part in enumerate(parts)]
    return replace(whole, parts=tuple(read), pile=pile)


def _pile(table: Json) -> PileChoice:
    """How unlabelled responses are used."""
    from yoro.discriminant.semi_supervised import PileChoice

    before, after = (None if table[key] is None else _number(table[key], 0, 1) for key in ("before", "after"))
    used, unlike, rounds = (int(_number(table[key], 0, 1e15)) for key in ("used", "unlike", "rounds"))
    readings = tuple(_number(weight, 0, 1) for weight in _list(table["readings"]))
    return PileChoice(
        _number(table["weight"], 0, 1), _number(table["share"], 0, 1), readings, used, unlike, rounds, before, after
    )


def _one_part(rule: str, table: Json) -> Choice:
    """The choice of one reading among several."""
    right = None if table.get("right") is None else _number(table["right"], 0, 1)
    weight = _number(table["weight"], 0, 1)
    return replace(_tried(rule, table), name=str(table["name"]), weight=weight, right=right)


def _tried(rule: str, table: Json) -> Choice:
    """A shrinkage, its temperature, and how the candidates fared."""
    choice = Choice(
        rule, _number(table["shrinkage"], 0, 1), _number(table["temperature"], 1e-9, 1e9),
        tuple(_number(x, 0, 1) for x in _list(table["candidates"])),
        tuple(_number(x, -1e300, 1e300) for x in _list(table["scores"])),
    )  # fmt: skip
    if len(choice.candidates) != len(choice.scores):
        raise InputError("the numbers of candidates and scores differ.")
    return choice


def origin_table(origin: Origin) -> Json:
    """Where responses come from, as `checked_origin` takes it back, but for a trained prompt's arrays."""
    table: Json = {"source": origin.source, "transform": origin.transform, "prompt": origin.prompt}
    return table if origin.made_by is None else table | {"responses_of": origin.made_by}


def checked_origin(config: Json, prompt_arrays: Arrays) -> Origin:
    """Where responses come from; what images would go through must be sound before one comes."""
    told = (config.get(key) for key in ("transform", "prompt", "responses_of"))
    transform, prompt, made_by = (None if value is None else _table(value) for value in told)
    origin = Origin(_table(config["source"]), transform, prompt, prompt_arrays, made_by)
    if origin.images:
        Geometry.from_config(transform or {})
        restore_prompt(prompt or {}, prompt_arrays)
    return origin


def _words(config: Json, parts: dict[str, tuple[Arrays, Json]], statistics: JointStatistics) -> EncodedBank | None:
    if "bank" not in config:
        return None
    facts, vectors = _table(config["bank"]), parts["bank.safetensors"][0]["vectors"]
    sentences = cast("dict[str, list[str]]", parts[BANK][1]["sentences"])
    bank = Bank(
        {name: tuple(items) for name, items in sentences.items()},
        str(facts["origin"]),
        int(_number(facts["each"], 1, limits.BANK_SENTENCES)),
        int(_number(facts["seed"], -limits.SEED, limits.SEED)),
    )
    if vectors.dtype != np.float32 or vectors.shape != (len(bank.flat()[0]), statistics.parts[0].width):
        raise InputError("the vectors of the bank do not match its sentences.")
    if not set(statistics.classes) <= set(bank.classes) or any(not items for items in bank.sentences.values()):
        raise InputError("the bank does not match the classes.")
    words = EncodedBank(bank, vectors.astype(np.float32), _number(facts["scale"], 1e-9, 1e9), bool(facts["votes"]))
    words.descriptions  # noqa: B018  # refuses vectors that are not finite
    return words


def _mapping(arrays: Arrays, config: Json) -> AffineMapping:
    weights, bias = arrays["weights"], arrays["bias"]
    if weights.dtype != np.float64 or bias.dtype != np.float64:
        raise InputError("the mapping is not in float64.")
    if not np.isfinite(weights).all() or np.isnan(bias).any() or (bias == np.inf).any():
        raise InputError("the mapping holds NaN or infinity.")
    classes = [name for name in _list(config["classes"]) if isinstance(name, str) and name]
    if len(classes) != len(_list(config["classes"])) or len(classes) > limits.MODEL_CLASSES:
        raise InputError("the classes are not a list of names.")
    return AffineMapping(weights.astype(np.float64), bias.astype(np.float64), tuple(classes))


def _checked(value: Any, sound: bool, expected: str) -> Any:
    """A value of config.json that is what was expected."""
    if not sound:
        raise InputError(f"config.json holds {reprlib.repr(value)}; expected {expected}.")
    return value


def _table(value: object) -> Json:
    return cast(Json, _checked(value, isinstance(value, dict), "a table"))


def _list(value: object) -> list[object]:
    return cast("list[object]", _checked(value, isinstance(value, list), "a list"))


def _one_of(value: object, known: Sequence[str]) -> str:
    return str(_checked(value, value in known, f"one of {', '.join(known)}"))


def _number(value: object, low: float, high: float) -> float:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    return float(_checked(value, sound, f"a number from {low} to {high}"))


def _prior(value: object, classes: tuple[str, ...]) -> Prior:
    """A prior that the classes can have."""
    if isinstance(value, str):
        return _one_of(value, ("empirical", "uniform"))
    weights = {name: _number(weight, 0, 1e300) for name, weight in _table(value).items()}
    if set(weights) != set(classes):
        raise InputError("the prior does not match the classes.")
    return weights
