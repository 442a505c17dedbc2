"""Plans: the datasets, settings, methods and seeds of a table, read from TOML and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from yoro import limits
from yoro.errors import InputError, did_you_mean
from yoro.files.reading import read_bounded, refusing
from yoro.option import check_choice
from yoro.prompts.prompt import PROMPTS
from yoro.research.bench.cells import BenchCell, CellInputs, Options, Scalar
from yoro.research.bench.methods.bench_methods import find_method
from yoro.research.bench.results import PlanEntry
from yoro.research.bench.tables.paper import published_tables

SHOWN = ("datasets", "settings", "methods", "diagnostics", "efficiency", "timing", "claims", "curves", "shares", "cost")
VARIANTS = ("protocol", "published")  # one protocol for all methods, or each number as its paper computed it
PURPOSES = ("text", "appendix", "beyond")  # where the paper has the table, if it has
COUNTERPARTS = ("own", "cited", "none")  # whose runs the paper's numbers of a method are
SPLITS = ("train", "val", "test")
INPUTS = tuple(f.name for f in fields(CellInputs))
SHARED = ("datasets", "methods", "seeds", *INPUTS)  # allowed at the top or in a setting
TOP = ("title", "about", "paper", "purpose", "show", "settings", "method", "as", "data", "baseline", *SHARED)
SETTING = ("name", "title", "source", "prompt", *SHARED)
METHOD = ("use", "title", "for", "prompt", "attributes", "counterpart")  # besides the options of the method itself


@dataclass(frozen=True)
class Use:
    """A column of a plan: a method under a name, with options, and others for some datasets."""

    name: str
    method: str
    title: str
    options: Mapping[str, Scalar] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)  # by dataset
    attributes: str | None = None  # other sentences than the setting's
    prompt: str | None = None  # another prompt than the setting's
    counterpart: str = "own"  # "own": the authors ran it; "cited": from another paper; "none": not in the paper

    def options_for(self, dataset: str) -> Options:
        """The options on one dataset that differ from those published for it or the defaults, sorted by name."""
        method = find_method(self.method)
        usual = asdict(method.make_options({}, dataset))
        made = asdict(method.make_options({**self.options, **self.overrides.get(dataset, {})}, dataset))
        return tuple(sorted((key, value) for key, value in made.items() if value != usual[key]))


@dataclass(frozen=True)
class Setting:
    """A source behind a prompt, and what is compared there."""

    name: str
    title: str
    source: str
    prompt: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    inputs: CellInputs


@dataclass(frozen=True)
class Plan:
    """A plan: settings in order, methods by name, and the tables to show."""

    title: str
    settings: tuple[Setting, ...]
    uses: Mapping[str, Use]
    show: tuple[str, ...] = ("datasets",)
    about: str = ""
    paper: tuple[str, ...] = ()  # tables of the paper whose numbers stand beside ours
    baseline: str = "yoro"  # the method that others are compared with
    data: Mapping[str, str] = field(default_factory=dict)  # where a dataset is, if not under a root
    purpose: str = "beyond"

    def entries(self) -> list[PlanEntry]:
        """Every cell, by setting, then dataset, method and seed."""
        return [
            PlanEntry(setting.name, name, dataset, seed, self._cell(setting, dataset, self.uses[name], seed))
            for setting in self.settings
            for dataset in setting.datasets
            for name in setting.methods
            for seed in setting.seeds
        ]

    def setting(self, name: str) -> Setting:
        return next(setting for setting in self.settings if setting.name == name)

    def only(self, settings: Sequence[str] = (), datasets: Sequence[str] = (), methods: Sequence[str] = ()) -> Plan:
        """The part of the plan with these settings, datasets and methods; none given is all of them.

        A setting that is left without methods is left out.
        """
        _known(settings, [setting.name for setting in self.settings], "setting")
        _known(datasets, self.datasets, "dataset")
        _known(methods, list(self.uses), "method")
        parts = []
        for setting in self.settings:
            mine = tuple(name for name in setting.datasets if not datasets or name in datasets)
            used = tuple(name for name in setting.methods if not methods or name in methods)
            if mine and used and (not settings or setting.name in settings):
                parts.append(replace(setting, datasets=mine, methods=used))
        return replace(self, settings=tuple(parts))

    def of_counterparts(self, *kinds: str) -> Plan:
        """The part of the plan with methods of these kinds alone."""
        names = [name for name, use in self.uses.items() if use.counterpart in kinds]
        if not names:
            raise InputError("No method of this plan has a number in the paper; add --all to run them.")
        return self.only(methods=names)

    @property
    def datasets(self) -> tuple[str, ...]:
        """All datasets, in the order in which they are first named."""
        return tuple(dict.fromkeys(name for setting in self.settings for name in setting.datasets))

    def _cell(self, setting: Setting, dataset: str, use: Use, seed: int) -> BenchCell:
        inputs = setting.inputs
        if use.attributes is not None:
            inputs = replace(inputs, attributes=use.attributes)
        prompt = use.prompt or setting.prompt
        return BenchCell(dataset, setting.source, prompt, use.method, seed, use.options_for(dataset), inputs)


def read_plan(path: str | Path, variant: str = VARIANTS[0], *, fall_back: bool = False) -> Plan:
    """The plan in a TOML file, or its variant; errors name the key and the nearest known word.

    With `fall_back` a plan without the variant is taken as it is.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"Plan '{file}' not found; expected a TOML file such as those in configs/.")
    with refusing(InputError, f"'{file}' is not valid TOML"):
        content = tomllib.loads(read_bounded(file, limits.PLAN_BYTES).decode())
    try:
        lacks = fall_back and variant not in content.get("as", {})
        return make_plan(content, VARIANTS[0] if lacks else variant)
    except InputError as error:
        raise InputError(f"'{file}': {error}") from None


