"""Runs the server: its address, its token and its certificate."""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import socket
import time
from collections.abc import Callable

import uvicorn

from mngr.base.errors import MngrError, UsageError
from mngr.base.model import Struct
from mngr.base.paths import Home
from mngr.base.untrusted_json import as_object, get_int, get_text, parse_json
from mngr.web.live.app import build_app
from mngr.web.live.security import TOKEN_PARAMETER, Access
from mngr.web.live.site import Site

LOOPBACK = "127.0.0.1"
_TOKEN_DAYS = 7  # A token is replaced when the server starts after this time.
_MAX_CONNECTIONS = 200
_MIN_TOKEN_LENGTH = 20


class ServerOptions(Struct):
    """Where the server listens. Port 0 is the port that was used last, or a free port."""

    address: str = LOOPBACK
    port: int = 0
    tls_cert: str | None = None
    tls_key: str | None = None
    is_insecure: bool = False
    is_read_only: bool = False

    @property
    def is_loopback(self) -> bool:
        """True when only this machine can reach the server."""
        if self.address == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return False


def parse_address(text: str) -> tuple[str, int]:
    """Return the address and the port of `ADDRESS:PORT`. Raise UsageError for other text."""
    address, _, port = text.rpartition(":")
    address = address.removeprefix("[").removesuffix("]")
    if not address or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen: {text!r} is not ADDRESS:PORT", "for example: mngr web --listen 192.168.1.5:8443")
    return address, int(port)


def check_server_options(options: ServerOptions) -> None:
    """Raise UsageError for options that would send the token over a network without encryption."""
    if (options.tls_cert is None) != (options.tls_key is None):
        raise UsageError(
            "--tls-cert and --tls-key work only together",
            "name both files: mngr web --tls-cert cert.pem --tls-key key.pem",
        )
    for path in (options.tls_cert, options.tls_key):
        if path is not None and not os.path.isfile(path):
            raise UsageError(
                f"there is no file {path}", "name existing files: mngr web --tls-cert cert.pem --tls-key key.pem"
            )
    if not options.is_loopback and options.tls_cert is None and not options.is_insecure:
        raise UsageError(
            f"other machines could read and control your agents through {options.address}",
            "use TLS: --tls-cert FILE --tls-key FILE; or use ssh: ssh -L 8000:127.0.0.1:8000 HOST; or accept that others "
            "can read the token: --insecure",
        )


class SavedAccess(Struct):
    """The token and the port of the last server of a home. With them, open pages reconnect to the next server."""

    token: str
    port: int = 0


def load_access(home: Home) -> SavedAccess:
    """Return the saved token and port, or a new token if there is none or it is old."""
    path = os.path.join(home.web, "access.json")
    try:
        with open(path, "rb") as file:
            is_old = time.time() - os.fstat(file.fileno()).st_mtime > _TOKEN_DAYS * 86400
            row = as_object(parse_json(file.read(10_000)))
        token, port = get_text(row, "token"), get_int(row, "port")
        if len(token) >= _MIN_TOKEN_LENGTH:
            return SavedAccess(token=secrets.token_urlsafe(32) if is_old else token, port=port)
    except (OSError, ValueError):
        pass
    return SavedAccess(token=secrets.token_urlsafe(32))


def save_access(home: Home, access: SavedAccess) -> None:
    """Save the token and the port for the next server. Only the user can read them."""
    home.create()
    os.makedirs(home.web, mode=0o700, exist_ok=True)
    path = os.path.join(home.web, "access.json")
    temporary = f"{path}.{os.getpid()}.new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump({"token": access.token, "port": access.port}, file)
    os.replace(temporary, path)


def open_socket(options: ServerOptions, saved_port: int) -> socket.socket:
    """Return a socket that listens. Without a chosen port, prefer the one of the last time."""
    for port in dict.fromkeys((options.port,) if options.port else (saved_port, 0)):
        try:
            family, kind, proto, _, target = socket.getaddrinfo(
                options.address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            server = socket.socket(family, kind, proto)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(target)
            server.listen(128)
            return server
        except OSError as error:
            problem = error
    raise MngrError(
        f"cannot listen on {options.address}, port {port}: {problem.strerror}",
        "choose another port: mngr web --port N",
    )


def serve(site: Site, home: Home, options: ServerOptions, on_start: Callable[[str], None]) -> None:
    """Serve the pages until a signal arrives. `on_start` gets the URL with the token."""
    saved = load_access(home)
    server = open_socket(options, saved.port)
    port = server.getsockname()[1]
    save_access(home, saved.replace(port=port))
    names = () if options.is_loopback else (options.address.lower(), socket.gethostname().lower())
    access = Access(
        token=saved.token,
        host_names=names,
        is_secure=options.tls_cert is not None,
        is_read_only=options.is_read_only,
    )
    config = uvicorn.Config(
        build_app(site, access),
        http="h11",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="critical",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=1,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
    on_start(build_url(options, port, saved.token))
    try:
        uvicorn.Server(config).run(sockets=[server])
    finally:
        server.close()


def build_url(options: ServerOptions, port: int, token: str) -> str:
    """Return the URL that opens the page."""
    scheme = "https" if options.tls_cert is not None else "http"
    address = f"[{options.address}]" if ":" in options.address else options.address
    if options.address in ("0.0.0.0", "::"):
        address = socket.gethostname()
    return f"{scheme}://{address}:{port}/?{TOKEN_PARAMETER}={token}"
