"""Replaces files of a clean room for one run; the next clean command restores the files of the commit.

Standard library only, Python 3.9 or newer: the observer runs this plugin before it loads any code of the project.
"""

from __future__ import annotations

import base64
import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pack_text(text: str) -> str:
    """Return a file's text, compressed and encoded, because a command-line argument has a size limit."""
    return base64.b64encode(zlib.compress(text.encode("utf-8", "surrogateescape"), 9)).decode()


def write_files(work: str, files: dict[str, str | None]) -> None:
    """Write packed texts to their paths below the work dir; None deletes the file."""
    for path, packed in files.items():
        full = os.path.join(work, path)
        if not os.path.realpath(full).startswith(work + os.sep):
            raise ValueError(f"{path} points outside {work}")
        if packed is not None:
            _write_file(full, zlib.decompress(base64.b64decode(packed)))
        elif os.path.lexists(full):
            os.unlink(full)


def _write_file(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    # Python reuses compiled code if a file's size and modification second are the same.
    # So each text gets its own second, long ago.
    modified_at = 1_000_000_000 + zlib.crc32(data) % 500_000_000
    os.utime(path, (modified_at, modified_at))


_observer: Any = globals().get("observer")  # set by the observer, if this runs in its process
if _observer is not None:
    write_files(_observer.WORK_DIR, _observer.FACTS.pop("files"))
