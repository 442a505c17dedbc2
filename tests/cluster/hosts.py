"""Several hosts on one machine: network namespaces on a switch, each with folders of its own, and one that serves S3.

Needs root, `ip`, `tc`, `unshare` and `nsenter`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from child import wait_until

NETWORK = "10.77.0"
PORT = 6379
STORE = 100_000_000  # bytes of each node's object store
BUCKET = "yoro"
ATTEMPTS = 5
FIXED = (  # ports of a node's agents: it waits 15 s for those that are not fixed, and a busy machine takes longer
    "--metrics-export-port=7001", "--dashboard-agent-grpc-port=7002", "--dashboard-agent-listen-port=7003",
    "--runtime-env-agent-port=7004",
)  # fmt: skip
FIRST = """
mkdir -p /tmp/ray && mount --bind "$1/tmp" /tmp/ray || exit  # where Ray keeps its sockets
mount --bind "$1" /mnt && mount -t tmpfs none "$(dirname "$1")" && mkdir "$1" && mount --move /mnt "$1" || exit
touch "$1/on"
sleep infinity &
wait
"""  # the first process of a host, which does not see the folders of others, nor their processes: Ray takes any it sees
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
STORAGE = ("moto[s3]", "flask", "flask-cors", "s3fs")  # not in our environment, where they would make Ray start slowly


def lacking() -> str:
    """What is not here of what hosts need, or nothing."""
    tools = [name for name in ("ip", "tc", "unshare", "nsenter") if shutil.which(name) is None]
    if tools:
        return f"{tools[0]} is not installed"
    if os.getuid() != 0:
        return "network namespaces need root"
    made = subprocess.run(["ip", "netns", "add", "yoro-try"], capture_output=True)
    subprocess.run(["ip", "netns", "del", "yoro-try"], capture_output=True)
    return "" if made.returncode == 0 else "network namespaces cannot be made here"


def install_storage(folder: Path) -> str:
    """Install an S3 server and its client into a folder; gives what went wrong, if anything did."""
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *STORAGE]
    done = subprocess.run(words, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip()[-300:]


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


@dataclass
class Host:
    """One host: its namespace, address and folder, and what runs there."""

    name: str
    address: str
    folder: Path
    packages: Path  # beside those of this environment
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *words: object, log: str = "log") -> subprocess.Popen[str]:
        """A process of this host, in a group of its own; what it says goes to a file of the host's folder."""
        command = ["nsenter", "--target", str(self._first()), "--all", f"--wd={self.folder}", *words]
        own = {
            "HOME": str(self.folder / "home"), "PYTHONPATH": str(self.packages),
            "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_ENDPOINT_URL": f"http://{NETWORK}.100:9000", "AWS_DEFAULT_REGION": "us-east-1", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        with (self.folder / log).open("a") as file:
            process = subprocess.Popen(
                [str(word) for word in command], cwd=self.folder, text=True, stdout=file, stderr=subprocess.STDOUT,
                env={**os.environ, **TOKEN, **own}, start_new_session=True,
            )  # fmt: skip
        self.running.append(process)
        return process

    def _first(self) -> int:
        """The first process of this host, without which nothing runs there; it is started if it is not there."""
        on = self.folder / "on"
        if not (first := self.processes("sh\0-c")):
            on.unlink(missing_ok=True)
            shell = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", FIRST, "sh", str(self.folder)]
            self.running.append(subprocess.Popen(["ip", "netns", "exec", self.name, *shell], start_new_session=True))
            wait_until(on.exists, self.running[-1])
            first = self.processes("sh\0-c")
        return first[0]

    def said(self, log: str = "log") -> str:
        return (self.folder / log).read_text()

    def ray(self, *words: object) -> None:
        """Start a Ray node and wait until it is part of the cluster; one that was not within Ray's 30 s tries again."""
        for _ in range(ATTEMPTS):
            begun = self.start(
                Path(sys.executable).with_name("ray"), "start", *words, f"--node-ip-address={self.address}",
                "--num-cpus=1", f"--object-store-memory={STORE}", "--disable-usage-stats", *FIXED, log="ray",
            )  # fmt: skip
            if begun.wait() == 0:
                return
            self.kill()
        raise AssertionError(self.said("ray"))

    def processes(self, beginning: str = "") -> list[int]:
        """The processes of this host whose command line begins so."""
        listed = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True)
        found = []
        for number in listed.stdout.split():
            with suppress(OSError):
                if Path(f"/proc/{number}/cmdline").read_text(errors="replace").startswith(beginning):
                    found.append(int(number))
        return found

    def kill(self) -> None:
        """Kill everything that runs on this host."""
        for number in self.processes():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        for process in self.running:
            process.wait()

    def cable(self, state: str) -> None:
        """Pull the cable ("down") or plug it in again ("up")."""
        mark, number = self.name.rsplit("-", 1)
        ip("-n", f"{mark}-switch", "link", "set", f"p{number}", state)

    def slow(self, rate: str) -> None:
        """Make the line slow in both directions, such as 10mbit; what waits for it waits up to 0.4 s, then is lost."""
        mark, number = self.name.rsplit("-", 1)
        for place, device in ((self.name, "eth0"), (f"{mark}-switch", f"p{number}")):
            limit = f"tc qdisc add dev {device} root tbf rate {rate} burst 32kbit latency 400ms"
            subprocess.run(["ip", "netns", "exec", place, *limit.split()], check=True)


@contextmanager
def network(folder: Path, count: int, packages: Path) -> Iterator[list[Host]]:
    """`count` hosts that reach each other and nothing else; the last one serves S3."""
    mark = f"yoro{secrets.token_hex(2)}"
    switch, hosts = f"{mark}-switch", list[Host]()
    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for number in [*range(1, count + 1), 100]:
            host = Host(f"{mark}-{number}", f"{NETWORK}.{number}", folder / f"host-{number}", packages)
            for part in ("tmp", "home"):
                (host.folder / part).mkdir(parents=True)
            ip("netns", "add", host.name)
            hosts.append(host)
            ip("-n", host.name, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{number}", "netns", switch)
            ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", host.name, "link", "set", device, "up")
            ip("-n", switch, "link", "set", f"p{number}", "master", "br0", "up")
        yield hosts
    finally:
        for host in hosts:
            host.kill()
        for name in [*(host.name for host in hosts), switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


SERVER = """
import sys
from moto.server import main
main(["-H", "0.0.0.0", "-p", "9000"])
"""
UPLOAD = """
import sys
import s3fs
s3 = s3fs.S3FileSystem()
s3.mkdir(sys.argv[1])
for place in sys.argv[2:]:
    s3.put(place, f"{sys.argv[1]}/", recursive=True)
"""


def serve_s3(host: Host, *places: Path) -> None:
    """Start an S3 server on a host, with these files and folders in its bucket."""
    server = host.start(sys.executable, "-c", SERVER, log="s3")
    wait_until(lambda: "Running on" in host.said("s3"), server)
    upload = host.start(sys.executable, "-c", UPLOAD, BUCKET, *places, log="upload")
    assert upload.wait() == 0, host.said("upload")
