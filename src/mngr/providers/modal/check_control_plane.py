"""Finds out within seconds whether Modal's control plane answers. Modal's library takes a minute."""

from __future__ import annotations

import asyncio
import os
import re
import time

from mngr.providers.bridge.engine_interface import FIRST_BYTE_TIMEOUT, HTTP2_PREFACE, EngineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine
    from typing import Any, TypeVar

    T = TypeVar("T")

DEFAULT_URL = "https://api.modal.com"
LATE_AFTER = 1.0  # seconds; check the connection when an answer takes longer
CONNECT_TIMEOUT = 1.5  # seconds; for opening a connection
RETRY_INTERVAL = 3.0  # seconds; pause between two checks while an answer is late
SILENCE_TIMEOUT = 10.0  # seconds; after this time the server must also send a byte
# Exceptions by name, because classes move between versions. Older versions raise errors with a status instead.
_ERROR_KINDS = {
    "AuthError": "auth",
    "PermissionDeniedError": "auth",
    "NotFoundError": "not_found",
    "ResourceExhaustedError": "busy",
    "ConnectionError": "unreachable",
    "ServiceError": "unreachable",
    "SandboxTimeoutError": "ended",
    "SandboxTerminatedError": "ended",
    "TimeoutError": "unreachable",
    "ClientClosed": "unreachable",
    "StreamTerminatedError": "unreachable",
    "AlreadyExistsError": "exists",
    "InvalidError": "usage",
}
_STATUS_KINDS = {
    "UNAUTHENTICATED": "auth",
    "PERMISSION_DENIED": "auth",
    "NOT_FOUND": "not_found",
    "RESOURCE_EXHAUSTED": "busy",
    "UNAVAILABLE": "unreachable",
    "DEADLINE_EXCEEDED": "unreachable",
    "ALREADY_EXISTS": "exists",
    "INVALID_ARGUMENT": "usage",
}


def get_address() -> tuple[str, int]:
    """Return the host and port of the control plane or of its proxy, from the settings that the library reads."""
    return _parse_url(_get_proxy() or _get_server_url())


def _get_proxy() -> str:
    """Return the proxy's URL, or an empty text."""
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy") or ""
    return "" if os.environ.get("MODAL_DISABLE_API_PROXY") else proxy


def _get_server_url() -> str:
    return (os.environ.get("MODAL_SERVER_URL") or _read_configured_url() or DEFAULT_URL).split(",")[0]


def _read_configured_url() -> str:
    """Return the server's URL in the library's settings file, or an empty text."""
    path = os.environ.get("MODAL_CONFIG_PATH") or os.path.expanduser("~/.modal.toml")
    try:
        with open(path, encoding="utf-8") as file:
            match = re.search(r"""^\s*server_url\s*=\s*["']([^"']+)""", file.read(), re.MULTILINE)
    except OSError:
        return ""
    return match[1] if match else ""


def _parse_url(url: str) -> tuple[str, int]:
    scheme, _, rest = url.rpartition("://")
    authority = rest.partition("/")[0].rpartition("@")[2]
    host, colon, port = authority.rpartition(":")
    if not colon or not port.isdigit():
        return authority, 80 if scheme == "http" else 443
    return host.strip("[]"), int(port)


async def find_connection_error(*, says: bool = False) -> str:
    """Return why the control plane cannot be reached, or an empty text if it can.

    With `says`, the server must also send a byte, which takes longer.
    """
    host, port = get_address()
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_TIMEOUT)
        writer.close()
        if says and not _get_proxy():
            await asyncio.wait_for(_exchange_preface(host, port), FIRST_BYTE_TIMEOUT)
    except asyncio.TimeoutError:
        return f"{host}:{port} does not answer"
    except OSError as error:
        return f"{host}:{port} cannot be reached: {error.strerror or error}"
    return ""


async def _exchange_preface(host: str, port: int) -> None:
    """Open an HTTP/2 connection and wait for the server's first byte. Its certificate is not checked."""
    import ssl

    context = None
    if not _get_server_url().startswith("http://"):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        writer.write(HTTP2_PREFACE)
        if not await reader.read(1):
            raise OSError("it ends the connection without an answer")
    finally:
        writer.close()


async def run_if_reachable(work: Awaitable[T]) -> T:
    """Return the result of `work`. Raise EngineError if it fails, or is late and the server does not answer."""
    task = asyncio.ensure_future(work)
    pause, started = LATE_AFTER, time.monotonic()
    try:
        while not task.done():
            await asyncio.wait([task], timeout=pause)
            waited = time.monotonic() - started
            if (
                not task.done()
                and (reason := await find_connection_error(says=waited > SILENCE_TIMEOUT))
                and not task.done()
            ):
                raise EngineError("unreachable", reason)
            pause = RETRY_INTERVAL
        return task.result()
    except (EngineError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise translate_error(error) from error
    finally:
        task.cancel()


async def run_in_library_loop(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, run in the library's own event loop to avoid switching threads for each call."""
    loop = _find_library_loop()
    if loop is None:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def _find_library_loop() -> Any:
    """Return the library's event loop, or None if this version does not provide it."""
    try:
        from modal._utils.async_utils import synchronizer  # type: ignore[import-not-found, unused-ignore]

        return synchronizer._get_loop(start=True)
    except (ImportError, AttributeError, TypeError):
        return None


def translate_error(error: BaseException) -> EngineError:
    """Return the EngineError for an exception of the library."""
    if isinstance(error, EngineError):
        return error
    message = " ".join(str(error).split()) or type(error).__name__
    status: Any = getattr(error, "_grpc_status", None)
    if type(error).__name__ == "GRPCError":
        status = getattr(error, "status", None)
        message = str(getattr(error, "message", message))
    names = [kind.__name__ for kind in type(error).__mro__]
    kind = next((_ERROR_KINDS[name] for name in names if name in _ERROR_KINDS), None)
    kind = kind or _STATUS_KINDS.get(getattr(status, "name", ""), "other")
    if "rate limit" in message.lower() or kind == "busy":
        return EngineError("busy", f"Modal has no capacity now: {message}")
    return EngineError(kind, message)
