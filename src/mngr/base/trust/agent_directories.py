"""Recognises directories whose files a sandboxed agent can write. git there would run the agent's programs."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError
from mngr.base.model import Struct

_AREAS = ("work", "agents", "trash", "snapshots")  # the directories of a home that contain files of agents
_MAX_FILE_BYTES = 1 << 20


class SandboxedAgent(Struct):
    """A sandboxed agent of this machine, and the home to which it belongs."""

    home: str
    id: str
    name: str
    owns_work_dir: bool  # True if the directory is in the work dir, False for the agent's outputs and other files


def find_sandboxed_agent(directory: str) -> SandboxedAgent | None:
    """Return the sandboxed agent that can write the files in a directory, or None. It can belong to any home of mngr."""
    parts = os.path.realpath(directory).split("/")
    for index in range(1, len(parts) - 1):
        area, name = parts[index], parts[index + 1]
        if area in _AREAS and _is_home(home := "/".join(parts[:index])):
            return _find_in_home(home, area, name)
    return None


def refuse_agents_directory(directory: str) -> None:
    """Raise MngrError for a directory of a sandboxed agent, where git would obey the agent's settings."""
    agent = find_sandboxed_agent(directory)
    if agent is not None:
        raise make_refusal_error(directory, agent)


def make_refusal_error(directory: str, agent: SandboxedAgent) -> MngrError:
    """Return the error for a command that must not run in a directory of this agent."""
    return MngrError(
        f"{directory} belongs to the sandboxed agent {agent.name}, and git would run the agent's programs there",
        f"run the command in your own project; to get the agent's work there: cd PROJECT && mngr pull {agent.name}",
    )


def _is_home(directory: str) -> bool:
    """True for a home of mngr, whatever MNGR_HOME says."""
    return _read_file(os.path.join(directory, "version")).split()[:1] == [b"mngr"]


def _find_in_home(home: str, area: str, name: str) -> SandboxedAgent | None:
    """Return the sandboxed agent that owns the entry `name` of an area of a home."""
    if area == "work":
        try:
            agent_ids = os.listdir(os.path.join(home, "agents"))
        except OSError:
            return None
        records = (os.path.join(home, "agents", agent_id, "agent.json") for agent_id in agent_ids)
    else:
        records = (
            os.path.join(home, area, name, *folder, "agent.json") for folder in ((), ("agent",))
        )  # A destroyed agent's record is one level deeper.
    for path in records:
        agent = _read_sandboxed_agent(home, path, name if area == "work" else None)
        if agent is not None:
            return agent
    return None


def _read_sandboxed_agent(home: str, path: str, work_dir_name: str | None) -> SandboxedAgent | None:
    """Return the agent of a record if it is sandboxed and has this work dir."""
    text = _read_file(path)
    if b'"sandbox"' not in text:
        return None
    from mngr.base.untrusted_json import parse_json

    try:
        record = parse_json(text)
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("sandbox") is not True:
        return None
    if work_dir_name is not None and os.path.basename(str(record.get("work_dir"))) != work_dir_name:
        return None
    return SandboxedAgent(
        home=home, id=str(record.get("id")), name=str(record.get("name")), owns_work_dir=work_dir_name is not None
    )


def _read_file(path: str) -> bytes:
    """Return a file's bytes, or nothing if it is missing, is no regular file or is too large."""
    from mngr.base.paths import open_plain_file

    try:
        with open_plain_file(path) as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError:
        return b""
    return data if len(data) <= _MAX_FILE_BYTES else b""
