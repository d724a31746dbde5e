"""Runs `mngr web` for a test, and asks it as a browser, a script or an attacker would."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from tests.conftest import BIN_DIR, MngrProgram


class LiveServer:
    """A running `mngr web`. Use it as `with LiveServer(mngr) as server:`."""

    def __init__(self, mngr: MngrProgram, *words: str) -> None:
        self.mngr = mngr
        self.words = words
        self.start()

    def start(self) -> None:
        """Start the program, and wait until it prints its URL."""
        self._process = subprocess.Popen(
            [str(BIN_DIR / "mngr"), "web", *self.words], cwd=self.mngr.repo, env=self.mngr.env, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None and self._process.stderr is not None
        self.url = self._process.stdout.readline().decode().strip()
        assert self.url, self._process.stderr.read().decode()
        self.base, _, self.token = self.url.partition("/?token=")
        self.port = int(self.base.rpartition(":")[2])

    def __enter__(self) -> LiveServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(signal.SIGINT)

    def end(self, signal_number: int) -> int:
        """End the program with a signal, and return its exit code."""
        self._process.send_signal(signal_number)
        try:
            return self._process.wait(20)
        finally:
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()

    def ask(
        self, path: str, headers: Mapping[str, str] | None = None, *, method: str = "GET", body: bytes | None = None
    ) -> tuple[int, dict[str, str], str]:
        """Return the code, the headers and the text of an answer to exactly these headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.putrequest(method, path, skip_host=True)
        for name, value in {"Host": f"127.0.0.1:{self.port}", **(headers or {})}.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        is_stream = response.getheader("content-type", "").startswith("text/event-stream")  # It never ends.
        text = "" if is_stream else response.read().decode("utf-8", "replace")
        connection.close()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, text

    @property
    def cookie(self) -> str:
        """The cookie that the server sets for its token."""
        return self.ask(f"/?token={self.token}")[1]["set-cookie"].partition(";")[0]

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
        """Ask for a page with the cookie."""
        return self.ask(path, {"Cookie": self.cookie, **headers})

    def post(self, path: str, facts: object, **headers: str) -> tuple[int, dict[str, Any]]:
        """Request a change as the page's script does."""
        sent = {"Cookie": self.cookie, "X-Mngr-Token": self.token, "Content-Type": "application/json", **headers}
        code, _, text = self.ask(path, sent, method="POST", body=json.dumps(facts).encode())
        return code, json.loads(text) if text.startswith("{") else {"text": text}

    @contextmanager
    def stream(self, path: str) -> Iterator[EventReader]:
        """Follow the events of a path."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path, headers={"Cookie": self.cookie})
        try:
            yield EventReader(connection.getresponse())
        finally:
            connection.close()


class EventReader:
    """The events of one stream."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        assert response.status == 200, response.read()
        self._response = response
        self.lock = threading.Lock()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        name = ""
        while line := self._response.readline():
            word, _, value = line.decode().rstrip("\n").partition(": ")
            if word == "event":
                name = value
            elif word == "data":
                yield name, json.loads(value)
