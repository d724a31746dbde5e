"""Reads files of a task, which an agent wrote."""

from __future__ import annotations

import os

from mngr.base.paths import open_plain_file


def read_limited(path: str, max_bytes: int, *, from_end: bool = False) -> str:
    """Return at most about `max_bytes` of a regular file; nothing for links and other kinds of files."""
    try:
        with open_plain_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if from_end and size > max_bytes:
                file.seek(size - max_bytes)
                file.readline()
            return file.read(max_bytes + 1).decode("utf-8", "replace")
    except OSError:
        return ""
