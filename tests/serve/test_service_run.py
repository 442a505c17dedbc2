from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from child import BOUND, wait_until
from services import running
from test_promises import strange

JPEG = {"content-type": "image/jpeg"}


def test_told_to_end_it_finishes_what_runs(fitted, tmp_path, cat):
    with running(fitted, log=tmp_path / "log") as service, ThreadPoolExecutor(8) as clients:
        half = len(cat) // 2
        head = "POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: image/jpeg\r\n"
        slow = socket.create_connection(("127.0.0.1", service.port), timeout=BOUND)
        slow.sendall(f"{head}content-length: {len(cat)}\r\n\r\n".encode() + cat[:half])
        form = [("images", (f"{i}.jpg", cat)) for i in range(60)]
        asked = [clients.submit(service.client.post, "/v1/predict", files=form) for _ in range(4)]
        wait_until(lambda: service.counted("yoro_waiting_images") > 0)
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        slow.sendall(cat[half:])
        for answer in asked:
            assert answer.result().status_code == 200
            assert {row["label"] for row in answer.result().json()["predictions"]} == {"cat"}
        assert b" 200 OK" in slow.recv(1000)
        slow.close()
        assert service.process.wait(BOUND) == 0
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", service.port))


def test_ctrl_c_ends_it_with_130(fitted, tmp_path):
    with running(fitted, log=tmp_path / "log") as service:
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(BOUND) == 130
        assert "Traceback" not in service.log.read_text()


def test_a_model_that_cannot_be_read_is_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "yoro", "serve", "none.yoro", "--port", "0"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("yoro: none.yoro does not exist.")
    assert done.stderr.count("\n") == 1


def test_other_machines_can_connect_only_if_told_so(fitted, tmp_path, cat):
    with running(fitted, "--host", "0.0.0.0", log=tmp_path / "log") as service:
        wait_until(lambda: "--token-file" in service.log.read_text())
        known = service.client.post("/v1/predict", content=cat, headers={**JPEG, "host": "classifier.example"})
        assert known.status_code == 200


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: nothing can watch from outside")
def test_it_connects_to_nobody(fitted, tmp_path, cat):
    trace = tmp_path / "trace"
    watch = ("strace", "-f", "-qq", "-e", "trace=network", "-o", str(trace), sys.executable)
    with running(fitted, log=tmp_path / "log", before=watch) as service:
        answer = service.client.post("/v1/predict?unknown=0.1", content=cat, headers=JPEG)
        assert answer.status_code == 200
        service.client.get("/openapi.json")
        watcher = service.process.pid
        os.kill(int(Path(f"/proc/{watcher}/task/{watcher}/children").read_text().split()[0]), signal.SIGTERM)
        assert service.process.wait(BOUND) == 0
    text = trace.read_text()
    assert "accept" in text
    listening, answering = (
        r"socket\(AF_INET, SOCK_STREAM",
        r"sendto\(.*, NULL, 0(?:\)| <unfinished)",
    )  # to no other address
    assert [line for line in strange(text) if not re.search(f"{listening}|{answering}", line)] == []
    assert "connect(" not in text


@pytest.mark.long
def test_memory_is_flat_over_thousands_of_requests(fitted, tmp_path, cat):
    with running(fitted, log=tmp_path / "log") as service, ThreadPoolExecutor(16) as clients:

        def ask(_):
            return service.client.post("/v1/predict", content=cat, headers=JPEG).status_code

        assert set(clients.map(ask, range(500))) == {200}
        before = service.memory()
        assert set(clients.map(ask, range(3000))) == {200}
        assert service.memory() < 1.05 * before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shares a port among processes")
def test_several_processes_share_a_port_and_one_that_dies_is_replaced(fitted, tmp_path, cat):
    with running(
        fitted, "--processes", "2", log=tmp_path / "log", env=os.environ | {"TMPDIR": str(tmp_path)}
    ) as service:
        wait_until(lambda: len(_workers(service.process.pid)) == 2)
        wait_until(lambda: all(_asked(service, cat) == "cat" for _ in range(20)))
        asked = 'yoro_requests_total{route="/v1/predict",status="200"}'
        wait_until(lambda: service.counted(asked) >= 20)  # a sum over both, whichever answers
        first, second = _workers(service.process.pid)
        os.kill(second, signal.SIGKILL)
        wait_until(lambda: set(_workers(service.process.pid)) - {first, second})
        assert {_asked(service, cat) for _ in range(20)} == {"cat"}
        assert service.end() == 0
        assert "Traceback" not in service.log.read_text()
        assert service.log.read_text().count("Serving") == 1
        assert not list(tmp_path.glob("yoro-metrics-*"))
        wait_until(lambda: not Path(f"/proc/{first}").exists())


def test_a_model_that_no_process_can_read_is_said_once(tmp_path):
    words = ["-m", "yoro", "serve", "none.yoro", "--port", "0", "--processes", "3"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_without_their_supervisor_the_processes_end(fitted, tmp_path):
    with running(fitted, "--processes", "2", log=tmp_path / "log") as service:
        wait_until(lambda: len(_workers(service.process.pid)) == 2)
        workers = _workers(service.process.pid)
        service.process.kill()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def _workers(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _asked(service, image: bytes) -> str:
    return service.client.post("/v1/predict", content=image, headers=JPEG).json()["predictions"][0]["label"]
