"""A Ray to work on: one of this machine, started for the run and ended with it, or one that runs elsewhere."""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from yoro.environment import cores, install, refuse_telemetry
from yoro.errors import InputError, YoroError, one_line
from yoro.model.settings import ClusterSettings, Tell, silence
from yoro.sources.open import member_names

LOCAL = "local"
STORE_BYTES = 2_000_000_000  # bytes of a local object store, which holds pixels in transit; less if memory is small
STORE_SHARE = 0.3  # of the memory that is free
QUIET = {  # without these Ray writes to the terminal and shows a bar for every stage
    "RAY_DEDUP_LOGS": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a worker without a GPU sees what the machine has
    "RAY_BACKEND_LOG_LEVEL": "fatal",
}
ASKED = ("http:", "https:", "endpoint:")  # sources that are not run here
LEFT_OUT = ("start_api_server", "start_monitor")  # methods of Ray's Node that contact other hosts
LAST_WORDS = 300  # characters of what Ray said
HTTP2, SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", b"\4"  # how clients begin, and servers answer
PATIENCE = 10.0  # seconds for the machine at an address to answer
LOOK = 5.0  # seconds between two looks whether the head is there
READ_SHARE = 0.25  # of a core for a task that reads or merges; the rest is the source's, so that neither waits for ever


def need_ray() -> None:
    """Raise if the extra is not installed, with the command that installs it."""
    lacking = [name for name in ("ray", "pyarrow", "fsspec") if importlib.util.find_spec(name) is None]
    if lacking:
        raise YoroError(f"--ray needs {lacking[0]}, which is not installed: {install('ray')}")


def refuse_endpoint(source: str) -> None:
    """Raise if a source is not run here but asked over the network."""
    if source.startswith(ASKED):
        raise InputError(
            f"{source!r} runs on a remote host: Ray would not make it faster, and every process would have its own "
            "budget. Remove --ray; `concurrency` in the source's file sets how many calls run at once."
        )


@contextmanager
def ray_session(settings: ClusterSettings, source: str = "", tell: Tell = silence) -> Iterator[int]:
    """A Ray for the time of the block; gives the number of actors that it has room for.

    One that the program is connected to already is used and left as it is. For a source that is a Python function the
    workers may import modules of the working directory; for any other, nothing there is executed.
    """
    need_ray()
    refuse_endpoint(source)
    from_here = any(name.startswith("callable:") for name in member_names(source))
    refuse_telemetry()
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        with _spoken(settings):
            yield _room(settings)
        return
    if settings.ray == LOCAL:
        _actors(settings, cores())
        tell("Starting Ray on this machine, which takes 10 to 20 seconds ...")
    else:
        tell(f"Connecting to Ray at {settings.ray} ...")
    place = _own_folder()
    empty = place / "empty"
    empty.mkdir()
    try:
        with nullcontext() if from_here else chdir(empty), _hushed():
            _start(settings, place if settings.ray == LOCAL else None)
        with _spoken(settings), nullcontext() if settings.ray == LOCAL else _watched(str(settings.ray), tell):
            yield _room(settings)
    finally:
        ray.shutdown()
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _spoken(settings: ClusterSettings) -> Iterator[None]:
    """Turn an error of Ray into ours, with its last words and what to do."""
    import ray

    try:
        yield
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        told = one_line(cause)
        if isinstance(cause, ImportError) or "ImportError: " in told or "ModuleNotFoundError: " in told:
            lacking = told.rpartition("Error: ")[2].rstrip(".")
            raise YoroError(
                f"A machine of the cluster lacks a package: {lacking}. Install the same packages on all of them."
            ) from error
        where, words = "here" if settings.ray == LOCAL else f"at {settings.ray!r}", told[-LAST_WORDS:]
        raise YoroError(
            f"Ray {where} did not finish the run: {type(cause).__name__}: {words} Finished blocks are kept. Check its "
            "machines, then run the same command with --resume."
        ) from error


@contextmanager
def _watched(address: str, tell: Tell) -> Iterator[None]:
    """Tell the user when the head node stops answering: Ray ends this process a minute later, silently."""
    import ray

    head = address if "://" in address else str(ray.get_runtime_context().gcs_address)
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK):
            try:
                _knock(head)
            except YoroError:
                tell(
                    f"Ray's head node at {head!r} no longer answers. If it does not come back within a minute, Ray "
                    "ends this run. Finished blocks are kept: start a head node, then repeat the command with --resume."
                )
                return

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _own_folder() -> Path:
    """A folder for the files of Ray, named after this process; those of dead processes are removed."""
    for left in Path(tempfile.gettempdir()).glob("yoro-ray-*"):
        number = left.name.split("-")[2]
        with suppress(OSError):
            if number.isdigit() and left.stat().st_uid == os.getuid() and not Path(f"/proc/{number}").exists():
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"yoro-ray-{os.getpid()}-"))


