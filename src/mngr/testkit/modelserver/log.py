"""Logs each request and its answer: the latest rows in memory, all rows in a file."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from typing import Any

_MAX_ROWS = 10_000
_SECRET_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization")


class RequestLog:
    """A row is added when a request arrives, and written to the file when it is answered."""

    def __init__(self, path: str | None = None, dump: str | None = None) -> None:
        self._rows: deque[dict[str, Any]] = deque(maxlen=_MAX_ROWS)
        self._under_way: dict[int, dict[str, Any]] = {}
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

    def add_row(self, **fields: Any) -> dict[str, Any]:
        """Add a row and return it. Its fields may change until it is closed."""
        with self._lock:
            row = {"n": self._count, "at": round(time.time(), 3), **fields, "status": None, "seconds": None}
            self._under_way[self._count] = row
            self._count += 1
            self._rows.append(row)
        return row

    def update_row(self, row: dict[str, Any], **fields: Any) -> None:
        """Set more fields of a row."""
        with self._lock:
            row.update(fields)

    def close_row(self, row: dict[str, Any], **fields: Any) -> None:
        """Set the last fields of a row when its request is answered, and write it to the file."""
        with self._lock:
            row.update(fields, seconds=max(0.0, round(time.time() - row["at"], 3)))
            if self._under_way.pop(row["n"], None):
                self._write_row(row)

    def list_rows(self, session: str | None = None, since: int = 0) -> list[dict[str, Any]]:
        """Return copies of the rows in memory, of one session or all, from number `since` on."""
        with self._lock:
            return [dict(row) for row in self._rows if row["n"] >= since and session in (None, row["session"])]

    def clear(self) -> None:
        """Delete the rows in memory."""
        with self._lock:
            self._rows.clear()

    def dump_request(self, row: dict[str, Any], path: str, headers: dict[str, str], body: Any) -> None:
        """Write a whole request to the dump directory, without its credentials."""
        if not self._dump:
            return
        redacted = {name: "…" if name.lower() in _SECRET_HEADERS else value for name, value in headers.items()}
        safe_session = "".join(c if c.isalnum() or c in "-_." else "_" for c in row["session"])[:100]
        file = os.path.join(self._dump, f"{row['n']:06}-{safe_session}-{row['api']}.json")
        try:
            fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as out:
                out.write(json.dumps({"path": path, "headers": redacted, "body": body}) + "\n")
        except OSError as error:
            self.trouble = f"the dump: {error.strerror}"

    def close_file(self) -> None:
        """Write the rows of unanswered requests, and close the file."""
        with self._lock:
            for row in self._under_way.values():
                self._write_row(row)
            self._under_way.clear()
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _write_row(self, row: dict[str, Any]) -> None:
        if self._fd is None:
            return
        data = json.dumps(row).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self.trouble = f"the log: {error.strerror}"
