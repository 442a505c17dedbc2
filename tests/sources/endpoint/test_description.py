from __future__ import annotations

import copy
import json

import pytest

from fuzz import DESCRIBED
from yoro.errors import SourceError
from yoro.sources.endpoint.description import parse_description


def described(change=lambda table: None):
    table = copy.deepcopy(DESCRIBED)
    change(table)
    return parse_description(json.dumps(table).encode(), "h.example")


OTHER = {
    "another network": lambda table: table["source"].update(digest="cd"),
    "another reading": lambda table: table["source"].update(read="features"),
    "another side": lambda table: table["source"].update(side=16),
    "other colours": lambda table: table["source"].update(std=[0.5, 0.5, 0.5]),
    "another geometry": lambda table: table["source"]["geometry"].update(fit="crop"),
    "another transform": lambda table: table["readings"]["of"][0].update(transform="unit"),
}


@pytest.mark.parametrize("what", OTHER)
def test_another_source_at_the_same_address_has_other_answers(what):
    """The digest is part of the key of every answer: those of another source are not taken for its own."""
    assert described(OTHER[what]).digest() != described().digest()


def test_a_licence_makes_no_answer_different():
    assert described(lambda table: table["source"].update(licence="MIT")).digest() == described().digest()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.update(width=4), "do not add up to its width"),
        (lambda table: table.update(width=10**9), "number from 1 to 16,384"),
        (lambda table: table.pop("source"), "no 'source'"),
        (lambda table: table["source"].update(side=True), "True is not"),
        (lambda table: table["source"].update(mean=[10**400, 0, 0]), "too large"),
        (lambda table: table["source"].update(digest="a\nb"), "not a digest"),
        (lambda table: table["readings"].update(views=2), "do not add up to its width"),
    ],
)
def test_a_description_of_a_stranger_is_checked(change, said):
    with pytest.raises(SourceError) as raised:
        described(change)
    assert said in str(raised.value)
