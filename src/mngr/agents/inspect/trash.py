"""Lists the destroyed agents in the trash, which `mngr undestroy` can restore."""

from __future__ import annotations

import os

from mngr.agents import saved_directory
from mngr.agents.context import Context
from mngr.base import names_and_addresses, time_format
from mngr.base.errors import MngrError, NotFound, suggest_closest
from mngr.base.model import Struct


class TrashedAgent(Struct):
    """A destroyed agent in the trash."""

    id: str
    name: str
    kind: str | None = None
    host: str | None = None
    provider: str | None = None
    project: str | None = None
    branch: str | None = None
    destroyed_at: str
    expires_at: str
    dirty: bool
    unpulled: int
    trash_dir: str
    problem: str | None = None  # why it cannot be restored
    saved: saved_directory.SavedState

    def to_dict(self) -> dict[str, object]:
        """Return the fields that the JSON output shows."""
        return {name: getattr(self, name) for name in self._fields if name != "saved"}


def list_trash(ctx: Context) -> list[TrashedAgent]:
    """Return the destroyed agents in the trash, the latest last."""
    if not ctx.home.exists() or not os.path.isdir(ctx.home.trash):
        return []
    trashed = [
        _load_trashed_agent(ctx, name) for name in os.listdir(ctx.home.trash) if names_and_addresses.is_agent_id(name)
    ]
    return sorted(trashed, key=lambda agent: (agent.destroyed_at, agent.id))


def _load_trashed_agent(ctx: Context, agent_id: str) -> TrashedAgent:
    """Return one agent of the trash. `problem` says why it cannot be restored."""
    directory = os.path.join(ctx.home.trash, agent_id)
    try:
        saved = saved_directory.load_saved_state(directory)
        problem = _find_problem(directory, saved)
    except ValueError as error:
        changed_at = time_format.format_timestamp(os.stat(directory).st_mtime)
        saved = saved_directory.SavedState(id=agent_id, name=agent_id, at=changed_at, why="")
        problem = str(error)
    expires_at = time_format.parse_timestamp(saved.at) + get_keep_seconds(ctx)
    trashed = TrashedAgent(
        id=agent_id,
        name=saved.name or agent_id,
        destroyed_at=saved.at,
        expires_at=time_format.format_timestamp(expires_at),
        dirty=saved.dirty,
        unpulled=saved.unpulled,
        trash_dir=directory,
        problem=problem,
        saved=saved,
    )
    record = saved.record
    if record is None:
        return trashed
    return trashed.replace(
        kind=record.kind, host=record.host, provider=record.provider, project=record.project, branch=record.branch
    )


def _find_problem(directory: str, saved: saved_directory.SavedState) -> str | None:
    """Return why an agent cannot be restored from its saved directory, or None when it can."""
    if saved.record is None:
        return "its record was damaged when it was destroyed"
    if saved.lost:
        return saved.lost
    if not os.path.isdir(os.path.join(directory, saved_directory.AGENT_DIR)):
        return "it is not completely destroyed; complete the destruction: mngr gc"
    return None


def get_keep_seconds(ctx: Context) -> float:
    """Return how many seconds the trash keeps an agent."""
    return time_format.parse_duration(str(ctx.settings.get("trash.keep")))


def get_trashed_agent(trashed_agents: list[TrashedAgent], text: str) -> TrashedAgent:
    """Return the trashed agent with this id or name. Raise an error that lists the candidates of an ambiguous name."""
    matches = [agent for agent in trashed_agents if text in (agent.id, agent.name)]
    if not matches:
        hint = (
            suggest_closest(text, [agent.name for agent in trashed_agents]) or "list the trash: mngr undestroy --list"
        )
        raise NotFound(f"there is no agent {text!r} in the trash", hint)
    if len(matches) > 1:
        candidates = ", ".join(f"{agent.id} (destroyed {agent.destroyed_at})" for agent in matches)
        raise MngrError(
            f"{len(matches)} agents in the trash are called {text!r}: {candidates}",
            f"use an id instead of the name, for example: mngr undestroy {matches[-1].id}",
        )
    return matches[0]
