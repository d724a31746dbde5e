"""Locks between processes, built on flock. A lock ends with the process that holds it."""

from __future__ import annotations

import errno
import fcntl
import os
import time

from mngr.base.errors import MngrError, TimedOut


class Lock:
    """A context manager that holds a lock on a file. It raises TimedOut after waiting `timeout` seconds."""

    def __init__(self, path: str, timeout: float = 60.0) -> None:
        self.path = path
        self.timeout = timeout
        self._fd = -1

    def __enter__(self) -> Lock:
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise MngrError(
                f"cannot lock {self.path}: {error.strerror}", f"check the permissions: ls -l {self.path}"
            ) from None
        started = time.monotonic()
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR):
                    self._close()
                    raise MngrError(
                        f"cannot lock {self.path}: {error.strerror}", f"check the permissions: ls -l {self.path}"
                    ) from None
            waited = time.monotonic() - started
            if waited > self.timeout:
                self._close()
                raise TimedOut(
                    f"{self.path} was locked by another process for {self.timeout:g}s",
                    "wait until the other command has ended, then run this command again",
                )
            time.sleep(0.003 if waited < 1.0 else 0.1)

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        os.close(self._fd)
        self._fd = -1
