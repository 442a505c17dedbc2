"""Requests for a batch endpoint and its answers, as files."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

import yoro
from command_line import invoke, run
from hostile_endpoint import describe, vector

NOWHERE = "http://127.0.0.1:9/v1/embeddings"  # nothing listens there


def answer(line: str) -> dict:
    """What a batch endpoint gives back for a line."""
    asked = json.loads(line)
    content = base64.b64decode(asked["body"]["input"][0]["image"].partition(",")[2])
    body = {"data": [{"embedding": vector(content)}]}
    return {"custom_id": asked["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}


@pytest.fixture
def asked(tmp_path, few):
    """Files of requests for all photos, and the source."""
    source = describe(tmp_path, NOWHERE, retries=0)
    run("endpoint", "batch", few, "--source", source, "--out", tmp_path / "requests.jsonl", "--most-lines", 20)
    return source, [tmp_path / "requests.jsonl", tmp_path / "requests-2.jsonl"]


def test_a_fit_of_batched_answers_makes_no_call_and_is_the_same(tmp_path, few, undisturbed, asked):
    source, files = asked
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert [len(file.read_text().splitlines()) for file in files] == [20, 12]
    first = json.loads(lines[0])
    assert (first["method"], first["url"], first["body"]["model"]) == ("POST", "/v1/embeddings", "blocks")
    (tmp_path / "answers.jsonl").write_text("\n".join(json.dumps(answer(line)) for line in reversed(lines)))
    done = run("endpoint", "take", tmp_path / "answers.jsonl", "--source", source)
    assert "32 answers imported" in done.stderr
    assert "32 already known" in run("endpoint", "take", tmp_path / "answers.jsonl", "--source", source).stderr
    fitted = yoro.fit(few, source=source).model  # nothing listens at its address
    np.testing.assert_array_equal(fitted.mapping.weights, undisturbed.mapping.weights)
    again = run("endpoint", "batch", few, "--source", source, "--out", tmp_path / "more.jsonl")
    assert "every image has an answer" in again.stderr
    assert not (tmp_path / "more.jsonl").exists()


def test_what_is_no_answer_is_named_and_the_rest_is_taken(tmp_path, few, asked):
    source, files = asked
    good = [answer(line) for line in files[0].read_text().splitlines()[:10]]
    good[2]["error"] = {"message": "too many pixels"}
    good[3]["response"]["status_code"] = 500
    good[4]["response"]["body"] = {"data": []}
    good[5]["response"]["body"]["data"][0]["embedding"] = [1.0, 2.0]
    good[6]["custom_id"] = "0" * 64
    good[7]["custom_id"] = "../../x"
    del good[8]["response"]
    text = "\n".join([*map(json.dumps, good), "no json", "[" * 100_000, "3", ""])
    (tmp_path / "answers.jsonl").write_text(text)
    ended = invoke("endpoint", "take", tmp_path / "answers.jsonl", "--source", source)
    assert ended.code == 1
    assert "3 answers imported" in ended.stderr
    for said in (
        "too many pixels", "failed: 500", "nothing at response.body.data[0]", "2 numbers; expected 64",
        "was never requested", "line 8: its custom_id", "line 11: it is not JSON", "10 lines ignored",
    ):  # fmt: skip
        assert said in ended.stderr, said
    assert "29 calls" in run("fit", few, "--out", tmp_path / "m.yoro", "--source", source, "--dry-run").stdout


def test_an_endpoint_without_json_has_no_lines(tmp_path, few):
    source = describe(tmp_path, NOWHERE, body="")
    ended = invoke("endpoint", "batch", few, "--source", source, "--out", tmp_path / "requests.jsonl")
    assert (ended.code, "takes no JSON" in ended.stderr) == (1, True)
    assert not (tmp_path / "requests.jsonl").exists()


def test_mirror_images_are_written_for_two_views(tmp_path, few):
    source = describe(tmp_path, NOWHERE)
    run("endpoint", "batch", few, "--source", source, "--out", tmp_path / "r.jsonl", "--mirrored")
    assert len({json.loads(line)["custom_id"] for line in (tmp_path / "r.jsonl").read_text().splitlines()}) == 64
