"""Streams large data to and from a host, and detects a lost connection."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any

from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.host.protocol import Host
from mngr.host.remote_host import RemoteHost, is_exit_code

if TYPE_CHECKING:
    from mngr.base.shell import Process


def receive_to_file(
    host: Host, argv: list[str], path: str, *, stdin: bytes = b"", header: bytes = b"", max_bytes: int | None = None
) -> shell.ProcessResult:
    """Run a command on the host and write its output, after `header`, to a new file.

    A program in a sandbox or on a remote host writes to a pipe and never gets the file itself. Raise Unreachable if the
    connection is lost, and MngrError if the file exists or more than `max_bytes` come.
    """
    size = 0
    import tempfile  # Most agents need no archive, and this import takes as long as a git command.

    with tempfile.TemporaryFile() as stderr, tempfile.TemporaryFile() as names, _create_file(path) as file:
        file.write(header)
        file.flush()
        names.write(stdin)
        names.seek(0)
        if host.is_local:
            local_process = host.stream(argv, stdin=names, stdout=file, stderr=stderr)
            code = shell.wait_process(local_process)
            stderr.seek(0)
            return shell.ProcessResult(code=code, out=b"", err=stderr.read())
        process, end_mark = _start_marked(host, argv, stdin=names, stdout=shell.PIPE, stderr=stderr)
        assert process.stdout is not None
        try:
            with process.stdout:
                while data := process.stdout.read(1 << 18):
                    size += len(data)
                    if max_bytes is not None and size > max_bytes:
                        limit = f"{max_bytes >> 30} GiB"
                        raise MngrError(
                            f"{host.name} sent more than {limit}, so mngr stopped the copy",
                            "delete files of the agent that you do not need: mngr exec NAME -- rm -r PATH",
                        )
                    file.write(data)
        except BaseException:
            process.kill()
            shell.wait_process(process)
            raise
        shell.wait_process(process)
        return _parse_result(host, stderr, end_mark)


def _create_file(path: str) -> IO[bytes]:
    """Open a new file for writing. Raise MngrError if there is anything at the path, even a link."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MngrError(
            f"cannot write {path}: {error.strerror}", shell.suggest_disk_check(os.path.dirname(path))
        ) from None
    return open(fd, "wb")


def send_from_process(host: Host, argv: list[str], sender: Process[bytes]) -> shell.ProcessResult:
    """Run a command on the host with the output of a local process as its input.

    Raise Unreachable if the connection is lost.
    """
    import tempfile

    with tempfile.TemporaryFile() as stderr:
        process, end_mark = _start_marked(host, argv, stdin=sender.stdout, stdout=shell.DEVNULL, stderr=stderr)
        assert sender.stdout is not None
        sender.stdout.close()
        shell.wait_process(process)
        shell.wait_process(sender)  # Its output has no reader any more, so it ends too.
        return _parse_result(host, stderr, end_mark)


def _start_marked(host: Host, argv: list[str], **streams: Any) -> tuple[Process[bytes], str]:
    """Start a command on the host and return its process and its end mark.

    The command's stderr ends with the mark and the exit code. If the mark is missing, the connection was lost.
    """
    end_mark = f"mngr-{os.urandom(8).hex()}:"
    line = f'"$@"; printf "{end_mark}%s;" $? >&2'
    return host.stream(["sh", "-c", line, "stream", *argv], **streams), end_mark


def _parse_result(host: Host, stderr: Any, end_mark: str) -> shell.ProcessResult:
    """Return the result of a marked command from its stderr. Raise Unreachable if the end mark is missing."""
    stderr.seek(0)
    text, separator, code = stderr.read().rpartition(end_mark.encode())
    if not separator or not code.endswith(b";") or not is_exit_code(code[:-1]):
        assert isinstance(host, RemoteHost)
        raise host.transport.make_lost_error(code.decode("utf-8", "replace").strip())
    return shell.ProcessResult(code=int(code[:-1]), out=b"", err=text)
