"""`rename` and `label`: change what is written down about an agent."""

from __future__ import annotations

import os

from mngr.agents.inspect import find
from mngr.agents.inspect.targets import run_on_targets
from mngr.agents.launch import environment
from mngr.base import names
from mngr.base.errors import MngrError, UsageError
from mngr.base.model import Outcome
from mngr.host import store, tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord


def rename_agent(ctx: Context, old: str, new: str) -> AgentRecord:
    """Give an agent another name; its branch and work dir keep theirs."""
    names.check_name(new)
    host, record = find.get_agent(ctx, old)
    if record.name == new:
        return record
    if record.phase != "ready":
        raise MngrError(f"{record.name} is just being made or destroyed", "wait until that is done; see: mngr list")
    rename_session = tmux.build_argv(host, "rename-session", "-t", f"={record.name}:", new)
    with host.lock(os.path.join(host.home.agent_dir(record.id), "lock")):
        store.add_name(ctx.home, host, new, record.id)
        try:
            renamed = store.save_record(host, store.get_record(host, record.id).replace(name=new))
        except MngrError:
            store.release_name_everywhere(ctx.home, host, new, record.id)
            raise
        host.run(rename_session)
        store.release_name_everywhere(ctx.home, host, record.name, record.id)
        environment.update_env_file(ctx, host, renamed)
    store.add_event(host, record.id, "renamed", old=record.name, new=new)
    return renamed


def set_labels(ctx: Context, wanted: list[str], changes: dict[str, str | None]) -> list[Outcome]:
    """Set labels, or remove those whose value is None."""
    if not changes:
        raise UsageError("no label is given", "write K=V to set one, K- to remove it")

    def one(seen: ObservedAgent, record: AgentRecord) -> Outcome:
        with seen.host.lock(os.path.join(seen.host.home.agent_dir(record.id), "lock")):
            fresh = store.get_record(seen.host, record.id)
            labels = {k: v for k, v in {**fresh.labels, **changes}.items() if v is not None}
            store.save_record(seen.host, fresh.replace(labels=labels))
        return Outcome(id=record.id, name=record.name, extra={"labels": labels})

    return run_on_targets(ctx, wanted, one)