def make_plan(content: Mapping[str, object], variant: str = VARIANTS[0]) -> Plan:
    """The plan of parsed TOML; the tables [as.VARIANT.NAME] change those of single methods."""
    shared = {key: value for key, value in content.items() if key in SHARED}
    top = _checked({key: content[key] for key in content if key not in shared}, TOP, "", needed=("title", "settings"))
    given, variants = top.get("method", {}), top.get("as", {})
    _known([variant], VARIANTS, "variant")
    _known(variants, VARIANTS[1:], "variant")
    if variant != VARIANTS[0] and variant not in variants:
        raise InputError(f"This plan has no variant {variant!r}; add [as.{variant}.NAME] tables, or leave out --as.")
    for name, tables in variants.items():
        _known(tables, tuple(given), f"method in [as.{name}]")
    defined = {name: table | variants.get(variant, {}).get(name, {}) for name, table in given.items()}
    settings = tuple(_setting(table, shared, i) for i, table in enumerate(top["settings"]))
    _refuse_twice([setting.name for setting in settings], "setting")
    names = tuple(dict.fromkeys(name for setting in settings for name in setting.methods))
    for name in defined:
        if name not in names:
            raise InputError(f"[method.{name}] is not used by any setting. {did_you_mean(name, names)}")
    uses = {name: _use(name, defined.get(name, {})) for name in names}
    lists: dict[str, Any] = {key: tuple(top[key]) for key in ("show", "paper") if key in top}
    others = {key: top[key] for key in ("about", "baseline", "data", "purpose") if key in top}
    told = "" if variant == VARIANTS[0] else f" (as {variant})"
    return Plan(top["title"] + told, settings, uses, **lists, **others)


def _setting(given: object, shared: Mapping[str, object], number: int) -> Setting:
    if not isinstance(given, dict):
        raise InputError(f"setting {number} is {given!r}; expected a [[settings]] table.")
    place, needed = given.get("name", f"setting {number}"), ("name", "source", "datasets", "methods")
    whole = {"seeds": [0, 1, 2], **_checked({**shared, **given}, SETTING, f" of {place}", needed=needed)}
    name, inputs = whole["name"], {key: whole[key] for key in INPUTS if key in whole}
    for what in ("dataset", "method", "seed"):
        if not whole[f"{what}s"]:
            raise InputError(f"Setting {name!r} has no {what}.")
        _refuse_twice(whole[f"{what}s"], what)
    if "limit" in inputs:
        inputs["limit"] = ",".join(f"{part}={inputs['limit'][part]}" for part in SPLITS if part in inputs["limit"])
    if "frame" in inputs:
        inputs["frame"] = str(inputs["frame"])
    title, prompt = whole.get("title", name), whole.get("prompt", "watermark")
    datasets, methods, seeds = (tuple(whole[key]) for key in ("datasets", "methods", "seeds"))
    return Setting(name, title, whole["source"], prompt, datasets, methods, seeds, CellInputs(**inputs))


