"""Much data to and from a host, by a command there that says at its end how it ended."""

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
    """Run a command and write what it prints to a file; Unreachable when the connection ends first."""
    size = 0
    with tempfile.TemporaryFile() as said, open(path, "wb") as file:
        process, mark = _start_marked(host, argv, stdin=shell.DEVNULL, stdout=shell.PIPE, stderr=said)
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
        return _parse_result(host, said, mark)


def send_from_process(host: Host, argv: list[str], pack: Process[bytes]) -> shell.ProcessResult:
    """Run a command whose input is what a process here prints; Unreachable when the connection ends first."""
    with tempfile.TemporaryFile() as said:
        process, mark = _start_marked(host, argv, stdin=pack.stdout, stdout=shell.DEVNULL, stderr=said)
        assert pack.stdout is not None
        pack.stdout.close()
        shell.wait_process(process)
        shell.wait_process(pack)  # nobody reads on, so it ends too
        return _parse_result(host, said, mark)


def _start_marked(host: Host, argv: list[str], **streams: Any) -> tuple[Process[bytes], str]:
    """Start a command that says at the end how it ended, so that silence means the connection was lost."""
    mark = f"mngr-{os.urandom(8).hex()}:"
    line = f'"$@"; printf "{mark}%s;" $? >&2'
    return host.stream(["sh", "-c", line, "stream", *argv], **streams), mark


def _parse_result(host: Host, said: Any, mark: str) -> shell.ProcessResult:
    said.seek(0)
    text, found, code = said.read().rpartition(mark.encode())
    if not found or not code.endswith(b";") or not is_exit_code(code[:-1]):
        assert isinstance(host, RemoteHost)
        raise host.transport.make_lost_error(code.decode("utf-8", "replace").strip())
    return shell.ProcessResult(code=int(code[:-1]), out=b"", err=text)
