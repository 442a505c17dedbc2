from __future__ import annotations

import ast
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import yoro.cli
from command_line import invoke
from yoro.cli import options
from yoro.cli.app import GROUPS, VERBS, app
from yoro.cli.options import called
from yoro.model.settings import Loading, PipelineSettings, SolveSettings
from yoro.option import declared
from yoro.text.settings import SentenceSettings

MODULES = sorted(file.stem for file in Path(yoro.cli.__path__[0]).glob("[a-z]*.py"))


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
    said = " ".join(invoke("fit", "--help").stdout.split())
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
            assert not {value.value for value in given if isinstance(value, ast.Constant)} & shared, file


def test_no_function_of_the_command_line_has_more_than_seven_parameters():
    for name in MODULES:
        for value in vars(import_module(f"yoro.cli.{name}")).values():
            if inspect.isfunction(value) and value.__module__ in sys.modules and value.__module__.startswith("yoro."):
                assert len(inspect.signature(value).parameters) <= 7, value


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_explains_every_option(verb):
    shown = invoke(verb, "--help")
    assert shown.code == 0
    for line in shown.stdout.splitlines():
        if line.startswith("  --"):
            name, _, about = line.strip().partition("  ")
            assert about.strip() or len(name) > 24, line


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_option_that_is_taken_is_in_the_help(verb):
    said = invoke(verb, "--help").stdout
    taken = [option.names[0] for option in app[verb].assemble_argument_collection() if option.show]
    assert [name for name in taken if name.startswith("--") and name not in said] == []


def test_the_help_of_all_has_one_whole_line_a_verb(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = invoke("-h").stdout
    assert shown == invoke("--help").stdout
    for verb in (*VERBS, *GROUPS):
        (line,) = [line for line in shown.splitlines() if line.startswith(f"  {verb} ")]
        assert line.endswith(".")
        assert len(line) <= 80
    assert shown.index("Common:") < shown.index("Changing a model:") < shown.index("More:")


@pytest.mark.parametrize("words", [["fit"], ["predict"], ["refine"], ["serve"], ["bench", "run"], ["parties", "agree"]])
def test_options_for_experts_come_last(words):
    shown = invoke(*words, "-h").stdout
    assert re.findall(r"^[A-Z].*:$", shown, re.MULTILINE) == ["Arguments:", "Options:", "Expert options:"]


@pytest.mark.parametrize("verb", list(VERBS))
def test_the_usage_of_a_verb_names_what_it_takes(verb):
    shown = invoke(verb, "-h").stdout
    assert shown.startswith(f"Usage: yoro {verb} ")
    for option in re.findall(r"--[a-z-]+", shown.splitlines()[0]):
        assert option in shown.partition("\n")[2]
    for line in re.findall(r"^  (--[a-z-]+) .*\(required\)", shown, re.MULTILINE):
        assert line in shown.splitlines()[0]


def test_wrong_usage_is_one_line_with_what_may_have_been_meant():
    for words, message in (
        (["fitt"], 'Did you mean "fit"?'),
        (["fit", "x", "--out", "y.yoro", "--batchsize", "3"], "Did you mean --batch-size?"),
        (["fit", "x", "--out", "y.yoro", "--workers", "many"], "unable to convert"),
        (["fit", "x", "--out", "y.yoro", "--shrinkage", "2"], "unknown shrinkage rule"),
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
