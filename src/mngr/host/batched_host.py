"""A host that collects commands and sends them together with the next one that must return a result.

On a distant host a round trip takes longer than most commands.
"""

from __future__ import annotations

from mngr.base.errors import MngrError, NotFound
from mngr.host import remote_host
from mngr.host.remote_host import RemoteHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mngr.base.shell import Process, ProcessResult, Stream
    from mngr.host.protocol import Host
    from mngr.host.remote_host import RemoteLock

    ResultCheck = Callable[[ProcessResult], object]

MAX_BATCH_BYTES = 200_000  # A batch is in the memory of a shell, so its size is limited.
MAX_ARGUMENT_BYTES = 50_000  # Every system limits the length of one argument.
# [PATH MODE TEXT]…: writes new files.
_WRITE_NEW_FILES = """
umask 077
while [ $# -ge 3 ]; do
    printf %s "$3" >"$1" && { [ "$2" = 600 ] || chmod "$2" "$1"; } || exit 1
    shift 3
done
"""
# ALSO [PATH MODE TEXT]…: replaces each file in one step and syncs it. It also syncs the files in ALSO, one per line.
_REPLACE_FILES = """
umask 077
also=$1
shift
left=$(($# / 3))
while [ $left -gt 0 ]; do
    printf %s "$3" >"$1.$$.new" && { [ "$2" = 600 ] || chmod "$2" "$1.$$.new"; } || exit 1
    set -- "$@" "$1.$$.new"
    shift 3
    left=$((left - 1))
done
IFS='
'
set -f
sync "$@" $also 2>/dev/null || sync
for new; do mv -f -- "$new" "${new%.$$.new}" || exit 1; done
"""


def run_deferred(
    host: Host, argv: Sequence[str], check: ResultCheck, *, stdin: bytes = b"", timeout: float | None = None
) -> None:
    """Run a command and pass its result to `check`, which raises an error if the command failed.

    A BatchedHost delays the command until its next call. Any other host runs it at once.
    """
    if isinstance(host, BatchedHost):
        host.run_later(argv, check, stdin=stdin)
    else:
        check(host.run(argv, stdin=stdin, timeout=timeout))


def batch_commands(host: Host) -> Host:
    """Return a host that collects commands, if each command needs a round trip. Otherwise return the host itself."""
    return BatchedHost(host) if isinstance(host, RemoteHost) else host


def unwrap_host(host: Host) -> Host:
    """Return the host behind a BatchedHost, or the host itself."""
    return host.inner if isinstance(host, BatchedHost) else host


class FillNewDir:
    """While it is entered, all files in the directory are those that `host.write` creates."""

    def __init__(self, host: Host, directory: str) -> None:
        self._host = host
        self._directory = directory

    def __enter__(self) -> None:
        if isinstance(self._host, BatchedHost):
            self._host.new_dir = self._directory

    def __exit__(self, *_: object) -> None:
        if isinstance(self._host, BatchedHost):
            self._host.new_dir = None


class BatchedHost(RemoteHost):
    """A host for one operation in one thread. It runs commands in order and stops at the first failure."""

    def __init__(self, inner: RemoteHost) -> None:
        super().__init__(inner.name, inner.provider, inner.transport, inner.home.root, inner._uid)
        self.inner = inner
        self.new_dir: str | None = None  # A directory that contains only the files that `write` creates.
        self._written: set[str] = set()
        self._unsynced: list[str] = []  # Files that a loss of power could destroy.
        self._pending: list[tuple[list[str], bytes, ResultCheck]] = []

    def run_later(self, argv: Sequence[str], check: ResultCheck, *, stdin: bytes = b"") -> None:
        """Queue a command. It runs before the next command that returns a result; `check` then gets its result."""
        step = (list(argv), stdin, check)
        if b"\0" in stdin or sum(map(_count_step_bytes, [*self._pending, step])) > MAX_BATCH_BYTES:
            self.flush()
        if b"\0" in stdin or max(map(len, [stdin, *argv])) > MAX_ARGUMENT_BYTES:
            check(super().run(argv, stdin=stdin))
        else:
            self._pending.append(step)

    def flush(self) -> None:
        """Run the queued commands. Raise the error of the first check that fails."""
        steps, self._pending = self._pending, []
        if steps:
            self._run(steps)

    def _run(self, steps: list[tuple[list[str], bytes, ResultCheck]]) -> list[ProcessResult]:
        results = remote_host.run_until_failure(self.transport, [step[:2] for step in steps], name=self.name)
        for (_, _, check), result in zip(steps, results, strict=False):
            check(result)
        if len(results) < len(steps):
            raise MngrError(
                f"a command failed on {self.name}: {results[-1].error_line}",
                f"check the host: mngr doctor @{self.name}",
            )
        return results

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float | None = None) -> ProcessResult:
        if stdin or not self._pending:
            self.flush()
            return super().run(argv, stdin=stdin, timeout=timeout)
        steps, self._pending = self._pending, []
        return self._run([*steps, (list(argv), b"", lambda result: None)])[-1]

    def write(self, path: str, data: bytes, mode: int = 0o600) -> None:
        self._written.add(path)
        if b"\0" in data or len(data) > MAX_ARGUMENT_BYTES:
            self.flush()
            super().write(path, data, mode)
            return
        words = [path, f"{mode:o}", data.decode("utf-8", "surrogateescape")]
        is_in_new_dir = self.new_dir is not None and path.startswith(self.new_dir + "/")
        program = _WRITE_NEW_FILES if is_in_new_dir else _REPLACE_FILES
        last = self._pending[-1][0] if self._pending else []
        if (
            program in last
            and path not in last
            and sum(map(_count_step_bytes, self._pending)) + len(data) < MAX_BATCH_BYTES
        ):
            last += words  # Consecutive writes are merged into one command.
            self._unsynced += [path] if is_in_new_dir else []
            return
        if is_in_new_dir:
            self._unsynced.append(path)
        else:
            words.insert(0, "\n".join(self._unsynced))
            self._unsynced.clear()
        check = remote_host.check_write
        self.run_later(["sh", "-c", program, "write", *words], lambda result: check(self.name, path, result))

    def read(self, path: str) -> bytes:
        if self.new_dir and path.startswith(self.new_dir + "/") and path not in self._written:
            raise NotFound(f"there is no file {path} on {self.name}")
        return super().read(path)

    def stream(
        self, argv: Sequence[str], *, stdin: Stream = None, stdout: Stream = None, stderr: Stream = None
    ) -> Process[bytes]:
        self.flush()
        return super().stream(argv, stdin=stdin, stdout=stdout, stderr=stderr)

    def run_attached(self, argv: Sequence[str]) -> int:
        self.flush()
        return super().run_attached(argv)

    def lock(self, path: str, timeout: float = 60.0) -> RemoteLock:
        self.flush()
        return super().lock(path, timeout)

    def build_git_url(self, path: str, git_command: Sequence[str]) -> str:
        self.flush()
        return super().build_git_url(path, git_command)


def _count_step_bytes(step: tuple[list[str], bytes, ResultCheck]) -> int:
    return len(step[1]) + sum(len(word) for word in step[0])
