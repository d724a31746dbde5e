"""Sockets of processes that keep a connection or a library for later commands: in a directory that is surely the user's."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError


def get_socket_path(kind: str, name: str) -> str:
    """Where the one of that kind for a thing of that name listens: short enough for a socket."""
    return f"/tmp/mngr-{os.getuid()}/{kind}-{_fingerprint(name):016x}"


def make_socket_dir(socket: str) -> None:
    """See to it that its directory is there; MngrError when it is somebody else's."""
    place = os.path.dirname(socket)
    os.makedirs(place, mode=0o700, exist_ok=True)
    if not _is_private_dir(place):
        raise MngrError(f"{place} is not a directory of yours", "have its owner remove it")


def has_socket(socket: str) -> bool:
    """Whether somebody listens, or did, and it was surely one of ours."""
    return _is_private_dir(os.path.dirname(socket)) and os.path.exists(socket)


def _is_private_dir(place: str) -> bool:
    """Whether nobody else could have put a socket there."""
    try:
        found = os.lstat(place)
    except FileNotFoundError:
        return False
    return found.st_uid == os.getuid() and found.st_mode & 0o170022 == 0o040000


def _fingerprint(text: str) -> int:
    """64 bits of a text, the same for ever (FNV-1a): loading a library for it would take longer than all the rest."""
    value = 0xCBF29CE484222325
    for byte in text.encode("utf-8", "surrogateescape"):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
