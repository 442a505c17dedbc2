"""Class descriptions from a language model of the user's choice, over OpenAI's chat API."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
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
    """Follows no redirects: the API key is for the host that the user named."""

    def redirect_request(self, *_: object) -> None:
        """None, so that the redirect becomes an error."""


def ask_sentences(
    name: str, *, url: str, model: str, key: str | None = None, task: str = "object", each: int = EACH
) -> list[str]:
    """Ask for sentences on a class.

    url : of the API, as in http://localhost:8000/v1.
    key : sent as a bearer token, if given. It is kept nowhere.
    """
    if not url.startswith(("http://", "https://")):
        raise InputError(f"{url!r} is not the address of an API; expected one such as http://localhost:8000/v1.")
    question = QUESTION.format(task=task, name=spoken(name), count=each)
    sentences = _lines(_ask(url.rstrip("/") + "/chat/completions", model, key, question))
    if not sentences:
        raise SourceError(f"{model!r} returned no usable sentence for {name!r}.")
    return sentences


def _ask(url: str, model: str, key: str | None, question: str) -> str:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": question}]}).encode()
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        request = urllib.request.Request(url, body, headers)
        with urllib.request.build_opener(NoRedirect).open(request, timeout=SECONDS) as response:
            content = response.read(limits.ANSWER_BYTES + 1)
    except urllib.error.HTTPError as error:
        if "Location" in error.headers:
            where = error.headers["Location"]
            raise SourceError(
                f"{url} redirects to {where!r}. Use that address if you trust it with your key."
            ) from error
        detail = " ".join(error.read(500).decode("utf-8", "replace").split())
        raise SourceError(f"{url} answered {error.code} {error.reason}: {detail}") from error
    except (OSError, ValueError, HTTPException) as error:
        raise SourceError(f"{url} cannot be reached: {getattr(error, 'reason', error)}.") from error
    if len(content) > limits.ANSWER_BYTES:
        raise SourceError(f"{url} answered with more than {limits.ANSWER_BYTES:,} bytes.")
    try:
        answer = json.loads(content)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        answer = None
    if not isinstance(answer, str):
        raise SourceError(f"{url} did not answer like OpenAI's chat API: {content[:200]!r}.")
    return answer


def _lines(answer: str) -> list[str]:
    """The sentences of an answer, one per line, without bullets and numbers."""
    return tidied(re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line).strip(" \"'") for line in answer.splitlines())
