"""Lets one process use thousands of open files, which it needs to talk to hundreds of hosts."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_OPEN_FILE_LIMIT = 16384  # Four descriptors for each of thousands of hosts.


def raise_open_file_limit() -> None:
    """Raise this process's limit of open files, which is often 1024. Child processes inherit the new limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILE_LIMIT if hard == resource.RLIM_INFINITY else min(_OPEN_FILE_LIMIT, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def wait_readable(fds: Iterable[int], seconds: float) -> set[int]:
    """Return the descriptors that are readable or closed, after waiting at most `seconds` for the first one.

    It uses `poll` because `select` fails for descriptors above 1023.
    """
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(max(0.0, seconds) * 1000)}
