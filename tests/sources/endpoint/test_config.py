from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import damaged
from yoro.errors import SourceError
from yoro.sources.endpoint.config import make_config, read_config

SOUND = """\
url = "https://api.example.com/v1/embeddings?version=3"
answer = "data[0].embedding"
rate = "600/min"
price = 0.0001
journal = "here.sqlite"
[headers]
authorization = {env = "MY_KEY", prefix = "Bearer "}
x-team = "vision"
[body]
model = "clip"
input = [{image = "{{image_data_url}}", type = "{{media_type}}"}]
"""


def test_a_file_says_what_an_endpoint_wants(tmp_path, monkeypatch):
    (tmp_path / "e.toml").write_text(SOUND)
    config = read_config(tmp_path / "e.toml")
    assert (config.rate, config.place, config.side) == (10.0, ("data", 0, "embedding"), 224)
    assert config.journal == tmp_path / "here.sqlite"
    assert config.shown == "https://api.example.com/v1/embeddings"
    with pytest.raises(SourceError, match="MY_KEY, which is not set"):
        config.headers["authorization"].value("authorization")
    monkeypatch.setenv("MY_KEY", "abc")
    assert config.headers["authorization"].value("authorization") == "Bearer abc"
    assert config.headers["x-team"].value("x-team") == "vision"


def test_an_address_alone_is_a_service_of_ours():
    assert make_config({"url": "http://host:8321"}).address == "http://host:8321/v1/responses"
    assert make_config({"url": "http://host/below/v1/responses"}).address == "http://host/below/v1/responses"


WRONG = {
    '"url": 3': "url is '3'; expected a string",
    '"url": "ftp://host"': "expected an address such as https://host/path",
    '"url": "https://u:p@host/"': "a user or a password",
    '"url": "https://host/#here"': "a fragment",
    '"urll": "https://host/"': "'urll'. Did you mean 'url'?",
    '"side": 0': "side is 0; expected 1 to 4096",
    '"side": true': "side is 'True'; expected a whole number",
    '"concurrency": 1000': "expected 1 to 256",
    '"rate": "fast"': "such as '10/s' or '600/min'",
    '"rate": "0/s"': "such as '10/s'",
    '"method": "GET"': "expected POST or PUT",
    '"encoding": "webp"': "expected png or jpeg",
    '"answer": "data[0"': "not a JSON path",
    '"answer": "a..b"': "not a JSON path",
    '"answer": ".a"': "not a JSON path",
    '"body": {"x": "{{image}}"}': "placeholder 'image'",
    '"body": {"x": "y"}': "no placeholder for the image",
    '"body": "x"': "body must be a table",
    '"form": "f", "body": {"x": "{{image_base64}}"}': "body and form",
    '"headers": {"authorization": "Bearer abc"}': "is a credential",
    '"headers": {"X-API-Key": "abc"}': "is a credential",
    '"headers": {"host": "other"}': "cannot be set",
    '"headers": {"a b": "c"}': "cannot be set",
    '"headers": {"x": "a\\r\\nb: c"}': "a header cannot have",
    '"headers": {"x": {"env": "A B"}}': "{env = 'VARIABLE'",
    '"headers": {"x": {"env": "A", "prefix": "\\n"}}': "a header cannot have",
    '"headers": {"x": {"value": "A"}}': "{env = 'VARIABLE'",
    '"url": "http://host/", "headers": {"x": {"env": "A"}}': "use https",
}


@pytest.mark.parametrize("odd", WRONG)
def test_what_is_wrong_with_a_file_is_said(odd):
    table = {"url": "https://host/", "answer": "v", **json.loads(f"{{{odd}}}")}
    with pytest.raises(SourceError) as raised:
        make_config(table)
    assert WRONG[odd] in str(raised.value)


def test_without_a_place_of_the_vector_nothing_else_can_be_set():
    with pytest.raises(SourceError, match="answer is missing"):
        make_config({"url": "https://host/", "side": 32})


@given(st.integers(0, 2**32))
def test_a_damaged_file_is_an_error_of_ours_or_harmless(tmp_path_factory, seed):
    path = tmp_path_factory.getbasetemp() / "damaged.toml"
    path.write_bytes(damaged(SOUND.encode(), random.Random(seed)))
    with suppress(SourceError):
        assert len(read_config(path).digest()) == 64
