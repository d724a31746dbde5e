"""Sockets of background processes that serve later commands, in a directory that only the user can write to."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError


def get_socket_path(kind: str, name: str) -> str:
    """Return the socket path for a process of this kind and name. It is short enough for a socket."""
    return f"/tmp/mngr-{os.getuid()}/{kind}-{_hash_text(name):016x}"


def make_socket_dir(socket: str) -> None:
    """Create the directory of a socket. Raise MngrError if another user owns it."""
    directory = os.path.dirname(socket)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if not _is_private_dir(directory):
        raise MngrError(
            f"{directory} does not belong to you, so mngr does not use it",
            f"ask its owner to remove it: rm -r {directory}",
        )


def has_socket(socket: str) -> bool:
    """True when the socket exists and only this user can have created it."""
    return _is_private_dir(os.path.dirname(socket)) and os.path.exists(socket)


def _is_private_dir(directory: str) -> bool:
    """True when only this user can create files in the directory."""
    try:
        status = os.lstat(directory)
    except FileNotFoundError:
        return False
    return status.st_uid == os.getuid() and status.st_mode & 0o170022 == 0o040000


def _hash_text(text: str) -> int:
    """Return a stable 64-bit hash of a text (FNV-1a). Loading hashlib would take longer than everything else."""
    value = 0xCBF29CE484222325
    for byte in text.encode("utf-8", "surrogateescape"):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
