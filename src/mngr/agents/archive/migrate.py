"""`migrate`: an agent to another host, with all its work and its conversation. At every moment one of it is whole."""

from __future__ import annotations

import os

from mngr.agents import saved_directory
from mngr.agents.archive.destroy import (
    PENDING_REMOVAL,
    SAVED_MARKER,
    mark_destroying,
    move_agent_files,
    remove_from_host,
    unmark_destroying,
)
from mngr.agents.archive.snapshot import start_restored
from mngr.agents.archive.undestroy import get_target_host
from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.inspect.targets import LIVE_STATES, get_record
from mngr.agents.lifecycle.start import start_agent
from mngr.agents.saved import staging
from mngr.agents.saved.restore import RestoreRequest, restore_agent
from mngr.agents.saved.save import remove_saved_directory
from mngr.agents.workdir.discard import discard_agent, end_processes, finish_restore
from mngr.agents.workdir.transfer import remove_work_dir
from mngr.base import clock
from mngr.base.errors import MngrError, Unreachable
from mngr.base.model import AgentRecord
from mngr.host import registry, store
from mngr.host.protocol import Host


def migrate(ctx: Context, agent: str, address: str) -> AgentRecord:
    """Stop it, make it on the other host with the same id and name, start it if it ran, then take it away here.

    Until its name points to the other host it is whole where it was; what an interruption leaves there, `gc` puts away.
    """
    seen = find.observe_agent(ctx, agent)
    record = get_record(seen)
    target = get_target_host(ctx, address, record.name)
    if (target.provider, target.name) == (seen.host.provider, seen.host.name):
        raise MngrError(f"{record.name} is on {target.name} already", "name another host")
    if record.phase == "creating":
        raise MngrError(f"{record.name} was never finished ({seen.state.reason})", "clean it up with: mngr gc")
    grave = os.path.join(ctx.home.trash, record.id)
    announce = ctx.hooks.make_step_announcer("migrate", record)
    announce("mark")
    arrived = _find_migrated(ctx, target, record)
    before = mark_destroying(ctx, seen)
    assert before is not None
    is_live = seen.state.state in LIVE_STATES or (before.phase == "destroying" and _was_running(grave))
    if arrived is None:
        _check_not_half_destroyed(seen.host, before)
        announce("end")
        grace = clock.parse_duration(str(ctx.settings.get("stop.grace")))
        end_processes(seen.host, [record.id], grace=grace, reason="")
        arrived = _move_to_host(ctx, seen, before.replace(phase="ready", owner=None), target, grave, is_live)
    store.move_name(ctx.home, record.name, record.id, target)
    announce("remove")
    _remove_from_source(ctx, seen.host, record, target, grave)
    return arrived


def _find_migrated(ctx: Context, target: Host, record: AgentRecord) -> AgentRecord | None:
    """What an interrupted migrate left on the other host, if it is whole; what is half made there is taken away."""
    for there in listing.observe_host(ctx, target, [record.id]):
        if there.record is not None and there.record.phase == "ready" and record.phase == "destroying":
            return there.record
        if there.record is None or there.record.phase != "creating" or there.evidence.is_owner_alive:
            raise store.AgentExists(record.id)
        discard_agent(ctx, target, there.record)
    return None


def _check_not_half_destroyed(host: Host, record: AgentRecord) -> None:
    """MngrError when a destroy was interrupted that had begun to take things away."""
    if record.phase == "destroying" and host.has_path(os.path.join(host.home.agent_dir(record.id), SAVED_MARKER)):
        raise MngrError(
            f"{record.name} is half destroyed",
            f"finish that, and bring it back there: mngr destroy {record.name}; mngr undestroy {record.name} --on @HOST",
        )


def _was_running(grave: str) -> bool:
    """Whether the agent ran when an interrupted migrate saved it."""
    try:
        return bool(saved_directory.load_meta(grave).get("was_running"))
    except ValueError:
        return False


def _move_to_host(
    ctx: Context, seen: ObservedAgent, record: AgentRecord, target: Host, grave: str, is_live: bool
) -> AgentRecord:
    """The agent on the other host; when that fails, it is again as it was."""
    announce = ctx.hooks.make_step_announcer("migrate", record)
    wish = RestoreRequest(
        operation="migrate", name=record.name, host=target, agent_id=record.id, has_name=True, set_up=True
    )
    try:
        announce("save")
        meta = staging.save_agent(
            ctx,
            seen.host,
            record,
            grave,
            why="migrate",
            agent_files=True,
            was_running=is_live,
            more=PENDING_REMOVAL,
        )
    except BaseException:
        _undo_migrate(ctx, seen, record, is_live)
        raise
    try:
        return start_restored(ctx, restore_agent(ctx, grave, meta, wish), start=is_live)
    except BaseException as error:
        if _is_target_clean(ctx, target, record, error):
            _undo_migrate(ctx, seen, record, is_live)
            remove_saved_directory(ctx, grave)
        else:
            ctx.note(
                f"whether {record.name} arrived on {target.name} is not known; when that answers again: "
                f"mngr migrate {record.name} @{target.name}.{target.provider}"
            )
        raise


def _is_target_clean(ctx: Context, target: Host, record: AgentRecord, error: BaseException) -> bool:
    """Whether it is sure that nothing of the agent is on the other host, or that what is there is not ours."""
    if isinstance(error, store.AgentExists):
        return True
    if not target.is_local and registry.find_facts(ctx.home, target.provider, target.name) is None:
        return True  # it was made for this agent, and is gone
    try:
        return not target.has_path(target.home.agent_dir(record.id))
    except Unreachable:
        return False


def _undo_migrate(ctx: Context, seen: ObservedAgent, record: AgentRecord, is_live: bool) -> None:
    """The agent as it was before, running if it ran."""
    unmark_destroying(seen.host, record)
    if not is_live:
        return
    try:
        start_agent(ctx, seen.host, record)
    except MngrError as error:
        ctx.note(f"{record.name} is stopped, and could not be started again: {error.message}")


def _remove_from_source(ctx: Context, host: Host, record: AgentRecord, target: Host, grave: str) -> None:
    """Take away what is left where it was; it is safe on the other host by now."""
    directory = host.home.agent_dir(record.id)
    try:
        finish_restore(target, record)
        if host.is_local:
            os.makedirs(grave, mode=0o700, exist_ok=True)
            host.write(os.path.join(directory, SAVED_MARKER), b"")
            remove_work_dir(host, record)
            move_agent_files(host, directory, os.path.join(grave, saved_directory.AGENT_DIR))
        else:
            remove_from_host(host, record)
            removal.destroy_empty_hosts(ctx, [host])
    except MngrError as error:
        ctx.note(f"what is left of {record.name} on {host.name} stays until mngr gc: {error.message}")
        return
    if os.path.isdir(grave):
        remove_saved_directory(ctx, grave)
