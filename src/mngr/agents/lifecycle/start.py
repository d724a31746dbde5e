"""Starts stopped agents and hosts. An agent continues where it was."""

from __future__ import annotations

import os

from mngr.agents.inspect import list as listing
from mngr.agents.inspect.for_each_agent import LIVE_STATES, drop_repeated_targets, run_on_targets
from mngr.agents.launch.launch import launch_agent, refresh_login, write_command
from mngr.agents.lifecycle import choose_and_start_hosts, limit
from mngr.agents.workdir.discard_agent import end_processes
from mngr.base.errors import MngrError
from mngr.base.model import Outcome
from mngr.host import record_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host


def start_targets(ctx: Context, targets: list[str]) -> list[Outcome]:
    """Start agents that do not run and hosts (`@HOST`) that are stopped. Leave running ones alone."""
    agent_names, host_keys = choose_and_start_hosts.split_agents_and_hosts(ctx, targets)
    outcomes = choose_and_start_hosts.start_hosts(ctx, host_keys)
    outcomes.update(_start_agents(ctx, agent_names))
    return [outcomes[target] for target in targets if target in outcomes]


def _start_agents(ctx: Context, target_names: list[str]) -> dict[str, Outcome]:
    """Start the agents and return their outcomes by the name that was given first."""

    def start_one(observed: ObservedAgent, record: AgentRecord) -> Outcome:
        if record.phase != "ready":
            raise MngrError(
                f"{record.name} was never completely created ({observed.state.reason})", "remove it: mngr gc"
            )
        if observed.state.state in LIVE_STATES:
            return Outcome(id=record.id, name=record.name, extra={"was": observed.state.state})
        start_agent(ctx, observed.host, record)
        return Outcome(id=record.id, name=record.name, extra={"was": observed.state.state})

    pairs = drop_repeated_targets(
        list(zip(target_names, choose_and_start_hosts.resolve_and_start_hosts(ctx, target_names), strict=True))
    )
    names = [name for name, _ in pairs]
    return dict(
        zip(names, run_on_targets(ctx, names, start_one, observed=[observed for _, observed in pairs]), strict=True)
    )


def start_agent(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Start one agent that does not run."""
    if not host.has_path(record.work_dir):
        raise MngrError(
            f"the work dir of {record.name} no longer exists: {record.work_dir}",
            f"destroy the agent: mngr destroy {record.name}",
        )
    with host.lock(os.path.join(host.home.agent_dir(record.id), "lock")):
        if listing.observe_host(ctx, host, [record.id])[0].state.state in LIVE_STATES:
            return  # Another command has started it meanwhile.
        record = record_store.get_record(host, record.id)
        if record.phase != "ready":
            raise MngrError(
                f"another command is destroying {record.name}", "see whether the agent still exists: mngr list"
            )
        end_processes(host, [record.id], grace=0.5, reason="restart")  # A dead pane still occupies the session's name.
        write_command(ctx, host, record, resume=True)
        refresh_login(ctx, host, record)
        pid = launch_agent(ctx, host, record)
    record_store.add_event(host, record.id, "started", pid=pid)
    if limit.has_limit(record):
        limit.enforce_limits(ctx, host, record)
    ctx.hooks.notify("mngr_started", agent=record)
