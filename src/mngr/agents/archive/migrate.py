"""`migrate`: moves an agent to another host with its work and conversation. One copy is complete at all times."""

from __future__ import annotations

import os

from mngr.agents import remove_hosts, saved_directory
from mngr.agents.archive.destroy import (
    SAVED_MARKER,
    mark_destroying,
    move_agent_files,
    remove_from_host,
    unmark_destroying,
)
from mngr.agents.archive.snapshot import start_restored
from mngr.agents.archive.undestroy import get_target_host
from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.for_each_agent import LIVE_STATES, get_record
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.lifecycle.start import start_agent
from mngr.agents.saved import fetch_to_temporary_home
from mngr.agents.saved.restore import RestoreRequest, restore_agent
from mngr.agents.saved.save import SaveRequest, remove_saved_directory
from mngr.agents.workdir.discard_agent import discard_agent, end_processes, finish_restore
from mngr.agents.workdir.transfer import remove_work_dir
from mngr.base import time_format
from mngr.base.errors import MngrError, Unreachable
from mngr.base.model import AgentRecord
from mngr.host import host_store, record_store
from mngr.host.protocol import Host


def migrate(ctx: Context, agent: str, address: str) -> AgentRecord:
    """Move the agent to another host under the same id and name, and return its new record.

    mngr stops the agent, creates it on the other host, starts it there if it was running, and removes the old copy.
    Until the agent's name points to the other host, the old copy stays complete. After an interruption, `gc` removes
    the leftovers.
    """
    observed = find.observe_agent(ctx, agent)
    record = get_record(observed)
    target = get_target_host(ctx, address, record.name)
    if (target.provider, target.name) == (observed.host.provider, observed.host.name):
        raise MngrError(
            f"{record.name} is already on {target.name}", f"name another host: mngr migrate {record.name} @HOST"
        )
    if record.phase == "creating":
        raise MngrError(f"{record.name} was never completely created ({observed.state.reason})", "remove it: mngr gc")
    trash_dir = os.path.join(ctx.home.trash, record.id)
    announce = ctx.hooks.make_step_announcer("migrate", record)
    announce("mark")
    migrated = _find_migrated(ctx, target, record)
    old_record = mark_destroying(ctx, observed)
    assert old_record is not None
    is_live = observed.state.state in LIVE_STATES or (old_record.phase == "destroying" and _was_running(trash_dir))
    if migrated is None:
        _check_not_half_destroyed(observed.host, old_record)
        announce("end")
        grace = time_format.parse_duration(str(ctx.settings.get("stop.grace")))
        end_processes(observed.host, [record.id], grace=grace, reason="")
        migrated = _move_to_host(
            ctx, observed, old_record.replace(phase="ready", owner=None), target, trash_dir, is_live
        )
    record_store.move_name(ctx.home, record.name, record.id, target)
    announce("remove")
    _remove_from_source(ctx, observed.host, record, target, trash_dir)
    return migrated


def _find_migrated(ctx: Context, target: Host, record: AgentRecord) -> AgentRecord | None:
    """Return the agent's record on the target host if an interrupted migrate has completed it there, else None.

    A half-created agent on the target host is deleted. Any other agent with the same id raises AgentExists.
    """
    for on_target in listing.observe_host(ctx, target, [record.id]):
        if on_target.record is not None and on_target.record.phase == "ready" and record.phase == "destroying":
            return on_target.record
        if on_target.record is None or on_target.record.phase != "creating" or on_target.evidence.is_owner_alive:
            raise record_store.AgentExists(record.id)
        discard_agent(ctx, target, on_target.record)
    return None


def _check_not_half_destroyed(host: Host, record: AgentRecord) -> None:
    """Raise MngrError when an interrupted destroy had already begun to remove the agent."""
    if record.phase == "destroying" and host.has_path(os.path.join(host.home.agent_dir(record.id), SAVED_MARKER)):
        raise MngrError(
            f"an interrupted command has partly destroyed {record.name}",
            f"complete the destruction, then restore the agent on the new host: mngr destroy {record.name} && mngr undestroy {record.name} --on @HOST",
        )


def _was_running(trash_dir: str) -> bool:
    """True when the agent was running while an interrupted migrate saved it."""
    try:
        return saved_directory.load_saved_state(trash_dir).was_running
    except ValueError:
        return False


def _move_to_host(
    ctx: Context, observed: ObservedAgent, record: AgentRecord, target: Host, trash_dir: str, is_live: bool
) -> AgentRecord:
    """Save the agent, restore it on the target host and return its record there. On failure, undo everything."""
    announce = ctx.hooks.make_step_announcer("migrate", record)
    save_request = SaveRequest(
        target=trash_dir, why="migrate", agent_files=True, was_running=is_live, is_removal_pending=True
    )
    restore_request = RestoreRequest(
        operation="migrate", name=record.name, host=target, agent_id=record.id, has_name=True, set_up=True
    )
    try:
        announce("save")
        saved = fetch_to_temporary_home.save_agent(ctx, observed.host, record, save_request)
    except BaseException:
        _undo_migrate(ctx, observed, record, is_live)
        raise
    try:
        return start_restored(ctx, restore_agent(ctx, trash_dir, saved, restore_request), start=is_live)
    except BaseException as error:
        if _is_target_clean(ctx, target, record, error):
            _undo_migrate(ctx, observed, record, is_live)
            remove_saved_directory(ctx, trash_dir)
        else:
            ctx.note(
                f"mngr does not know whether {record.name} arrived on {target.name}; when that host answers again: "
                f"mngr migrate {record.name} @{target.name}.{target.provider}"
            )
        raise


def _is_target_clean(ctx: Context, target: Host, record: AgentRecord, error: BaseException) -> bool:
    """True when the target host certainly has nothing of this migration."""
    if isinstance(error, record_store.AgentExists):
        return True
    if not target.is_local and host_store.find_facts(ctx.home, target.provider, target.name) is None:
        return True  # The host was created for this agent and is destroyed by now.
    try:
        return not target.has_path(target.home.agent_dir(record.id))
    except Unreachable:
        return False


def _undo_migrate(ctx: Context, observed: ObservedAgent, record: AgentRecord, is_live: bool) -> None:
    """Unmark the agent on its old host, and start it again if it was running."""
    unmark_destroying(observed.host, record)
    if not is_live:
        return
    try:
        start_agent(ctx, observed.host, record)
    except MngrError as error:
        ctx.note(f"{record.name} is stopped, and mngr could not start it again: {error.message}")


def _remove_from_source(ctx: Context, host: Host, record: AgentRecord, target: Host, trash_dir: str) -> None:
    """Remove the agent from its old host, now that it is complete on the target host."""
    directory = host.home.agent_dir(record.id)
    try:
        finish_restore(target, record)
        if host.is_local:
            os.makedirs(trash_dir, mode=0o700, exist_ok=True)
            host.write(os.path.join(directory, SAVED_MARKER), b"")
            remove_work_dir(host, record)
            move_agent_files(host, directory, os.path.join(trash_dir, saved_directory.AGENT_DIR))
        else:
            remove_from_host(host, record)
            remove_hosts.destroy_empty_hosts(ctx, [host])
    except MngrError as error:
        ctx.note(
            f"mngr could not remove the old copy of {record.name} on {host.name}: {error.message}; remove it later: mngr gc"
        )
        return
    if os.path.isdir(trash_dir):
        remove_saved_directory(ctx, trash_dir)
