"""Drives a real Chromium over its debugging pipe: open pages, evaluate JavaScript, take screenshots."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
    "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-default-browser-check", "--remote-debugging-pipe", "--hide-scrollbars", "--window-size=1400,900",
)  # fmt: skip


class Navigated(Exception):
    """The page changed while it was being asked."""


class Browser:
    """Use it as `with Browser() as browser:`. It shows one page at a time."""

    def __init__(self) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        assert program, "there is no Chromium: apt-get install chromium"
        self._profile = tempfile.mkdtemp(prefix="mngr-chromium-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        script = 'exec "$0" "$@" 3<&"$IN" 4>&"$OUT"'
        env = {**os.environ, "IN": str(to_read), "OUT": str(to_write), "HOME": self._profile}
        self._process = subprocess.Popen(
            ["bash", "-c", script, program, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            env=env, pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._heard = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, 9)
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, url: str) -> None:
        """Open a URL and wait until it is loaded."""
        self.events.clear()
        self._call("Page.navigate", url=url)
        self._until("Page.loadEventFired")

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        reply = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def wait(self, expression: str, timeout: float = 15.0) -> Any:
        """Return the value of an expression once it is true, also on the page that follows this one."""
        deadline = time.monotonic() + timeout
        while not (value := self._ask_whatever_page(expression)):
            assert time.monotonic() < deadline, f"{expression} stayed {value!r}"
            time.sleep(0.05)
        return value

    def _ask_whatever_page(self, expression: str) -> Any:
        try:
            return self.ask(expression)
        except Navigated:
            return None

    def resize(self, width: int, height: int) -> None:
        """Give the page another size."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def photograph(self, path: Path) -> None:
        """Save a screenshot of the page."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    @property
    def complaints(self) -> list[str]:
        """The errors since the page was opened: exceptions, blocked content and failed requests."""
        errors: list[str] = []
        for event in self.events:
            if event["method"] == "Runtime.exceptionThrown":
                errors.append(str(event["params"]["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                errors.append(str(event["params"]["entry"]["text"]))
            elif event["method"] == "Network.loadingFailed":
                errors.append(str(event["params"]["errorText"]))
        return errors

    @property
    def fetched(self) -> list[str]:
        """The URLs that the page requested since it was opened."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "navigated" in str(answer.get("error")):
                    raise Navigated(answer["error"])
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            if "method" in answer:
                self.events.append(answer)

    def _until(self, method: str) -> None:
        while not any(event["method"] == method for event in self.events):
            answer = self._next()
            if "method" in answer:
                self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._heard:
            data = os.read(self._read, 1 << 20)
            assert data, "Chromium has ended"
            self._heard += data
        text, _, self._heard = self._heard.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message
