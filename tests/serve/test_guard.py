from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from child import wait_until
from command_line import invoke
from services import running

JPEG = {"content-type": "image/jpeg"}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8321", "[::1]:9", "LOCALHOST:1"])
def test_names_of_this_machine_are_hosts(service, host):
    assert service.client.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example",
        "rebound.example:80",
        "localhost.example",
        "127.0.0.1.example",
        "[",
        "user@localhost",
        "localhost:1@x.example",
    ],
)
def test_a_name_rebound_to_this_machine_is_no_host(service, cat, host):
    assert service.client.get("/v1/model", headers={"host": host}).status_code == 403
    refused = service.client.post("/v1/predict", content=cat, headers={**JPEG, "host": host})
    assert refused.status_code == 403
    assert "this machine only" in refused.json()["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://elsewhere.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_site_may_not_ask(service, cat, headers):
    refused = service.client.post("/v1/predict", content=cat, headers={**JPEG, **headers})
    assert refused.status_code == 403
    assert "access-control-allow-origin" not in refused.headers


def test_a_page_of_its_own_may_ask(service, cat):
    own = {"origin": f"http://127.0.0.1:{service.port}", "sec-fetch-site": "same-origin"}
    assert service.client.post("/v1/predict", content=cat, headers={**JPEG, **own}).status_code == 200


def test_answers_are_neither_guessed_at_nor_kept_by_browsers(service):
    headers = service.client.get("/v1/model").headers
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert "server" not in headers


def test_without_its_token_a_service_says_only_that_it_lives(fitted, tmp_path, cat):
    secret = tmp_path / "token"
    secret.write_text("open sesame\n")
    with running(fitted, "--token-file", secret, log=tmp_path / "log") as service:
        client = service.client
        assert client.get("/healthz").status_code == 200
        for sent in ({}, {"authorization": "Bearer open"}, {"authorization": "Basic open sesame"}):
            for path in ("/v1/model", "/metrics", "/openapi.json", "/nothing"):
                refused = client.get(path, headers=sent)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert client.post("/v1/predict", content=cat, headers={**JPEG, **sent}).status_code == 401
        known = {"authorization": "Bearer open sesame"}
        assert client.post("/v1/predict", content=cat, headers={**JPEG, **known}).status_code == 200
        assert client.get("/openapi.json", headers=known).json()["components"]["securitySchemes"]
        words = Path(f"/proc/{service.process.pid}/cmdline").read_bytes()
        assert b"sesame" not in words
        assert "sesame" not in service.log.read_text()


def test_a_token_is_given_once_and_can_be_sent(fitted, tmp_path, monkeypatch):
    secret = tmp_path / "token"
    secret.write_text("a")
    monkeypatch.setenv("YORO_TOKEN", "b")
    twice = invoke("serve", fitted, "--token-file", secret)
    assert (twice.code, "--token-file and YORO_TOKEN" in twice.stderr) == (2, True)
    monkeypatch.delenv("YORO_TOKEN")
    for odd in ("", "ключ", "a\nb"):
        assert invoke("serve", fitted, "--token", odd).code == 2, odd
    assert "cannot be read" in invoke("serve", fitted, "--token-file", tmp_path / "none").stderr


def test_the_log_has_a_line_a_request_and_no_content(service, cat):
    service.client.post("/v1/predict", params={"top": 2}, files={"images": ("my secret name.jpg", cat)})
    service.client.get("/%1b[2Jgone")
    wait_until(lambda: "gone 404" in service.log.read_text())  # a line is written once its answer is sent
    last, odd = service.log.read_text().splitlines()[-2:]
    assert "127.0.0.1 POST /v1/predict 200 " in last
    assert not {"secret", "top"} & set(re.findall(r"\w+", last))
    assert "\x1b" not in odd
    assert "\\x1b[2Jgone 404" in odd


def test_a_port_that_is_taken_is_one_line(service, fitted):
    taken = invoke("serve", fitted, "--port", service.port)
    assert taken.code == 1
    assert f"port {service.port}" in taken.stderr
    assert len(taken.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", 70000], "expected 0 to 65,535"),
        (["--read-seconds", 0], "--read-seconds is 0.0; expected a number above 0"),
        (["--most-images", 300], "does not fit"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_before_anything_is_opened(words, said):
    ended = invoke("serve", "nothing.yoro", *words)
    assert ended.code == 2
    assert said in ended.stderr


def test_without_the_extra_the_verb_says_what_to_install(fitted, tmp_path):
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError('no', name='uvicorn')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from yoro.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "serve", str(fitted)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "The service needs uvicorn: pip install '.[serve]'" in done.stderr
