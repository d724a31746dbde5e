"""Agent records, events and names in a home. The record is the commit point of every operation."""

from __future__ import annotations

import json
import os

from mngr.base import clock, names
from mngr.base.errors import MngrError, NotFound
from mngr.base.lock import Lock
from mngr.base.model import AgentRecord
from mngr.host import registry
from mngr.host.batched_host import run_deferred

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.base.paths import Home
    from mngr.base.shell import ProcessResult
    from mngr.host.protocol import Host


FOREIGN_OWNER_SECONDS = 3600  # seconds that another machine's command may take


class NameTaken(MngrError):
    """Another agent of this home has that name."""

    def __init__(self, name: str) -> None:
        hint = f"choose another name, or: mngr destroy {name}"
        super().__init__(f"there is already an agent called {name!r}", hint)


class AgentExists(MngrError):
    """That very agent is there already, or another command is just making it."""

    def __init__(self, agent_id: str) -> None:
        super().__init__(f"the agent {agent_id} is there already", f"see: mngr explain {agent_id}")


def encode_record(record: AgentRecord) -> bytes:
    """One line, so that a whole home can be read by one grep."""
    return json.dumps(record.to_dict(), ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


_TYPE_CHECKS: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int),
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "str | None": lambda value: value is None or isinstance(value, str),
    "float | None": lambda value: value is None or isinstance(value, int | float),
    "list[str]": lambda value: isinstance(value, list) and all(isinstance(v, str) for v in value),
    "dict[str, str]": lambda value: isinstance(value, dict) and all(isinstance(v, str) for v in value.values()),
    "dict[str, Any]": lambda value: isinstance(value, dict),
    "dict[str, Any] | None": lambda value: value is None or isinstance(value, dict),
}


def decode_record(text: str | bytes) -> AgentRecord:
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
        if not _TYPE_CHECKS[kinds[key]](value):
            raise ValueError(f"{key} cannot be {str(value)[:40]!r}")
    try:
        record = AgentRecord(**known)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not names.is_agent_id(record.id) or not names.is_agent_name(record.name):
        raise ValueError("bad id or name")
    clock.parse_timestamp(record.created_at)
    return record


def save_record(host: Host, record: AgentRecord) -> AgentRecord:
    """Write the record in one step."""
    host.write(os.path.join(host.home.agent_dir(record.id), "agent.json"), encode_record(record))
    return record


def get_record(host: Host, agent_id: str) -> AgentRecord:
    """The record of an agent; NotFound, or MngrError when it is damaged."""
    try:
        data = host.read(os.path.join(host.home.agent_dir(agent_id), "agent.json"))
    except NotFound:
        raise NotFound(f"there is no agent {agent_id}", "see: mngr list") from None
    try:
        return decode_record(data)
    except ValueError as error:
        raise MngrError(
            f"the record of {agent_id} is damaged: {error}",
            f"look at it, or put it away: mngr destroy --force {agent_id}",
        ) from None


def add_event(host: Host, agent_id: str, event: str, **data: Any) -> None:
    """Append a row to the agent's events."""
    row = {
        "v": 1,
        "at": clock.format_timestamp(),
        "agent": agent_id,
        "type": event,
        "source": "mngr",
        "data": data,
    }
    path = os.path.join(host.home.agent_dir(agent_id), "events.jsonl")
    if not host.is_local:
        line = '[ -L "$1" ] || { [ -e "$1" ] && [ ! -f "$1" ]; } || printf "%s\\n" "$2" >>"$1" || :'
        argv = ["sh", "-c", line, "event", path, json.dumps(row, separators=(",", ":"))]
        run_deferred(host, argv, lambda result: None)
        return
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
    except OSError:  # gone with its agent, or a pipe or link that the agent put there
        return
    try:
        os.write(fd, json.dumps(row, separators=(",", ":")).encode() + b"\n")
    finally:
        os.close(fd)


