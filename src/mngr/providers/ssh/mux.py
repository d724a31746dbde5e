"""A command over ssh's shared connection without a process of ssh's own: its master answers on a socket.

The protocol is OpenSSH's (PROTOCOL.mux, version 4). Starting `ssh` for the same takes 5 ms, most of it to load libraries.
"""

from __future__ import annotations

import _socket  # what `socket` is made of: that would cost 10 ms
import sys

_VERSION = 4
_HELLO = 0x00000001
_NEW_SESSION = 0x10000002
_EXITED = 0x80000004
_OPENED = 0x80000006
_NO_ESCAPE = 0xFFFFFFFF
_MAX_ANSWER_BYTES = 65536  # bytes of an answer; each has a few words


class SshSession:
    """A command that runs there."""

    def __init__(self, link: _socket.socket) -> None:
        self._link = link

    def wait(self) -> int:
        """Its exit code; 255, as ssh has it, when the connection ended first."""
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
        """Cut it off."""
        self._link.close()


def start_command(
    path: str,
    command: str,
    streams: tuple[int, int, int],
    timeout: float | None,
    *,
    forwards_agent: bool = False,
) -> SshSession | None:
    """Have the master at `path` run a command with these streams.

    None when it was surely not started, so that ssh may be asked; TimeoutError when nothing is heard.
    """
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    link.settimeout(timeout)
    asked = _pack_numbers(_NEW_SESSION, 0) + _pack_text("")
    asked += _pack_numbers(0, 0, forwards_agent, 0, _NO_ESCAPE)  # no terminal, no X11, the agent, no subsystem
    asked += _pack_text("") + _pack_text(command)
    try:
        link.connect(path)
        link.sendall(_pack_packet(_pack_numbers(_HELLO, _VERSION)))
        if _receive_numbers(link)[:2] != [_HELLO, _VERSION]:
            raise ValueError("a stranger")
        link.sendall(_pack_packet(asked))
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
        return SshSession(link)  # nobody knows whether it runs: not for a second time
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
    """The numbers that an answer begins with; ValueError when there is none."""
    size = int.from_bytes(_read_exactly(link, 4), "big")
    if not 4 <= size <= _MAX_ANSWER_BYTES:
        raise ValueError("not an answer")
    body = _read_exactly(link, size)
    return [int.from_bytes(body[at : at + 4], "big") for at in range(0, min(size, 12), 4)]


def _read_exactly(link: _socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = link.recv(size - len(data))
        if not more:
            raise ValueError("it closed")
        data += more
    return data
