"""`start`: bring an agent back where it was."""

from __future__ import annotations

import os

from mngr.agents.inspect import list as listing
from mngr.agents.inspect.targets import LIVE_STATES, drop_repeated_targets, run_on_targets
from mngr.agents.launch.launch import launch_agent, refresh_login, write_command
from mngr.agents.lifecycle import hosts, limit
from mngr.agents.workdir.discard import end_processes
from mngr.base.errors import MngrError
from mngr.base.model import Outcome
from mngr.host import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host


def start_targets(ctx: Context, wanted: list[str]) -> list[Outcome]:
    """Start agents that do not run, and hosts (`@HOST`) that are stopped; what runs is left alone."""
    agents, places = hosts.split_agents_and_hosts(ctx, wanted)
    outcomes = hosts.start_hosts(ctx, places)
    outcomes.update(_start_agents(ctx, agents))
    return [outcomes[word] for word in wanted if word in outcomes]


def _start_agents(ctx: Context, wanted: list[str]) -> dict[str, Outcome]:
    """By the words that named them first."""

    def one(seen: ObservedAgent, record: AgentRecord) -> Outcome:
        if record.phase != "ready":
            raise MngrError(f"{record.name} was never finished ({seen.state.reason})", "clean it up with: mngr gc")
        if seen.state.state in LIVE_STATES:
            return Outcome(id=record.id, name=record.name, extra={"was": seen.state.state})
        start_agent(ctx, seen.host, record)
        return Outcome(id=record.id, name=record.name, extra={"was": seen.state.state})

    pairs = drop_repeated_targets(list(zip(wanted, hosts.resolve_and_start_hosts(ctx, wanted), strict=True)))
    names = [name for name, _ in pairs]
    return dict(zip(names, run_on_targets(ctx, names, one, found=[seen for _, seen in pairs]), strict=True))


def start_agent(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Start one agent that does not run."""
    if not host.has_path(record.work_dir):
        raise MngrError(f"the work dir of {record.name} is gone: {record.work_dir}", f"mngr destroy {record.name}")
    with host.lock(os.path.join(host.home.agent_dir(record.id), "lock")):
        if listing.observe_host(ctx, host, [record.id])[0].state.state in LIVE_STATES:
            return  # somebody else was faster
        record = store.get_record(host, record.id)
        if record.phase != "ready":
            raise MngrError(f"{record.name} is just being destroyed", "see: mngr list")
        end_processes(host, [record.id], grace=0.5, reason="restart")  # a dead pane still holds the session's name
        refresh_login(ctx, host, record)
        write_command(ctx, host, record, resume=True)
        pid = launch_agent(ctx, host, record)
    store.add_event(host, record.id, "started", pid=pid)
    if limit.has_limit(record):
        limit.enforce_limits(ctx, host, record)
    ctx.hooks.notify("mngr_started", agent=record)
