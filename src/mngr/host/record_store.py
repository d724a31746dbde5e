"""Stores agent records, events and names in a home. Writing the record completes every operation."""

from __future__ import annotations

import json
import os

from mngr.base import names_and_addresses, time_format
from mngr.base.errors import UPDATE_HINT, MngrError, NotFound
from mngr.base.lock import Lock
from mngr.base.model import AgentRecord
from mngr.base.untrusted_json import parse_json
from mngr.host import host_store
from mngr.host.batched_host import run_deferred

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mngr.base.paths import Home
    from mngr.base.shell import ProcessResult
    from mngr.host.protocol import Host


FOREIGN_OWNER_SECONDS = 3600  # the time that a command on another machine may take


class NameTaken(MngrError):
    """Another agent of this home has this name."""

    def __init__(self, name: str) -> None:
        hint = f"choose another name, or destroy that agent: mngr destroy {name}"
        super().__init__(f"there is already an agent called {name!r}", hint)


class AgentExists(MngrError):
    """An agent with this id exists, or another command is creating it."""

    def __init__(self, agent_id: str) -> None:
        super().__init__(f"the agent {agent_id} already exists", f"see its state: mngr explain {agent_id}")


class NewerRecord(ValueError):
    """A newer mngr wrote the record. The agent itself is fine."""


def make_unreadable_error(agent_id: str, problem: ValueError) -> MngrError:
    """Return the error for a record that `decode_record` could not read."""
    if isinstance(problem, NewerRecord):
        return MngrError(f"{agent_id} cannot be used: {problem}", UPDATE_HINT)
    hint = f"move the agent to the trash: mngr destroy --force {agent_id}"
    return MngrError(f"the record of {agent_id} is damaged: {problem}", hint)


def encode_record(record: AgentRecord) -> bytes:
    """Return the record as one line of JSON, so that one grep can read all records of a home."""
    return json.dumps(record.to_dict(), ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


_TYPE_CHECKS: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int),
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "str | None": lambda value: value is None or isinstance(value, str),
    "float | None": lambda value: value is None or isinstance(value, int | float),
    "list[str]": lambda value: isinstance(value, list) and all(isinstance(v, str) for v in value),
    "dict[str, str]": lambda value: isinstance(value, dict) and all(isinstance(v, str) for v in value.values()),
    "dict[str, object]": lambda value: isinstance(value, dict),
    "dict[str, object] | None": lambda value: value is None or isinstance(value, dict),
}


def decode_record(text: str | bytes) -> AgentRecord:
    """Return the record in `text`, or raise ValueError with the reason why it is invalid."""
    data = parse_json(text)
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")
    if data.get("v") != 1:
        raise _make_version_error(data.get("v"))
    kinds = AgentRecord.__annotations__
    known = {key: data[key] for key in AgentRecord._fields if key in data}
    for key, value in known.items():
        if not _TYPE_CHECKS[kinds[key]](value):
            raise ValueError(f"{key} cannot be {str(value)[:40]!r}")
    try:
        record = AgentRecord(**known)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not names_and_addresses.is_agent_id(record.id) or not names_and_addresses.is_agent_name(record.name):
        raise ValueError("its id or name is not valid")
    time_format.parse_timestamp(record.created_at)
    return record


def decode_record_of(host: Host, text: str | bytes) -> AgentRecord:
    """Return the record in a file of a host, or raise ValueError. Another host cannot say that the agent is on this one.

    mngr would take the files there for files that it wrote itself, such as the agent's sandbox.
    """
    record = decode_record(text)
    return record if host.is_local else record.replace(host=host.name, provider=host.provider)


def _make_version_error(version: object) -> ValueError:
    """Return the error for a record that is not of version 1."""
    if isinstance(version, int) and version > 1:
        return NewerRecord(f"a newer mngr wrote its record (version {str(version)[:40]})")
    return ValueError("it has no version" if version is None else f"v cannot be {str(version)[:40]!r}")


def save_record(host: Host, record: AgentRecord) -> AgentRecord:
    """Replace the agent's record in one step, and return it."""
    host.write(os.path.join(host.home.agent_dir(record.id), "agent.json"), encode_record(record))
    return record


