"""Logs each request and its answer: the latest rows in memory, all rows in a file."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from mngr.base.json_structs import encode
from mngr.base.model import Struct

_MAX_ROWS = 10_000
_SECRET_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization")


class LoggedTurn(Struct):
    """The last message of a conversation, cut to a few characters."""

    role: str
    text: str


class LoggedAnswer(Struct):
    """The answer that a request got: the start of its text, and the names of the called tools."""

    text: str
    calls: tuple[str, ...]


class LoggedConversation(Struct):
    """The part of a request for an answer that the log shows."""

    model: str
    stream: bool
    turns: int
    last: LoggedTurn | None
    tools: tuple[str, ...]
    bytes: int
    tokens: dict[str, int]
    source: str | None = None
    step: int | None = None
    asked: int | None = None  # how many requests the step got so far
    fault: str | None = None
    answer: LoggedAnswer | None = None


@dataclass
class LogRow:
    """A request and its outcome. Only the log changes a row, until the row is closed."""

    number: int
    at: float
    session: str
    api: str
    client: str | None
    path: str | None = None
    bytes: int | None = None
    conversation: LoggedConversation | None = None
    status: int | None = None
    seconds: float | None = None
    gone: str | None = None  # why the connection ended early
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row as the log file shows it. Fields that do not apply to the request are left out."""
        details: dict[str, object] = {"path": self.path, "bytes": self.bytes}
        trouble: dict[str, object] = {"gone": self.gone, "error": self.error}
        return {
            "n": self.number,
            "at": self.at,
            "session": self.session,
            "api": self.api,
            **_drop_missing(details),
            **(encode(self.conversation) or {}),
            "client": self.client,
            "status": self.status,
            "seconds": self.seconds,
            **_drop_missing(trouble),
        }


class RequestLog:
    """A row is added when a request arrives, and written to the file when it is answered."""

    def __init__(self, path: str | None = None, dump: str | None = None) -> None:
        self._rows: deque[LogRow] = deque(maxlen=_MAX_ROWS)
        self._under_way: dict[int, LogRow] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._dump = dump
        self._fd: int | None = None
        self.trouble: str | None = None  # why the log file or the dump is incomplete
        if dump:
            os.makedirs(dump, mode=0o700, exist_ok=True)
        if path:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def __len__(self) -> int:
        return self._count

    def add_row(
        self,
        session: str,
        api: str,
        client: str | None,
        *,
        path: str | None = None,
        size: int | None = None,
        conversation: LoggedConversation | None = None,
    ) -> LogRow:
        """Add a row for a request that arrived, and return it."""
        at = round(time.time(), 3)
        with self._lock:
            row = LogRow(self._count, at, session, api, client, path=path, bytes=size, conversation=conversation)
            self._under_way[self._count] = row
            self._count += 1
            self._rows.append(row)
        return row

    def update_conversation(self, row: LogRow, conversation: LoggedConversation) -> None:
        """Set what a row shows of its conversation."""
        with self._lock:
            row.conversation = conversation

    def close_row(
        self, row: LogRow, status: int | None = None, *, gone: str | None = None, error: str | None = None
    ) -> None:
        """Set the outcome of a request, and write its row to the file."""
        with self._lock:
            row.status, row.gone, row.error = status, gone, error
            row.seconds = max(0.0, round(time.time() - row.at, 3))
            if self._under_way.pop(row.number, None):
                self._write_row(row)

    def list_rows(self, session: str | None = None, since: int = 0) -> list[dict[str, Any]]:
        """Return the rows in memory as JSON, of one session or all, from number `since` on."""
        with self._lock:
            return [row.to_json() for row in self._rows if row.number >= since and session in (None, row.session)]

    def clear(self) -> None:
        """Delete the rows in memory."""
        with self._lock:
            self._rows.clear()

    def dump_request(self, row: LogRow, path: str, headers: dict[str, str], body: object) -> None:
        """Write a whole request to the dump directory, without its credentials."""
        if not self._dump:
            return
        redacted = {name: "…" if name.lower() in _SECRET_HEADERS else value for name, value in headers.items()}
        safe_session = "".join(c if c.isalnum() or c in "-_." else "_" for c in row.session)[:100]
        file = os.path.join(self._dump, f"{row.number:06}-{safe_session}-{row.api}.json")
        try:
            fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as out:
                out.write(json.dumps({"path": path, "headers": redacted, "body": body}) + "\n")
        except OSError as error:
            self.trouble = f"cannot write the dump: {error.strerror}"

    def write_unanswered_and_close(self) -> None:
        """Write the rows of unanswered requests, and close the file."""
        with self._lock:
            for row in self._under_way.values():
                self._write_row(row)
            self._under_way.clear()
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _write_row(self, row: LogRow) -> None:
        if self._fd is None:
            return
        data = json.dumps(row.to_json()).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self.trouble = f"cannot write the log: {error.strerror}"


def _drop_missing(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
