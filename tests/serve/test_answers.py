from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from command_line import run
from yoro.model.open_model import load
from yoro.model.settings import DEFAULT_SOURCE

JPEG = {"content-type": "image/jpeg"}


@pytest.fixture(scope="module")
def files(photos):
    return sorted(photos.rglob("*.jpg"))[::5]


@pytest.fixture(scope="module")
def by_command(fitted, files):
    """What `yoro predict` says of the same files."""
    words = ["predict", fitted, *files, "--format", "jsonl", "--top", 3, "--unknown", 0.05, "--coverage", 0.9, "-q"]
    return [json.loads(line) for line in run(*words).stdout.splitlines()]


def forms(files):
    """The same images in every form that there is."""
    contents = [file.read_bytes() for file in files]
    texts = [base64.b64encode(content).decode() for content in contents]
    return {
        "form": [{"files": [("images", (file.name, content)) for file, content in zip(files, contents, strict=True)]}],
        "json": [{"json": {"images": texts}}],
        "data URLs": [{"json": {"images": [f"data:image/jpeg;base64,{text}" for text in texts]}}],
        "as they are": [{"content": content, "headers": JPEG} for content in contents],
        "bytes": [
            {"content": content, "headers": {"content-type": "application/octet-stream"}} for content in contents
        ],
    }


@pytest.mark.parametrize("form", ["form", "json", "data URLs", "as they are", "bytes"])
def test_every_form_gets_the_answers_of_the_command(service, files, by_command, form):
    wanted = {"top": 3, "unknown": 0.05, "coverage": 0.9}
    found = []
    for request in forms(files)[form]:
        answer = service.client.post("/v1/predict", params=wanted, **request)
        assert answer.status_code == 200, answer.text
        found += answer.json()["predictions"]
    assert len(found) == len(by_command)
    for mine, theirs in zip(found, by_command, strict=True):
        assert (mine["label"], mine["labels"]) == (theirs["label"], theirs["labels"])
        best = [theirs["label"] if theirs["label"] else mine["top"][0]["label"], theirs["label_2"], theirs["label_3"]]
        assert [row["label"] for row in mine["top"]] == best
        # rounded to six digits, and an image's response differs in its last bits with its batch
        assert mine["probability"] == pytest.approx(theirs["probability"], abs=2e-5)
        assert mine["typicality"] == pytest.approx(theirs["typicality"], abs=2e-5)


def test_a_broken_image_among_others_has_an_error_of_its_own(service, cat):
    sent = [("images", ("good.jpg", cat)), ("images", ("bad.jpg", b"words")), ("images", ("good again.jpg", cat))]
    good, bad, again = service.client.post("/v1/predict", files=sent).json()["predictions"]
    assert (good["label"], again["label"]) == ("cat", "cat")
    assert bad["name"] == "bad.jpg"
    assert "label" not in bad
    assert "cannot be read as an image" in bad["error"]


def test_images_answered_together_are_bounded_like_any_request_and_change_nothing(service, cat):
    facts, ask = service.client.get("/v1/model").json(), {"together": True}
    sent = [("images", ("good.jpg", cat)), ("images", ("bad.jpg", b"words")), ("images", ("good again.jpg", cat))]
    good, bad, again = service.client.post("/v1/predict", params=ask, files=sent).json()["predictions"]
    assert (good["label"], again["label"], "error" in bad) == ("cat", "cat", True)
    assert service.client.post("/v1/predict", params=ask, content=b"words", headers=JPEG).status_code == 422
    many = [("images", (f"{i}.jpg", cat)) for i in range(65)]
    assert service.client.post("/v1/predict", params=ask, files=many).status_code == 413
    assert service.client.get("/v1/model").json() == facts


def test_responses_are_those_of_the_network(service, fitted, files):
    sent = [("images", (file.name, file.read_bytes())) for file in files]
    answer = service.client.post("/v1/responses", files=sent).json()
    own = np.concatenate([batch.responses for batch in load(fitted).answers(files)])
    assert answer["width"] == own.shape[1]
    found = np.array([row["response"] for row in answer["responses"]])
    np.testing.assert_allclose(found, own, atol=1e-4)


def test_requests_at_once_get_the_answers_they_get_alone_and_run_the_network_once_an_image(service, files):
    contents = [file.read_bytes() for file in files] * 12

    def label(content):
        return service.client.post("/v1/predict", content=content, headers=JPEG).json()["predictions"][0]["label"]

    def counted():
        return service.counted("yoro_batch_images_sum"), service.counted("yoro_batch_images_count")

    images, passes = counted()
    alone = [label(content) for content in contents[: len(files)]]
    assert counted() == (images + len(files), passes + len(files))
    with ThreadPoolExecutor(24) as clients:
        assert list(clients.map(label, contents)) == alone * 12
    answered, run = counted()
    assert answered == images + len(files) + len(contents)
    # How many share a pass depends on what else the machine does; test_batching.py holds that those that wait do.
    assert run <= passes + len(files) + len(contents)


def test_the_service_says_what_it_is(service, fitted):
    facts = service.client.get("/v1/model").json()
    model = load(fitted).model
    assert facts["classes"] == list(model.mapping.classes)
    assert facts["counts"] == dict.fromkeys(model.mapping.classes, 6)
    assert (facts["examples"], facts["source"], facts["error"]) == (24, DEFAULT_SOURCE, None)
    assert service.client.get("/healthz").json() == {"status": "ok"}


def test_the_description_has_an_example_of_every_answer_and_names_no_other_host(service):
    page = service.client.get("/openapi.json")
    paths = page.json()["paths"]
    assert set(paths) == {"/v1/predict", "/v1/responses", "/v1/model", "/healthz", "/metrics"}
    for path, methods in paths.items():
        for operation in methods.values():
            content = operation["responses"]["200"]["content"]
            assert path == "/metrics" or "example" in content["application/json"]
    body = paths["/v1/predict"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert service.client.post("/v1/predict", json=body).status_code == 200
    assert "http" not in page.text.replace('"scheme": "http', "")


def test_metrics_count_requests_by_route_and_none_by_what_clients_make_up(service):
    service.client.get("/made/up")
    service.client.get("/v1/model")
    text = service.client.get("/metrics").text
    assert 'yoro_requests_total{route="/v1/model",status="200"}' in text
    assert 'route="other",status="404"' in text
    assert "made" not in text
    assert "process_resident_memory_bytes" in text