def _use(name: str, given: Mapping[str, Any]) -> Use:
    table = _checked({key: given[key] for key in METHOD if key in given}, METHOD, f" of {name}")
    options = {key: value for key, value in given.items() if key not in METHOD}
    method, overrides = find_method(table.get("use", name)), table.get("for", {})
    others = {key: table[key] for key in ("attributes", "prompt", "counterpart") if key in table}
    use = Use(name, method.name, table.get("title", name), options, overrides, **others)
    for dataset in ("", *overrides):
        try:
            use.options_for(dataset)
        except (InputError, TypeError) as error:
            raise InputError(f"[method.{name}{'.for.' + dataset if dataset else ''}]: {error}") from None
    return use


def _checked(given: Mapping[str, object], keys: Sequence[str], of: str, needed: Sequence[str] = ()) -> dict[str, Any]:
    """A table whose keys and values are all valid, or an error on the first that is not; `of` says whose it is."""
    _known(given, keys, f"key{of or ' of a plan'}")
    for key in (*needed, *given):
        value, (sound, expected) = given.get(key), KINDS[key]
        if not sound(value):
            raise InputError(f"{key}{of} is {'missing' if value is None else repr(value)}; expected {expected}.")
        if key in WORDS:
            _known([value] if isinstance(value, str) else value, *WORDS[key]())  # type: ignore[arg-type]
    return dict(given)


def _known(words: Iterable[str], known: Sequence[str], what: str) -> None:
    """Raise for the first of the words that is unknown."""
    for word in words:
        check_choice(what, word, known)


def _refuse_twice(values: Sequence[object], what: str) -> None:
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise InputError(f"The {what} {twice[0]!r} is listed twice.")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_tables(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(table, dict) for table in value.values())


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _is_limit(value: object) -> bool:
    return isinstance(value, dict) and all(part in SPLITS and _is_count(count) for part, count in value.items())


TEXT, NAMES = (_is_text, "text"), (_is_names, "a list of names")
FLAG = (lambda v: isinstance(v, bool), "true or false")
KINDS: dict[str, tuple[Callable[[Any], object], str]] = {  # whether a value is valid, and what is expected
    "title": TEXT,
    "about": (lambda v: isinstance(v, str), "text"),
    "paper": NAMES,
    "purpose": TEXT,
    "show": NAMES,
    "baseline": TEXT,
    "settings": (lambda v: isinstance(v, list) and v, "[[settings]] tables, at least one"),
    "method": (_is_tables, "a table [method.NAME] of options"),
    "as": (lambda v: _is_tables(v) and all(map(_is_tables, v.values())), "tables [as.published.NAME] of options"),
    "data": (lambda v: isinstance(v, dict) and _is_names([*v.values()]), "the folder of each dataset, by its name"),
    "name": TEXT,
    "source": TEXT,
    "prompt": TEXT,
    "datasets": NAMES,
    "methods": NAMES,
    "seeds": (
        lambda v: isinstance(v, list) and all(type(n) is int and n >= 0 for n in v), "a list of integers from 0"
    ),
    "use": TEXT,
    "for": (_is_tables, "a table of options per dataset"),
    "counterpart": TEXT,
    "frame": (lambda v: isinstance(v, str | float), "grey, black, mean or a number between 0 and 1"),
    "image_side": (_is_count, "a number of pixels"),
    "read": (lambda v: v in ("logits", "features"), "logits or features"),
    "shots": (_is_count, "a number of images per class"),
    "draws": (lambda v: v in ("ours", "published"), "ours or published"),
    "limit": (_is_limit, "images per class such as {train = 32, val = 8, test = 40}"),
    "grouped": FLAG,
    "half": (lambda v: v in ("base", "new"), "base or new"),
    "examples": (_is_count, "a number of images in all"),
    "validation": (lambda v: v in ("shots", "split"), "shots or split"),
    "pile": (_is_count, "a number of images per class"),
    "timed": FLAG,
    "attributes": (_is_text, "des, a JSON file, sentence, templates or names"),
    "sentences": (_is_count, "a number of sentences per class"),
}  # fmt: skip
WORDS: dict[str, Callable[[], tuple[Sequence[str], str]]] = {  # keys whose values are known words, and what these are
    "prompt": lambda: (PROMPTS, "prompt"),
    "show": lambda: (SHOWN, "table or figure"),
    "paper": lambda: (published_tables(), "table of the paper"),
    "purpose": lambda: (PURPOSES, "purpose"),
    "counterpart": lambda: (COUNTERPARTS, "counterpart"),
}
