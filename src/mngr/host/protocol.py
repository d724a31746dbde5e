"""The Host protocol (a host can run a command with streams and an exit code) and the Provider protocols."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mngr.base.model import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from mngr.base.paths import Home
    from mngr.base.shell import Process, ProcessResult, Stream


class Host(Protocol):
    """A machine on which agents run. A failed command is a result; an unreachable host raises Unreachable."""

    name: str
    provider: str
    home: Home
    is_local: bool  # True when this process can open the host's files directly.

    @property
    def tmux_socket(self) -> str:
        """Return the socket of mngr's tmux server: `/tmp/mngr-UID/HASH12`, the same for all users of the home."""
        ...

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float | None = None) -> ProcessResult:
        """Run a command to its end and return its result. Raise TimedOut or Unreachable."""
        ...

    def stream(
        self, argv: Sequence[str], *, stdin: Stream = None, stdout: Stream = None, stderr: Stream = None
    ) -> Process[bytes]:
        """Start a command with the caller's streams and return its process. Raise Unreachable."""
        ...

    def run_attached(self, argv: Sequence[str]) -> int:
        """Run a command with this process's own streams and return its exit code.

        Raise Unreachable when the connection ends before the command does.
        """
        ...

    def read(self, path: str) -> bytes:
        """Return the contents of a file. Raise NotFound or Unreachable."""
        ...

    def write(self, path: str, data: bytes, mode: int = 0o600) -> None:
        """Replace a file in one step and sync it. Raise MngrError or Unreachable."""
        ...

    def has_path(self, path: str) -> bool:
        """True when the path exists, even as a dangling link. Raise Unreachable."""
        ...

    def lock(self, path: str, timeout: float = 60.0) -> AbstractContextManager[object]:
        """Return a lock between all processes and clients of the host. Entering it raises TimedOut, Unreachable."""
        ...

    def build_git_url(self, path: str, git_command: Sequence[str]) -> str:
        """Return the URL with which a local git reaches a repository on the host.

        `git_command` is the command that runs as git on the host.
        """
        ...

    def build_attach_argv(self, argv: Sequence[str]) -> list[str]:
        """Return the local command that runs `argv` on the host with this terminal."""
        ...

    def close(self) -> None:
        """Close the connections that the host holds open."""
        ...


class Provider(Protocol):
    """A source of hosts. The `can_` attributes say which operations it supports."""

    name: str
    can_create_hosts: bool
    can_snapshot_hosts: bool
    can_stop_hosts: bool

    def list(self) -> list[str]:
        """Return the names of the provider's hosts. Raise Unreachable."""
        ...

    def open(self, host: str) -> Host:
        """Return the host of this name. Raise NotFound or Unreachable."""
        ...

    def create(self, host: str | None, options: dict[str, object]) -> Host:
        """Return a new host, or the existing host of this name. `options` are settings for this host.

        Raise MngrError when the provider cannot create the host.
        """
        ...

    def start(self, host: str) -> None:
        """Start a stopped host again."""
        ...

    def stop(self, host: str) -> None:
        """Stop a host and keep its files."""
        ...

    def destroy(self, host: str) -> None:
        """Delete a host permanently."""
        ...


class SnapshotProvider(Protocol):
    """The methods that a provider with `can_snapshot_hosts` also has.

    The option `snapshot=NAME` of `create` creates a host from a snapshot.
    """

    def save_snapshot(self, host: str, directory: str) -> dict[str, object]:
        """Save the files of a running host, without its agents, and return facts for `delete_snapshot`.

        The method may store files in `directory`, and keep others in the provider's own storage.
        """
        ...

    def delete_snapshot(self, facts: dict[str, object]) -> None:
        """Delete the parts of a snapshot that are in the provider's own storage."""
        ...


@runtime_checkable
class WaitingProvider(Protocol):
    """An optional capability of a provider: the creation of a host waits for capacity, and can be given up."""

    def cancel_create(self, host: str) -> None:
        """Let another thread's `create` of this host fail, if it still waits. Raise Unreachable."""
        ...


@runtime_checkable
class BackupProvider(Protocol):
    """An optional capability of a provider: back up agents outside their hosts, to restore them on a new host."""

    def list_backups(self, host: str) -> dict[str, dict[str, object]]:
        """Return the backup of each agent of a host, by agent id. Raise Unreachable.

        A backup has `at` (a time) and, if it holds commits, `head` and `form`. The host wrote it, so check it.
        """
        ...

    def fetch_backup(self, host: str, agent: str, directory: str) -> None:
        """Write an agent's backup into `directory`.

        `work.bundle` holds the commits since the base and `agent.tar` the agent's own files. Either may be missing.
        """
        ...


@runtime_checkable
class PartialSnapshotProvider(Protocol):
    """An optional capability of a provider with snapshots: clean up an interrupted snapshot."""

    def find_partial_snapshot(self, host: str, directory: str) -> dict[str, object] | None:
        """Return the facts with which `delete_snapshot` deletes an interrupted snapshot, or None."""
        ...


class Leftover(Struct):
    """A resource of a provider that no command uses any more. Without `remove`, mngr only reports it."""

    description: str
    name: str
    remove: Callable[[], None] | None = None
    note: str | None = None
    is_incomplete: bool = False  # the resource was never complete


@runtime_checkable
class LeftoverProvider(Protocol):
    """An optional capability of a provider: find resources that interrupted commands left behind."""

    def list_leftovers(self) -> list[Leftover]:
        """Return the leftovers, with a `remove` function where mngr surely owns them. Raise Unreachable."""
        ...


@runtime_checkable
class OptionChecker(Protocol):
    """An optional capability of a provider: check options before a host is created."""

    def check_options(self, options: dict[str, object]) -> None:
        """Raise UsageError for options that no host can have; create nothing."""
        ...


@runtime_checkable
class StopChecker(Protocol):
    """An optional capability of a provider: name hosts that cannot be stopped, though others can."""

    def check_stoppable(self, host: str) -> None:
        """Raise MngrError if this host cannot be stopped."""
        ...
