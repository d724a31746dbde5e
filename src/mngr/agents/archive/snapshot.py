"""Snapshots: an agent's whole state under a name, and agents made from it."""

from __future__ import annotations

import os
import time
from typing import Any

from mngr.agents import saved_directory
from mngr.agents.archive import host_snapshots
from mngr.agents.archive.undestroy import get_former_host, is_name_in_use
from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect import find
from mngr.agents.inspect.targets import LIVE_STATES, make_failed_outcome
from mngr.agents.lifecycle.hosts import choose_former_host
from mngr.agents.lifecycle.start import start_agent
from mngr.agents.saved import staging
from mngr.agents.saved.restore import RestoredAgent, RestoreRequest, restore_agent
from mngr.agents.saved.save import remove_saved_directory
from mngr.agents.workdir.discard import discard_agent, finish_restore
from mngr.base import names
from mngr.base.errors import MngrError, NotFound, Unreachable, UsageError, suggest_closest
from mngr.base.model import AgentRecord, Outcome, Struct
from mngr.host import store
from mngr.host.protocol import Host


class Snapshot(Struct):
    """A kept state."""

    name: str
    agent: str
    agent_id: str
    kind: str | None
    project: str | None
    branch: str | None
    created_at: str
    was_running: bool
    dirty: bool
    place: str
    meta: dict[str, Any] = {}

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {name: getattr(self, name) for name in self._fields if name != "meta"}


def create_snapshot(ctx: Context, agent: str, name: str | None = None) -> Snapshot:
    """Keep an agent's state, or that of a host (`@HOST`), as it is now; it may run meanwhile."""
    if agent.startswith("@"):
        name, place = _reserve_snapshot_path(ctx, name, agent[1:].partition(".")[0].lower())
        host_snapshots.save_host_snapshot(ctx, agent, place)
        return get_snapshot(ctx, name)
    seen = find.observe_agent(ctx, agent)
    host, record = find.get_agent(ctx, seen.id)
    if record.phase != "ready":
        raise MngrError(f"{record.name} is not whole ({seen.state.reason})", "see: mngr list")
    name, place = _reserve_snapshot_path(ctx, name, record.name)
    is_live = seen.state.state in LIVE_STATES
    staging.save_agent(ctx, host, record, place, why="snapshot", agent_files=True, was_running=is_live)
    return get_snapshot(ctx, name)


def _reserve_snapshot_path(ctx: Context, name: str | None, of: str) -> tuple[str, str]:
    """Name and place of a new snapshot."""
    ctx.home.create()
    name = names.check_name(name or f"{of[:40]}-{time.strftime('%Y%m%d-%H%M%S')}")
    place = os.path.join(ctx.home.snapshots, name)
    if os.path.lexists(place):
        raise MngrError(
            f"there is already a snapshot called {name!r}",
            f"choose another name, or: mngr snapshot destroy {name}",
        )
    return name, place


def list_snapshots(ctx: Context) -> list[Snapshot]:
    """All of them, the latest last."""
    if not ctx.home.exists() or not os.path.isdir(ctx.home.snapshots):
        return []
    found = []
    for name in os.listdir(ctx.home.snapshots):
        if names.is_agent_name(name):
            try:
                found.append(get_snapshot(ctx, name))
            except MngrError:
                continue
    return sorted(found, key=lambda s: (s.created_at, s.name))


def get_snapshot(ctx: Context, name: str) -> Snapshot:
    """One by name; raises NotFound."""
    place = os.path.join(ctx.home.snapshots, name)
    if not names.is_agent_name(name) or not os.path.isdir(place):
        known = (
            [n for n in os.listdir(ctx.home.snapshots) if names.is_agent_name(n)]
            if os.path.isdir(ctx.home.snapshots)
            else []
        )
        raise NotFound(f"there is no snapshot {name!r}", suggest_closest(name, known) or "see: mngr snapshot list")
    try:
        meta = saved_directory.load_meta(place)
    except ValueError as error:
        raise MngrError(f"the snapshot {name} is damaged: {error}", f"look at it in {place}") from None
    record = meta.get("record") or {}
    return Snapshot(
        name=name,
        agent=str(meta.get("name")),
        agent_id=str(meta.get("id")),
        kind="host" if meta.get("host") else record.get("kind"),
        project=record.get("project"),
        branch=meta.get("branch") or record.get("branch"),
        created_at=str(meta.get("at")),
        was_running=bool(meta.get("was_running")),
        dirty=bool(meta.get("dirty")),
        place=place,
        meta=meta,
    )


