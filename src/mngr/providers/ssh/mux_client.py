"""Runs a command over ssh's shared connection by talking to the socket of its master process.

The protocol is OpenSSH's (PROTOCOL.mux, version 4). Starting `ssh` instead takes 5 ms, mostly to load libraries.
"""

from __future__ import annotations

import _socket  # importing `socket` would cost 10 ms
import sys

_VERSION = 4
_HELLO = 0x00000001
_NEW_SESSION = 0x10000002
_EXITED = 0x80000004
_OPENED = 0x80000006
_NO_ESCAPE = 0xFFFFFFFF
_MAX_ANSWER_BYTES = 65536  # every answer is short


class SshSession:
    """A command that runs on the host."""

    def __init__(self, link: _socket.socket) -> None:
        self._link = link

    def wait(self) -> int:
        """Return the exit code, or 255 as ssh does when the connection ended first."""
        self._link.settimeout(None)
        try:
            while (answer := _receive_numbers(self._link))[:1] != [_EXITED]:
                pass
            return answer[2] & 0xFF
        except (OSError, ValueError, IndexError):
            return 255
        finally:
            self._link.close()

    def kill(self) -> None:
        """Close the connection, which ends the command."""
        self._link.close()


def start_command(
    path: str,
    command: str,
    streams: tuple[int, int, int],
    timeout: float | None,
    *,
    forwards_agent: bool = False,
) -> SshSession | None:
    """Run a command with these streams through the master process at `path`.

    Return None if it surely was not started, so that the caller can run ssh. Raise TimeoutError without an answer.
    """
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    link.settimeout(timeout)
    request = _pack_numbers(_NEW_SESSION, 0) + _pack_text("")
    request += _pack_numbers(0, 0, forwards_agent, 0, _NO_ESCAPE)  # no terminal, no X11, the agent, no subsystem
    request += _pack_text("") + _pack_text(command)
    try:
        link.connect(path)
        link.sendall(_pack_packet(_pack_numbers(_HELLO, _VERSION)))
        if _receive_numbers(link)[:2] != [_HELLO, _VERSION]:
            raise ValueError("this is not a master process of ssh")
        link.sendall(_pack_packet(request))
        for stream in streams:
            rights = stream.to_bytes(4, "little" if sys.byteorder == "little" else "big")
            link.sendmsg([b"\0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    except TimeoutError:
        link.close()
        raise
    except (OSError, ValueError):
        link.close()
        return None
    try:
        if _receive_numbers(link)[:1] == [_OPENED]:
            return SshSession(link)
    except TimeoutError:
        link.close()
        raise
    except (OSError, ValueError):
        return SshSession(link)  # The command may run, so it must not be started again.
    link.close()
    return None


def _pack_numbers(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big") for value in values)


def _pack_text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return _pack_numbers(len(data)) + data


def _pack_packet(body: bytes) -> bytes:
    return _pack_numbers(len(body)) + body


def _receive_numbers(link: _socket.socket) -> list[int]:
    """Return the numbers at the start of an answer. Raise ValueError for an invalid answer."""
    size = int.from_bytes(_read_exactly(link, 4), "big")
    if not 4 <= size <= _MAX_ANSWER_BYTES:
        raise ValueError("the answer has an invalid size")
    body = _read_exactly(link, size)
    return [int.from_bytes(body[offset : offset + 4], "big") for offset in range(0, min(size, 12), 4)]


def _read_exactly(link: _socket.socket, size: int) -> bytes:
    """Return exactly `size` bytes. Raise ValueError if the connection closes first."""
    data = b""
    while len(data) < size:
        chunk = link.recv(size - len(data))
        if not chunk:
            raise ValueError("ssh closed the connection")
        data += chunk
    return data
