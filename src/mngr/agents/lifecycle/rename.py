"""Changes the name and the labels in an agent's record."""

from __future__ import annotations

import os

from mngr.agents.inspect import find
from mngr.agents.inspect.for_each_agent import run_on_targets
from mngr.agents.launch import environment
from mngr.base import names_and_addresses
from mngr.base.errors import MngrError, UsageError
from mngr.base.model import Outcome
from mngr.host import record_store, tmux_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord


def rename_agent(ctx: Context, old_name: str, new_name: str) -> AgentRecord:
    """Rename an agent. Its branch and work dir keep their names."""
    names_and_addresses.check_name(new_name)
    host, record = find.get_agent(ctx, old_name)
    if record.name == new_name:
        return record
    if record.phase != "ready":
        raise MngrError(
            f"another command is creating or destroying {record.name}",
            f"wait until that command has ended, then see the state: mngr explain {record.name}",
        )
    rename_session = tmux_server.build_argv(host, "rename-session", "-t", f"={record.name}:", new_name)
    with host.lock(os.path.join(host.home.agent_dir(record.id), "lock")):
        record_store.add_name(ctx.home, host, new_name, record.id)
        try:
            renamed = record_store.save_record(host, record_store.get_record(host, record.id).replace(name=new_name))
        except MngrError:
            record_store.release_name_everywhere(ctx.home, host, new_name, record.id)
            raise
        host.run(rename_session)
        record_store.release_name_everywhere(ctx.home, host, record.name, record.id)
        environment.update_env_file(ctx, host, renamed)
    record_store.add_event(host, record.id, "renamed", old=record.name, new=new_name)
    return renamed


def set_labels(ctx: Context, target_names: list[str], changes: dict[str, str | None]) -> list[Outcome]:
    """Set labels, or remove those whose value is None."""
    if not changes:
        raise UsageError("you gave no label", "set one: mngr label NAME K=V; remove one: mngr label NAME K-")

    def label_one(observed: ObservedAgent, record: AgentRecord) -> Outcome:
        with observed.host.lock(os.path.join(observed.host.home.agent_dir(record.id), "lock")):
            current = record_store.get_record(observed.host, record.id)
            labels = {k: v for k, v in {**current.labels, **changes}.items() if v is not None}
            record_store.save_record(observed.host, current.replace(labels=labels))
        return Outcome(id=record.id, name=record.name, extra={"labels": labels})

    return run_on_targets(ctx, target_names, label_one)