# A name there that points to nobody is left from a command that was interrupted.
_RESERVE_AGENT = """
umask 077
[ -d "$1/agents" ] && [ -d "$1/names" ] || exit 7
cd "$1/names" || exit 1
[ ! -e "../agents/$3" ] || exit 5
mkdir "../agents/$3" "../agents/$3/outputs" || exit 1
[ -z "$4" ] || echo '[]' >"../agents/$3/$4" || exit 1
printf %s "$5" >"../agents/$3/agent.json.new" && mv "../agents/$3/agent.json.new" "../agents/$3/agent.json" || exit 1
[ ! -L "$2" ] || { old=$(readlink "$2") && [ ! -d "../agents/${old%%@*}" ] && rm -f "$2"; }
ln -s "$3" "$2" 2>/dev/null && exit 0
rm -rf "../agents/$3"
exit 9
"""
INCOMPLETE_PREFIX = ".new-"  # what the directory of an agent is called before it is one
_RELEASE_NAME = '[ "$(readlink "$1")" != "$2" ] || rm -f "$1"'


def reserve_agent(home: Home, host: Host, record: AgentRecord, *, mark: str = "", named: bool = True) -> None:
    """The agent's directory with its record, and its name here and there; NameTaken, Taken.

    `mark` is a file that is there before the record. Without `named` the name here stays as it is.
    """
    if host.is_local:
        directory = host.home.agent_dir(record.id)
        if os.path.lexists(directory):
            raise AgentExists(record.id)
        _make_directory(host, directory, record, mark)
        if named:
            reserve_name(home, record.name, record.id, host)
        return
    if named:
        reserve_name(home, record.name, record.id, host)
    text = encode_record(record).decode("utf-8", "surrogateescape")
    argv = ["sh", "-c", _RESERVE_AGENT, "reserve", host.home.root, record.name, record.id, mark, text]

    def check(result: ProcessResult) -> None:
        if result.code == 5:
            raise AgentExists(record.id)
        if result.code == 9:
            release_name(home, record.name, record.id, host)
            raise NameTaken(record.name)
        if result.code == 7:
            registry.forget_host(home, host.provider, host.name)
            raise MngrError(f"{host.name} no longer has a home for agents", "try again: it is made anew")
        if result.code:
            raise MngrError(f"cannot write to {host.home.root} on {host.name}: {result.error_line}")

    run_deferred(host, argv, check)


def _make_directory(host: Host, directory: str, record: AgentRecord, mark: str) -> None:
    """An agent's directory with its record, as a whole or not at all, whoever else makes the same; Taken."""
    fresh = os.path.join(os.path.dirname(directory), f"{INCOMPLETE_PREFIX}{record.id}-{os.getpid()}")
    try:
        os.makedirs(os.path.join(fresh, "outputs"), mode=0o700, exist_ok=True)
        os.chmod(fresh, 0o700)
        if mark:
            host.write(os.path.join(fresh, mark), b"[]")
        host.write(os.path.join(fresh, "agent.json"), encode_record(record))
        os.rename(fresh, directory)
    except BaseException as error:
        host.run(["rm", "-rf", "--", fresh])
        if not isinstance(error, OSError):
            raise
        if os.path.isdir(directory):
            raise AgentExists(record.id) from None
        hint = "check the directory's permissions"
        raise MngrError(f"cannot make {directory}: {error.strerror}", hint) from None


def add_name(home: Home, host: Host, name: str, agent_id: str) -> None:
    """A name for an agent that is there already, here and on its host; NameTaken."""
    reserve_name(home, name, agent_id, host)
    if host.is_local:
        return
    if host.run(["ln", "-s", agent_id, os.path.join(host.home.names, name)]).code:
        release_name(home, name, agent_id, host)
        raise NameTaken(name)


def release_name_everywhere(home: Home, host: Host, name: str, agent_id: str) -> None:
    """Give a name back here and there if it is this agent's, as it is on that host."""
    if not host.is_local:
        host.run(["sh", "-c", _RELEASE_NAME, "release", os.path.join(host.home.names, name), agent_id])
    release_name(home, name, agent_id, host)


def reserve_name(home: Home, name: str, agent_id: str, host: Host | None = None) -> None:
    """Take a name for this home; NameTaken when somebody has it. Atomic between processes."""
    link, target = os.path.join(home.names, name), agent_id + _format_host_suffix(home, host)
    for _ in range(2):
        try:
            os.symlink(target, link)
            return
        except FileExistsError:
            if _find_link(home, name) == target:
                return  # left from a command that was interrupted, and of this very agent
            holder = find_id(home, name)
            if holder is not None and (os.path.isdir(home.agent_dir(holder)) or is_on_other_host(home, name)):
                break
            release_name(home, name, holder or "")  # its agent is gone: a command was interrupted
    raise NameTaken(name)


