"""Destroyed agents that can still be brought back."""

from __future__ import annotations

import os
from typing import Any

from mngr.agents import saved_directory
from mngr.agents.context import Context
from mngr.base import clock, names
from mngr.base.errors import MngrError, NotFound, suggest_closest
from mngr.base.model import Struct


class TrashedAgent(Struct):
    """An agent in the graveyard."""

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
    problem: str | None = None  # why it cannot be brought back
    meta: dict[str, Any] = {}

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {name: getattr(self, name) for name in self._fields if name != "meta"}


def list_trash(ctx: Context) -> list[TrashedAgent]:
    """Return the destroyed agents that are kept, the latest last."""
    if not ctx.home.exists() or not os.path.isdir(ctx.home.trash):
        return []
    found = [_load_trashed_agent(ctx, n) for n in os.listdir(ctx.home.trash) if names.is_agent_id(n)]
    return sorted(found, key=lambda g: (g.destroyed_at, g.id))


def _load_trashed_agent(ctx: Context, agent_id: str) -> TrashedAgent:
    place = os.path.join(ctx.home.trash, agent_id)
    problem = None
    try:
        meta = saved_directory.load_meta(place)
        if meta.get("record") is None:
            problem = "its record was damaged when it was destroyed"
        elif meta.get("lost"):
            problem = str(meta["lost"])
        elif not os.path.isdir(os.path.join(place, saved_directory.AGENT_DIR)):
            problem = "it is not destroyed yet: finish that with mngr destroy or mngr gc"
    except ValueError as error:
        meta, problem = {"at": clock.format_timestamp(os.stat(place).st_mtime)}, str(error)
    record = meta.get("record") or {}
    at = str(meta["at"])
    return TrashedAgent(
        id=agent_id,
        name=str(meta.get("name") or agent_id),
        kind=record.get("kind"),
        host=record.get("host"),
        provider=record.get("provider"),
        project=record.get("project"),
        branch=record.get("branch"),
        destroyed_at=at,
        expires_at=clock.format_timestamp(clock.parse_timestamp(at) + get_keep_seconds(ctx)),
        dirty=bool(meta.get("dirty")),
        unpulled=int(meta.get("unpulled") or 0),
        place=place,
        problem=problem,
        meta=meta,
    )


def get_keep_seconds(ctx: Context) -> float:
    """How long graves are kept, in seconds."""
    return clock.parse_duration(str(ctx.settings.get("graveyard.keep")))


def get_trashed_agent(graves: list[TrashedAgent], text: str) -> TrashedAgent:
    """The grave that an id or a name stands for; an error lists the candidates."""
    found = [grave for grave in graves if text in (grave.id, grave.name)]
    if not found:
        hint = suggest_closest(text, [grave.name for grave in graves]) or "see: mngr undestroy --list"
        raise NotFound(f"there is no {text!r} in the graveyard", hint)
    if len(found) > 1:
        listed = ", ".join(f"{grave.id} (destroyed {grave.destroyed_at})" for grave in found)
        raise MngrError(f"{text!r} could be any of {listed}", f"say which by its id: mngr undestroy {found[-1].id}")
    return found[0]
