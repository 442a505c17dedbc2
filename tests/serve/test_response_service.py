"""A source as a service, and a fit that reads it from there."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from PIL import Image

import yoro
from command_line import invoke, run
from services import running
from yoro.data.decoding import decode
from yoro.data.geometry import Geometry
from yoro.errors import SourceError
from yoro.serve.served_model import ServedSource
from yoro.sources import open_source


@pytest.fixture(autouse=True)
def data_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def responding(tmp_path_factory):
    """`yoro serve --responses embedded:lite0`, as a fit reads it by default."""
    with running("--responses=embedded:lite0", log=tmp_path_factory.mktemp("responding") / "log") as found:
        yield found


def url(service) -> str:
    return f"http://127.0.0.1:{service.port}"


def png(pixels) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def test_a_fit_over_the_service_is_the_fit_of_the_source_here(responding, photos, tmp_path):
    there = yoro.fit(photos, source=url(responding))
    here = yoro.fit(photos, source="embedded:lite0")
    # 1e-5: an image's response differs in its last bits with its batch, and batches of the service are by chance
    np.testing.assert_allclose(there.model.mapping.weights, here.model.mapping.weights, atol=1e-5)
    np.testing.assert_allclose(there.model.mapping.bias, here.model.mapping.bias, atol=1e-5)
    there.save(tmp_path / "m.yoro")
    moved = yoro.load(tmp_path / "m.yoro", source="embedded:lite0")  # it is the same source, by its digest
    files = sorted(photos.rglob("*.jpg"))
    assert moved.predict(files) == here.predict(files)
    with pytest.raises(SourceError, match="asks a host on the network"):
        yoro.load(tmp_path / "m.yoro").predict(files)


def test_clients_of_several_networks_are_told_no_paths(tmp_path):
    file = tmp_path / "secret.onnx"
    onnx.save(open_source("embedded:lite0?side=64").onnx_model(), file)
    served = ServedSource(f"onnx:{file}?mean=0,0,0&std=1,1,1+embedded:lite0?side=64", "all", "cpu")
    assert str(tmp_path) not in json.dumps(served.facts())


def test_a_square_of_the_sources_side_is_answered_as_it_is(responding, photos):
    """Every bit of a pixel and of a number gets through: what is sent is neither resized nor rounded."""
    source = open_source("embedded:lite0", read="all")
    pixels = decode(photos / "cat" / "000.jpg", Geometry(source.side))
    answer = responding.client.post("/v1/responses", content=png(pixels), headers={"content-type": "image/png"}).json()
    np.testing.assert_array_equal(np.float32(answer["responses"][0]["response"]), source.respond(pixels[None])[0])


def test_it_says_what_it_is_and_has_no_classes(responding):
    facts = responding.client.get("/v1/source").json()
    assert facts["source"]["digest"] == open_source("embedded:lite0").describe()["digest"]
    assert "name" not in facts["source"]  # it may be a path
    assert sum(part["width"] for part in facts["readings"]["of"]) == facts["width"]
    assert responding.client.get("/v1/model").status_code == 404
    assert responding.client.post("/v1/predict", content=b"x").status_code == 404
    paths = responding.client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/v1/responses", "/v1/source", "/healthz", "/metrics"}


def test_a_request_that_comes_again_is_not_computed_again(responding):
    generator = np.random.default_rng(0)
    one, other = (png(generator.integers(0, 255, (224, 224, 3), dtype=np.uint8)) for _ in range(2))
    headers = {"content-type": "image/png", "idempotency-key": "a" * 64}
    first = responding.client.post("/v1/responses", content=one, headers=headers)
    before = responding.counted("yoro_batch_images_sum")
    again = responding.client.post("/v1/responses", content=one, headers=headers)
    assert (again.text, again.headers["idempotent-replayed"]) == (first.text, "true")
    assert "idempotent-replayed" not in first.headers
    assert responding.counted("yoro_batch_images_sum") == before
    refused = responding.client.post("/v1/responses", content=other, headers=headers)
    assert (refused.status_code, "another body" in refused.json()["error"]) == (422, True)
    long = responding.client.post("/v1/responses", content=one, headers=headers | {"idempotency-key": "a" * 300})
    assert long.status_code == 422
    broken = headers | {"idempotency-key": "b"}
    for _ in range(2):  # what failed is not remembered
        assert responding.client.post("/v1/responses", content=b"no image", headers=broken).status_code == 422
    assert responding.client.post("/v1/responses", content=one, headers=broken).status_code == 200


def test_a_reading_is_the_servers_to_choose(responding, photos, tmp_path):
    with pytest.raises(SourceError, match="it cannot be read at 'logits'"):
        open_source(url(responding), read="logits")
    ended = invoke("fit", photos, "--out", tmp_path / "m.yoro", "--source", url(responding), "--protocol", "paper")
    assert (ended.code, "cannot be read at 'logits'" in ended.stderr) == (1, True)
    with running("--responses=embedded:lite0", "--read", "features", log=tmp_path / "log") as features:
        said = (tmp_path / "log").read_text()
        assert ("Its API is described at" in said, "Try it" in said) == (True, False)
        there, here = (open_source(name, read="features") for name in (url(features), "embedded:lite0"))
        assert (there.width, there.layout) == (1280, here.layout)
        assert there.describe() | {"name": ""} == here.describe() | {"name": ""}
        assert open_source(url(features), read="all").describe()["read"] == "features"


def test_a_dry_run_asks_a_service_nothing(responding, photos, tmp_path):
    words = ["fit", photos, "--out", tmp_path / "m.yoro", "--source", url(responding)]
    log = responding.log.read_text()
    assert "24 images, 0 answered before" in run(*words, "--dry-run").stdout
    assert responding.log.read_text() == log
    assert invoke(*words, "--budget", 9).code == 1
    log = responding.log.read_text()
    assert "24 images, 9 answered before: 15 calls" in run(*words, "--dry-run").stdout
    assert responding.log.read_text() == log


def test_a_token_goes_by_a_file_and_a_variable(photos, tmp_path, monkeypatch):
    (tmp_path / "token").write_text("sesame")
    with running("--responses=embedded:lite0", "--token-file", tmp_path / "token", log=tmp_path / "log") as service:
        with pytest.raises(SourceError, match="answered 401"):
            open_source(url(service))
        text = f'url = "{url(service)}"\n[headers]\nauthorization = {{env = "TOKEN", prefix = "Bearer "}}\n'
        (tmp_path / "e.toml").write_text(text)
        monkeypatch.setenv("TOKEN", "sesame")
        source = open_source(f"endpoint:{tmp_path / 'e.toml'}", read="all")
        assert source.respond(np.zeros((1, 224, 224, 3), np.uint8)).shape == (1, source.width)


def test_the_service_of_a_classifier_is_no_source(service, photos):
    with pytest.raises(SourceError, match=r"answered 404 .*yoro serve --responses"):
        open_source(url(service))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Give a saved model, or --responses"),
        (["m.yoro", "--responses", "embedded:lite0"], "Give a saved model, or --responses"),
        (["m.yoro", "--read", "logits"], "--read needs --responses"),
        (["--responses", "embedded:lite0", "--feedback"], "--feedback needs a model"),
        (["m.yoro", "--budget", "3"], "--budget does not apply"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(words, said):
    ended = invoke("serve", *words)
    assert (ended.code, said in ended.stderr) == (2, True), ended


@pytest.mark.long
def test_whatever_its_description_allows_is_answered_as_it_says(tmp_path):
    with running("--responses=embedded:lite0", log=tmp_path / "log") as service:
        words = ["run", f"{url(service)}/openapi.json", "--max-examples", "40", "--seed", "1"]
        words += ["--phases", "examples,coverage,fuzzing"]
        words += ["--checks", "not_a_server_error,status_code_conformance,response_schema_conformance"]
        code = "from schemathesis.cli import schemathesis; schemathesis()"
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-5000:]
        assert "Traceback" not in service.log.read_text()


def test_a_fit_that_is_wholly_in_the_journal_asks_nobody_and_another_model_is_noticed(photos, tmp_path):
    file = tmp_path / "mine.toml"
    with running("--responses=embedded:lite0?side=96", log=tmp_path / "log") as service:
        file.write_text(f'url = "{url(service)}"\njournal = "answers.sqlite"\nimages = 3\nretries = 0\n')
        first = yoro.fit(photos, source=f"endpoint:{file}").model
    again = yoro.fit(photos, source=f"endpoint:{file}").model  # nobody is there any more
    np.testing.assert_array_equal(again.mapping.weights, first.mapping.weights)
    with running("--responses=embedded:lite0?side=64", log=tmp_path / "log") as other:
        file.write_text(file.read_text().replace(url(service), url(other)))
        noise = np.random.default_rng(0).integers(0, 255, (8, 96, 96, 3), np.uint8)
        more = [(image, ("cat", "coffee")[i % 2]) for i, image in enumerate(noise)]
        with pytest.raises(SourceError, match="serves another model than when it was last asked"):
            yoro.fit(more, source=f"endpoint:{file}")
        assert yoro.fit(more, source=f"endpoint:{file}").model.origin.source["side"] == 64
