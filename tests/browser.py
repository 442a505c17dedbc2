"""Real Chromium, driven through a pipe by its own protocol: no driver, no port, nothing from outside."""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest

from child import wait_until

NAMES = ("chromium", "chromium-browser", "google-chrome")
INSECURE = "plain.test"  # a name for this machine that the browser does not trust as it trusts 127.0.0.1
NEAR = "EXCLUDE 127.0.0.1"  # the only address that a browser reaches, unless another is named
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--window-size=1280,900",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    f"--host-resolver-rules=MAP {INSECURE} 127.0.0.1, MAP * ~NOTFOUND, {NEAR}",
    "--remote-debugging-pipe",
)
KEYS = {  # name, code
    "delete": ("Delete", 46),
    "enter": ("Enter", 13),
    "escape": ("Escape", 27),
    "tab": ("Tab", 9),
    "right": ("ArrowRight", 39),
}
HELD = {"control": 2, "shift": 8}  # bits of the keys that are held while another is pressed
# The browser reads commands from descriptor 3 and writes answers to 4.
PIPES = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for end, place in zip(ends, (3, 4)):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


def lacking(what: str) -> NoReturn:
    """Skip the test, and say why; where it could have been installed and everything must be tested, it fails."""
    if os.environ.get("CI") and hasattr(os, "geteuid") and os.geteuid() == 0:
        pytest.fail(what)
    pytest.skip(what)


