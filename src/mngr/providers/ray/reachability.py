"""Finds out within seconds whether a Ray cluster answers."""

from __future__ import annotations

import os
import socket
import time

from mngr.providers.bridge.engine_interface import FIRST_BYTE_TIMEOUT, HTTP2_PREFACE, EngineError

CONNECT_TIMEOUT = 3.0  # seconds; for opening a connection to the cluster


def resolve_address(address: str) -> str:
    """Return the address for `auto`: RAY_ADDRESS or a cluster on this machine.

    Return any other address unchanged, also if Ray cannot resolve it.
    """
    if address != "auto":
        return address
    try:
        from ray._private.services import (  # type: ignore[import-not-found, unused-ignore]
            get_ray_address_from_environment,
        )

        return str(get_ray_address_from_environment(address, None))
    except (
        ImportError,
        TypeError,
        ConnectionError,
    ):  # Another version of Ray, or an error that `ray.init` reports itself.
        return os.environ.get("RAY_ADDRESS") or address


def check_reachable(address: str) -> None:
    """Raise EngineError if no server answers at the address. Ray itself would try for minutes."""
    host, colon, port = (
        address.partition("://")[2].partition("/")[0].rpartition(":") if "://" in address else address.rpartition(":")
    )
    if not colon or not port.isdigit():
        return
    started = time.monotonic()
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT) as link:
            link.settimeout(FIRST_BYTE_TIMEOUT)
            link.sendall(HTTP2_PREFACE)
            try:
                link.recv(1)
            except socket.timeout:
                raise
            except OSError:  # An error is an answer, too.
                pass
    except OSError as error:
        reason = error.strerror or f"no answer within {time.monotonic() - started:.0f}s"
        raise EngineError("unreachable", f"Ray at {address} cannot be reached: {reason}") from None


def get_error_line(error: BaseException) -> str:
    """Return the first line of Ray's error message that is not empty."""
    message = str(getattr(error, "cause", None) or error)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
