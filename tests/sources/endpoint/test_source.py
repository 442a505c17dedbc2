from __future__ import annotations

import hashlib
import sys

import numpy as np
import pytest

import yoro
from command_line import invoke
from hostile_endpoint import describe, hostile, vector
from photos import crops
from yoro.errors import SourceError
from yoro.sources import needs_consent, open_source
from yoro.sources.endpoint.template import encoded
from yoro.sources.protocol import Calls


def squares(count: int) -> np.ndarray:
    return np.stack([crop[:32, :32] for crop in crops("cat", count)])


FORMS = {"json": {}, "form": {"body": "", "form": "image"}, "bytes": {"body": ""}}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("encoding", ["png", "jpeg"])
def test_every_form_of_a_request_gets_the_vector_of_the_image(tmp_path, form, encoding):
    with hostile(tmp_path) as endpoint:
        source = open_source(describe(tmp_path, endpoint.url, encoding=encoding, quality=80, **FORMS[form]))
        images = squares(5)
        found = source.respond(images)
    wanted = np.array([vector(encoded(image, encoding, 80).content) for image in images], dtype=np.float32)
    np.testing.assert_array_equal(found, wanted)


def test_equal_images_are_asked_about_once(tmp_path):
    with hostile(tmp_path) as endpoint:
        source = open_source(describe(tmp_path, endpoint.url, width=64))
        images = squares(3)[[0, 1, 0, 2, 1, 0]]
        found = source.respond(images)
        again = open_source(describe(tmp_path, endpoint.url, width=64)).respond(images[::-1])
        assert len(endpoint.noted("asked")) == 3
    np.testing.assert_array_equal(found[::-1], again)


def test_another_request_has_other_answers(tmp_path):
    """What decides an answer is part of the key; how hard we ask, and who pays, is not."""
    with hostile(tmp_path) as endpoint:
        open_source(describe(tmp_path, endpoint.url, width=64)).respond(squares(2))
        for same in ({"concurrency": 2}, {"timeout": 9.0}, {"rate": "9/s"}, {"retries": 1}, {"price": 3.0}):
            open_source(describe(tmp_path, endpoint.url, width=64, **same)).respond(squares(2))
        assert len(endpoint.noted("asked")) == 2
        body = '[body]\nmodel = "other"\ninput = [{image = "{{image_data_url}}"}]\n'
        for other in ({"body": body}, {"url": f"{endpoint.url}?v=2"}, {"encoding": "jpeg"}):
            open_source(describe(tmp_path, **{"url": endpoint.url, "width": 64, **other})).respond(squares(2))
        assert len(endpoint.noted("asked")) == 8


def test_fractions_of_pixel_values_are_refused_and_not_rounded(tmp_path):
    source = open_source(describe(tmp_path, "http://127.0.0.1:9/x", width=64), calls=Calls(dry=True))
    with pytest.raises(SourceError, match="this prompt adds fractions"):
        source.respond(squares(1).astype(np.float32) / 255)


def test_a_model_tells_no_query_and_asks_nobody_until_it_is_named(tmp_path, few):
    with hostile(tmp_path) as endpoint:
        source = describe(tmp_path, f"{endpoint.url}?token=sesame")
        yoro.fit(few, source=source).save(tmp_path / "m.yoro")
        before = endpoint.lines
        with pytest.raises(SourceError, match=r"asks a host on the network\. Name it to allow that"):
            yoro.load(tmp_path / "m.yoro").predict([few / "cat" / "000.jpg"])
        assert endpoint.lines == before
        assert yoro.load(tmp_path / "m.yoro", source=source).predict([few / "cat" / "000.jpg"])
    for file in (tmp_path / "m.yoro").iterdir():
        assert b"sesame" not in file.read_bytes()
    for name in ("http://a.example/x", "https://a.example", "endpoint:x.toml", "http:", "https://["):
        assert needs_consent(name) == "asks a host on the network"


def test_a_source_here_has_no_budget():
    with pytest.raises(SourceError, match="makes no calls"):
        open_source("embedded:lite0", calls=Calls(budget=3))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("http://u:p@127.0.0.1/", "a user or a password"),
        ("http://", "expected an address"),
        ("https://a b/", "fragment|expected an address"),
        ("http://[/", "expected an address"),
        ("http://127.0.0.1:99999/", "expected an address"),
        ("endpoint:absent.toml", "There is no file 'absent.toml'"),
        ("endpoint:", "Unknown source"),
    ],
)
def test_names_that_are_none(name, said):
    with pytest.raises(SourceError, match=said):
        open_source(name)


def test_the_key_is_that_of_the_pixels_not_of_the_file(tmp_path):
    """Another version of an encoder may write other bytes for the same pixels; that must not be paid for again."""
    source = open_source(describe(tmp_path, "http://127.0.0.1:9/x", width=64), calls=Calls(dry=True))
    image = squares(1)[0]
    assert source.key(image) == hashlib.sha256(source.request + b"(32, 32, 3)" + image.tobytes()).digest()
    assert source.key(image) != source.key(image[::-1])


@pytest.mark.parametrize("words", [["check", "e.toml"], ["take", "a.jsonl", "--source", "endpoint:e.toml"]])
def test_without_its_package_the_command_that_installs_it_is_named(tmp_path, monkeypatch, words):
    describe(tmp_path, "http://127.0.0.1:9/x")
    for name in [name for name in sys.modules if name.startswith("yoro.sources.endpoint.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "httpx", None)
    ended = invoke("endpoint", *words, cwd=tmp_path)
    assert ended.code == 1
    assert "needs httpx, which is not installed: pip install '.[endpoint]'" in ended.stderr
