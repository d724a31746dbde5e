"""What we know of other hosts: facts in `hosts/PROVIDER/NAME.json`, and the last answer of each in `NAME.seen`."""

from __future__ import annotations

import json
import os
import time

from mngr.base.errors import MngrError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.base.paths import Home


IMAGE_CACHE_PREFIX = "alike-"  # in the cache: what is known of all hosts of an image


def compute_owner_key(home: Home) -> str:
    """Whose a host is that an engine made for us: of this machine, user and home, for many may use one engine."""
    import hashlib

    whole = f"{os.uname().nodename}:{os.getuid()}:{os.path.realpath(home.root)}"
    return hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def list_providers(home: Home) -> list[str]:
    """The providers that have a host here."""
    try:
        return sorted(os.listdir(home.hosts))
    except OSError:
        return []


def list_hosts(home: Home, provider: str, phase: str = "json") -> list[str]:
    """The hosts of a provider, or those that are just being made (`making`), taken away (`ending`), or are gone (`gone`)."""
    try:
        listed = os.listdir(os.path.join(home.hosts, provider))
    except OSError:
        return []
    return sorted(name.removesuffix(f".{phase}") for name in listed if name.endswith(f".{phase}"))


def find_facts(home: Home, provider: str, host: str, phase: str = "json") -> dict[str, Any] | None:
    """The facts about a host; None when it was never used, or what is written cannot be read."""
    try:
        with open(_path(home, provider, host, phase), encoding="utf-8") as file:
            facts = json.load(file)
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and facts.get("v") == 1 else None


def is_removed(home: Home, provider: str, host: str) -> bool:
    """Whether a host that was ours has been taken away, or just is."""
    ending = os.path.exists(_path(home, provider, host, "ending"))
    return ending or not os.path.exists(_path(home, provider, host, "json"))


def get_age(home: Home, provider: str, host: str, phase: str = "json") -> float:
    """Seconds since a host was last written down."""
    try:
        return time.time() - os.stat(_path(home, provider, host, phase)).st_mtime
    except OSError:
        return 0.0


def save_facts(home: Home, provider: str, host: str, facts: dict[str, Any], phase: str = "json") -> None:
    """Remember a host."""
    _write(_path(home, provider, host, phase), json.dumps({"v": 1, **facts}).encode() + b"\n", sync=True)


def delete_phases(home: Home, provider: str, host: str, *phases: str) -> None:
    """What was written of a host in these phases is no longer so."""
    for phase in phases:
        try:
            os.unlink(_path(home, provider, host, phase))
        except FileNotFoundError:
            pass


def forget_host(home: Home, provider: str, host: str) -> None:
    """The host is no longer ours."""
    delete_phases(home, provider, host, "json", "making", "ending", "seen", "known_hosts")
    try:
        os.rmdir(os.path.join(home.hosts, provider))
    except OSError:
        pass


def find_image_facts(home: Home, provider: str, files: str) -> dict[str, Any] | None:
    """What is known of every host that is made of these files; None when none was asked yet."""
    try:
        with open(_image_facts_path(home, provider, files), encoding="utf-8") as file:
            return dict(json.load(file)["facts"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save_image_facts(home: Home, provider: str, files: str, facts: dict[str, Any]) -> None:
    """Remember what others made of the same files need not be asked."""
    _write(_image_facts_path(home, provider, files), json.dumps({"v": 1, "facts": facts}).encode() + b"\n")


def _image_facts_path(home: Home, provider: str, files: str) -> str:
    from urllib.parse import quote

    return os.path.join(home.cache, f"{IMAGE_CACHE_PREFIX}{provider}-{quote(files, safe='')[:100]}.json")


def save_last_listing(home: Home, provider: str, host: str, answer: bytes, asked: float) -> None:
    """Keep what a host answered to `list`, unless something was kept since it was asked; the file's time says when.

    A cache: a home that is full does not matter.
    """
    path = _path(home, provider, host, "seen")
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_mtime > asked:
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
    """One more agent in what a host last answered."""
    try:
        fd = os.open(_path(home, provider, host, "seen"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, rows)
        finally:
            os.close(fd)
    except OSError:  # a cache
        pass


def find_last_listing(home: Home, provider: str, host: str) -> tuple[bytes, float] | None:
    """What a host last answered, and when."""
    path = _path(home, provider, host, "seen")
    try:
        with open(path, "rb") as file:
            return file.read(), os.fstat(file.fileno()).st_mtime
    except OSError:
        return None


def known_hosts_path(home: Home, provider: str, host: str) -> str:
    """The file that ssh reads its key from; see mngr.agents.interact.pipe."""
    return _path(home, provider, host, "known_hosts")


def _path(home: Home, provider: str, host: str, ending: str) -> str:
    return os.path.join(home.hosts, provider, f"{host}.{ending}")


def _write(path: str, data: bytes, *, sync: bool = False) -> None:
    fresh = f"{path}.{os.getpid()}-{os.urandom(3).hex()}.new"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError as error:
        raise MngrError(f"cannot write {path}: {error.strerror}", "check space and permissions") from None
