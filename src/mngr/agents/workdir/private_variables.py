"""Keeps an agent's private variables, such as passwords, out of the project's set-up.

The agent's env file marks them. While set-up runs, the file does not contain them, so that no process of set-up can
find them, neither in a file nor in the environment of another process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.host.protocol import Host

HOST_PART_END = b"# given\n"  # ends the host's part of an env file; the private variables follow
_MARK = re.compile(re.escape(HOST_PART_END) + rb"# private: ([0-9]{1,9}) bytes\n")


def mark_private(exports: bytes) -> bytes:
    """Return these lines of an env file, after a line that marks them as private."""
    return b"# private: %d bytes\n%s" % (len(exports), exports) if exports.strip() else b""


@contextmanager
def without_private_variables(host: Host, agent_dir: str) -> Iterator[None]:
    """Remove the private variables from the agent's env file, and restore them at the end."""
    path = os.path.join(agent_dir, "env")
    text = host.read(path)
    mark = _MARK.search(text)
    if mark is None:
        yield
        return
    host.write(path, text[: mark.start()] + HOST_PART_END + text[mark.end() + int(mark[1]) :])
    try:
        yield
    finally:
        host.write(path, text)
