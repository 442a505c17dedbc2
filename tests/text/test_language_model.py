"""Asking a real server, on this machine, that speaks OpenAI's chat protocol."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from command_line import run
from yoro.errors import InputError, SourceError
from yoro.text.language_model import ask_sentences


class _Oracle(BaseHTTPRequestHandler):
    asked: ClassVar[list[dict]] = []
    fails_on = ""

    def do_POST(self):  # the name that http.server looks for
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question = body["messages"][0]["content"]
        self.asked.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
        if self.fails_on and self.fails_on in question:
            self.send_response(503)
            self.end_headers()
            self.wfile.write(b"too busy")
            return
        lines = "1. It has a wrinkled face and a curled tail.\n- Its coat is fawn or black and short.\n\n.\n"
        answer = {"choices": [{"message": {"role": "assistant", "content": lines}}]}
        if "nonsense" in question:
            answer = {"oops": 1}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    _Oracle.asked, _Oracle.fails_on = [], ""
    with HTTPServer(("127.0.0.1", 0), _Oracle) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/v1"
        http.shutdown()
        thread.join()


def test_answers_become_sentences(server):
    sentences = ask_sentences("shiba_inu", url=server, model="m", key="secret", task="pet", each=7)
    assert sentences == ["It has a wrinkled face and a curled tail.", "Its coat is fawn or black and short."]
    (asked,) = _Oracle.asked
    assert asked["path"] == "/v1/chat/completions"
    assert asked["key"] == "Bearer secret"
    assert "the pet 'shiba inu'" in asked["messages"][0]["content"]
    assert "Give 7 different" in asked["messages"][0]["content"]


def test_a_failure_says_what_came(server):
    _Oracle.fails_on = "pug"
    with pytest.raises(SourceError, match="answered 503 Service Unavailable: too busy"):
        ask_sentences("pug", url=server, model="m")
    with pytest.raises(SourceError, match="OpenAI's chat API"):
        ask_sentences("nonsense", url=server, model="m")
    with pytest.raises(InputError, match="not the address"):
        ask_sentences("pug", url="localhost:80", model="m")
    with pytest.raises(SourceError, match="cannot be reached"):
        ask_sentences("pug", url="http://127.0.0.1:9/v1", model="m")


def test_what_was_answered_before_a_failure_is_kept_and_not_asked_again(server, tmp_path):
    (tmp_path / "names.txt").write_text("beagle\npug\n")
    words = ["attributes", "ask", "--classes", "names.txt", "--url", server, "--model", "m", "--out", "bank.json"]

    _Oracle.fails_on = "pug"
    assert "503" in run(*words, cwd=tmp_path, code=1).stderr
    assert list(json.loads((tmp_path / "bank.json").read_text())) == ["beagle"]
    _Oracle.fails_on = ""
    run(*words, cwd=tmp_path)
    assert list(json.loads((tmp_path / "bank.json").read_text())) == ["beagle", "pug"]
    assert sum("beagle" in asked["messages"][0]["content"] for asked in _Oracle.asked) == 1


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_key_is_not_sent_on_to_another_host(server, code):
    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self):  # the name that http.server looks for
            self.send_response(code)
            self.send_header("Location", server.replace("127.0.0.1", "localhost") + "/chat/completions")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as http:
        threading.Thread(target=http.handle_request, daemon=True).start()
        with pytest.raises(SourceError, match="redirects to 'http://localhost"):
            ask_sentences("pug", url=f"http://127.0.0.1:{http.server_port}/v1", model="m", key="secret")
    assert _Oracle.asked == []