def get_record(host: Host, agent_id: str) -> AgentRecord:
    """Return the record of an agent. Raise NotFound, or MngrError when mngr cannot read the record."""
    try:
        data = host.read(os.path.join(host.home.agent_dir(agent_id), "agent.json"))
    except NotFound:
        raise NotFound(f"there is no agent {agent_id}", "list the agents: mngr list") from None
    try:
        return decode_record_of(host, data)
    except ValueError as error:
        raise make_unreadable_error(agent_id, error) from None


def add_event(host: Host, agent_id: str, event: str, **data: Any) -> None:
    """Append a row to the agent's events."""
    row = {
        "v": 1,
        "at": time_format.format_timestamp(),
        "agent": agent_id,
        "type": event,
        "source": "mngr",
        "data": data,
    }
    path = os.path.join(host.home.agent_dir(agent_id), "events.jsonl")
    if not host.is_local:
        script = '[ -L "$1" ] || { [ -e "$1" ] && [ ! -f "$1" ]; } || printf "%s\\n" "$2" >>"$1" || :'
        argv = ["sh", "-c", script, "event", path, json.dumps(row, separators=(",", ":"))]
        run_deferred(host, argv, lambda result: None)
        return
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
    except OSError:  # The agent is gone, or it has replaced the file by a pipe or link.
        return
    try:
        os.write(fd, json.dumps(row, separators=(",", ":")).encode() + b"\n")
    finally:
        os.close(fd)


# A name on the host without its agent is a leftover of an interrupted command, so the script replaces it.
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
INCOMPLETE_PREFIX = ".new-"  # An agent's directory has this prefix until it is complete.
_RELEASE_NAME = '[ "$(readlink "$1")" != "$2" ] || rm -f "$1"'


def reserve_agent(home: Home, host: Host, record: AgentRecord, *, mark: str = "", named: bool = True) -> None:
    """Create the agent's directory with its record, and reserve its name in this home and on the host.

    The file `mark` is created before the record. Without `named`, this home's names stay as they are.
    Raise NameTaken or AgentExists.
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
        """Raise the error that belongs to the exit code of the script."""
        if result.code == 5:
            raise AgentExists(record.id)
        if result.code == 9:
            release_name(home, record.name, record.id, host)
            raise NameTaken(record.name)
        if result.code == 7:
            host_store.forget_host(home, host.provider, host.name)
            raise MngrError(
                f"mngr's directory on {host.name} no longer exists",
                "run the command again: mngr then creates the directory",
            )
        if result.code:
            raise MngrError(
                f"cannot write to {host.home.root} on {host.name}: {result.error_line}",
                f"check the host: mngr doctor @{host.name}",
            )

    run_deferred(host, argv, check)


def _make_directory(host: Host, directory: str, record: AgentRecord, mark: str) -> None:
    """Create an agent's directory with its record in one step. Raise AgentExists if the directory exists."""
    temporary_dir = os.path.join(os.path.dirname(directory), f"{INCOMPLETE_PREFIX}{record.id}-{os.getpid()}")
    try:
        os.makedirs(os.path.join(temporary_dir, "outputs"), mode=0o700, exist_ok=True)
        os.chmod(temporary_dir, 0o700)
        if mark:
            host.write(os.path.join(temporary_dir, mark), b"[]")
        host.write(os.path.join(temporary_dir, "agent.json"), encode_record(record))
        os.rename(temporary_dir, directory)
    except BaseException as error:
        host.run(["rm", "-rf", "--", temporary_dir])
        if not isinstance(error, OSError):
            raise
        if os.path.isdir(directory):
            raise AgentExists(record.id) from None
        hint = f"check the permissions: ls -ld {os.path.dirname(directory)}"
        raise MngrError(f"cannot create {directory}: {error.strerror}", hint) from None


def add_name(home: Home, host: Host, name: str, agent_id: str) -> None:
    """Reserve a name for an existing agent in this home and on its host. Raise NameTaken."""
    reserve_name(home, name, agent_id, host)
    if host.is_local:
        return
    if host.run(["ln", "-s", agent_id, os.path.join(host.home.names, name)]).code:
        release_name(home, name, agent_id, host)
        raise NameTaken(name)


def release_name_everywhere(home: Home, host: Host, name: str, agent_id: str) -> None:
    """Release the name in this home and on the host, if it belongs to this agent on this host."""
    if not host.is_local:
        host.run(["sh", "-c", _RELEASE_NAME, "release", os.path.join(host.home.names, name), agent_id])
    release_name(home, name, agent_id, host)


