"""Lists the destroyed agents in the trash, which `mngr undestroy` can restore."""

from __future__ import annotations

import os
from typing import Any

from mngr.agents import saved_directory
from mngr.agents.context import Context
from mngr.base import clock, names
from mngr.base.errors import MngrError, NotFound, suggest_closest
from mngr.base.model import Struct


class TrashedAgent(Struct):
    """A destroyed agent in the trash."""

    id: str
    name: str
    kind: str | None
    host: str | None
    provider: str | None
    project: str | None
    branch: str | None
    destroyed_at: str
    expires_at: str
    dirty: bool
    unpulled: int
    place: str
    problem: str | None = None  # why it cannot be restored
    meta: dict[str, Any] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that the JSON output shows."""
        return {name: getattr(self, name) for name in self._fields if name != "meta"}


def list_trash(ctx: Context) -> list[TrashedAgent]:
    """Return the destroyed agents in the trash, the latest last."""
    if not ctx.home.exists() or not os.path.isdir(ctx.home.trash):
        return []
    trashed = [_load_trashed_agent(ctx, name) for name in os.listdir(ctx.home.trash) if names.is_agent_id(name)]
    return sorted(trashed, key=lambda agent: (agent.destroyed_at, agent.id))


def _load_trashed_agent(ctx: Context, agent_id: str) -> TrashedAgent:
    """Return one agent of the trash. `problem` says why it cannot be restored."""
    directory = os.path.join(ctx.home.trash, agent_id)
    problem = None
    try:
        meta = saved_directory.load_meta(directory)
        if meta.get("record") is None:
            problem = "its record was damaged when it was destroyed"
        elif meta.get("lost"):
            problem = str(meta["lost"])
        elif not os.path.isdir(os.path.join(directory, saved_directory.AGENT_DIR)):
            problem = "it is not destroyed yet: finish that with mngr destroy or mngr gc"
    except ValueError as error:
        meta, problem = {"at": clock.format_timestamp(os.stat(directory).st_mtime)}, str(error)
    record = meta.get("record") or {}
    destroyed_at = str(meta["at"])
    return TrashedAgent(
        id=agent_id,
        name=str(meta.get("name") or agent_id),
        kind=record.get("kind"),
        host=record.get("host"),
        provider=record.get("provider"),
        project=record.get("project"),
        branch=record.get("branch"),
        destroyed_at=destroyed_at,
        expires_at=clock.format_timestamp(clock.parse_timestamp(destroyed_at) + get_keep_seconds(ctx)),
        dirty=bool(meta.get("dirty")),
        unpulled=int(meta.get("unpulled") or 0),
        place=directory,
        problem=problem,
        meta=meta,
    )


def get_keep_seconds(ctx: Context) -> float:
    """Return how many seconds the trash keeps an agent."""
    return clock.parse_duration(str(ctx.settings.get("graveyard.keep")))


def get_trashed_agent(trashed_agents: list[TrashedAgent], text: str) -> TrashedAgent:
    """Return the trashed agent with this id or name. Raise an error that lists the candidates of an ambiguous name."""
    matches = [agent for agent in trashed_agents if text in (agent.id, agent.name)]
    if not matches:
        hint = suggest_closest(text, [agent.name for agent in trashed_agents]) or "see: mngr undestroy --list"
        raise NotFound(f"there is no {text!r} in the graveyard", hint)
    if len(matches) > 1:
        candidates = ", ".join(f"{agent.id} (destroyed {agent.destroyed_at})" for agent in matches)
        raise MngrError(
            f"{text!r} could be any of {candidates}", f"say which by its id: mngr undestroy {matches[-1].id}"
        )
    return matches[0]
