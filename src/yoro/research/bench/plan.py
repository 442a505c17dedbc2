"""Plans: which datasets, settings, methods and seeds make up a table, read from TOML and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import cast

from yoro import limits
from yoro.errors import InputError, did_you_mean
from yoro.files.reading import read_bounded
from yoro.prompts.prompt import PROMPTS
from yoro.research.bench.cells import Cell, CellInputs, Options, Scalar
from yoro.research.bench.methods.bench_methods import find_method
from yoro.research.bench.results import PlanEntry
from yoro.research.bench.tables.paper import published_tables

SHOWN = ("datasets", "settings", "methods", "diagnostics", "efficiency", "timing", "curves", "shares", "cost")
SPLITS = ("train", "val", "test")
INPUTS = tuple(f.name for f in fields(CellInputs))
SHARED = ("datasets", "methods", "seeds", *INPUTS)  # may stand at the top or in a setting
TOP = ("title", "about", "paper", "show", "settings", "method", "data", "baseline", *SHARED)
SETTING = ("name", "title", "source", "prompt", *SHARED)
METHOD = ("use", "title", "for", "prompt", "attributes")  # besides the options of the method itself


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

    def options_for(self, dataset: str) -> Options:
        """The options on one dataset that are not as published for it or at their default, sorted by name."""
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
    """All of a table: settings in order, methods by name, and how the result is shown."""

    title: str
    settings: tuple[Setting, ...]
    uses: Mapping[str, Use]
    show: tuple[str, ...] = ("datasets",)
    about: str = ""
    paper: tuple[str, ...] = ()  # tables of the paper whose numbers stand beside ours
    baseline: str = "yoro"  # the method that others are compared with
    data: Mapping[str, str] = field(default_factory=dict)  # where a dataset is, if not under a root

    def entries(self) -> list[PlanEntry]:
        """Every cell in its place: setting by setting, dataset by dataset, method by method, seed by seed."""
        return [
            PlanEntry(setting.name, name, dataset, seed, self._cell(setting, dataset, self.uses[name], seed))
            for setting in self.settings
            for dataset in setting.datasets
            for name in setting.methods
            for seed in setting.seeds
        ]

    def setting(self, name: str) -> Setting:
        """The setting of a name."""
        return next(setting for setting in self.settings if setting.name == name)

    def only(self, settings: Sequence[str] = (), datasets: Sequence[str] = (), methods: Sequence[str] = ()) -> Plan:
        """A part of the plan: some settings, datasets and methods by name; nothing named is all of them."""
        _words(list(settings), [setting.name for setting in self.settings], "settings of the plan")
        _words(list(datasets), self.datasets, "datasets of the plan")
        _words(list(methods), list(self.uses), "methods of the plan")
        parts = []
        for setting in self.settings:
            mine = tuple(name for name in setting.datasets if not datasets or name in datasets)
            used = tuple(name for name in setting.methods if not methods or name in methods)
            if mine and used and (not settings or setting.name in settings):
                parts.append(replace(setting, datasets=mine, methods=used))
        return replace(self, settings=tuple(parts))

    @property
    def datasets(self) -> tuple[str, ...]:
        """All datasets, in the order in which they are first named."""
        return tuple(dict.fromkeys(name for setting in self.settings for name in setting.datasets))

    def _cell(self, setting: Setting, dataset: str, use: Use, seed: int) -> Cell:
        inputs = setting.inputs
        if use.attributes is not None:
            inputs = replace(inputs, attributes=use.attributes)
        prompt = use.prompt or setting.prompt
        return Cell(dataset, setting.source, prompt, use.method, seed, use.options_for(dataset), inputs)


def read_plan(path: str | Path) -> Plan:
    """The plan in a TOML file, checked: an error says where it is wrong, and names the nearest known word."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"There is no plan '{file}'; expected a TOML file such as those in configs/.")
    try:
        content = tomllib.loads(read_bounded(file, limits.PLAN_BYTES).decode())
    except ValueError as error:
        raise InputError(f"'{file}' is no TOML: {error}.") from None
    try:
        return make_plan(content)
    except InputError as error:
        raise InputError(f"'{file}': {error}") from None


def make_plan(content: Mapping[str, object]) -> Plan:
    """The plan of parsed TOML."""
    _refuse_unknown(content, TOP, "A plan")
    defined = content.get("method", {})
    if not isinstance(defined, dict):
        raise InputError(f"[method] is {defined!r}; expected a table [method.NAME] for each method with options.")
    settings = _list(content.get("settings"), "settings")
    if not settings:
        raise InputError("A plan needs at least one [[settings]] with a name, a source and a prompt.")
    made = tuple(_setting(cast("Mapping[str, object]", given), content, i) for i, given in enumerate(settings))
    _refuse_twice([setting.name for setting in made], "setting")
    names = tuple(dict.fromkeys(name for setting in made for name in setting.methods))
    uses = {name: _use(name, defined.get(name, {})) for name in names}
    idle = [name for name in defined if name not in uses]
    if idle:
        raise InputError(f"[method.{idle[0]}] is described, but no setting uses it. {did_you_mean(idle[0], names)}")
    return Plan(
        _text(content.get("title"), "title"),
        made,
        uses,
        _words(content.get("show", list(Plan.show)), SHOWN, "ways to show results"),
        _text(content.get("about", Plan.about), "about"),
        _words(content.get("paper", []), published_tables(), "tables of the paper"),
        _text(content.get("baseline", Plan.baseline), "baseline"),
        _places(content.get("data", {})),
    )


