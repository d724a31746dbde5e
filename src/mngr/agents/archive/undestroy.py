"""`undestroy`: restores an agent from the trash."""

from __future__ import annotations

import os

from mngr.agents.archive.destroy import confirm_removed, is_still_on_host
from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.for_each_agent import make_failed_outcome
from mngr.agents.inspect.trash import TrashedAgent, get_trashed_agent, list_trash
from mngr.agents.lifecycle.choose_and_start_hosts import choose_former_host
from mngr.agents.saved.restore import RestoreRequest, get_saved_record, restore_agent, suggest_other_host
from mngr.agents.saved.save import remove_saved_directory
from mngr.agents.saved_directory import SavedState
from mngr.agents.workdir.discard_agent import finish_restore
from mngr.base import names_and_addresses
from mngr.base.errors import MngrError, NotFound, Unreachable, UsageError
from mngr.base.lock import Lock
from mngr.base.model import Outcome
from mngr.base.size_format import format_size
from mngr.host import record_store
from mngr.host.protocol import Host


def undestroy(
    ctx: Context,
    agent_names: list[str],
    *,
    new_name: str | None = None,
    on: str | None = None,
    set_up: bool = False,
) -> list[Outcome]:
    """Restore destroyed agents, stopped and exactly as they were, and return an outcome for each.

    Each agent returns to its former host, or to the host at the address `on`. With `set_up` the project's set-up runs,
    which creates its ignored files again.
    """
    if new_name is not None and len(agent_names) != 1:
        raise UsageError(
            "--as gives a new name to one agent, but you named several",
            "restore each agent with its own command: mngr undestroy NAME --as NEW",
        )
    trash = list_trash(ctx)
    host = get_target_host(ctx, on) if on is not None else None
    outcomes = []
    for name in agent_names:
        try:
            outcomes.append(_undestroy_alone(ctx, get_trashed_agent(trash, name), new_name, host, set_up))
        except MngrError as error:
            outcomes.append(make_failed_outcome(name, error))
    return outcomes


def get_target_host(ctx: Context, address_text: str, name: str | None = None) -> Host:
    """Return the host at an address that has no agent name, or this one. The host is ready for agents."""
    address = find.parse_address(ctx, address_text)
    if address.name not in (None, name) or address.path is not None or not (address.host or address.provider):
        raise UsageError(f"{address_text!r} does not name a host", "write @HOST, @HOST.PROVIDER or @.PROVIDER")
    return choose_former_host(ctx, address)


def _undestroy_alone(
    ctx: Context, trashed: TrashedAgent, new_name: str | None, host: Host | None, set_up: bool
) -> Outcome:
    """Restore one agent while no other command restores it. Raise NotFound if another command was faster."""
    if not os.path.isdir(trashed.trash_dir):
        get_trashed_agent(list_trash(ctx), trashed.name)
    with Lock(os.path.join(trashed.trash_dir, "undestroy.lock")):
        still_trashed = get_trashed_agent(list_trash(ctx), trashed.id)
        return _undestroy_agent(ctx, still_trashed, new_name, host, set_up)


def _undestroy_agent(
    ctx: Context, trashed: TrashedAgent, new_name: str | None, host: Host | None, set_up: bool
) -> Outcome:
    """Restore one agent from the trash and remove it from there."""
    if trashed.problem is not None:
        raise MngrError(
            f"{trashed.name} cannot be restored: {trashed.problem}",
            f"its files are in the trash: ls {trashed.trash_dir}",
        )
    if trashed.saved.leaving:
        if is_still_on_host(ctx, trashed.saved):
            hint = f"complete the destruction first: mngr destroy {trashed.id}"
            raise MngrError(f"{trashed.name} is not completely destroyed: it is still on {trashed.host}", hint)
        confirm_removed(ctx, trashed.trash_dir, trashed.saved)
        record_store.release_name(ctx.home, trashed.name, trashed.id)
    name = names_and_addresses.check_name(new_name or trashed.name)
    holder_id = record_store.find_id(ctx.home, name)
    if holder_id == trashed.id and record_store.is_on_other_host(ctx.home, name):
        _check_interrupted_undestroy(ctx, name, trashed, host)
    elif holder_id is not None and not release_unused_name(ctx, name, holder_id):
        raise MngrError(
            f"another agent is called {name!r} now",
            f"restore it under a new name: mngr undestroy {trashed.id} --as NAME",
        )
    fallback_branch = f"mngr/{new_name}" if new_name else None
    request = RestoreRequest(
        operation="undestroy",
        name=name,
        host=host or get_former_host(ctx, trashed.trash_dir, trashed.saved, "undestroy"),
        is_former_host=host is None,
        agent_id=trashed.id,
        fallback_branch=fallback_branch,
        set_up=set_up,
    )
    restored = restore_agent(ctx, trashed.trash_dir, trashed.saved, request)
    finish_restore(ctx.get_host(restored.record.provider, restored.record.host), restored.record)
    remove_saved_directory(ctx, trashed.trash_dir)
    notes = list(restored.notes)
    if trashed.saved.ignored_bytes and not set_up:
        notes.append(
            f"{format_size(trashed.saved.ignored_bytes)} of ignored files were not kept; run the project's set-up to create them again"
        )
    record = restored.record
    extra = {"state": "STOPPED", "host": record.host, "branch": record.branch, "work_dir": record.work_dir}
    return Outcome(id=record.id, name=record.name, extra=extra, notes=tuple(notes))


def _check_interrupted_undestroy(ctx: Context, name: str, trashed: TrashedAgent, host: Host | None) -> None:
    """Release the name that an interrupted undestroy left. Raise MngrError if its host has the agent already.

    An unreachable host counts as not having the agent when the user names another host.
    """
    address = record_store.find_host_of_name(ctx.home, name)
    assert address is not None
    try:
        named_host = ctx.get_host(*address)
        if named_host.has_path(named_host.home.agent_dir(trashed.id)):
            hint = f"see its state: mngr explain {name}; if its creation was interrupted, remove it: mngr gc"
            raise MngrError(f"{name} is already on {named_host.name}", hint)
    except Unreachable as error:
        if host is None:
            raise
        ctx.note(f"an earlier undestroy of {name} was interrupted: {error.message}")
    record_store.release_name(ctx.home, name, trashed.id)


def release_unused_name(ctx: Context, name: str, holder_id: str) -> bool:
    """Release a name if the agent that it points to does not exist. Return False when the agent may exist."""
    address = record_store.find_host_of_name(ctx.home, name)
    if address is None:
        return not os.path.isdir(ctx.home.agent_dir(holder_id))
    try:
        host = ctx.get_host(*address)
        if host.has_path(host.home.agent_dir(holder_id)):
            return False
    except MngrError:
        return False
    record_store.release_name(ctx.home, name, holder_id, host)
    return True


def get_former_host(ctx: Context, saved_dir: str, saved: SavedState, operation: str) -> Host:
    """Return the host that a saved agent was on. Raise Unreachable with a hint to restore it elsewhere."""
    saved_record = get_saved_record(saved_dir, saved)
    try:
        return choose_former_host(
            ctx, names_and_addresses.Address(host=saved_record.host, provider=saved_record.provider)
        )
    except NotFound as error:
        raise suggest_other_host(saved_record, operation, Unreachable(error.message, error.hint)) from None
    except Unreachable as error:
        raise suggest_other_host(saved_record, operation, error) from None
