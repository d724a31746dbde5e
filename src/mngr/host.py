"""The Host protocol: anything that can run a command with stdin, stdout, stderr and an exit code."""

from __future__ import annotations

from typing import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from mngr.paths import Home
    from mngr.shell import Process, Result, Stream


class Host(Protocol):
    """A place where agents live. A command that failed is a Result; a host out of reach raises Unreachable."""

    name: str
    provider: str
    home: Home
    is_here: bool  # whether its files are this process's own

    @property
    def socket(self) -> str:
        """Where our tmux server listens: `/tmp/mngr-UID/HASH12`, the same for everyone who uses that home."""
        ...

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float | None = None) -> Result:
        """Run to the end; raises TimedOut, Unreachable."""
        ...

    def stream(
        self, argv: Sequence[str], *, stdin: Stream = None, stdout: Stream = None, stderr: Stream = None
    ) -> Process[bytes]:
        """Start with the caller's streams; raises Unreachable."""
        ...

    def run_here(self, argv: Sequence[str]) -> int:
        """Run with this process's own streams; the exit code; raises Unreachable when the connection ends first."""
        ...

    def read(self, path: str) -> bytes:
        """The contents of a file; raises NotFound, Unreachable."""
        ...

    def write(self, path: str, data: bytes, mode: int = 0o600) -> None:
        """Replace a file in one step and sync it; raises MngrError, Unreachable."""
        ...

    def has(self, path: str) -> bool:
        """Whether there is something of that name, be it a link to nowhere; raises Unreachable."""
        ...

    def lock(self, path: str, timeout: float = 60.0) -> AbstractContextManager[object]:
        """Hold a lock between all processes of that host and all its clients; raises TimedOut, Unreachable."""
        ...

    def git_url(self, path: str, guard: Sequence[str] = ()) -> str:
        """How git here reaches a repository there; `guard` are words for the git that runs there."""
        ...

    def attach_argv(self, argv: Sequence[str]) -> list[str]:
        """What to run here so that `argv` has this terminal there."""
        ...

    def close(self) -> None:
        """Give back what the host holds open."""
        ...


class Provider(Protocol):
    """Where hosts come from. What it can do is data."""

    name: str
    can_create_hosts: bool
    can_snapshot_hosts: bool
    can_stop_hosts: bool

    def list(self) -> list[str]:
        """The names of its hosts; raises Unreachable."""
        ...

    def open(self, host: str) -> Host:
        """A host by name; raises NotFound, Unreachable."""
        ...

    def create(self, host: str | None, options: dict[str, str]) -> Host:
        """A new host; raises MngrError when it cannot make one."""
        ...

    def start(self, host: str) -> None:
        """Bring a stopped host back."""
        ...

    def stop(self, host: str) -> None:
        """Stop a host and keep what is on it."""
        ...

    def destroy(self, host: str) -> None:
        """Take a host away for good."""
        ...
