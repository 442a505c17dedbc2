"""A model hub on loopback, as its clients see it: a list of files, digests, redirects to another host, ranges.

`faults` maps a file's name to what goes wrong with it; see `LoopbackHub.fault`.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from yoro import limits
from yoro.sources.hub import find_revision, remember

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WIDTH = 7
KERNEL = np.random.default_rng(0).normal(size=(3, WIDTH)).astype(np.float32)
PREPROCESSING = {
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.2, 0.25, 0.5],
    "size": {"height": 16, "width": 16},
    "resample": 3,
}


def network(seed: int = 0, *, outside: str | None = None) -> dict[str, bytes]:
    """A linear classifier of the mean colour, all axes open, as the hub's exporters write it; its file or files."""
    kernel = numpy_helper.from_array(KERNEL + seed, "kernel")
    files = {}
    if outside is not None:
        files[outside.rpartition("/")[2]] = kernel.raw_data
        kernel.ClearField("raw_data")
        kernel.data_location = TensorProto.EXTERNAL
        kernel.external_data.add(key="location", value=outside)
    nodes = [
        helper.make_node("ReduceMean", ["pixel_values"], ["pooled"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["pooled", "kernel"], ["logits"]),
    ]
    axes = ["batch_size", "num_channels", "height", "width"]
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, axes)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", WIDTH])],
        [kernel],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return {"model.onnx": model.SerializeToString(), **files}


def repository(**more: bytes) -> dict[str, bytes]:
    """The files of a repository with one network."""
    return {
        "README.md": b"---\nlicense: mit\ntags:\n- vision\n---\n# A network\n",
        "preprocessor_config.json": json.dumps(PREPROCESSING).encode(),
        **{f"onnx/{name}": content for name, content in network().items()},
        **more,
    }


@dataclass
class Asked:
    """One request: who got it ("hub" or "storage"), and what it said."""

    host: str
    method: str
    path: str
    headers: dict[str, str]


@dataclass
class LoopbackHub:
    """Repositories by name, each a table of files; `commits` are the commits of their main branch."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    storage: str = ""
    ends: threading.Event = field(default_factory=threading.Event)

    def commit(self, name: str) -> str:
        return self.commits.get(name, COMMIT)

    def fault(self, name: str) -> str:
        """What is wrong with a file: "cut N" after N bytes, "stall N" likewise without an end, "wrong" content,
        "no ranges", "status N", "to ADDRESS" (a redirect), "etag E", "size N", "commit C", "hop"
        (a redirect within the hub)."""
        return self.faults.get(name, "")

    def requests(self, method: str = "GET", host: str = "storage") -> list[Asked]:
        return [asked for asked in self.asked if (asked.method, asked.host) == (method, host)]


def large(name: str) -> bool:
    return "onnx" in name or name.endswith(".bin")


def digest(name: str, content: bytes) -> str:
    if large(name):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: LoopbackHub
    host: str

    def do_GET(self) -> None:
        path = unquote(self.path).removesuffix("?hop")
        self.hub.asked.append(Asked(self.host, self.command, path, dict(self.headers)))
        if self.host == "storage":
            _, repository, name = path.split(":", 2)
            self.send_content(name, self.hub.files[repository][name])
        elif path.startswith("/api/models/"):
            self.send_list(*path.removeprefix("/api/models/").split("/revision/"))
        else:
            owner, name, _, revision, file = path.removeprefix("/").split("/", 4)
            self.send_file(f"{owner}/{name}", revision, file)

    do_HEAD = do_GET  # noqa: N815

    def send_list(self, repository: str, revision: str) -> None:
        fault = self.hub.fault("list")
        if fault.startswith("status "):
            self.send_answer(int(fault.split()[1]), b"", {"X-Error-Code": self.hub.fault("code")})
            return
        if fault.startswith("to "):
            self.send_answer(307, b"", {"Location": fault[3:]})
            return
        if repository not in self.hub.files:
            self.send_answer(401, b"", {"X-Error-Code": "RepoNotFound"})  # the real one does not say what exists
            return
        if revision not in ("main", self.hub.commit(repository)):
            self.send_answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
            return
        names = [{"rfilename": name} for name in self.hub.files[repository]]
        said = {"id": repository, "sha": self.hub.commit(repository), "siblings": names}
        self.send_answer(200, b"x" * 20_000_000 if fault == "long" else json.dumps(said).encode())

    def send_file(self, repository: str, revision: str, name: str) -> None:
        fault, content = self.hub.fault(name), self.hub.files.get(repository, {}).get(name)
        if fault.startswith("status "):
            self.send_answer(int(fault.split()[1]))
            return
        if content is None or revision not in ("main", self.hub.commit(repository)):
            self.send_answer(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        if fault == "hop" and not self.path.endswith("?hop"):  # within the hub, as for files that it has at hand
            self.send_answer(307, b"", {"Location": f"{self.path}?hop"})
            return
        etag, size = digest(name, content), str(len(content))
        etag = fault[5:] if fault.startswith("etag ") else etag
        size = fault[5:] if fault.startswith("size ") else size
        commit = fault[7:] if fault.startswith("commit ") else self.hub.commit(repository)
        headers = {"X-Repo-Commit": commit, "ETag": f'"{etag}"'}
        if not large(name):
            self.send_answer(200, content, headers)
            return
        place = fault[3:] if fault.startswith("to ") else f"{self.hub.storage}/blob:{repository}:{name}"
        linked = {"X-Linked-ETag": f'"{etag}"', "X-Linked-Size": size, "Location": place}
        self.send_answer(302, b"Found", {**headers, **linked, "ETag": '"of the redirect"'})

    def send_content(self, name: str, content: bytes) -> None:
        fault = self.hub.fault(name)
        if fault == "wrong":
            content = content[:-1] + bytes([content[-1] ^ 1])
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if fault == "no ranges":
            start = 0
        size, rest = len(content), content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.end_headers()
        kind, _, number = fault.partition(" ")
        if kind in ("cut", "stall"):
            self.wfile.write(content[start : int(number)])
            self.wfile.flush()
            if kind == "stall":
                self.hub.ends.wait()
            self.close_connection = True
        else:
            self.wfile.write(rest)

    def send_answer(self, status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(hub: LoopbackHub) -> Iterator[LoopbackHub]:
    """Serve a hub and its storage, on two ports, until the end of the block."""
    servers = []
    for host in ("hub", "storage"):
        handler = type("Handler", (Handler,), {"hub": hub, "host": host})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
    hub.url, hub.storage = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    try:
        yield hub
    finally:
        hub.ends.set()
        for server in servers:
            server.shutdown()
            server.server_close()


def hub_files(repository: str, revision: str, names: Sequence[str], *, optional: Sequence[str] = ()) -> Path:
    """The folder of a snapshot with the files of these names, fetched if they are not there; its name is the commit.

    A commit whose files are all in the cache is not asked for. A file of `optional` may be missing in the repository.
    """
    found = find_revision(repository, revision, lambda it: all(map(it.has, names)) and all(map(it.knows, optional)))
    for name in names:
        found.take(name, limits.ONNX_FILE_BYTES)
    for name in optional:
        found.take_if_there(name, limits.ONNX_FILE_BYTES)
    remember(found, revision)
    return found.folder