def reserve_name(home: Home, name: str, agent_id: str, host: Host | None = None) -> None:
    """Reserve a name in this home, or raise NameTaken. Only one of several processes succeeds."""
    link, target = os.path.join(home.names, name), agent_id + _format_host_suffix(home, host)
    for _ in range(2):
        try:
            os.symlink(target, link)
            return
        except FileExistsError:
            if _find_link(home, name) == target:
                return  # An interrupted command has reserved it for this agent.
            holder = find_id(home, name)
            if holder is not None and (os.path.isdir(home.agent_dir(holder)) or is_on_other_host(home, name)):
                break
            release_name(home, name, holder or "")  # Its agent is gone because a command was interrupted.
    raise NameTaken(name)


def move_name(home: Home, name: str, agent_id: str, host: Host) -> None:
    """Point a name to the same agent on another host, in one step."""
    link = os.path.join(home.names, name)
    temporary_link = f"{home.names}/.{agent_id}-{os.urandom(3).hex()}"
    with Lock(home.names + ".lock"):
        os.symlink(agent_id + _format_host_suffix(home, host), temporary_link)
        os.replace(temporary_link, link)


def release_name(home: Home, name: str, agent_id: str, host: Host | None = None) -> None:
    """Release a name if it belongs to this agent; with `host`, only if it belongs to the agent on that host."""

    def is_own_name() -> bool:
        if host is not None:
            return _find_link(home, name) == agent_id + _format_host_suffix(home, host)
        return find_id(home, name) == agent_id

    if not is_own_name():
        return
    with Lock(
        home.names + ".lock"
    ):  # Without the lock, a second release could remove a name that another agent has just reserved.
        if is_own_name():
            os.unlink(os.path.join(home.names, name))


def _format_host_suffix(home: Home, host: Host | None) -> str:
    """Return the suffix of a name's link that names the agent's host, or nothing for a host with this home."""
    return f"@{host.name}.{host.provider}" if host is not None and host.home.root != home.root else ""


def _find_link(home: Home, name: str) -> str | None:
    """Return the target of a name's link, or None."""
    try:
        return os.readlink(os.path.join(home.names, name))
    except OSError:
        return None


def find_id(home: Home, name: str) -> str | None:
    """Return the id of the agent with this name, or None."""
    link = _find_link(home, name)
    return None if link is None else link.partition("@")[0]


def is_on_other_host(home: Home, name: str) -> bool:
    """True when the name belongs to an agent on a host with its own home."""
    return find_host_of_name(home, name) is not None


def find_host_of_name(home: Home, name: str) -> tuple[str, str] | None:
    """Return the (provider, host) of an agent on a host with its own home, or None for an agent in this home."""
    suffix = (_find_link(home, name) or "").partition("@")[2]
    host, dot, provider = suffix.rpartition(".")
    return (provider, host) if dot else None


def list_names(home: Home) -> list[str]:
    """Return all names of this home."""
    try:
        return sorted(name for name in os.listdir(home.names) if names_and_addresses.is_agent_name(name))
    except OSError:
        return []


def describe_this_process() -> dict[str, object]:
    """Return facts that identify this process, to check later whether it still runs."""
    return {
        "pid": os.getpid(),
        "start": _start_time(os.getpid()),
        "boot": read_boot_id(),
        "at": int(time_format.parse_timestamp(time_format.format_timestamp())),
    }


def is_this_process(owner: Mapping[str, object] | None) -> bool:
    """True when the facts describe this process."""
    this_process = describe_this_process()
    return owner is not None and all(owner.get(key) == this_process[key] for key in ("pid", "start", "boot"))


def is_owner_alive(owner: Mapping[str, object] | None, elsewhere: bool = False) -> bool:
    """True when the process that `describe_this_process` described still runs.

    `elsewhere` means that the agent's host has other clients, too. mngr cannot see a process of another machine,
    so it assumes that the process runs for an hour.
    """
    pid = owner.get("pid") if owner else None
    if not owner or not isinstance(pid, int):
        return False
    if owner.get("boot") != read_boot_id():
        started_at = owner.get("at")
        return (
            elsewhere
            and isinstance(started_at, int)
            and time_format.parse_timestamp(time_format.format_timestamp()) - started_at < FOREIGN_OWNER_SECONDS
        )
    start_time = _start_time(pid)
    return start_time is not None and start_time == owner.get("start")


def read_boot_id() -> str:
    """Return an id that changes with every boot, or an empty text where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    """Return the start time of a process, or None when it does not run."""
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
