"""`run_command.py SOCKET REQUEST PROGRAM`: runs a command through a bridge with this process's streams and exit code.

It is a separate program that must start in 15 ms, so it imports only built-in modules.
With a terminal it copies data between the terminal and the command, because only one process may set its mode.
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
_RAW_OFF = {  # Features to turn off, because the command's own terminal handles keys and lines.
    0: termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON,
    1: termios.OPOST,
    3: termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG,
}


def main() -> int:
    """Connect to the bridge, run the command and return its exit code."""
    path, request, program = sys.argv[1:4]
    text = os.fsencode(program)
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        link.connect(path)
    except OSError:
        os.write(2, b"the connection to the engine has ended\n")
        return FAILURE_CODE
    size = get_terminal_size() if '"terminal": [' in request else None
    if size:
        request = request.replace('"terminal": [', f'"terminal": [{size[0]}, {size[1]}, ', 1)
    message = os.fsencode(request) + b"\n%d\n" % len(text) + text
    return run_attached(link, message, size) if size else run_plain(link, message)


def run_plain(link: _socket.socket, message: bytes) -> int:
    """Run the command with this process's own streams and return its exit code."""
    send_request(link, message, (0, 1, 2))
    return parse_exit_code(receive_rest(link))


def run_attached(link: _socket.socket, message: bytes, size: tuple[int, int]) -> int:
    """Run the command with this terminal and return its exit code."""
    in_r, in_w = os.pipe()
    out_r, out_w = os.pipe()
    send_request(link, message, (in_r, out_w, out_w))
    for fd in (in_r, out_w):
        os.close(fd)
    saved_mode = termios.tcgetattr(0)
    raw_mode = [value & ~_RAW_OFF.get(index, 0) if index < 4 else value for index, value in enumerate(saved_mode)]
    raw_mode[6] = list(saved_mode[6])
    raw_mode[6][termios.VMIN], raw_mode[6][termios.VTIME] = 1, 0
    for number in (_signal.SIGHUP, _signal.SIGTERM):
        _signal.signal(number, exit_on_signal)
    # Signals wake the loop through a pipe. A handler for a signal just before the wait would run only after it.
    wake_r, wake_w = os.pipe()
    for fd in (wake_r, wake_w):
        os.set_blocking(fd, False)
    _signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGWINCH, lambda *_: None)
    os.write(wake_w, b"\0")  # The size may have changed since the request.
    termios.tcsetattr(0, termios.TCSADRAIN, raw_mode)
    try:
        answer = forward_streams(link, in_w, out_r, wake_r, size)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, saved_mode)
    return parse_exit_code(answer, show=True)


def forward_streams(link: _socket.socket, in_w: int, out_r: int, wake_r: int, size: tuple[int, int]) -> bytes:
    """Copy data and changes of the terminal's size until the output ends. Return the bridge's answer."""
    poll = select.poll()
    for fd in (0, out_r, link.fileno(), wake_r):
        poll.register(fd, select.POLLIN)
    answer = b""
    while True:
        ready = dict(poll.poll())
        if wake_r in ready:
            os.read(wake_r, 4096)
            size = forward_size(link, size)
        if out_r in ready:
            forward_output(out_r)
            if not (ready[out_r] & select.POLLIN):
                return answer + receive_rest(link)
        elif link.fileno() in ready:
            data = link.recv(65536)
            answer += data
            if not data:
                return answer
        if 0 in ready and not forward_keys(in_w):
            poll.unregister(0)


def forward_size(link: _socket.socket, old_size: tuple[int, int]) -> tuple[int, int]:
    """Tell the bridge the terminal's size if it has changed, and return the size."""
    size = get_terminal_size()
    if size != old_size:
        try:
            link.send(b'{"size": [%d, %d]}\n' % size)
        except OSError:  # The bridge is gone, which the caller notices when it reads.
            pass
    return size


def forward_output(out_r: int) -> None:
    """Write the next part of the command's output to the terminal."""
    data = os.read(out_r, 65536)
    while data:
        data = data[os.write(1, data) :]


def forward_keys(in_w: int) -> bool:
    """Send the keys that were typed to the command. Return False if the terminal or the reader is gone."""
    try:
        os.write(in_w, os.read(0, 1024))
    except OSError:
        return False
    return True


def receive_rest(link: _socket.socket) -> bytes:
    """Return all that the bridge sends until it closes the connection."""
    answer = b""
    while data := link.recv(65536):
        answer += data
    return answer


def send_request(link: _socket.socket, message: bytes, streams: tuple[int, int, int]) -> None:
    """Send the request together with the file descriptors."""
    rights = b"".join(fd.to_bytes(4, "little" if sys.byteorder == "little" else "big") for fd in streams)
    sent = link.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    if sent < len(message):
        link.sendall(message[sent:])


def parse_exit_code(answer: bytes, show: bool = False) -> int:
    """Return the exit code in the last line of the bridge's answer. With `show`, print an error."""
    last_line = answer.strip().rpartition(b"\n")[2]
    if last_line.startswith(b'{"code": '):
        return int(last_line[9:-1])
    if show:
        import json

        error = json.loads(last_line).get("error") if last_line else None
        message = (error or {}).get("message") or "the connection to the engine has ended"
        os.write(2, f"Error: {message}\n".encode("utf-8", "replace"))
    return FAILURE_CODE


def get_terminal_size() -> tuple[int, int]:
    """Return the rows and columns of this terminal."""
    winsize = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
    return int.from_bytes(winsize[:2], sys.byteorder) or 24, int.from_bytes(winsize[2:4], sys.byteorder) or 80


def exit_on_signal(*_: object) -> None:
    """End this program, because the terminal was closed or a signal asks for it."""
    raise SystemExit(FAILURE_CODE)


if __name__ == "__main__":
    sys.exit(main())