def _setting(given: Mapping[str, object], top: Mapping[str, object], number: int) -> Setting:
    if not isinstance(given, dict):
        raise InputError(f"Setting {number} is {given!r}; expected a table [[settings]].")
    _refuse_unknown(given, SETTING, f"Setting {number}")
    whole = {key: value for key, value in top.items() if key in SHARED} | given
    name = _text(whole.get("name"), f"name of setting {number}")
    prompt = _prompt(whole.get("prompt", "watermark"), name)
    datasets = tuple(_strings(whole.get("datasets"), f"datasets of {name}"))
    methods = tuple(_strings(whole.get("methods"), f"methods of {name}"))
    seeds = _list(whole.get("seeds", [0, 1, 2]), f"seeds of {name}")
    for what, values in (("dataset", datasets), ("method", methods), ("seed", seeds)):
        if not values:
            raise InputError(f"{name} has no {what}.")
        _refuse_twice(values, what)
    if not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise InputError(f"The seeds of {name} are {seeds!r}; expected whole numbers of at least 0.")
    source = _text(whole.get("source"), f"source of {name}")
    title = _text(whole.get("title", name) if "title" in given else name, f"title of {name}")
    inputs = _inputs(whole, name)
    return Setting(name, title, source, prompt, datasets, methods, tuple(cast("list[int]", seeds)), inputs)


def _prompt(value: object, name: str) -> str:
    prompt = _text(value, f"prompt of {name}")
    if prompt not in PROMPTS:
        raise InputError(f"{name}: {prompt!r} names no prompt. {did_you_mean(prompt, PROMPTS)}")
    return prompt


def _inputs(given: Mapping[str, object], name: str) -> CellInputs:
    chosen = {key: given[key] for key in INPUTS if key in given}
    for key, value in chosen.items():
        sound, expected = KINDS[key]
        if not sound(value):
            raise InputError(f"The {key} of {name} is {value!r}; expected {expected}.")
    limit = cast("dict[str, int]", chosen.get("limit", {}))
    chosen["limit"] = ",".join(f"{part}={limit[part]}" for part in SPLITS if part in limit)
    if "frame" in chosen:
        chosen["frame"] = str(chosen["frame"])
    return CellInputs(**chosen)  # type: ignore[arg-type]


def _whole(value: object) -> bool:
    return type(value) is int and value >= 1


def _limited(value: object) -> bool:
    return isinstance(value, dict) and all(part in SPLITS and _whole(count) for part, count in value.items())


KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "frame": (lambda v: isinstance(v, str | float), "grey, black, mean or a number between 0 and 1"),
    "image_side": (_whole, "a whole number of pixels"),
    "read": (lambda v: v in ("logits", "features"), "logits or features"),
    "shots": (_whole, "a whole number of images a class"),
    "draws": (lambda v: v in ("ours", "published"), "ours or published"),
    "limit": (_limited, "images a class such as {train = 32, val = 8, test = 40}"),
    "grouped": (lambda v: isinstance(v, bool), "true or false"),
    "attributes": (lambda v: isinstance(v, str) and v != "", "des, a JSON file, sentence, templates or names"),
    "sentences": (_whole, "a whole number of sentences a class"),
}


def _use(name: str, given: object) -> Use:
    if not isinstance(given, dict):
        raise InputError(f"[method.{name}] is {given!r}; expected a table of options.")
    method = find_method(_text(given.get("use", name), f"use of {name}"))
    options = {key: value for key, value in given.items() if key not in METHOD}
    overrides = given.get("for", {})
    if not isinstance(overrides, dict) or not all(isinstance(mine, dict) for mine in overrides.values()):
        raise InputError(f"[method.{name}.for] is {overrides!r}; expected a table of options for each dataset.")
    title = _text(given.get("title", name), f"title of {name}")
    attributes = given.get("attributes")
    prompt = _prompt(given["prompt"], name) if "prompt" in given else None
    use = Use(name, method.name, title, options, overrides, None if attributes is None else str(attributes), prompt)
    for dataset in ("", *overrides):
        try:
            use.options_for(dataset)
        except (InputError, TypeError) as error:
            raise InputError(f"[method.{name}{'.for.' + dataset if dataset else ''}]: {error}") from None
    return use


def _words(value: object, known: Sequence[str], what: str) -> tuple[str, ...]:
    words = _strings(value, what)
    for word in words:
        if word not in known:
            raise InputError(f"{word!r} is none of the {what}. {did_you_mean(word, known)}")
    return tuple(words)


def _refuse_unknown(given: Iterable[str], known: Sequence[str], what: str) -> None:
    for key in given:
        if key not in known:
            raise InputError(f"{what} has no key {key!r}. {did_you_mean(key, known)}")


def _refuse_twice(values: Sequence[object], what: str) -> None:
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise InputError(f"The {what} {twice[0]!r} is named twice.")


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or (not value and what != "about"):
        raise InputError(f"The {what} is {'missing' if value is None else repr(value)}; expected text.")
    return value


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise InputError(f"The {what} are {'missing' if value is None else repr(value)}; expected a list.")
    return value


def _strings(value: object, what: str) -> list[str]:
    found = _list(value, what)
    if not all(isinstance(item, str) and item for item in found):
        raise InputError(f"The {what} are {value!r}; expected a list of names.")
    return cast("list[str]", found)


def _places(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(place, str) for place in value.values()):
        raise InputError(f"[data] is {value!r}; expected the place of each dataset by its name.")
    return cast("dict[str, str]", value)
