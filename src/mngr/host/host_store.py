"""Stores what mngr knows of other hosts: facts in `hosts/PROVIDER/NAME.json`, the last listing in `NAME.seen`."""

from __future__ import annotations

import json
import os
import time

from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.untrusted_json import as_object, find_text, get_object, get_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.paths import Home


IMAGE_CACHE_PREFIX = "alike-"  # cache files with the facts that all hosts of an image share
# Reports of host_facts.sh that have no field in HostFacts.
REPORTED_FACTS = (
    "os",
    "boot",
    "clock",
    "free",
    "load",
    "cpus",
    "agents",
    "git",
    "tmux",
    "flock",
    "python3",
    "rsync",
    "sshd",
)


class HostFacts(Struct):
    """The facts that mngr stores about a host."""

    home: str = ""  # the agents' home on the host
    uid: int = 0
    login: str = ""  # the name of the user
    reported: dict[str, str] = {}  # by a name of REPORTED_FACTS
    env: dict[str, str] = {}  # the variables of a person who logs in on the host
    network: str | None = None  # the network mode that the host was created with
    options: dict[str, object] = {}  # the options of `-b` that the host was created with
    auto: bool = False  # mngr created the host for an agent, so mngr destroys it without agents
    guest: bool | None = None  # True: another home created the host; None: nobody had to find it on its engine
    maker: dict[str, object] | None = None  # the process that created the host
    doing: str | None = None  # start | stop, while it is in progress
    owner: dict[str, object] | None = None  # the process that creates, starts, stops or destroys the host
    opening: str = ""  # the start of every program on the host, which creates the home if it is missing
    own: dict[str, object] = {}  # the facts that only the provider knows


def parse_facts(row: dict[str, object]) -> HostFacts:
    """Return the facts that `encode_facts` wrote. Every other field is the provider's own."""
    guest = row.get("guest")
    return HostFacts(
        home=get_text(row, "home"),
        uid=int(str(row.get("uid") or 0)),
        login=get_text(row, "login"),
        reported={key: str(row[key]) for key in REPORTED_FACTS if key in row},
        env={name: str(value) for name, value in get_object(row, "env").items()},
        network=find_text(row, "network"),
        options=get_object(row, "options"),
        auto=row.get("auto") is True,
        guest=guest if isinstance(guest, bool) else None,
        maker=get_object(row, "maker") or None,
        doing=find_text(row, "doing"),
        owner=get_object(row, "owner") or None,
        opening=get_text(row, "opening"),
        own={key: value for key, value in row.items() if key not in _SHARED_KEYS},
    )


_SHARED_KEYS = {"v", *HostFacts._fields, *REPORTED_FACTS} - {"reported", "own"}


def encode_facts(facts: HostFacts) -> dict[str, object]:
    """Return the facts as a JSON object without the fields that have their default."""
    fields = facts.to_dict()
    changed = {key: value for key, value in fields.items() if value != HostFacts._defaults[key]}
    return {**changed.pop("reported", {}), **changed.pop("own", {}), **changed}


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


def find_facts(home: Home, provider: str, host: str, phase: str = "json") -> HostFacts | None:
    """Return the facts about a host, or None when they are missing or unreadable."""
    try:
        with open(_get_file_path(home, provider, host, phase), encoding="utf-8") as file:
            row = as_object(json.load(file))
        return parse_facts(row) if row.get("v") == 1 else None
    except (OSError, ValueError):
        return None


def is_removed(home: Home, provider: str, host: str) -> bool:
    """True when the host was destroyed or is being destroyed."""
    is_ending = os.path.exists(_get_file_path(home, provider, host, "ending"))
    return is_ending or not os.path.exists(_get_file_path(home, provider, host, "json"))


def get_age(home: Home, provider: str, host: str, phase: str = "json") -> float:
    """Return the seconds since the facts of a host were last saved, or 0 without facts."""
    try:
        return time.time() - os.stat(_get_file_path(home, provider, host, phase)).st_mtime
    except OSError:
        return 0.0


def save_facts(home: Home, provider: str, host: str, facts: HostFacts, phase: str = "json") -> None:
    """Save the facts about a host."""
    data = json.dumps({"v": 1, **encode_facts(facts)}).encode() + b"\n"
    _write(_get_file_path(home, provider, host, phase), data, sync=True)


def delete_phases(home: Home, provider: str, host: str, *phases: str) -> None:
    """Delete the facts about a host in these phases."""
    for phase in phases:
        try:
            os.unlink(_get_file_path(home, provider, host, phase))
        except FileNotFoundError:
            pass


def forget_host(home: Home, provider: str, host: str) -> None:
    """Delete everything that is stored about a host, except for the facts of its phase `gone`."""
    delete_phases(home, provider, host, "json", "making", "ending", "seen", "known_hosts")
    try:
        os.rmdir(os.path.join(home.hosts, provider))
    except OSError:
        pass


def find_image_facts(home: Home, provider: str, files: str) -> HostFacts | None:
    """Return the facts that all hosts of an image share, or None. `files` identifies the image."""
    try:
        with open(_image_facts_path(home, provider, files), encoding="utf-8") as file:
            row = get_object(as_object(json.load(file)), "facts")
        return parse_facts(row) if row else None
    except (OSError, ValueError):
        return None


def save_image_facts(home: Home, provider: str, files: str, facts: HostFacts) -> None:
    """Save the facts that all hosts of an image share, so that mngr need not ask every host."""
    row = {"v": 1, "facts": encode_facts(facts)}
    _write(_image_facts_path(home, provider, files), json.dumps(row).encode() + b"\n")


def _image_facts_path(home: Home, provider: str, files: str) -> str:
    from urllib.parse import quote

    return os.path.join(home.cache, f"{IMAGE_CACHE_PREFIX}{provider}-{quote(files, safe='')[:100]}.json")


def save_last_listing(home: Home, provider: str, host: str, answer: bytes, asked_at: float) -> None:
    """Save a host's answer to `list`, unless a newer answer was saved after `asked`.

    The file's modification time is the time of the answer. It is a cache, so write errors are ignored.
    """
    path = _get_file_path(home, provider, host, "seen")
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
        fd = os.open(_get_file_path(home, provider, host, "seen"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, rows)
        finally:
            os.close(fd)
    except OSError:  # It is only a cache.
        pass


def find_last_listing(home: Home, provider: str, host: str) -> tuple[bytes, float] | None:
    """Return the last listing of a host and its time, or None."""
    path = _get_file_path(home, provider, host, "seen")
    try:
        with open(path, "rb") as file:
            return file.read(), os.fstat(file.fileno()).st_mtime
    except OSError:
        return None


def known_hosts_path(home: Home, provider: str, host: str) -> str:
    """Return the file with the host's ssh key; see mngr.agents.interact.ssh_connection."""
    return _get_file_path(home, provider, host, "known_hosts")


def _get_file_path(home: Home, provider: str, host: str, suffix: str) -> str:
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
        raise MngrError(
            f"cannot write {path}: {error.strerror}",
            shell.suggest_disk_check(os.path.dirname(path)),
        ) from None