@contextmanager
def _hushed() -> Iterator[None]:
    """Nothing on stderr: native code of Ray talks of its log levels. What goes wrong is raised."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    sys.stderr.flush()
    with Path(os.devnull).open("w") as nowhere, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = os.dup(2)
        try:
            os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _start(settings: ClusterSettings, place: Path | None) -> None:
    import ray

    said: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False, "configure_logging": False}
    if place is None:
        _knock(str(settings.ray))
        try:
            ray.init(settings.ray, **said)
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            raise YoroError(_refused(str(settings.ray), one_line(error))) from error
        return
    if not any(name in os.environ for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # nobody else may use it; in no file of the user's home
    try:
        with _by_itself():
            ray.init(
                num_cpus=cores(), include_dashboard=False, object_store_memory=_store_bytes(),
                _node_ip_address="127.0.0.1", _temp_dir=str(place), **said,
            )  # fmt: skip
    except Exception as error:
        busy = " This machine may be too busy: try again later." if "timed out" in str(error) else ""
        raise YoroError(f"Ray could not be started here: {one_line(error)[:300]}{busy}") from error


def _refused(address: str, told: str) -> str:
    """Why a Ray could not be connected to, and what to do."""
    if "ersion mismatch" in told:
        return f"Ray at {address!r} and this machine have different versions; install the same: {told[:400]}"
    if any(word in told for word in ("ailed to connect to", "AuthenticationError", "InvalidAuthToken")):
        return (
            f"Ray at {address!r} refuses this machine. If it requires a token, as recent "
            "versions do, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, as on its head node."
        )
    return f"Ray does not answer at {address!r}: {told[:300]}. Is it the address of a head node?"


def _knock(address: str) -> None:
    """Raise unless Ray listens at an address: Ray itself would retry for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as line:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            line.sendall(HTTP2)
            answered = line.makefile("rb").read(4)
        if answered[3:] != SETTINGS:
            raise YoroError(
                f"{address!r} is not a Ray head node: it answers {answered!r}. Give the address of a head node; its "
                "port is 6379 by default."
            )
    except (OSError, OverflowError) as error:
        raise YoroError(
            f"Ray does not answer at {address!r}: {one_line(error)}. Is it the address of a head node?"
        ) from error


@contextmanager
def _by_itself() -> Iterator[None]:
    """Start a local Ray that contacts no other host.

    By default Ray asks the metadata services of clouds where it runs, even with usage reports off, and looks for an
    address at which others could reach it. A local Ray needs neither. Ray has no setting for it; a dead proxy in its
    environment would do, but starts 9 s later, and must be hidden from workers.
    """
    from ray import __version__
    from ray._private import node, ray_constants

    if lacking := [name for name in LEFT_OUT if not callable(getattr(node.Node, name, None))]:
        raise YoroError(
            f"Ray {__version__} lacks Node.{lacking[0]}, which is needed to keep Ray from contacting other hosts. "
            "Install an earlier Ray, or start one with `ray start --head` and use --ray auto."
        )
    loopback = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # "0" makes 127.0.0.1 its address, on every system
    before = {name: getattr(node.Node, name) for name in LEFT_OUT}
    joins, told = ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(loopback)
    os.environ[loopback], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        for name in LEFT_OUT:
            setattr(node.Node, name, lambda *_, **__: None)
        yield
    finally:
        for name, method in before.items():
            setattr(node.Node, name, method)
        ray_constants.ENABLE_RAY_CLUSTER = joins
        os.environ.pop(loopback) if told is None else os.environ.update({loopback: told})


def _store_bytes() -> int:
    """Bytes of the object store: of what is free, in memory and where shared memory lies."""
    free = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * STORE_SHARE]
    if Path("/dev/shm").is_dir():
        free.append(shutil.disk_usage("/dev/shm").free * 0.9)
    return max(80_000_000, int(min(STORE_BYTES, *free)))


def _room(settings: ClusterSettings) -> int:
    """The number of actors requested, or as many as the cluster's cores have room for."""
    import ray

    return _actors(settings, int(ray.cluster_resources().get("CPU", 1)))


def _actors(settings: ClusterSettings, found: int) -> int:
    """The number of actors for so many cores."""
    room = max(1, found // settings.ray_threads)
    if settings.ray_actors is not None and settings.ray_actors > room:
        raise YoroError(
            f"{settings.ray_actors} actors of {settings.ray_threads} threads were requested, and this Ray has {found} "
            f"cores: room for {room}. Ask for fewer (--ray-actors, --ray-threads)."
        )
    return settings.ray_actors or room
