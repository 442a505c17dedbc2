"""A Ray that is started here keeps to itself."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from photos import write_folder
from yoro.cluster import session
from yoro.errors import InputError, YoroError
from yoro.model.settings import ClusterSettings

ELSEWHERE = re.compile(r"^\d+ +(?:connect|sendto|sendmsg|sendmmsg|bind)\(.*AF_INET.*$", re.MULTILINE)
LOOPBACK = re.compile(r'inet_addr\("127\.|"::1"|"::ffff:127\.')


def test_without_the_extra_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setattr(session.importlib.util, "find_spec", lambda _: None)
    with (
        pytest.raises(YoroError, match=r"needs ray, which is not installed: .*\[ray\]"),
        session.ray_session(ClusterSettings(ray="local")),
    ):
        pass


def test_its_address_is_of_this_machine_alone_and_it_reports_to_nobody(ray):
    from ray._common.usage.usage_lib import usage_stats_enabled

    assert ray.get_runtime_context().gcs_address.startswith("127.0.0.1:")
    assert not usage_stats_enabled()
    assert not any(b"dashboard/dashboard.py" in words for words in commands())


def test_a_new_ray_still_has_what_is_replaced_to_keep_it_to_itself():
    pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray._private import node, ray_constants

    for name in session.LEFT_OUT:
        assert callable(getattr(node.Node, name, None)), f"this Ray has no Node.{name}: see what talks to others now"
    assert isinstance(ray_constants.ENABLE_RAY_CLUSTER, bool)


def test_a_ray_that_lacks_it_is_not_started(monkeypatch):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray._private import node

    monkeypatch.delattr(node.Node, "start_monitor")
    with pytest.raises(YoroError, match=r"Ray \d.* lacks Node\.start_monitor, .*--ray auto"), session._by_itself():
        pass


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("Version mismatch: the cluster was started with Ray 2.40.0", "different versions"),
        ("RPC error: InvalidAuthToken: Authentication token is missing", "RAY_AUTH_TOKEN_PATH"),
        ("Failed to connect to Ray cluster at 10.0.0.7:6379", "RAY_AUTH_MODE=token"),
        ("Malformed address", "Is it the address of a head node"),
    ],
)
def test_why_a_ray_cannot_be_used_is_said_with_what_to_do(told, said):
    assert said in session._refused("10.0.0.7:6379", told)


def test_what_ray_could_not_do_ends_in_an_error_of_ours(ray):
    from ray.exceptions import NodeDiedError

    with (
        pytest.raises(YoroError, match=r"NodeDiedError: .*the same command with --resume"),
        session.ray_session(ClusterSettings(ray="local")),
    ):
        raise NodeDiedError("the machine is gone")

    @ray.remote
    def imports() -> None:
        import no_such_package  # noqa: F401

    with (
        pytest.raises(YoroError, match=r"lacks a package: .*no_such_package"),
        session.ray_session(ClusterSettings(ray="local")),
    ):
        ray.get(imports.remote())


def test_more_actors_than_there_is_room_for_are_refused_before_ray_starts(monkeypatch):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    monkeypatch.setattr(session, "_start", None)  # is not reached
    monkeypatch.setattr(session, "cores", lambda: 2)
    with (
        pytest.raises(YoroError, match="room for 2"),
        session.ray_session(ClusterSettings(ray="local", ray_actors=3)),
    ):
        pass


def commands() -> list[bytes]:
    """The command lines of our children."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = re.search(r"PPid:\s+(\d+)", (process / "status").read_text())
            if parent and int(parent[1]) == os.getpid():
                found.append((process / "cmdline").read_bytes())
        except OSError:  # it ended
            continue
    return found


def test_an_address_where_nobody_listens_is_an_error_at_once():
    pytest.importorskip("ray", reason="the extra ray is not installed")
    with pytest.raises(YoroError, match=r"Ray does not answer at '127\.0\.0\.1:1'"):
        session._knock("127.0.0.1:1")


def test_what_listens_and_is_no_ray_is_an_error_at_once(ray):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            line, _ = server.accept()
            with line:
                line.recv(100)
                line.sendall(b"HTTP/1.1 400 Bad Request\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(YoroError, match="is not a Ray head node: it answers b'HTTP'"):
            session._knock(f"127.0.0.1:{server.getsockname()[1]}")
    session._knock(ray.get_runtime_context().gcs_address)


def test_folders_of_runs_that_died_are_removed(monkeypatch, tmp_path):
    monkeypatch.setattr(session.tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for number in (ended.pid, os.getpid()):
        (tmp_path / f"yoro-ray-{number}-x").mkdir()
    session._own_folder()
    assert not (tmp_path / f"yoro-ray-{ended.pid}-x").exists()
    assert (tmp_path / f"yoro-ray-{os.getpid()}-x").exists()


@pytest.mark.long
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: nothing can watch from outside")
def test_nothing_leaves_the_machine_and_nothing_stays_in_the_home(tmp_path, work):
    write_folder(tmp_path / "photos", count=4)
    home, trace = tmp_path / "home", tmp_path / "trace"
    home.mkdir()
    shutil.copy(work / "counting.py", tmp_path)
    words = ["fit", "photos", "--out", "m.yoro", "--ray", "--source", "callable:counting:respond"]
    subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=network", "-o", trace, sys.executable, "-m", "yoro", *words],
        cwd=tmp_path, env={**os.environ, "HOME": str(home)}, check=True,
    )  # fmt: skip
    called = ELSEWHERE.findall(trace.read_text())
    assert called  # Ray's processes talk to each other
    assert [line for line in called if not LOOPBACK.search(line)] == []
    assert not [path for path in home.rglob("*") if path.is_file()]


@pytest.mark.long
def test_nothing_in_the_working_directory_is_executed(tmp_path):
    write_folder(tmp_path / "photos", count=4)
    for name in ("json", "numpy", "PIL", "scipy", "tqdm", "logging", "pyarrow", "cloudpickle"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + ' ')\n")
    script = str(Path(sys.executable).with_name("yoro"))
    done = subprocess.run(
        [sys.executable, script, "fit", "photos", "--out", "m.yoro", "--ray", "--read", "features"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


@pytest.mark.parametrize("source", ["http://127.0.0.1:9/v1", "https://h.example", "endpoint:paid.toml"])
def test_a_source_on_the_network_is_not_asked_by_many_processes(source):
    with pytest.raises(InputError, match="Remove --ray"), session.ray_session(ClusterSettings(ray="local"), source):
        pass
