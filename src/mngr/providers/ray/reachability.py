"""Whether a Ray cluster answers, found out in seconds."""

from __future__ import annotations

import os
import socket
import time

from mngr.providers.bridge.protocol import FIRST_BYTE_TIMEOUT, HTTP2_PREFACE, EngineError

CONNECT_TIMEOUT = 3.0  # seconds in which a cluster must take a connection


def resolve_address(address: str) -> str:
    """What `auto` is for Ray now: RAY_ADDRESS, else a cluster on this machine; as it was given when that cannot be told."""
    if address != "auto":
        return address
    try:
        from ray._private.services import (  # type: ignore[import-not-found, unused-ignore]
            get_ray_address_from_environment,
        )

        return str(get_ray_address_from_environment(address, None))
    except (ImportError, TypeError, ConnectionError):  # of another version, or it will say so itself
        return os.environ.get("RAY_ADDRESS") or address


def check_reachable(address: str) -> None:
    """Refused when nobody listens there, or says nothing: Ray itself would try for minutes."""
    host, colon, port = (
        address.partition("://")[2].partition("/")[0].rpartition(":") if "://" in address else address.rpartition(":")
    )
    if not colon or not port.isdigit():
        return
    began = time.monotonic()
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT) as link:
            link.settimeout(FIRST_BYTE_TIMEOUT)
            link.sendall(HTTP2_PREFACE)
            try:
                link.recv(1)
            except socket.timeout:
                raise
            except OSError:  # it speaks otherwise, and says so
                pass
    except OSError as error:
        why = error.strerror or f"no answer within {time.monotonic() - began:.0f}s"
        raise EngineError("unreachable", f"Ray at {address} cannot be reached: {why}") from None