def save_branch(home: Home, record: AgentRecord) -> None:
    """Write down here on which branch an agent elsewhere was made: what its host says of that later is only its word."""
    if record.provider != "local" and record.branch is not None:
        with open(_branch_path(home, record.id), "w", encoding="utf-8") as file:
            file.write(record.branch)


def is_agent_branch(home: Home, record: AgentRecord) -> bool:
    """Whether a branch of the user's may follow the agent's: it was made on it, or it is one of those we make."""
    try:
        with open(_branch_path(home, record.id), encoding="utf-8") as file:
            return file.read() == record.branch
    except OSError:
        return (record.branch or "").startswith("mngr/")


def forget_branch(home: Home, record: AgentRecord) -> None:
    """The agent is gone, unless its name says that it is somewhere else now."""
    if find_id(home, record.name) != record.id:
        try:
            os.unlink(_branch_path(home, record.id))
        except OSError:
            pass  # of an agent of this machine, or another client's


def _branch_path(home: Home, agent_id: str) -> str:
    return os.path.join(home.names, f".branch-{agent_id}")


def move_name(home: Home, name: str, agent_id: str, host: Host) -> None:
    """The agent of that name is on another host from now on; in one step."""
    link = os.path.join(home.names, name)
    fresh = f"{home.names}/.{agent_id}-{os.urandom(3).hex()}"
    with Lock(home.names + ".lock"):
        os.symlink(agent_id + _format_host_suffix(home, host), fresh)
        os.replace(fresh, link)


def release_name(home: Home, name: str, agent_id: str, host: Host | None = None) -> None:
    """Give a name back if it is this agent's; with `host` only if it is the one on that host."""

    def is_mine() -> bool:
        if host is not None:
            return _find_link(home, name) == agent_id + _format_host_suffix(home, host)
        return find_id(home, name) == agent_id

    if not is_mine():
        return
    with Lock(home.names + ".lock"):  # or two could give it back, one of them after a third has taken it
        if is_mine():
            os.unlink(os.path.join(home.names, name))


def _format_host_suffix(home: Home, host: Host | None) -> str:
    """What follows the id in a name's link."""
    return f"@{host.name}.{host.provider}" if host is not None and host.home.root != home.root else ""


def _find_link(home: Home, name: str) -> str | None:
    try:
        return os.readlink(os.path.join(home.names, name))
    except OSError:
        return None


def find_id(home: Home, name: str) -> str | None:
    """The id behind a name."""
    link = _find_link(home, name)
    return None if link is None else link.partition("@")[0]


def is_on_other_host(home: Home, name: str) -> bool:
    """Whether a name belongs to an agent on a host with a home of its own, whom only that host can tell about."""
    return find_host_of_name(home, name) is not None


def find_host_of_name(home: Home, name: str) -> tuple[str, str] | None:
    """(provider, host) of an agent on a host with a home of its own; None when it is in this home."""
    where = (_find_link(home, name) or "").partition("@")[2]
    host, dot, provider = where.rpartition(".")
    return (provider, host) if dot else None


def list_names(home: Home) -> list[str]:
    """All names of this home."""
    try:
        return sorted(name for name in os.listdir(home.names) if names.is_agent_name(name))
    except OSError:
        return []


def describe_this_process() -> dict[str, Any]:
    """Who is at work: enough to tell later whether that process still lives."""
    return {
        "pid": os.getpid(),
        "start": _start_time(os.getpid()),
        "boot": read_boot_id(),
        "at": int(clock.parse_timestamp(clock.format_timestamp())),
    }


def is_this_process(owner: dict[str, Any] | None) -> bool:
    """Whether that is us."""
    mine = describe_this_process()
    return owner is not None and all(owner.get(key) == mine[key] for key in ("pid", "start", "boot"))


def is_owner_alive(owner: dict[str, Any] | None, elsewhere: bool = False) -> bool:
    """Whether the process that `this_process` described still runs.

    `elsewhere`: on a host that others use too. Of another machine's process nobody knows here, so it is given an hour.
    """
    pid = owner.get("pid") if owner else None
    if not owner or not isinstance(pid, int):
        return False
    if owner.get("boot") != read_boot_id():
        at = owner.get("at")
        return (
            elsewhere
            and isinstance(at, int)
            and clock.parse_timestamp(clock.format_timestamp()) - at < FOREIGN_OWNER_SECONDS
        )
    started = _start_time(pid)
    return started is not None and started == owner.get("start")


def read_boot_id() -> str:
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
