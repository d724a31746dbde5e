"""`undestroy`: bring an agent back from the graveyard."""

from __future__ import annotations

import os

from mngr import clock, names, store
from mngr.errors import MngrError, NotFound, Unreachable, UsageError, closest
from mngr.model import Outcome, Record
from mngr.ops import find
from mngr.ops import save as saving
from mngr.ops.destroy import is_leaving, settle_grave, size
from mngr.ops.discard import settle
from mngr.ops.restore import Wish, restore
from mngr.ops.targets import failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.host import Host
    from mngr.ops.context import Context


class Grave(Record):
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


def list_graves(ctx: Context) -> list[Grave]:
    """What is in the graveyard, the latest last."""
    if not ctx.home.exists() or not os.path.isdir(ctx.home.graveyard):
        return []
    found = [_grave(ctx, n) for n in os.listdir(ctx.home.graveyard) if names.is_id(n)]
    return sorted(found, key=lambda g: (g.destroyed_at, g.id))


def _grave(ctx: Context, agent_id: str) -> Grave:
    place = os.path.join(ctx.home.graveyard, agent_id)
    problem = None
    try:
        meta = saving.load(place)
        if meta.get("record") is None:
            problem = "its record was damaged when it was destroyed"
        elif meta.get("lost"):
            problem = str(meta["lost"])
        elif not os.path.isdir(os.path.join(place, saving.AGENT)):
            problem = "it is not destroyed yet: finish that with mngr destroy or mngr gc"
    except ValueError as error:
        meta, problem = {"at": clock.stamp(os.stat(place).st_mtime)}, str(error)
    record = meta.get("record") or {}
    at = str(meta["at"])
    return Grave(
        id=agent_id,
        name=str(meta.get("name") or agent_id),
        kind=record.get("kind"),
        host=record.get("host"),
        provider=record.get("provider"),
        project=record.get("project"),
        branch=record.get("branch"),
        destroyed_at=at,
        expires_at=clock.stamp(clock.parse_stamp(at) + keep_time(ctx)),
        dirty=bool(meta.get("dirty")),
        unpulled=int(meta.get("unpulled") or 0),
        place=place,
        problem=problem,
        meta=meta,
    )


def keep_time(ctx: Context) -> float:
    """How long graves are kept, in seconds."""
    return clock.parse_length(str(ctx.settings.get("graveyard.keep")))


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
    graves = list_graves(ctx)
    host = host_at(ctx, on) if on is not None else None
    outcomes = []
    for text in wanted:
        try:
            outcomes.append(_undestroy_one(ctx, find_grave(graves, text), new_name, host, set_up))
        except MngrError as error:
            outcomes.append(failed(text, error))
    return outcomes


def host_at(ctx: Context, text: str, name: str | None = None) -> Host:
    """The host that an address without a name, or with this one, stands for; it is ready for agents afterwards."""
    from mngr.ops.hosts import choose_host

    wanted = find.address(ctx, text)
    if wanted.name not in (None, name) or wanted.path is not None or not (wanted.host or wanted.provider):
        raise UsageError(f"{text!r} names no host", "write @HOST, @HOST.PROVIDER or @.PROVIDER")
    return choose_host(ctx, wanted)


def find_grave(graves: list[Grave], text: str) -> Grave:
    """The grave that an id or a name stands for; an error lists the candidates."""
    found = [grave for grave in graves if text in (grave.id, grave.name)]
    if not found:
        hint = closest(text, [grave.name for grave in graves]) or "see: mngr undestroy --list"
        raise NotFound(f"there is no {text!r} in the graveyard", hint)
    if len(found) > 1:
        listed = ", ".join(f"{grave.id} (destroyed {grave.destroyed_at})" for grave in found)
        raise MngrError(
            f"{text!r} could be any of {listed}", f"say which by its id: mngr undestroy {found[-1].id}"
        )
    return found[0]


def _undestroy_one(
    ctx: Context, grave: Grave, new_name: str | None, host: Host | None, set_up: bool
) -> Outcome:
    if grave.problem is not None:
        raise MngrError(
            f"{grave.name} cannot be brought back: {grave.problem}", f"its files are in {grave.place}"
        )
    if grave.meta.get("leaving"):
        if is_leaving(ctx, grave.meta):
            hint = f"finish that first: mngr destroy {grave.id}, or mngr gc"
            raise MngrError(f"{grave.name} is not destroyed yet: it is still on {grave.host}", hint)
        settle_grave(ctx, grave.place, grave.meta)
        store.release_name(ctx.home, grave.name, grave.id)
    name = names.check_name(new_name or grave.name)
    holder = store.find_id(ctx.home, name)
    if holder == grave.id and store.is_elsewhere(ctx.home, name):
        _check_left(ctx, name, grave, host)
    elif holder is not None and is_held(ctx, name, holder):
        raise MngrError(
            f"there is another agent called {name!r} by now", f"mngr undestroy {grave.id} --as NAME"
        )
    spare = f"mngr/{new_name}" if new_name else None
    wish = Wish(operation="undestroy", name=name, host=host, agent_id=grave.id, spare=spare, set_up=set_up)
    made = restore(ctx, grave.place, grave.meta, wish)
    settle(ctx.host(made.record.provider, made.record.host), made.record)
    remove_saved(ctx, grave.place)
    notes = list(made.notes)
    if grave.meta.get("ignored_bytes") and not set_up:
        notes.append(
            f"{size(grave.meta['ignored_bytes'])} of ignored files were not kept; the project's set-up can make them anew"
        )
    record = made.record
    extra = {"state": "STOPPED", "host": record.host, "branch": record.branch, "work_dir": record.work_dir}
    return Outcome(id=record.id, name=record.name, extra=extra, notes=tuple(notes))


def _check_left(ctx: Context, name: str, grave: Grave, host: Host | None) -> None:
    """An undestroy was interrupted; MngrError unless nothing of it is on the host that it was for."""
    place = store.find_place(ctx.home, name)
    assert place is not None
    try:
        there = ctx.host(*place)
        if there.has(there.home.agent(grave.id)):
            hint = "see: mngr list; what is half made is undone by: mngr gc"
            raise MngrError(f"{name} is on {there.name} already", hint)
    except Unreachable as error:
        if host is None:
            raise
        ctx.note(f"an earlier undestroy of {name} was cut off; {error.message}")
    store.release_name(ctx.home, name, grave.id)


def is_held(ctx: Context, name: str, holder: str) -> bool:
    """Whether the agent that a name stands for may be there; if its host says no, the name is free from now on."""
    place = store.find_place(ctx.home, name)
    if place is None:
        return os.path.isdir(ctx.home.agent(holder))
    try:
        host = ctx.host(*place)
        if host.has(host.home.agent(holder)):
            return True
    except MngrError:
        return True
    store.release_name(ctx.home, name, holder, host)
    return False


def remove_saved(ctx: Context, place: str) -> None:
    """Delete a saved directory: in one step for everybody who looks, then file by file."""
    gone = f"{place}{saving.PART}"
    ctx.local.run(["rm", "-rf", "--", gone])
    os.rename(place, gone)
    ctx.local.run(["chmod", "-R", "u+rwX", "--", gone])
    ctx.local.run(["rm", "-rf", "--", gone])
