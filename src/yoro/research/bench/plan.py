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
    _known(content, TOP, "key of a plan")
    _known([variant], VARIANTS, "variant")
    variants = _checked(content.get("as", {}), _is_tables, "[as]", "tables [as.published.NAME] of options")
    _known(variants, VARIANTS[1:], "variant")
    if variant != VARIANTS[0] and variant not in variants:
        raise InputError(f"This plan has no variant {variant!r}; add [as.{variant}.NAME] tables, or leave out --as.")
    given = _checked(content.get("method", {}), _is_tables, "[method]", "a table [method.NAME] of options")
    for name, tables in variants.items():
        _checked(tables, _is_tables, f"[as.{name}]", "a table of options per method")
        _known(tables, tuple(given), f"method in [as.{name}]")
    defined = {name: table | variants.get(variant, {}).get(name, {}) for name, table in given.items()}
    settings = _checked(
        content.get("settings"), lambda v: isinstance(v, list) and v, "settings", "[[settings]] tables, at least one"
    )
    made = tuple(_setting(given, content, i) for i, given in enumerate(settings))
    _refuse_twice([setting.name for setting in made], "setting")
    names = tuple(dict.fromkeys(name for setting in made for name in setting.methods))
    uses = {name: _use(name, defined.get(name, {})) for name in names}
    for name in defined:
        if name not in uses:
            raise InputError(f"[method.{name}] is not used by any setting. {did_you_mean(name, names)}")
    told = "" if variant == VARIANTS[0] else f" (as {variant})"
    return Plan(
        _text(content.get("title"), "title") + told,
        made,
        uses,
        _known(_strings(content.get("show", list(Plan.show)), "show"), SHOWN, "table or figure"),
        _checked(content.get("about", Plan.about), lambda v: isinstance(v, str), "about", "text"),
        _known(_strings(content.get("paper", []), "paper"), published_tables(), "table of the paper"),
        _text(content.get("baseline", Plan.baseline), "baseline"),
        _checked(content.get("data", {}), _is_places, "[data]", "the folder of each dataset, by its name"),
        _known([_text(content.get("purpose", Plan.purpose), "purpose")], PURPOSES, "purpose")[0],
    )


def _setting(given: object, top: Mapping[str, object], number: int) -> Setting:
    _known(_checked(given, _is_table, f"setting {number}", "a [[settings]] table"), SETTING, f"key of setting {number}")
    whole: dict[str, Any] = {key: value for key, value in top.items() if key in SHARED} | given  # type: ignore[operator]
    name = _text(whole.get("name"), f"name of setting {number}")
    datasets, methods = (_strings(whole.get(what), f"{what} of {name}") for what in ("datasets", "methods"))
    seeds = _checked(whole.get("seeds", [0, 1, 2]), _is_seeds, f"seeds of {name}", "a list of integers from 0")
    for what, values in (("dataset", datasets), ("method", methods), ("seed", seeds)):
        if not values:
            raise InputError(f"Setting {name!r} has no {what}.")
        _refuse_twice(values, what)
    return Setting(
        name,
        _text(whole.get("title", name), f"title of {name}"),
        _text(whole.get("source"), f"source of {name}"),
        _prompt(whole.get("prompt", "watermark"), name),
        tuple(datasets),
        tuple(methods),
        tuple(seeds),
        _inputs(whole, name),
    )


def _prompt(value: object, name: str) -> str:
    return _known([_text(value, f"prompt of {name}")], PROMPTS, "prompt")[0]


def _inputs(given: Mapping[str, object], name: str) -> CellInputs:
    chosen: dict[str, Any] = {}
    for key, (sound, expected) in KINDS.items():
        if key in given:
            chosen[key] = _checked(given[key], sound, f"{key} of {name}", expected)
    limit = chosen.get("limit", {})
    chosen["limit"] = ",".join(f"{part}={limit[part]}" for part in SPLITS if part in limit)
    if "frame" in chosen:
        chosen["frame"] = str(chosen["frame"])
    return CellInputs(**chosen)


def _use(name: str, given: object) -> Use:
    table = _checked(given, _is_table, f"[method.{name}]", "a table of options")
    method = find_method(_text(table.get("use", name), f"use of {name}"))
    options = {key: value for key, value in table.items() if key not in METHOD}
    overrides = _checked(table.get("for", {}), _is_tables, f"[method.{name}.for]", "a table of options per dataset")
    title = _text(table.get("title", name), f"title of {name}")
    attributes = None if table.get("attributes") is None else str(table["attributes"])
    prompt = _prompt(table["prompt"], name) if "prompt" in table else None
    counterpart = _known([_text(table.get("counterpart", Use.counterpart), name)], COUNTERPARTS, "counterpart")[0]
    use = Use(name, method.name, title, options, overrides, attributes, prompt, counterpart)
    for dataset in ("", *overrides):
        try:
            use.options_for(dataset)
        except (InputError, TypeError) as error:
            raise InputError(f"[method.{name}{'.for.' + dataset if dataset else ''}]: {error}") from None
    return use


Check = Callable[[Any], object]  # whether a value is valid


def _checked(value: object, sound: Check, what: str, expected: str) -> Any:
    """The value if it is valid, else an error that shows it and says what was expected."""
    if not sound(value):
        raise InputError(f"{what} is {'missing' if value is None else repr(value)}; expected {expected}.")
    return value


def _text(value: object, what: str) -> str:
    return str(_checked(value, lambda v: isinstance(v, str) and v, what, "text"))


def _strings(value: object, what: str) -> list[str]:
    sound: Check = lambda v: isinstance(v, list) and all(isinstance(item, str) and item for item in v)  # noqa: E731
    return list(_checked(value, sound, what, "a list of names"))


def _known(words: Iterable[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """The words, or an error about the first that is unknown."""
    for word in words:
        if word not in known:
            raise InputError(f"Unknown {what} {word!r}. {did_you_mean(word, known)}")
    return tuple(words)


def _refuse_twice(values: Sequence[object], what: str) -> None:
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise InputError(f"The {what} {twice[0]!r} is listed twice.")


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _is_tables(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_table, value.values()))


def _is_places(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(place, str) for place in value.values())


def _is_seeds(value: object) -> bool:
    return isinstance(value, list) and all(type(seed) is int and seed >= 0 for seed in value)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _is_limit(value: object) -> bool:
    return isinstance(value, dict) and all(part in SPLITS and _is_count(count) for part, count in value.items())


KINDS: dict[str, tuple[Check, str]] = {
    "frame": (lambda v: isinstance(v, str | float), "grey, black, mean or a number between 0 and 1"),
    "image_side": (_is_count, "a number of pixels"),
    "read": (lambda v: v in ("logits", "features"), "logits or features"),
    "shots": (_is_count, "a number of images per class"),
    "draws": (lambda v: v in ("ours", "published"), "ours or published"),
    "limit": (_is_limit, "images per class such as {train = 32, val = 8, test = 40}"),
    "grouped": (lambda v: isinstance(v, bool), "true or false"),
    "half": (lambda v: v in ("base", "new"), "base or new"),
    "examples": (_is_count, "a number of images in all"),
    "validation": (lambda v: v in ("shots", "split"), "shots or split"),
    "pile": (_is_count, "a number of images per class"),
    "timed": (lambda v: isinstance(v, bool), "true or false"),
    "attributes": (lambda v: isinstance(v, str) and v, "des, a JSON file, sentence, templates or names"),
    "sentences": (_is_count, "a number of sentences per class"),
}
