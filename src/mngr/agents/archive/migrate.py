"""`migrate`: an agent to another host, with all its work and its conversation. At every moment one of it is whole."""

from __future__ import annotations

import os

from mngr.agents import saved_directory
from mngr.agents.archive.destroy import LEAVING, SAVED, bury, leave, mark, unmark
from mngr.agents.archive.snapshot import begin
from mngr.agents.archive.undestroy import host_at
from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import Seen
from mngr.agents.inspect.targets import LIVE, record_of
from mngr.agents.lifecycle.start import start_record
from mngr.agents.saved import stage
from mngr.agents.saved.restore import Wish, restore
from mngr.agents.saved.save import remove_saved
from mngr.agents.workdir.discard import discard, end_processes, settle
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
    seen = find.get_seen(ctx, agent)
    record = record_of(seen)
    target = host_at(ctx, address, record.name)
    if (target.provider, target.name) == (seen.host.provider, seen.host.name):
        raise MngrError(f"{record.name} is on {target.name} already", "name another host")
    if record.phase == "creating":
        raise MngrError(
            f"{record.name} was never finished ({seen.state.reason})", "clean it up with: mngr gc"
        )
    grave = os.path.join(ctx.home.graveyard, record.id)
    announce = ctx.hooks.step("migrate", record)
    announce("mark")
    arrived = _arrived(ctx, target, record)
    before = mark(ctx, seen)
    assert before is not None
    is_live = seen.state.state in LIVE or (before.phase == "destroying" and _ran(grave))
    if arrived is None:
        _check_whole(seen.host, before)
        announce("end")
        grace = clock.parse_length(str(ctx.settings.get("stop.grace")))
        end_processes(seen.host, [record.id], grace=grace, reason="")
        arrived = _move(ctx, seen, before.replace(phase="ready", owner=None), target, grave, is_live)
    store.move_name(ctx.home, record.name, record.id, target)
    announce("remove")
    _leave(ctx, seen.host, record, target, grave)
    return arrived


def _arrived(ctx: Context, target: Host, record: AgentRecord) -> AgentRecord | None:
    """What an interrupted migrate left on the other host, if it is whole; what is half made there is taken away."""
    for there in listing.look(ctx, target, [record.id]):
        if there.record is not None and there.record.phase == "ready" and record.phase == "destroying":
            return there.record
        if there.record is None or there.record.phase != "creating" or there.evidence.owner_alive:
            raise store.Taken(record.id)
        discard(ctx, target, there.record)
    return None


def _check_whole(host: Host, record: AgentRecord) -> None:
    """MngrError when a destroy was interrupted that had begun to take things away."""
    if record.phase == "destroying" and host.has(os.path.join(host.home.agent(record.id), SAVED)):
        raise MngrError(
            f"{record.name} is half destroyed",
            f"finish that, and bring it back there: mngr destroy {record.name}; mngr undestroy {record.name} --on @HOST",
        )


def _ran(grave: str) -> bool:
    """Whether the agent ran when an interrupted migrate saved it."""
    try:
        return bool(saved_directory.load(grave).get("was_running"))
    except ValueError:
        return False


def _move(
    ctx: Context, seen: Seen, record: AgentRecord, target: Host, grave: str, is_live: bool
) -> AgentRecord:
    """The agent on the other host; when that fails, it is again as it was."""
    announce = ctx.hooks.step("migrate", record)
    wish = Wish(
        operation="migrate", name=record.name, host=target, agent_id=record.id, is_named=True, set_up=True
    )
    try:
        announce("save")
        meta = stage.save(
            ctx, seen.host, record, grave, why="migrate", agent_files=True, was_running=is_live, more=LEAVING
        )
    except BaseException:
        _stay(ctx, seen, record, is_live)
        raise
    try:
        return begin(ctx, restore(ctx, grave, meta, wish), start=is_live)
    except BaseException as error:
        if _is_clear(ctx, target, record, error):
            _stay(ctx, seen, record, is_live)
            remove_saved(ctx, grave)
        else:
            ctx.note(
                f"whether {record.name} arrived on {target.name} is not known; when that answers again: "
                f"mngr migrate {record.name} @{target.name}.{target.provider}"
            )
        raise


def _is_clear(ctx: Context, target: Host, record: AgentRecord, error: BaseException) -> bool:
    """Whether it is sure that nothing of the agent is on the other host, or that what is there is not ours."""
    if isinstance(error, store.Taken):
        return True
    if not target.is_here and registry.load(ctx.home, target.provider, target.name) is None:
        return True  # it was made for this agent, and is gone
    try:
        return not target.has(target.home.agent(record.id))
    except Unreachable:
        return False


def _stay(ctx: Context, seen: Seen, record: AgentRecord, is_live: bool) -> None:
    """The agent as it was before, running if it ran."""
    unmark(seen.host, record)
    if not is_live:
        return
    try:
        start_record(ctx, seen.host, record)
    except MngrError as error:
        ctx.note(f"{record.name} is stopped, and could not be started again: {error.message}")


def _leave(ctx: Context, host: Host, record: AgentRecord, target: Host, grave: str) -> None:
    """Take away what is left where it was; it is safe on the other host by now."""
    directory = host.home.agent(record.id)
    try:
        settle(target, record)
        if host.is_here:
            os.makedirs(grave, mode=0o700, exist_ok=True)
            host.write(os.path.join(directory, SAVED), b"")
            remove_work_dir(host, record)
            bury(host, directory, os.path.join(grave, saved_directory.AGENT))
        else:
            leave(host, record)
            removal.retire(ctx, [host])
    except MngrError as error:
        ctx.note(f"what is left of {record.name} on {host.name} stays until mngr gc: {error.message}")
        return
    if os.path.isdir(grave):
        remove_saved(ctx, grave)
