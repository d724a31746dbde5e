"""Run on its own, `client.py SOCKET REQUEST PROGRAM`: has a command run through a bridge, with our streams; its exit code.

It starts in 15 ms, so it imports what is built in and nothing else. With a terminal it stands between that and the command:
nobody else may set how the user's terminal behaves.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import fcntl
import os
import select
import sys
import termios

FAILURE_CODE = 255
_RAW_OFF = {  # what a terminal must not do with keys and lines that are meant for another terminal
    0: termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON,
    1: termios.OPOST,
    3: termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG,
}


def main() -> int:
    path, request, program = sys.argv[1:4]
    text = os.fsencode(program)
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        link.connect(path)
    except OSError:
        os.write(2, b"the connection to the engine has ended\n")
        return FAILURE_CODE
    shape = get_terminal_size() if '"terminal": [' in request else None
    if shape:
        request = request.replace('"terminal": [', f'"terminal": [{shape[0]}, {shape[1]}, ', 1)
    message = os.fsencode(request) + b"\n%d\n" % len(text) + text
    return run_attached(link, message, shape) if shape else run_plain(link, message)


def run_plain(link: _socket.socket, message: bytes) -> int:
    """Our streams are the command's."""
    send_request(link, message, (0, 1, 2))
    held = b""
    while data := link.recv(65536):
        held += data
    return parse_exit_code(held)


def run_attached(link: _socket.socket, message: bytes, shape: tuple[int, int]) -> int:
    """Our terminal is the command's: its keys go there and what is shown comes from there, until one of them ends."""
    in_r, in_w = os.pipe()
    out_r, out_w = os.pipe()
    send_request(link, message, (in_r, out_w, out_w))
    for fd in (in_r, out_w):
        os.close(fd)
    before = termios.tcgetattr(0)
    raw = [value & ~_RAW_OFF.get(at, 0) if at < 4 else value for at, value in enumerate(before)]
    raw[6] = list(before[6])
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
    for number in (_signal.SIGHUP, _signal.SIGTERM):
        _signal.signal(number, exit_on_signal)
    # By a pipe: what is done for a signal that comes just before we wait would be done only when the wait is over.
    rung, ring = os.pipe()
    for fd in (rung, ring):
        os.set_blocking(fd, False)
    _signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGWINCH, lambda *_: None)
    os.write(ring, b"\0")  # it may have changed since we asked
    termios.tcsetattr(0, termios.TCSADRAIN, raw)
    try:
        held = forward_streams(link, in_w, out_r, rung, shape)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
    return parse_exit_code(held, show=True)


def forward_streams(link: _socket.socket, in_w: int, out_r: int, rung: int, shape: tuple[int, int]) -> bytes:
    """Hand on until the output ends, and the terminal's size when it is another; what the bridge said."""
    poll = select.poll()
    for fd in (0, out_r, link.fileno(), rung):
        poll.register(fd, select.POLLIN)
    held = b""
    while True:
        ready = dict(poll.poll())
        if rung in ready:
            os.read(rung, 4096)
            if shape != (shape := get_terminal_size()):
                try:
                    link.send(b'{"size": [%d, %d]}\n' % shape)
                except OSError:  # the bridge is gone, which is said below
                    pass
        if out_r in ready:
            data = os.read(out_r, 65536)
            while data:
                data = data[os.write(1, data) :]
            if not (ready[out_r] & select.POLLIN):
                break
        elif link.fileno() in ready:
            data = link.recv(65536)
            held += data
            if not data:
                return held
        if 0 in ready:
            try:
                os.write(in_w, os.read(0, 1024))
            except OSError:  # the terminal is gone, or the command reads no more
                poll.unregister(0)
    while data := link.recv(65536):
        held += data
    return held


def send_request(link: _socket.socket, message: bytes, streams: tuple[int, int, int]) -> None:
    """The request with the descriptors."""
    rights = b"".join(fd.to_bytes(4, "little" if sys.byteorder == "little" else "big") for fd in streams)
    sent = link.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    if sent < len(message):
        link.sendall(message[sent:])


def parse_exit_code(held: bytes, show: bool = False) -> int:
    """The exit code that the bridge's last line names; what went wrong is shown if nobody else does."""
    last = held.strip().rpartition(b"\n")[2]
    if last.startswith(b'{"code": '):
        return int(last[9:-1])
    if show:
        import json

        error = json.loads(last).get("error") if last else None
        said = (error or {}).get("message") or "the connection to the engine has ended"
        os.write(2, f"Error: {said}\n".encode("utf-8", "replace"))
    return FAILURE_CODE


def get_terminal_size() -> tuple[int, int]:
    """Rows and columns of our terminal."""
    found = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
    return int.from_bytes(found[:2], sys.byteorder) or 24, int.from_bytes(found[2:4], sys.byteorder) or 80


def exit_on_signal(*_: object) -> None:
    """The terminal goes, or somebody wants us to."""
    raise SystemExit(FAILURE_CODE)


if __name__ == "__main__":
    sys.exit(main())
