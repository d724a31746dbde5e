"""Streams large data to and from a host, and detects a lost connection."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from mngr.agents.saved import tar
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.host.protocol import Host
from mngr.host.remote_host import RemoteHost, is_exit_code

if TYPE_CHECKING:
    from mngr.base.shell import Process


def receive_to_file(host: Host, argv: list[str], path: str) -> shell.ProcessResult:
    """Run a command on the host and write its output to a file. Raise Unreachable if the connection is lost."""
    size = 0
    with tempfile.TemporaryFile() as stderr, open(path, "wb") as file:
        process, end_mark = _start_marked(host, argv, stdin=shell.DEVNULL, stdout=shell.PIPE, stderr=stderr)
        assert process.stdout is not None
        try:
            with process.stdout:
                while data := process.stdout.read(1 << 18):
                    size += len(data)
                    if size > tar.MAX_ARCHIVE_BYTES:
                        limit = f"{tar.MAX_ARCHIVE_BYTES >> 30} GiB"
                        raise MngrError(
                            f"more than {limit} come from {host.name}", "take away there what is not needed"
                        )
                    file.write(data)
        except BaseException:
            process.kill()
            shell.wait_process(process)
            raise
        shell.wait_process(process)
        return _parse_result(host, stderr, end_mark)


def send_from_process(host: Host, argv: list[str], sender: Process[bytes]) -> shell.ProcessResult:
    """Run a command on the host with the output of a local process as its input.

    Raise Unreachable if the connection is lost.
    """
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
