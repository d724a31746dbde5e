"""Open files by the hundred, for who talks to hundreds of hosts."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_OPEN_FILE_LIMIT = 16384  # four for each of thousands of hosts


def raise_open_file_limit() -> None:
    """Have this program open as many files as it may need: a shell gives it 1024, and what it starts gets what it has."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILE_LIMIT if hard == resource.RLIM_INFINITY else min(_OPEN_FILE_LIMIT, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def wait_readable(fds: Iterable[int], seconds: float) -> set[int]:
    """Those that have something to read, or have ended, once there is one; `select` knows no number above 1023."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(max(0.0, seconds) * 1000)}
