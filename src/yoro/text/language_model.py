"""Sentences from a language model of the user's own: any endpoint that speaks OpenAI's chat protocol.

The one place of this package that opens a connection of its own accord, and only when told where.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from http.client import HTTPException

from yoro import limits
from yoro.errors import InputError, SourceError
from yoro.text.banks import spoken, tidied
from yoro.text.settings import EACH

SECONDS = 120.0
QUESTION = (
    "Describe the appearance of the {task} '{name}' in photographs: its parts, its colours, its texture, its "
    "surroundings, and what tells it from similar ones. Give {count} different sentences of at most 25 words, each "
    "on a line of its own, without numbering."
)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the key is for the host that the user named and for no other."""

    def redirect_request(self, *_: object) -> None:
        """None: the redirect is an error of its own."""


def ask_sentences(
    classes: Iterable[str],
    *,
    url: str,
    model: str,
    key: str | None = None,
    task: str = "object",
    each: int = EACH,
    done: Callable[[str, list[str]], None] = lambda _name, _sentences: None,
) -> dict[str, list[str]]:
    """Ask for sentences, class by class; `done` is told each answer, so that none is lost by a later failure.

    url : of the API, as in http://localhost:8000/v1.
    key : sent as a bearer token, if given. It is kept nowhere.
    """
    if not url.startswith(("http://", "https://")):
        raise InputError(f"{url!r} is no address of an API; expected one such as http://localhost:8000/v1.")
    bank: dict[str, list[str]] = {}
    for name in classes:
        question = QUESTION.format(task=task, name=spoken(name), count=each)
        sentences = _lines(_ask(url.rstrip("/") + "/chat/completions", model, key, question))
        if not sentences:
            raise SourceError(f"{model!r} gave no usable sentence for {name!r}.")
        bank[name] = sentences
        done(name, sentences)
    return bank


def _ask(url: str, model: str, key: str | None, question: str) -> str:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": question}]}).encode()
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        request = urllib.request.Request(url, body, headers)
        with urllib.request.build_opener(NoRedirect).open(request, timeout=SECONDS) as response:
            content = response.read(limits.ANSWER_BYTES + 1)
    except urllib.error.HTTPError as error:
        if "Location" in error.headers:
            moved = "Give that address if you trust it with your key"
            raise SourceError(f"{url} sends on to {error.headers['Location']!r}. {moved}.") from error
        detail = " ".join(error.read(500).decode("utf-8", "replace").split())
        raise SourceError(f"{url} answered {error.code} {error.reason}: {detail}") from error
    except (OSError, ValueError, HTTPException) as error:
        raise SourceError(f"{url} cannot be reached: {getattr(error, 'reason', error)}.") from error
    if len(content) > limits.ANSWER_BYTES:
        raise SourceError(f"{url} answered with over {limits.ANSWER_BYTES:,} bytes.")
    try:
        answer = json.loads(content)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        answer = None
    if not isinstance(answer, str):
        raise SourceError(f"{url} answered, but not as OpenAI's chat protocol does: {content[:200]!r}.")
    return answer


def _lines(answer: str) -> list[str]:
    """Sentences of an answer: one a line, bullets and numbers off."""
    return tidied(re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line).strip(" \"'") for line in answer.splitlines())
