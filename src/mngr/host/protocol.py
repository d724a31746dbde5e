"""The Host protocol: anything that can run a command with stdin, stdout, stderr and an exit code."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mngr.base.model import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from mngr.base.paths import Home
    from mngr.base.shell import Process, ProcessResult, Stream


class Host(Protocol):
    """A place where agents live. A command that failed is a Result; a host out of reach raises Unreachable."""

    name: str
    provider: str
    home: Home
    is_local: bool  # whether its files are this process's own

    @property
    def tmux_socket(self) -> str:
        """Where our tmux server listens: `/tmp/mngr-UID/HASH12`, the same for everyone who uses that home."""
        ...

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float | None = None) -> ProcessResult:
        """Run to the end; raises TimedOut, Unreachable."""
        ...

    def stream(
        self, argv: Sequence[str], *, stdin: Stream = None, stdout: Stream = None, stderr: Stream = None
    ) -> Process[bytes]:
        """Start with the caller's streams; raises Unreachable."""
        ...

    def run_attached(self, argv: Sequence[str]) -> int:
        """Run with this process's own streams; the exit code; raises Unreachable when the connection ends first."""
        ...

    def read(self, path: str) -> bytes:
        """The contents of a file; raises NotFound, Unreachable."""
        ...

    def write(self, path: str, data: bytes, mode: int = 0o600) -> None:
        """Replace a file in one step and sync it; raises MngrError, Unreachable."""
        ...

    def has_path(self, path: str) -> bool:
        """Whether there is something of that name, be it a link to nowhere; raises Unreachable."""
        ...

    def lock(self, path: str, timeout: float = 60.0) -> AbstractContextManager[object]:
        """Hold a lock between all processes of that host and all its clients; raises TimedOut, Unreachable."""
        ...

    def build_git_url(self, path: str, by: Sequence[str] = ("git",)) -> str:
        """How git here reaches a repository there; `by` is what to run there as git."""
        ...

    def build_attach_argv(self, argv: Sequence[str]) -> list[str]:
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

    def create(self, host: str | None, options: dict[str, Any]) -> Host:
        """A new host, or the one of that name; `options` are settings for this one. MngrError when it cannot be had."""
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


class SnapshotProvider(Protocol):
    """What a provider with `can_snapshot_hosts` can do too; the option `snapshot=NAME` of `create` makes a host from one."""

    def save_snapshot(self, host: str, place: str) -> dict[str, Any]:
        """Keep a running host's files, without its agents: what fits in `place`; what to remember of the rest."""
        ...

    def delete_snapshot(self, facts: dict[str, Any]) -> None:
        """Delete what is not in the place, by what was remembered of it."""
        ...


@runtime_checkable
class BackupProvider(Protocol):
    """What a provider may also be able to do: keep what agents do, outside of their hosts; for `start` of one that is gone."""

    def list_backups(self, host: str) -> dict[str, dict[str, Any]]:
        """What is kept of each agent of a host, by its id: `at` (time), perhaps `head` and `form` of its commits. Unreachable."""
        ...

    def fetch_backup(self, host: str, agent: str, place: str) -> None:
        """Its commits since its base as `work.bundle`, its own files as `agent.tar`, in a directory; what there is of them."""
        ...


@runtime_checkable
class PartialSnapshotProvider(Protocol):
    """What a provider with snapshots may also be able to do: know beforehand what one that is cut off leaves."""

    def find_partial_snapshot(self, host: str, place: str) -> dict[str, Any] | None:
        """What `drop_snapshot` needs to take away what a snapshot to this place has made so far."""
        ...


class Leftover(Struct):
    """Something of a provider's that no command knows of; without `act` it is only named."""

    description: str
    name: str
    remove: Callable[[], None] | None = None
    note: str | None = None
    is_incomplete: bool = False  # it never came to be


@runtime_checkable
class LeftoverProvider(Protocol):
    """What a provider may also be able to do: find what interrupted commands left behind."""

    def list_leftovers(self) -> list[Leftover]:
        """What is surely ours and nobody's any more, with a way to take it away; the rest by name only. Raises Unreachable."""
        ...


@runtime_checkable
class OptionChecker(Protocol):
    """An optional capability of a provider: check options before a host is created."""

    def check_options(self, options: dict[str, Any]) -> None:
        """Raise UsageError for options that no host can have; create nothing."""
        ...


@runtime_checkable
class StopChecker(Protocol):
    """An optional capability of a provider: name hosts that cannot be stopped, though others can."""

    def check_stoppable(self, host: str) -> None:
        """Raise MngrError if this host cannot be stopped."""
        ...
