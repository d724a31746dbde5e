"""Agent records, events and names in a home. The record is the commit point of every operation."""

from __future__ import annotations

import json
import os

from mngr import clock, names
from mngr.errors import MngrError, NotFound
from mngr.lock import Lock
from mngr.model import AgentRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.host import Host
    from mngr.paths import Home


class NameTaken(MngrError):
    """Another agent of this home has that name."""

    def __init__(self, name: str) -> None:
        hint = f"choose another name, or: mngr destroy {name}"
        super().__init__(f"there is already an agent called {name!r}", hint)


def encode(record: AgentRecord) -> bytes:
    """One line, so that a whole home can be read by one grep."""
    return json.dumps(record.to_dict(), ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


_FITS: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int),
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "str | None": lambda value: value is None or isinstance(value, str),
    "float | None": lambda value: value is None or isinstance(value, int | float),
    "list[str]": lambda value: isinstance(value, list) and all(isinstance(v, str) for v in value),
    "dict[str, str]": lambda value: (
        isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
    ),
    "dict[str, Any]": lambda value: isinstance(value, dict),
    "dict[str, Any] | None": lambda value: value is None or isinstance(value, dict),
}


def decode(text: str | bytes) -> AgentRecord:
    """The record in `text`; ValueError says what is wrong with it."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(data, dict):
        raise ValueError("not an object")
    if data.get("v") != 1:
        raise ValueError(f"written by a newer mngr (v {str(data.get('v'))[:40]})")
    kinds = AgentRecord.__annotations__
    known = {key: data[key] for key in AgentRecord._fields if key in data}
    for key, value in known.items():
        if not _FITS[kinds[key]](value):
            raise ValueError(f"{key} cannot be {str(value)[:40]!r}")
    try:
        record = AgentRecord(**known)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not names.is_id(record.id) or not names.is_name(record.name):
        raise ValueError("bad id or name")
    clock.parse_stamp(record.created_at)
    return record


def save(host: Host, record: AgentRecord) -> AgentRecord:
    """Write the record in one step."""
    host.write(os.path.join(host.home.agent(record.id), "agent.json"), encode(record))
    return record


def load(host: Host, agent_id: str) -> AgentRecord:
    """The record of an agent; NotFound, or MngrError when it is damaged."""
    try:
        data = host.read(os.path.join(host.home.agent(agent_id), "agent.json"))
    except NotFound:
        raise NotFound(f"there is no agent {agent_id}", "see: mngr list") from None
    try:
        return decode(data)
    except ValueError as error:
        raise MngrError(
            f"the record of {agent_id} is damaged: {error}",
            f"look at it, or put it away: mngr destroy --force {agent_id}",
        ) from None


def add_event(host: Host, agent_id: str, event: str, **data: Any) -> None:
    """Append a row to the agent's events."""
    row = {"v": 1, "at": clock.stamp(), "agent": agent_id, "type": event, "source": "mngr", "data": data}
    path = os.path.join(host.home.agent(agent_id), "events.jsonl")
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
    except OSError:  # gone with its agent, or a pipe or link that the agent put there
        return
    try:
        os.write(fd, json.dumps(row, separators=(",", ":")).encode() + b"\n")
    finally:
        os.close(fd)


def reserve_name(home: Home, name: str, agent_id: str, host: Host | None = None) -> None:
    """Take a name for this home; NameTaken when somebody has it. Atomic between processes."""
    link = os.path.join(home.names, name)
    where = f"@{host.name}.{host.provider}" if host is not None and host.home.root != home.root else ""
    for _ in range(2):
        try:
            os.symlink(agent_id + where, link)
            return
        except FileExistsError:
            holder = find_id(home, name)
            if holder is not None and (os.path.isdir(home.agent(holder)) or is_elsewhere(home, name)):
                break
            release_name(home, name, holder or "")  # its agent is gone: a command was interrupted
    raise NameTaken(name)


def release_name(home: Home, name: str, agent_id: str) -> None:
    """Give a name back if it is this agent's."""
    if find_id(home, name) != agent_id:
        return
    with Lock(home.names + ".lock"):  # or two could give it back, one of them after a third has taken it
        if find_id(home, name) == agent_id:
            os.unlink(os.path.join(home.names, name))


def find_id(home: Home, name: str) -> str | None:
    """The id behind a name."""
    try:
        return os.readlink(os.path.join(home.names, name)).partition("@")[0]
    except OSError:
        return None


def is_elsewhere(home: Home, name: str) -> bool:
    """Whether a name belongs to an agent on a host with a home of its own, whom only that host can tell about."""
    try:
        return "@" in os.readlink(os.path.join(home.names, name))
    except OSError:
        return False


def list_names(home: Home) -> list[str]:
    """All names of this home."""
    try:
        return sorted(name for name in os.listdir(home.names) if names.is_name(name))
    except OSError:
        return []


def this_process() -> dict[str, Any]:
    """Who is at work: enough to tell later whether that process still lives."""
    return {"pid": os.getpid(), "start": _start_time(os.getpid()), "boot": boot_id()}


def is_alive(owner: dict[str, Any] | None) -> bool:
    """Whether the process that `this_process` described still runs on this machine."""
    pid = owner.get("pid") if owner else None
    if not owner or not isinstance(pid, int) or owner.get("boot") != boot_id():
        return False
    started = _start_time(pid)
    return started is not None and started == owner.get("start")


def boot_id() -> str:
    """Changes with every boot; empty where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return "alive" if not os.path.exists("/proc/self/stat") else None