def chromium() -> str:
    """Where Chromium is; without it the test is skipped, and that is said."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return found or lacking("Chromium is not installed: apt-get install chromium")


class Page:
    """One page of a browser: commands of the protocol, and every request that it made."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = os.fdopen(commands, "wb", buffering=0)
        self._answers = os.fdopen(answers, "rb")
        self._asked = 0
        self._lock = threading.Lock()  # the thread that reads also sends
        self._replies: dict[int, dict[str, object]] = {}
        self._session: str | None = None
        self._loads = 0
        self._line: dict[str, object] | None = None  # how fast every session's network is
        self.requests: list[str] = []
        self.faults: list[str] = []  # exceptions, and lines of the console that are errors
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._watch(self._session)
        for domain in ("Page", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **given: object) -> dict:
        """The result of a command."""
        number = self._send(method, given, self._session)
        wait_until(lambda: number in self._replies or not self._reader.is_alive())
        reply = self._replies.pop(number)
        assert "error" not in reply, (method, reply)
        return reply["result"]

    def run(self, script: str, *words: object) -> object:
        """What JavaScript gives, awaited: an expression, or the body of a function that returns and has `arguments`."""
        if words or re.search(r"\breturn\b", script):
            script = f"(function () {{ {script}\n}})(...{json.dumps(words)})"
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def count(self, selector: str) -> int:
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))  # type: ignore[call-overload]

    def open(self, address: str) -> None:
        """Go to an address, and wait until the page with all that it names is there."""
        before = self._loads
        self.call("Page.navigate", url=address)
        wait_until(lambda: self._loads > before)

    def reload(self) -> None:
        before = self._loads
        self.call("Page.reload")
        wait_until(lambda: self._loads > before)

    def until(self, script: str, *words: object) -> None:
        """Wait until a script gives something true."""
        wait_until(lambda: bool(self.run(script, *words)))

    def press(self, selector: str) -> None:
        """Press the mouse on the middle of an element that lies still, and hold it."""
        found: list[object] = []
        wait_until(lambda: found.append(self._middle(selector)) or bool(found[-1]))
        self._held_at = found[-1]
        self._mouse("mousePressed")

    def release(self) -> None:
        """Let the mouse go."""
        self._mouse("mouseReleased")

    def click(self, selector: str) -> None:
        self.press(selector)
        self.release()

    def type(self, selector: str, text: str) -> None:
        """Type into a field."""
        self.run("document.querySelector(arguments[0]).focus()", selector)
        self.call("Input.insertText", text=text)

    def keys(self, *keys: str) -> None:
        """Press keys together, wherever the focus is."""
        *held, last = keys
        bits = sum(HELD[key] for key in held)
        name, code = KEYS.get(last, (last.upper() if "shift" in held else last, ord(last[0].upper())))
        plain = {"text": last} if last not in KEYS and "control" not in held else {}
        for kind, text in (("keyDown" if plain else "rawKeyDown", plain), ("keyUp", {})):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, modifiers=bits, **text)

    def give(self, selector: str, files: list[Path]) -> None:
        """Choose files in a field."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(file.resolve()) for file in files])

    def resize(self, width: int, height: int, *, phone: bool = False, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def throttle(self, line: dict[str, object]) -> None:
        """From now on, the page and its workers have a network as slow as `Network.emulateNetworkConditions` says."""
        self._line = line
        self.call("Network.emulateNetworkConditions", **line)

    def photograph(self, file: Path, *, whole: bool = True) -> None:
        """The whole page, or the part of it in the window, as a PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """End the browser."""
        self._send("Browser.close", {}, None)
        self._reader.join()
        self._commands.close()
        self._answers.close()

    def _middle(self, selector: str) -> object:
        """Where an element is, if it lies still and nothing lies above it; else nothing."""
        return self.run(
            """
            const found = document.querySelector(arguments[0]);
            const at = () => {
              const box = found.getBoundingClientRect();
              return [box.x + box.width / 2, box.y + box.height / 2];
            };
            found.scrollIntoView({block: "center", behavior: "instant"});
            const [x, y] = at(), hit = document.elementFromPoint(x, y);
            if (hit === null || !found.contains(hit)) return null;
            return new Promise((done) => setTimeout(() => {
              const [u, v] = at();
              done(u === x && v === y ? {x, y} : null);
            }, 50));
            """,
            selector,
        )

    def _mouse(self, kind: str) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, **self._held_at, button="left", clickCount=1)  # type: ignore[arg-type]

    def _send(self, method: str, given: dict[str, object], session: str | None) -> int:
        with self._lock:
            self._asked += 1
            message = {"id": self._asked, "method": method, "params": given}
            if session is not None:
                message["sessionId"] = session
            self._commands.write(json.dumps(message).encode() + b"\0")
            return self._asked

    def _watch(self, session: str) -> None:
        """Hear of requests and errors of a page or a worker, and of the workers that it starts."""
        for domain in ("Network", "Runtime", "Log"):
            self._send(f"{domain}.enable", {}, session)
        if self._line is not None:
            self._send("Network.emulateNetworkConditions", self._line, session)
        further = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        self._send("Target.setAutoAttach", further, session)
        self._send("Runtime.runIfWaitingForDebugger", {}, session)

    def _read(self) -> None:
        rest = b""
        while chunk := self._answers.read1(1 << 20):
            *messages, rest = (rest + chunk).split(b"\0")
            for text in messages:
                self._hear(json.loads(text))

    def _hear(self, message: dict) -> None:
        if "id" in message:
            self._replies[message["id"]] = message
            return
        kind, said = message["method"], message["params"]
        if kind == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif kind == "Page.loadEventFired":
            self._loads += 1
        elif kind == "Runtime.exceptionThrown":
            self.faults.append(json.dumps(said["exceptionDetails"]))
        elif kind == "Log.entryAdded" and said["entry"]["level"] == "error":
            self.faults.append(said["entry"]["text"] + " " + said["entry"].get("url", ""))
        elif kind == "Runtime.consoleAPICalled" and said["type"] == "error":
            self.faults.append(json.dumps(said))
        elif kind == "Target.attachedToTarget":
            self._watch(said["sessionId"])


@contextmanager
def browser(downloads: Path | None = None, reach: str | None = None) -> Iterator[Page]:
    """A page in a browser of its own, which ends with it; it may download, and reach one more address."""
    switches = [one.replace(NEAR, f"{NEAR}, EXCLUDE {reach}" if reach else NEAR) for one in SWITCHES]
    command_out, command_in = os.pipe()
    answer_out, answer_in = os.pipe()
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [str(command_out), str(answer_in), chromium(), *switches, f"--user-data-dir={profile}"]
        running = subprocess.Popen(
            [sys.executable, "-c", PIPES, *words],
            pass_fds=(command_out, answer_in),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_out)
        os.close(answer_in)
        page = Page(command_in, answer_out)
        if downloads is not None:
            page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
        try:
            yield page
        finally:
            page.close()
            running.wait(60)


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, and nothing printed."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a plain file server of a folder."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
