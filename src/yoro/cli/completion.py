"""`yoro completion`: a script by which a shell completes verbs, options and files."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from yoro.cli.output import print_text


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Which shell.")], /) -> None:
    """Print a script that completes commands in bash, zsh or fish.

    For this shell: `source <(yoro completion bash)`; for every shell, put that line into ~/.bashrc or ~/.zshrc.
    """
    from yoro.cli.app import app, load_verbs

    load_verbs()
    script = app.generate_completion(shell=shell)
    if shell == "bash":  # where it knows nothing itself, the names of files
        script = script.replace("complete -F", "complete -o bashdefault -o default -F")
    print_text(script)