def restore_snapshot(ctx: Context, name: str, address: str | None = None, *, start: bool = True) -> AgentRecord:
    """A new agent from a snapshot, called as asked, else as the one it was taken of if that name is free."""
    snapshot = get_snapshot(ctx, name)
    host_snapshots.check_agent_snapshot(name, snapshot.meta)
    wanted, host = parse_new_address(ctx, address) if address is not None else (None, None)
    if wanted is None:
        wanted = next((n for n in (snapshot.agent, name) if _is_name_free(ctx, n)), None)
    wanted = wanted or number_name(ctx, snapshot.agent)
    return create_from_saved(
        ctx, snapshot.place, snapshot.meta, wanted, host, operation="snapshot restore", start=start
    )


def create_from_saved(
    ctx: Context,
    place: str,
    meta: dict[str, Any],
    name: str,
    host: Host | None,
    *,
    operation: str,
    start: bool,
) -> AgentRecord:
    """A second agent from saved state, on a branch of its own; what cannot start does not stay."""
    wish = RestoreRequest(
        operation=operation,
        name=name,
        host=host or get_former_host(ctx, place, meta, operation),
        is_former_host=host is None,
        branch=f"mngr/{name}",
        set_up=True,
    )
    record = start_restored(ctx, restore_agent(ctx, place, meta, wish), start=start)
    finish_restore(ctx.get_host(record.provider, record.host), record)
    return record


def start_restored(ctx: Context, made: RestoredAgent, *, start: bool) -> AgentRecord:
    """Start what was restored; what cannot start does not stay."""
    record = made.record
    for note in made.notes:
        ctx.note(note)
    host = ctx.get_host(record.provider, record.host)
    if start:
        try:
            start_agent(ctx, host, record)
        except BaseException:
            try:
                discard_agent(ctx, host, record)
                removal.destroy_empty_hosts(ctx, [host])
            except Unreachable:
                ctx.note(f"{record.name} may be left on {host.name}; when that answers again: mngr gc")
            raise
    return record


def parse_new_address(ctx: Context, address: str) -> tuple[str | None, Host | None]:
    """Name and host in the address of a new agent; None for what is not said."""
    wanted = find.parse_address(ctx, address)
    if wanted.path is not None:
        raise UsageError("an address with a path cannot be created", "leave out what follows the colon")
    if wanted.name is not None and not _is_name_free(ctx, names.check_name(wanted.name)):
        raise MngrError(f"there is already an agent called {wanted.name!r}", "choose another name")
    return wanted.name, choose_former_host(ctx, wanted) if wanted.host or wanted.provider else None


def number_name(ctx: Context, name: str) -> str:
    """`name` with the first number that makes it new."""
    number = 2
    while not _is_name_free(ctx, f"{name[:58]}-{number}"):
        number += 1
    return f"{name[:58]}-{number}"


def _is_name_free(ctx: Context, name: str) -> bool:
    holder = store.find_id(ctx.home, name)
    return holder is None or not is_name_in_use(ctx, name, holder)


def destroy_snapshots(ctx: Context, wanted: list[str]) -> list[Outcome]:
    """Delete snapshots for good."""
    outcomes = []
    for name in wanted:
        try:
            snapshot = get_snapshot(ctx, name)
            host_snapshots.delete_provider_snapshot(ctx, snapshot.meta)
            remove_saved_directory(ctx, snapshot.place)
            outcomes.append(Outcome(id=None, name=name))
        except MngrError as error:
            outcomes.append(make_failed_outcome(name, error))
    return outcomes
