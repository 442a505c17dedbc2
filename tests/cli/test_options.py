from __future__ import annotations

import ast
import dataclasses
import re
from functools import partial
from pathlib import Path

import pytest

import yoro.cli
from command_line import invoke
from yoro.cli import options, refine, serve
from yoro.cli.app import GROUPS, VERBS, app
from yoro.http.settings import ServeSettings
from yoro.model.settings import ClusterSettings, Loading, PipelineSettings, SolveSettings
from yoro.refining.settings import RefineSettings
from yoro.text.settings import SentenceSettings


@pytest.mark.parametrize(
    ("group", "settings"),
    [
        (options.LoadingOptions, Loading),
        (options.SourceOptions, partial(PipelineSettings, read="logits")),
        (options.PipelineOptions, PipelineSettings),
        (options.SolveOptions, SolveSettings),
        (options.SentenceOptions, SentenceSettings),
        (options.VotingOptions, SentenceSettings),
        (options.ClusterOptions, ClusterSettings),
        (refine.RefineOptions, RefineSettings),
        (refine.DecodingOptions, Loading),
        (serve.ServeOptions, ServeSettings),
    ],
)
def test_a_group_has_the_defaults_of_what_it_sets(group, settings):
    assert dataclasses.asdict(group()) == dataclasses.asdict(settings())


def test_no_default_of_a_setting_is_typed_again_in_the_command_line():
    shared = {Loading.batch_size, PipelineSettings.source, SentenceSettings.sentences, SolveSettings.reservoir}
    for file in Path(yoro.cli.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            given = [*node.defaults, *node.kw_defaults] if isinstance(node, ast.arguments) else []
            given += [node.value] if isinstance(node, ast.AnnAssign) else []
            assert not {value.value for value in given if isinstance(value, ast.Constant)} & shared, file


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
    assert shown.index("Every day:") < shown.index("Changing a model:") < shown.index("Further:")


def test_options_for_experts_come_last(monkeypatch):
    shown = invoke("fit", "-h").stdout
    groups = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert groups[:2] == ["Arguments:", "Parameters:"]
    assert ["experts" in group for group in groups] == sorted("experts" in group for group in groups)


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
        (["merge", "a.yoro", "--out", "b.yoro"], "At least two"),
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
