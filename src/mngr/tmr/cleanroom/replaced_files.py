"""Files of a room that are other for one run than the commit has them; the next clean command puts them back.

Standard library only, Python 3.9 or newer: the probe runs it before anything of the project is loaded.
"""

from __future__ import annotations

import base64
import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pack_text(text: str) -> str:
    """A file's text as one word of a command line, which has a limit."""
    return base64.b64encode(zlib.compress(text.encode("utf-8", "surrogateescape"), 9)).decode()


def write_files(work: str, files: dict[str, str | None]) -> None:
    """Put packed texts in their places below the work dir; None: there is no such file."""
    for path, packed in files.items():
        full = os.path.join(work, path)
        if not os.path.realpath(full).startswith(work + os.sep):
            raise ValueError(f"{path} leads out of {work}")
        if packed is not None:
            _write_file(full, zlib.decompress(base64.b64decode(packed)))
        elif os.path.lexists(full):
            os.unlink(full)


def _write_file(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    # To Python, a file of the same size and second is the one that it has compiled: each text has a second of its own, long ago.
    at = 1_000_000_000 + zlib.crc32(data) % 500_000_000
    os.utime(path, (at, at))


_probe: Any = globals().get("probe")  # put here by the probe, if this is its process
if _probe is not None:
    write_files(_probe.WORK_DIR, _probe.FACTS.pop("files"))
