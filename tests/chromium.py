"""A real Chromium, driven over WebDriver: a few calls of HTTP, and what the pages of this project need of them."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from browser import lacking
from child import BOUND, wait_until

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element, by the standard
KEYS = {"control": "\ue009", "shift": "\ue008", "delete": "\ue017", "right": "\ue014", "enter": "\ue007"}


class Browser:
    """One window."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client, self._session = client, session

    def call(self, method: str, path: str, **body: object) -> object:
        sent = {"json": body} if method == "POST" else {}
        answer = self._client.request(method, f"/session/{self._session}/{path}", **sent)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def open(self, address: str) -> None:
        self.call("POST", "url", url=address)

    def run(self, script: str, *words: object) -> object:
        """What a script returns."""
        return self.call("POST", "execute/sync", script=script, args=list(words))

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def count(self, selector: str) -> int:
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))  # type: ignore[call-overload]

    def click(self, selector: str) -> None:
        self.call("POST", f"element/{self._find(selector)}/click")

    def type(self, selector: str, text: str) -> None:
        self.call("POST", f"element/{self._find(selector)}/value", text=text)

    def keys(self, *keys: str) -> None:
        """Press keys together, wherever the focus is."""
        values = [KEYS.get(key, key) for key in keys]
        steps = [{"type": "keyDown", "value": value} for value in values]
        steps += [{"type": "keyUp", "value": value} for value in reversed(values)]
        self.call("POST", "actions", actions=[{"type": "key", "id": "keys", "actions": steps}])

    def until(self, script: str, *words: object) -> None:
        """Wait for a script to return something true."""
        wait_until(lambda: bool(self.run(script, *words)))

    def size(self, width: int, height: int) -> None:
        """The size of the page, as a device of that width has it; a window cannot be so narrow."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700
        )

    def devtools(self, command: str, **given: object) -> object:
        """A command of Chromium's own."""
        return self.call("POST", "goog/cdp/execute", cmd=command, params=given)

    def picture(self, path: Path) -> None:
        """The page as it looks now."""
        path.write_bytes(base64.b64decode(str(self.call("GET", "screenshot"))))

    def _find(self, selector: str) -> str:
        found = self.call("POST", "element", using="css selector", value=selector)
        return found[ELEMENT]  # type: ignore[index]


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with a camera that shows a test picture; it downloads into the folder. Skipped where there is none."""
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    if driver is None or chromium is None:
        lacking("chromium and chromedriver are not installed (apt-get install chromium chromium-driver)")
    log = folder / "driver.log"
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"]
    flags += ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", "--disable-background-networking"]
    flags += [f"--user-data-dir={folder / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    options = {"binary": chromium, "args": flags, "prefs": {"download.default_directory": str(folder)}}
    with log.open("w") as sink:
        process = subprocess.Popen([driver, "--port=0"], stdout=sink, stderr=sink, env=dict(os.environ))
    try:
        wait_until(lambda: "on port " in log.read_text().partition("started successfully")[2], None)
        port = int(log.read_text().rpartition("on port ")[2].split(".")[0])
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=BOUND, trust_env=False) as client:
            wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
            answer = client.post("/session", json={"capabilities": wanted})
            assert answer.status_code == 200, answer.text
            session = answer.json()["value"]["sessionId"]
            try:
                yield Browser(client, session)
            finally:
                client.delete(f"/session/{session}")
    finally:
        process.terminate()
        process.wait()
