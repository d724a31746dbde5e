"""The one way out of a sandbox whose network is an allow-list: a small HTTP proxy.

    network_proxy.py DIR RULES COMMAND…   become COMMAND, with the proxy beside it for as long as it runs
    network_proxy.py in COMMAND…          inside the sandbox: open the port, hand it out to the proxy, become COMMAND

The port exists only in the sandbox's own network, and is served from outside: nothing of the proxy runs where the
agent could reach it. DIR is the agent's directory, RULES is HOST:PORT,… with * for every port. Needs nothing but
Python 3.9 and its standard library.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PORT = 3128
PORT_FD = 8  # the descriptor through which the port is handed out
MAX_CONNECTIONS = 128  # connections at a time
MAX_LOGGED_REFUSALS = 1000  # destinations refused that are written down
MAX_HEADER_BYTES = 65536
TIMEOUT_SECONDS = 60.0  # seconds for a request to come in, and for its destination to answer
_DESTINATION = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/?#@\s]+)(?::(\d{1,5}))?", re.ASCII)
_URL = re.compile(r"http://([^/?#@\s]+)([/?#]\S*)?", re.IGNORECASE)
_DROPPED_HEADERS = (
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "keep-alive",
    "host",
)  # not for the destination


class ProxyRefusal(Exception):
    """The request cannot be served: what to answer."""


def main() -> NoReturn:
    """Start the proxy or hand out its port, then become the command."""
    if sys.argv[1] == "in":
        words = sys.argv[2:]
        send_port_to_proxy()
    else:
        directory, rules, *words = sys.argv[1:]
        start_proxy(directory, frozenset(rules.split(",")))
    os.execvp(words[0], words)


def send_port_to_proxy() -> None:
    """Open the port of this network and give it to the proxy."""
    with socket.socket(fileno=PORT_FD) as proxy, socket.socket() as port:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port.bind(("127.0.0.1", PORT))
        port.listen(MAX_CONNECTIONS)
        socket.send_fds(proxy, [b"."], [port.fileno()])


def start_proxy(directory: str, rules: frozenset[str]) -> None:
    """Leave a proxy behind that ends with this process, whatever becomes of it."""
    mine, theirs = socket.socketpair()
    owner = os.pidfd_open(os.getpid())
    if os.fork():
        mine.close()
        os.dup2(theirs.fileno(), PORT_FD)  # unlike every other descriptor this one is inherited
        return
    try:
        theirs.close()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # like what it serves, it has time to end
        quiet = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(quiet, standard)
        threading.Thread(target=_exit_with_owner, args=(owner,), daemon=True).start()
        ports = socket.recv_fds(mine, 1, 1)[1]
        if ports:
            AllowListProxy(directory, rules).serve(socket.socket(fileno=ports[0]))
    finally:
        os._exit(0)


def _exit_with_owner(owner: int) -> None:
    select.select([owner], [], [])
    os._exit(0)


class AllowListProxy:
    """Connects to what is allowed, and writes down what is not."""

    def __init__(self, directory: str, rules: frozenset[str]) -> None:
        self._directory = directory
        self._rules = rules
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._noted: set[tuple[str, int]] = set()

    def serve(self, port: socket.socket) -> NoReturn:
        """Take connections for ever."""
        while True:
            self._free.acquire()
            client = port.accept()[0]
            threading.Thread(target=self._serve_client, args=(client,), daemon=True).start()

    def _serve_client(self, client: socket.socket) -> None:
        try:
            with client:
                client.settimeout(TIMEOUT_SECONDS)
                try:
                    self._forward_request(client)
                except ProxyRefusal as refused:
                    client.sendall(refused.args[0])
        except OSError:
            pass  # one of the two ends is gone
        finally:
            self._free.release()

    def _forward_request(self, client: socket.socket) -> None:
        head, more = read_request_head(client)
        host, port, request = parse_request(head)
        if not self.is_allowed(host, port):
            self._log_refusal(host, port)
            raise ProxyRefusal(
                build_response("403 Forbidden", f"{host}:{port} is not in the allow-list of this sandbox")
            )
        try:
            server = socket.create_connection((host.strip("[]"), port), timeout=TIMEOUT_SECONDS)
        except (OSError, UnicodeError) as error:
            raise ProxyRefusal(build_response("502 Bad Gateway", f"{host}:{port} does not answer: {error}")) from None
        with server:
            if request is None:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            server.sendall((request or b"") + more)
            for end in (client, server):
                end.settimeout(None)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            other = threading.Thread(target=copy_stream, args=(client, server), daemon=True)
            other.start()
            copy_stream(server, client)
            other.join()

    def is_allowed(self, host: str, port: int) -> bool:
        """Whether the allow-list names this place."""
        return bool({f"{host}:{port}", f"{host}:*"} & self._rules)

    def _log_refusal(self, host: str, port: int) -> None:
        """A row of the agent's events, the first time."""
        if (host, port) in self._noted or len(self._noted) >= MAX_LOGGED_REFUSALS:
            return
        self._noted.add((host, port))
        now = time.time()
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        row = {"v": 1, "at": at, "agent": os.path.basename(self._directory), "type": "denied"}
        line = json.dumps({**row, "source": "proxy", "data": {"host": host[:255], "port": port}}) + "\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
        fd = os.open(os.path.join(self._directory, "events.jsonl"), flags, 0o600)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)


def read_request_head(client: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request, and what came after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > MAX_HEADER_BYTES:
            raise ProxyRefusal(build_response("431 Request Header Fields Too Large", "the request has no end"))
        piece = client.recv(65536)
        if not piece:
            raise ProxyRefusal(b"")
        data += piece
    head, _, more = data.partition(b"\r\n\r\n")
    return head, more


def parse_request(head: bytes) -> tuple[str, int, bytes | None]:
    """Where a request wants to go, and what to send there; None for a tunnel. Refused when it is none for a proxy."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or any(line[:1] in ("", " ", "\t") or "\n" in line for line in lines):
        raise ProxyRefusal(build_response("400 Bad Request", "that is no request"))
    method, target, _ = words
    if method == "CONNECT":
        place, path = target, None
    else:
        url = _URL.fullmatch(target)
        if url is None:
            raise ProxyRefusal(build_response("400 Bad Request", "this is a proxy: it wants a whole http:// address"))
        place, path = url[1], url[2] or "/"
    found = _DESTINATION.fullmatch(place)
    port = int(found[2] or (443 if path is None else 80)) if found else 0
    if found is None or not 0 < port < 65536:
        raise ProxyRefusal(build_response("400 Bad Request", "that is no place to go"))
    host = found[1].lower().rstrip(".")
    if path is None:
        return host, port, None
    kept = [line for line in lines if line.partition(":")[0].strip().lower() not in _DROPPED_HEADERS]
    path = path if path.startswith("/") else "/" + path
    sent = [f"{method} {path} HTTP/1.1", f"Host: {place}", "Connection: close", *kept, "", ""]
    return host, port, "\r\n".join(sent).encode("latin-1")


def build_response(status: str, text: str) -> bytes:
    """A whole response."""
    body = f"mngr: {text}\n".encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode("latin-1") + body


def copy_stream(source: socket.socket, target: socket.socket) -> None:
    """Everything that comes, until it ends."""
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):  # the other direction has no use either
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


if __name__ == "__main__":
    main()
