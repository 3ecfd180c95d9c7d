"""A headless Chromium for tests, spoken to over its own debugging pipe: no driver, no package, no port.

Chromium reads commands from file descriptor 3 and answers on 4, JSON documents that end in a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


class Page:
    """One page: what it is told, what it asks of the network, what it prints to its console."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._buffer = b""
        self._count = 0
        self._session = ""
        self.requests: list[str] = []
        self.problems: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command; gives its result."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(60)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("Chromium did not answer")
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise ConnectionError("Chromium has gone")
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        event = json.loads(text)
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:500])
        elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(params["args"])[:500])
        elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        return event

    def open(
        self,
        path: Path,
        width: int = 1400,
        height: int = 900,
        *,
        mobile: bool = False,
        dark: bool = False,
        fragment: str = "",
    ) -> None:
        """Load a file from disk, afresh, and wait until it has loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=path.resolve().as_uri() + (f"#{fragment}" if fragment else ""))
        end = time.monotonic() + 60
        while self.run("document.readyState + location.protocol") != "completefile:":
            if time.monotonic() > end:
                raise TimeoutError(f"{path} did not load")
            time.sleep(0.05)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:800])
        return result["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """A key, as the keyboard sends it."""
        for kind in ("keyDown", "keyUp"):
            text = "\r" if key == "Enter" and kind == "keyDown" else ""
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """A PNG of what is on the screen, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        """The page as a printer gets it."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])

    def outside(self) -> list[str]:
        """Requests that went anywhere but to the file itself."""
        return [url for url in self.requests if not url.startswith(("file:", "data:", "about:"))]


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """A fresh browser with a profile of its own; gone afterwards."""
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    # Out of the way of 3 and 4, which the child must find its ends at.
    ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (commands_out, answers_in)]
    os.close(commands_out)
    os.close(answers_in)

    def wire() -> None:
        os.dup2(ends[0], 3)
        os.dup2(ends[1], 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, preexec_fn=wire, pass_fds=(3, 4), stdout=quiet, stderr=quiet)
        for fd in ends:
            os.close(fd)
        try:
            yield Page(commands_in, answers_out)
        finally:
            with contextlib.suppress(OSError):
                os.write(commands_in, b'{"id":0,"method":"Browser.close"}\0')
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(commands_in)
            os.close(answers_out)
