"""Snapshots: save an agent's whole state under a name, and create agents from it."""

from __future__ import annotations

import os
import time

from mngr.agents import remove_hosts, saved_directory
from mngr.agents.archive import host_snapshots
from mngr.agents.archive.undestroy import get_former_host, release_unused_name
from mngr.agents.context import Context
from mngr.agents.create.create import CreatedAgent
from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.for_each_agent import LIVE_STATES, make_failed_outcome
from mngr.agents.interact.message import Message, send_message
from mngr.agents.lifecycle.choose_and_start_hosts import choose_former_host
from mngr.agents.lifecycle.start import start_agent
from mngr.agents.saved import fetch_to_temporary_home
from mngr.agents.saved.restore import RestoredAgent, RestoreRequest, restore_agent
from mngr.agents.saved.save import SaveRequest, remove_saved_directory
from mngr.agents.saved_directory import SavedState
from mngr.agents.workdir.discard_agent import discard_agent, finish_restore
from mngr.base import names_and_addresses
from mngr.base.errors import MngrError, NotFound, Unreachable, UsageError, suggest_closest
from mngr.base.model import AgentRecord, Outcome, Struct
from mngr.host import record_store
from mngr.host.protocol import Host
from mngr.kinds.delivery_plan import check_text


class Snapshot(Struct):
    """A saved state of an agent or a host, under a name."""

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
    saved: SavedState

    def to_dict(self) -> dict[str, object]:
        """Return the fields that `--json` shows."""
        return {name: getattr(self, name) for name in self._fields if name != "saved"}


def create_snapshot(ctx: Context, agent: str, name: str | None = None) -> Snapshot:
    """Save the current state of an agent or of a host (`@HOST`). The agent may be running meanwhile."""
    if agent.startswith("@"):
        name, snapshot_dir = _reserve_snapshot_path(ctx, name, agent[1:].partition(".")[0].lower())
        host_snapshots.save_host_snapshot(ctx, agent, snapshot_dir)
        return get_snapshot(ctx, name)
    observed = find.observe_agent(ctx, agent)
    host, record = find.get_agent(ctx, observed.id)
    if record.phase != "ready":
        raise MngrError(
            f"{record.name} is incomplete ({observed.state.reason}), so mngr cannot snapshot it",
            f"see what is wrong: mngr explain {record.name}",
        )
    name, snapshot_dir = _reserve_snapshot_path(ctx, name, record.name)
    is_live = observed.state.state in LIVE_STATES
    request = SaveRequest(target=snapshot_dir, why="snapshot", agent_files=True, was_running=is_live)
    fetch_to_temporary_home.save_agent(ctx, host, record, request)
    return get_snapshot(ctx, name)


def _reserve_snapshot_path(ctx: Context, name: str | None, source_name: str) -> tuple[str, str]:
    """Return the name and directory of a new snapshot. Raise MngrError when the name is taken."""
    ctx.home.create()
    name = names_and_addresses.check_name(name or f"{source_name[:40]}-{time.strftime('%Y%m%d-%H%M%S')}")
    snapshot_dir = os.path.join(ctx.home.snapshots, name)
    if os.path.lexists(snapshot_dir):
        raise MngrError(
            f"there is already a snapshot called {name!r}",
            f"choose another name, or destroy that snapshot: mngr snapshot destroy {name}",
        )
    return name, snapshot_dir


def list_snapshots(ctx: Context) -> list[Snapshot]:
    """Return all readable snapshots, the latest last."""
    if not ctx.home.exists() or not os.path.isdir(ctx.home.snapshots):
        return []
    snapshots = []
    for name in os.listdir(ctx.home.snapshots):
        if names_and_addresses.is_agent_name(name):
            try:
                snapshots.append(get_snapshot(ctx, name))
            except MngrError:
                continue
    return sorted(snapshots, key=lambda snapshot: (snapshot.created_at, snapshot.name))


def get_snapshot(ctx: Context, name: str) -> Snapshot:
    """Return the snapshot with this name. Raise NotFound, or MngrError when it is damaged."""
    snapshot_dir = os.path.join(ctx.home.snapshots, name)
    if not names_and_addresses.is_agent_name(name) or not os.path.isdir(snapshot_dir):
        known = (
            [entry for entry in os.listdir(ctx.home.snapshots) if names_and_addresses.is_agent_name(entry)]
            if os.path.isdir(ctx.home.snapshots)
            else []
        )
        raise NotFound(
            f"there is no snapshot {name!r}", suggest_closest(name, known) or "list the snapshots: mngr snapshot list"
        )
    try:
        saved = saved_directory.load_saved_state(snapshot_dir)
    except ValueError as error:
        raise MngrError(
            f"the snapshot {name} is damaged: {error}",
            f"delete the snapshot: mngr snapshot destroy {name} (its files are in {snapshot_dir})",
        ) from None
    snapshot = Snapshot(
        name=name,
        agent=saved.name,
        agent_id=saved.id,
        kind="host" if saved.host else None,
        project=None,
        branch=saved.branch,
        created_at=saved.at,
        was_running=saved.was_running,
        dirty=saved.dirty,
        place=snapshot_dir,
        saved=saved,
    )
    record = saved.record
    if record is None:
        return snapshot
    return snapshot.replace(kind=record.kind, project=record.project, branch=saved.branch or record.branch)


