"""Completion as a person meets it: bash with the script sourced, and the Tab key's work asked for."""

from __future__ import annotations

import subprocess

import pytest

from command_line import run

ASK = """
source yoro.bash
complete -p yoro
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
COMP_LINE="${{COMP_WORDS[*]}}"; COMP_POINT=${{#COMP_LINE}}
_yoro
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    (folder / "yoro.bash").write_text(run("completion", "bash").stdout)
    return folder


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("yoro pre", {"predict"}),
        ("yoro re", {"refine", "relabel", "respond"}),
        ("yoro fit --shr", {"--shrinkage"}),
        ("yoro predict m.yoro --sort", {"--sort-into"}),
        ("yoro bench da", {"datasets"}),
        ("yoro completion z", {"zsh"}),
    ],
)
def test_bash_completes_verbs_options_and_choices(folder, words, wanted):
    done = subprocess.run(["bash", "-c", ASK.format(words=words)], cwd=folder, capture_output=True, text=True)
    assert done.stderr == ""
    told, *found = done.stdout.splitlines()
    assert "-o default" in told  # the names of files, where it knows nothing itself
    assert {line.strip() for line in found} - {""} == wanted


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script_too(shell):
    assert "relabel" in run("completion", shell).stdout
    assert run("completion", "tcsh", code=2).stdout == ""
