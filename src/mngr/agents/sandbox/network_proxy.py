"""The only way out of a sandbox whose network is an allow-list: a small HTTP proxy.

    network_proxy.py DIR RULES COMMAND…   start the proxy, which runs as long as COMMAND, and become COMMAND
    network_proxy.py in COMMAND…          inside the sandbox: open the port, pass it to the proxy, become COMMAND

The port exists only in the sandbox's own network, but a process outside serves it, so the agent cannot reach the
proxy's process. DIR is the agent's directory. RULES is HOST:PORT,… with * for every port. The program needs only
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
PORT_FD = 8  # the descriptor of the socket through which the port reaches the proxy
MAX_CONNECTIONS = 128  # at the same time
MAX_LOGGED_REFUSALS = 1000  # refused destinations in the agent's events
MAX_HEADER_BYTES = 65536
TIMEOUT_SECONDS = 60.0  # for a request to arrive, and for its destination to answer
_DESTINATION = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/?#@\s]+)(?::(\d{1,5}))?", re.ASCII)
_URL = re.compile(r"http://([^/?#@\s]+)([/?#]\S*)?", re.IGNORECASE)
_DROPPED_HEADERS = (
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "keep-alive",
    "host",
)  # The proxy does not send these to the destination.


class ProxyRefusal(Exception):
    """The proxy cannot serve the request. The argument is the response."""


def main() -> NoReturn:
    """Start the proxy or pass it the port, then become the command."""
    if sys.argv[1] == "in":
        words = sys.argv[2:]
        send_port_to_proxy()
    else:
        directory, rules, *words = sys.argv[1:]
        start_proxy(directory, frozenset(rules.split(",")))
    os.execvp(words[0], words)


def send_port_to_proxy() -> None:
    """Open the port in this network and send it to the proxy."""
    with socket.socket(fileno=PORT_FD) as proxy, socket.socket() as port:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port.bind(("127.0.0.1", PORT))
        port.listen(MAX_CONNECTIONS)
        socket.send_fds(proxy, [b"."], [port.fileno()])


def start_proxy(directory: str, rules: frozenset[str]) -> None:
    """Start a proxy process that ends with this process, however this one ends."""
    proxy_end, sandbox_end = socket.socketpair()
    owner = os.pidfd_open(os.getpid())
    if os.fork():
        proxy_end.close()
        os.dup2(sandbox_end.fileno(), PORT_FD)  # Unlike all other descriptors, this one is inherited.
        return
    try:
        sandbox_end.close()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # The command may still need the proxy while it ends.
        null_fd = os.open(os.devnull, os.O_RDWR)
        for standard_fd in (0, 1, 2):
            os.dup2(null_fd, standard_fd)
        threading.Thread(target=_exit_with_owner, args=(owner,), daemon=True).start()
        ports = socket.recv_fds(proxy_end, 1, 1)[1]
        if ports:
            AllowListProxy(directory, rules).serve(socket.socket(fileno=ports[0]))
    finally:
        os._exit(0)


def _exit_with_owner(owner: int) -> None:
    """Wait for the process that started the proxy to end, then exit."""
    select.select([owner], [], [])
    os._exit(0)


class AllowListProxy:
    """Connects clients to allowed destinations, and logs refused ones."""

    def __init__(self, directory: str, rules: frozenset[str]) -> None:
        self._directory = directory
        self._rules = rules
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._noted: set[tuple[str, int]] = set()

    def serve(self, port: socket.socket) -> NoReturn:
        """Accept connections forever."""
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
            pass  # One of the two ends has closed the connection.
        finally:
            self._free.release()

    def _forward_request(self, client: socket.socket) -> None:
        """Read a request and connect the client to its destination, or raise ProxyRefusal."""
        head, body_start = read_request_head(client)
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
            server.sendall((request or b"") + body_start)
            for end in (client, server):
                end.settimeout(None)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            upload = threading.Thread(target=copy_stream, args=(client, server), daemon=True)
            upload.start()
            copy_stream(server, client)
            upload.join()

    def is_allowed(self, host: str, port: int) -> bool:
        """True when the allow-list contains this host and port."""
        return bool({f"{host}:{port}", f"{host}:*"} & self._rules)

    def _log_refusal(self, host: str, port: int) -> None:
        """Add a refused destination to the agent's events, once for each."""
        if (host, port) in self._noted or len(self._noted) >= MAX_LOGGED_REFUSALS:
            return
        self._noted.add((host, port))
        now = time.time()
        timestamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        row = {"v": 1, "at": timestamp, "agent": os.path.basename(self._directory), "type": "denied"}
        line = json.dumps({**row, "source": "proxy", "data": {"host": host[:255], "port": port}}) + "\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
        fd = os.open(os.path.join(self._directory, "events.jsonl"), flags, 0o600)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)


def read_request_head(client: socket.socket) -> tuple[bytes, bytes]:
    """Return the head of a request, and the bytes that came after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > MAX_HEADER_BYTES:
            raise ProxyRefusal(
                build_response("431 Request Header Fields Too Large", "the header of the request is too long")
            )
        piece = client.recv(65536)
        if not piece:
            raise ProxyRefusal(b"")
        data += piece
    head, _, body_start = data.partition(b"\r\n\r\n")
    return head, body_start


def parse_request(head: bytes) -> tuple[str, int, bytes | None]:
    """Return the host, the port and the bytes to send, or None as bytes for a tunnel. Raise ProxyRefusal."""
    request_line, *lines = head.decode("latin-1").split("\r\n")
    words = request_line.split(" ")
    if len(words) != 3 or any(line[:1] in ("", " ", "\t") or "\n" in line for line in lines):
        raise ProxyRefusal(build_response("400 Bad Request", "this is not a valid HTTP request"))
    method, target, _ = words
    if method == "CONNECT":
        authority, path = target, None
    else:
        url = _URL.fullmatch(target)
        if url is None:
            raise ProxyRefusal(
                build_response("400 Bad Request", "this is a proxy, so the request must have a full http:// address")
            )
        authority, path = url[1], url[2] or "/"
    destination = _DESTINATION.fullmatch(authority)
    port = int(destination[2] or (443 if path is None else 80)) if destination else 0
    if destination is None or not 0 < port < 65536:
        raise ProxyRefusal(build_response("400 Bad Request", "the request does not name a valid host and port"))
    host = destination[1].lower().rstrip(".")
    if path is None:
        return host, port, None
    headers = [line for line in lines if line.partition(":")[0].strip().lower() not in _DROPPED_HEADERS]
    path = path if path.startswith("/") else "/" + path
    request_lines = [f"{method} {path} HTTP/1.1", f"Host: {authority}", "Connection: close", *headers, "", ""]
    return host, port, "\r\n".join(request_lines).encode("latin-1")


def build_response(status: str, text: str) -> bytes:
    """Return a complete HTTP response with this text."""
    body = f"mngr: {text}\n".encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode("latin-1") + body


def copy_stream(source: socket.socket, target: socket.socket) -> None:
    """Copy all data from one socket to the other until the source ends."""
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):  # The other direction is useless then.
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


if __name__ == "__main__":
    main()