def restore_snapshot(ctx: Context, name: str, address: str | None = None, *, start: bool = True) -> AgentRecord:
    """Create a new agent from a snapshot.

    Without a name in `address`, the agent gets the name of the original agent or of the snapshot, whichever is free.
    If neither is free, it gets the original name with a number.
    """
    snapshot = get_snapshot(ctx, name)
    host_snapshots.check_agent_snapshot(name, snapshot.saved)
    new_name, host = parse_new_address(ctx, address) if address is not None else (None, None)
    if new_name is None:
        new_name = next((candidate for candidate in (snapshot.agent, name) if _free_name(ctx, candidate)), None)
    new_name = new_name or number_name(ctx, snapshot.agent)
    return create_from_saved(
        ctx, snapshot.place, snapshot.saved, new_name, host, operation="snapshot restore", start=start
    )


def create_from_snapshot(ctx: Context, name: str, address: str | None, message: str | None) -> CreatedAgent:
    """Create an agent from a snapshot, start it and send it the first message."""
    if message is not None:
        check_text(message)
    record = restore_snapshot(ctx, name, address)
    outcome = None if message is None else send_message(ctx, [record.name], Message(text=message))[0]
    return CreatedAgent(agent=listing.make_view(find.observe_agent(ctx, record.name)), message=outcome)


def create_from_saved(
    ctx: Context,
    saved_dir: str,
    saved: SavedState,
    name: str,
    host: Host | None,
    *,
    operation: str,
    start: bool,
) -> AgentRecord:
    """Create a second agent from a saved directory, on its own branch. Discard it if it cannot start."""
    request = RestoreRequest(
        operation=operation,
        name=name,
        host=host or get_former_host(ctx, saved_dir, saved, operation),
        is_former_host=host is None,
        branch=f"mngr/{name}",
        set_up=True,
    )
    record = start_restored(ctx, restore_agent(ctx, saved_dir, saved, request), start=start)
    finish_restore(ctx.get_host(record.provider, record.host), record)
    return record


def start_restored(ctx: Context, restored: RestoredAgent, *, start: bool) -> AgentRecord:
    """Print the notes of a restored agent, start it if asked, and return its record. Discard it if it cannot start."""
    record = restored.record
    for note in restored.notes:
        ctx.note(note)
    host = ctx.get_host(record.provider, record.host)
    if start:
        try:
            start_agent(ctx, host, record)
        except BaseException:
            try:
                discard_agent(ctx, host, record)
                remove_hosts.destroy_empty_hosts(ctx, [host])
            except Unreachable:
                ctx.note(f"parts of {record.name} may still be on {host.name}; when that host answers again: mngr gc")
            raise
    return record


def parse_new_address(ctx: Context, address: str) -> tuple[str | None, Host | None]:
    """Return the name and the host in the address of a new agent, each None if the address does not give it."""
    parsed = find.parse_address(ctx, address)
    if parsed.path is not None:
        raise UsageError(
            f"{address!r} names a file, but mngr needs an address for the new agent", "leave out the colon and the path"
        )
    if parsed.name is not None and not _free_name(ctx, names_and_addresses.check_name(parsed.name)):
        raise MngrError(
            f"there is already an agent called {parsed.name!r}",
            f"choose another name, or destroy that agent: mngr destroy {parsed.name}",
        )
    return parsed.name, choose_former_host(ctx, parsed) if parsed.host or parsed.provider else None


def number_name(ctx: Context, name: str) -> str:
    """Return `name` with the first number, from 2 on, that makes it a free name."""
    number = 2
    while not _free_name(ctx, f"{name[:58]}-{number}"):
        number += 1
    return f"{name[:58]}-{number}"


def _free_name(ctx: Context, name: str) -> bool:
    """Return False when an existing agent may have this name. Release it if its agent is gone."""
    holder_id = record_store.find_id(ctx.home, name)
    return holder_id is None or release_unused_name(ctx, name, holder_id)


def destroy_snapshots(ctx: Context, snapshot_names: list[str]) -> list[Outcome]:
    """Delete snapshots permanently, and return an outcome for each."""
    outcomes = []
    for name in snapshot_names:
        try:
            snapshot = get_snapshot(ctx, name)
            host_snapshots.delete_provider_snapshot(ctx, snapshot.saved.host)
            remove_saved_directory(ctx, snapshot.place)
            outcomes.append(Outcome(id=None, name=name))
        except MngrError as error:
            outcomes.append(make_failed_outcome(name, error))
    return outcomes
