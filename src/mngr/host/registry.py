"""Stores what mngr knows of other hosts: facts in `hosts/PROVIDER/NAME.json`, the last listing in `NAME.seen`."""

from __future__ import annotations

import json
import os
import time

from mngr.base.errors import MngrError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.base.paths import Home


IMAGE_CACHE_PREFIX = "alike-"  # cache files with the facts that all hosts of an image share


def compute_owner_key(home: Home) -> str:
    """Return a key for this machine, user and home. It marks the hosts that this home creates on a shared engine."""
    import hashlib

    identity = f"{os.uname().nodename}:{os.getuid()}:{os.path.realpath(home.root)}"
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def list_providers(home: Home) -> list[str]:
    """Return the providers that have a host in this home."""
    try:
        return sorted(os.listdir(home.hosts))
    except OSError:
        return []


def list_hosts(home: Home, provider: str, phase: str = "json") -> list[str]:
    """Return the hosts of a provider that are in a phase.

    The phases are `json` (in use), `making`, `ending` (being destroyed) and `gone`.
    """
    try:
        files = os.listdir(os.path.join(home.hosts, provider))
    except OSError:
        return []
    return sorted(name.removesuffix(f".{phase}") for name in files if name.endswith(f".{phase}"))


def find_facts(home: Home, provider: str, host: str, phase: str = "json") -> dict[str, Any] | None:
    """Return the facts about a host, or None when they are missing or unreadable."""
    try:
        with open(_path(home, provider, host, phase), encoding="utf-8") as file:
            facts = json.load(file)
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and facts.get("v") == 1 else None


def is_removed(home: Home, provider: str, host: str) -> bool:
    """True when the host was destroyed or is being destroyed."""
    is_ending = os.path.exists(_path(home, provider, host, "ending"))
    return is_ending or not os.path.exists(_path(home, provider, host, "json"))


def get_age(home: Home, provider: str, host: str, phase: str = "json") -> float:
    """Return the seconds since the facts of a host were last saved, or 0 without facts."""
    try:
        return time.time() - os.stat(_path(home, provider, host, phase)).st_mtime
    except OSError:
        return 0.0


def save_facts(home: Home, provider: str, host: str, facts: dict[str, Any], phase: str = "json") -> None:
    """Save the facts about a host."""
    _write(_path(home, provider, host, phase), json.dumps({"v": 1, **facts}).encode() + b"\n", sync=True)


def delete_phases(home: Home, provider: str, host: str, *phases: str) -> None:
    """Delete the facts about a host in these phases."""
    for phase in phases:
        try:
            os.unlink(_path(home, provider, host, phase))
        except FileNotFoundError:
            pass


def forget_host(home: Home, provider: str, host: str) -> None:
    """Delete everything that is stored about a host, except for the facts of its phase `gone`."""
    delete_phases(home, provider, host, "json", "making", "ending", "seen", "known_hosts")
    try:
        os.rmdir(os.path.join(home.hosts, provider))
    except OSError:
        pass


def find_image_facts(home: Home, provider: str, files: str) -> dict[str, Any] | None:
    """Return the facts that all hosts of an image share, or None. `files` identifies the image."""
    try:
        with open(_image_facts_path(home, provider, files), encoding="utf-8") as file:
            return dict(json.load(file)["facts"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save_image_facts(home: Home, provider: str, files: str, facts: dict[str, Any]) -> None:
    """Save the facts that all hosts of an image share, so that mngr need not ask every host."""
    _write(_image_facts_path(home, provider, files), json.dumps({"v": 1, "facts": facts}).encode() + b"\n")


def _image_facts_path(home: Home, provider: str, files: str) -> str:
    from urllib.parse import quote

    return os.path.join(home.cache, f"{IMAGE_CACHE_PREFIX}{provider}-{quote(files, safe='')[:100]}.json")


def save_last_listing(home: Home, provider: str, host: str, answer: bytes, asked_at: float) -> None:
    """Save a host's answer to `list`, unless a newer answer was saved after `asked`.

    The file's modification time is the time of the answer. It is a cache, so write errors are ignored.
    """
    path = _path(home, provider, host, "seen")
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_mtime > asked_at:
                return
            if file.read() == answer:
                os.utime(path)
                return
    except OSError:
        pass
    try:
        _write(path, answer)
    except MngrError:
        pass


def append_last_listing(home: Home, provider: str, host: str, rows: bytes) -> None:
    """Add the rows of one more agent to the last listing of a host."""
    try:
        fd = os.open(_path(home, provider, host, "seen"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, rows)
        finally:
            os.close(fd)
    except OSError:  # It is only a cache.
        pass


def find_last_listing(home: Home, provider: str, host: str) -> tuple[bytes, float] | None:
    """Return the last listing of a host and its time, or None."""
    path = _path(home, provider, host, "seen")
    try:
        with open(path, "rb") as file:
            return file.read(), os.fstat(file.fileno()).st_mtime
    except OSError:
        return None


def known_hosts_path(home: Home, provider: str, host: str) -> str:
    """Return the file with the host's ssh key; see mngr.agents.interact.pipe."""
    return _path(home, provider, host, "known_hosts")


def _path(home: Home, provider: str, host: str, suffix: str) -> str:
    return os.path.join(home.hosts, provider, f"{host}.{suffix}")


def _write(path: str, data: bytes, *, sync: bool = False) -> None:
    """Replace a file in one step. Raise MngrError if that fails."""
    temporary_path = f"{path}.{os.getpid()}-{os.urandom(3).hex()}.new"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary_path, path)
    except OSError as error:
        raise MngrError(f"cannot write {path}: {error.strerror}", "check space and permissions") from None
