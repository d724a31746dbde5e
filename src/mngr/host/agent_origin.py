"""Remembers in this home how an agent on another host was created. That host can change the agent's own record.

Otherwise a host could name another project of the user as the agent's source and get files of that project, or call the
agent a coding agent and get the user's login.
"""

from __future__ import annotations

import json
import os

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_object, find_text, parse_json
from mngr.host import record_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import AgentRecord
    from mngr.base.paths import Home


class AgentOrigin(Struct):
    """The facts of a new agent's record on which files and secrets of the user depend."""

    kind: str
    parent: str | None = None  # the built-in kind that a configured kind extends
    source: str | None = None
    branch: str | None = None


def save_origin(home: Home, record: AgentRecord) -> None:
    """Remember the origin of an agent that mngr has just created on another host."""
    if record.provider == "local":
        return
    parent = record.options.get("parent")
    origin = AgentOrigin(
        kind=record.kind,
        parent=None if parent is None else str(parent),
        source=record.source,
        branch=record.branch,
    )
    with open(_build_path(home, record.id), "w", encoding="ascii") as file:
        json.dump(origin.to_dict(), file)


def correct_record(home: Home, record: AgentRecord) -> AgentRecord:
    """Return the record with the kind and the source with which this home created the agent.

    An agent that another home created has no source on this machine.
    """
    if record.provider == "local":
        return record
    origin = _find_origin(home, record.id)
    if origin is None:
        return record.replace(source=None)
    options = {name: value for name, value in record.options.items() if name != "parent"}
    if origin.parent is not None:
        options["parent"] = origin.parent
    return record.replace(kind=origin.kind, options=options, source=origin.source)


def has_known_kind(home: Home, record: AgentRecord) -> bool:
    """True when this home created the agent with this kind, so that the agent may get the user's login for it."""
    origin = _find_origin(home, record.id)
    return origin is not None and (origin.kind, origin.parent) == (record.kind, record.options.get("parent"))


def is_agent_branch(home: Home, record: AgentRecord) -> bool:
    """True when a local branch may follow the agent's branch.

    That is the branch on which the agent was created or, if its origin is not known, any branch below `mngr/`.
    """
    origin = _find_origin(home, record.id)
    if origin is None or origin.branch is None:
        return (record.branch or "").startswith("mngr/")
    return origin.branch == record.branch


def forget_origin(home: Home, record: AgentRecord) -> None:
    """Delete the origin of an agent, unless its name shows that the agent now is on another host."""
    if record_store.find_id(home, record.name) != record.id:
        try:
            os.unlink(_build_path(home, record.id))
        except OSError:
            pass  # It is an agent of this machine or of another client.


def _find_origin(home: Home, agent_id: str) -> AgentOrigin | None:
    """Return the origin of an agent, or None if another home created it."""
    try:
        with open(_build_path(home, agent_id), encoding="ascii") as file:
            row = as_object(parse_json(file.read()))
    except (OSError, ValueError):
        return None
    kind = find_text(row, "kind")
    if kind is None:
        return None
    parent, source, branch = (find_text(row, name) for name in ("parent", "source", "branch"))
    return AgentOrigin(kind=kind, parent=parent, source=source, branch=branch)


def _build_path(home: Home, agent_id: str) -> str:
    return os.path.join(home.names, f".origin-{agent_id}")
