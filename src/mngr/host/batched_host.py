"""Commands whose results nobody waits for travel with the next one: on a host far away a call costs more than what it does."""

from __future__ import annotations

from mngr.base.errors import MngrError, NotFound
from mngr.host import remote_host
from mngr.host.remote_host import PipeHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mngr.base.shell import Process, Result, Stream
    from mngr.host.protocol import Host
    from mngr.host.remote_host import RemoteLock

    Check = Callable[[Result], object]

MOST = 200_000  # bytes that travel together, and are in a shell's memory then
WORD = 50_000  # bytes of one of them: what goes as one word has its limits everywhere
# [PATH MODE TEXT]…: writes files where nothing is.
_FRESH = """
umask 077
while [ $# -ge 3 ]; do
    printf %s "$3" >"$1" && { [ "$2" = 600 ] || chmod "$2" "$1"; } || exit 1
    shift 3
done
"""
# ALSO [PATH MODE TEXT]…: replaces each file in one step; they are safe then, and so are those of ALSO, a line each.
_WRITE = """
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


def afterwards(
    host: Host, argv: Sequence[str], check: Check, *, stdin: bytes = b"", timeout: float | None = None
) -> None:
    """Run a command that is all right or makes `check` raise: at once, or on a GatheredHost with what comes next."""
    if isinstance(host, GatheredHost):
        host.later(argv, check, stdin=stdin)
    else:
        check(host.run(argv, stdin=stdin, timeout=timeout))


def whole(host: Host) -> Host:
    """The host itself, for those who tell hosts apart."""
    return host.inner if isinstance(host, GatheredHost) else host


class GatheredHost(PipeHost):
    """A host for one operation of one thread; in order, and nothing is run after what failed."""

    def __init__(self, inner: PipeHost) -> None:
        super().__init__(inner.name, inner.provider, inner.wire, inner.home.root, inner._uid)
        self.inner = inner
        self.new: str | None = None  # a directory in which there is nothing but what `write` puts there
        self._written: set[str] = set()
        self._unsafe: list[str] = []  # what a loss of power could take
        self._waiting: list[tuple[list[str], bytes, Check]] = []

    def later(self, argv: Sequence[str], check: Check, *, stdin: bytes = b"") -> None:
        """Run it before whatever is asked for next, and have its result checked then."""
        step = (list(argv), stdin, check)
        if b"\0" in stdin or sum(map(_size, [*self._waiting, step])) > MOST:
            self.flush()
        if b"\0" in stdin or max(map(len, [stdin, *argv])) > WORD:
            check(super().run(argv, stdin=stdin))
        else:
            self._waiting.append(step)

    def flush(self) -> None:
        """Run what waits; raises what its checks do."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._run(waiting)

    def _run(self, steps: list[tuple[list[str], bytes, Check]]) -> list[Result]:
        results = remote_host.run_all(self.wire, [step[:2] for step in steps], name=self.name)
        for (_, _, check), result in zip(steps, results, strict=False):
            check(result)
        if len(results) < len(steps):
            raise MngrError(f"a command failed on {self.name}: {results[-1].problem}")
        return results

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float | None = None) -> Result:
        if stdin or not self._waiting:
            self.flush()
            return super().run(argv, stdin=stdin, timeout=timeout)
        waiting, self._waiting = self._waiting, []
        return self._run([*waiting, (list(argv), b"", lambda result: None)])[-1]

    def write(self, path: str, data: bytes, mode: int = 0o600) -> None:
        self._written.add(path)
        if b"\0" in data or len(data) > WORD:
            self.flush()
            super().write(path, data, mode)
            return
        words = [path, f"{mode:o}", data.decode("utf-8", "surrogateescape")]
        is_fresh = self.new is not None and path.startswith(self.new + "/")
        program = _FRESH if is_fresh else _WRITE
        last = self._waiting[-1][0] if self._waiting else []
        if program in last and path not in last and sum(map(_size, self._waiting)) + len(data) < MOST:
            last += words  # those that follow each other are one
            self._unsafe += [path] if is_fresh else []
            return
        if is_fresh:
            self._unsafe.append(path)
        else:
            words.insert(0, "\n".join(self._unsafe))
            self._unsafe.clear()
        check = remote_host.check_written
        self.later(["sh", "-c", program, "write", *words], lambda result: check(self.name, path, result))

    def read(self, path: str) -> bytes:
        if self.new and path.startswith(self.new + "/") and path not in self._written:
            raise NotFound(f"there is no file {path} on {self.name}")
        return super().read(path)

    def stream(
        self, argv: Sequence[str], *, stdin: Stream = None, stdout: Stream = None, stderr: Stream = None
    ) -> Process[bytes]:
        self.flush()
        return super().stream(argv, stdin=stdin, stdout=stdout, stderr=stderr)

    def run_here(self, argv: Sequence[str]) -> int:
        self.flush()
        return super().run_here(argv)

    def lock(self, path: str, timeout: float = 60.0) -> RemoteLock:
        self.flush()
        return super().lock(path, timeout)

    def git_url(self, path: str, by: Sequence[str] = ("git",)) -> str:
        self.flush()
        return super().git_url(path, by)


def _size(step: tuple[list[str], bytes, Check]) -> int:
    return len(step[1]) + sum(len(word) for word in step[0])
