"""`rename` and `label`: change what is written down about an agent."""

from __future__ import annotations

import os

from mngr.agents.inspect import find
from mngr.agents.inspect.targets import each
from mngr.agents.launch import environment
from mngr.base import names
from mngr.base.errors import MngrError, UsageError
from mngr.base.model import Outcome
from mngr.host import store, tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import Seen
    from mngr.base.model import AgentRecord


def rename(ctx: Context, old: str, new: str) -> AgentRecord:
    """Give an agent another name; its branch and work dir keep theirs."""
    names.check_name(new)
    host, record = find.find(ctx, old)
    if record.name == new:
        return record
    if record.phase != "ready":
        raise MngrError(
            f"{record.name} is just being made or destroyed", "wait until that is done; see: mngr list"
        )
    rename_session = tmux.argv(host, "rename-session", "-t", f"={record.name}:", new)
    with host.lock(os.path.join(host.home.agent(record.id), "lock")):
        store.take_name(ctx.home, host, new, record.id)
        try:
            renamed = store.save(host, store.load(host, record.id).replace(name=new))
        except MngrError:
            store.release(ctx.home, host, new, record.id)
            raise
        host.run(rename_session)
        store.release(ctx.home, host, record.name, record.id)
        environment.refresh(ctx, host, renamed)
    store.add_event(host, record.id, "renamed", old=record.name, new=new)
    return renamed


def label(ctx: Context, wanted: list[str], changes: dict[str, str | None]) -> list[Outcome]:
    """Set labels, or remove those whose value is None."""
    if not changes:
        raise UsageError("no label is given", "write K=V to set one, K- to remove it")

    def one(seen: Seen, record: AgentRecord) -> Outcome:
        with seen.host.lock(os.path.join(seen.host.home.agent(record.id), "lock")):
            fresh = store.load(seen.host, record.id)
            labels = {k: v for k, v in {**fresh.labels, **changes}.items() if v is not None}
            store.save(seen.host, fresh.replace(labels=labels))
        return Outcome(id=record.id, name=record.name, extra={"labels": labels})

    return each(ctx, wanted, one)
