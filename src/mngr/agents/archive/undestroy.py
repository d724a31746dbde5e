"""`undestroy`: bring an agent back from the graveyard."""

from __future__ import annotations

import os
from typing import Any

from mngr.agents.archive.destroy import confirm_removed, format_size, is_still_on_host
from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.targets import make_failed_outcome
from mngr.agents.inspect.trash import TrashedAgent, get_trashed_agent, list_trash
from mngr.agents.lifecycle.hosts import choose_former_host
from mngr.agents.saved.restore import RestoreRequest, get_saved_record, restore_agent, suggest_other_host
from mngr.agents.saved.save import remove_saved_directory
from mngr.agents.workdir.discard import finish_restore
from mngr.base import names
from mngr.base.errors import MngrError, NotFound, Unreachable, UsageError
from mngr.base.model import Outcome
from mngr.host import store
from mngr.host.protocol import Host


def undestroy(
    ctx: Context,
    wanted: list[str],
    *,
    new_name: str | None = None,
    on: str | None = None,
    set_up: bool = False,
) -> list[Outcome]:
    """Bring agents back, stopped, each exactly as it was, on the host it was on or on another; `set_up` makes ignored files anew."""
    if new_name is not None and len(wanted) != 1:
        raise UsageError("--as is for one agent", "bring the others back on their own")
    graves = list_trash(ctx)
    host = get_target_host(ctx, on) if on is not None else None
    outcomes = []
    for text in wanted:
        try:
            outcomes.append(_undestroy_agent(ctx, get_trashed_agent(graves, text), new_name, host, set_up))
        except MngrError as error:
            outcomes.append(make_failed_outcome(text, error))
    return outcomes


def get_target_host(ctx: Context, text: str, name: str | None = None) -> Host:
    """The host that an address without a name, or with this one, stands for; it is ready for agents afterwards."""
    wanted = find.parse_address(ctx, text)
    if wanted.name not in (None, name) or wanted.path is not None or not (wanted.host or wanted.provider):
        raise UsageError(f"{text!r} names no host", "write @HOST, @HOST.PROVIDER or @.PROVIDER")
    return choose_former_host(ctx, wanted)


def _undestroy_agent(
    ctx: Context, grave: TrashedAgent, new_name: str | None, host: Host | None, set_up: bool
) -> Outcome:
    if grave.problem is not None:
        raise MngrError(f"{grave.name} cannot be brought back: {grave.problem}", f"its files are in {grave.place}")
    if grave.meta.get("leaving"):
        if is_still_on_host(ctx, grave.meta):
            hint = f"finish that first: mngr destroy {grave.id}, or mngr gc"
            raise MngrError(f"{grave.name} is not destroyed yet: it is still on {grave.host}", hint)
        confirm_removed(ctx, grave.place, grave.meta)
        store.release_name(ctx.home, grave.name, grave.id)
    name = names.check_name(new_name or grave.name)
    holder = store.find_id(ctx.home, name)
    if holder == grave.id and store.is_on_other_host(ctx.home, name):
        _check_interrupted_undestroy(ctx, name, grave, host)
    elif holder is not None and is_name_in_use(ctx, name, holder):
        raise MngrError(f"there is another agent called {name!r} by now", f"mngr undestroy {grave.id} --as NAME")
    spare = f"mngr/{new_name}" if new_name else None
    wish = RestoreRequest(
        operation="undestroy",
        name=name,
        host=host or get_former_host(ctx, grave.place, grave.meta, "undestroy"),
        is_former_host=host is None,
        agent_id=grave.id,
        fallback_branch=spare,
        set_up=set_up,
    )
    made = restore_agent(ctx, grave.place, grave.meta, wish)
    finish_restore(ctx.get_host(made.record.provider, made.record.host), made.record)
    remove_saved_directory(ctx, grave.place)
    notes = list(made.notes)
    if grave.meta.get("ignored_bytes") and not set_up:
        notes.append(
            f"{format_size(grave.meta['ignored_bytes'])} of ignored files were not kept; the project's set-up can make them anew"
        )
    record = made.record
    extra = {"state": "STOPPED", "host": record.host, "branch": record.branch, "work_dir": record.work_dir}
    return Outcome(id=record.id, name=record.name, extra=extra, notes=tuple(notes))


def _check_interrupted_undestroy(ctx: Context, name: str, grave: TrashedAgent, host: Host | None) -> None:
    """An undestroy was interrupted; MngrError unless nothing of it is on the host that it was for."""
    place = store.find_host_of_name(ctx.home, name)
    assert place is not None
    try:
        there = ctx.get_host(*place)
        if there.has_path(there.home.agent_dir(grave.id)):
            hint = "see: mngr list; what is half made is undone by: mngr gc"
            raise MngrError(f"{name} is on {there.name} already", hint)
    except Unreachable as error:
        if host is None:
            raise
        ctx.note(f"an earlier undestroy of {name} was cut off; {error.message}")
    store.release_name(ctx.home, name, grave.id)


def is_name_in_use(ctx: Context, name: str, holder: str) -> bool:
    """Whether the agent that a name stands for may be there; if its host says no, the name is free from now on."""
    place = store.find_host_of_name(ctx.home, name)
    if place is None:
        return os.path.isdir(ctx.home.agent_dir(holder))
    try:
        host = ctx.get_host(*place)
        if host.has_path(host.home.agent_dir(holder)):
            return True
    except MngrError:
        return True
    store.release_name(ctx.home, name, holder, host)
    return False


def get_former_host(ctx: Context, place: str, meta: dict[str, Any], operation: str) -> Host:
    """Return the host that a saved agent was on; Unreachable says how to restore the agent elsewhere."""
    saved = get_saved_record(place, meta)
    try:
        return choose_former_host(ctx, names.Address(host=saved.host, provider=saved.provider))
    except NotFound as error:
        raise suggest_other_host(saved, operation, Unreachable(error.message, error.hint)) from None
    except Unreachable as error:
        raise suggest_other_host(saved, operation, error) from None
