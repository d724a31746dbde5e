"""Stops agents and hosts. It ends the processes and keeps all files."""

from __future__ import annotations

from mngr.agents.inspect.for_each_agent import LIVE_STATES, get_record, make_failed_outcome, resolve_without_repeats
from mngr.agents.lifecycle import choose_and_start_hosts
from mngr.agents.workdir.discard_agent import end_processes
from mngr.base import time_format
from mngr.base.errors import HostStopped, MngrError
from mngr.base.fanout import map_parallel
from mngr.base.model import Outcome
from mngr.host import record_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.host.protocol import Host


def stop_targets(ctx: Context, targets: list[str], grace: float | None = None) -> list[Outcome]:
    """Stop agents, and hosts (`@HOST`) with all agents on them. Leave ended ones as they are."""
    if grace is None:
        grace = time_format.parse_duration(str(ctx.settings.get("stop.grace")))
    agent_names, host_keys = choose_and_start_hosts.split_agents_and_hosts(ctx, targets)
    outcomes = _stop_agents(ctx, agent_names, grace)
    outcomes.update(
        choose_and_start_hosts.stop_hosts(ctx, host_keys, lambda host, agents: _end_processes(ctx, host, agents, grace))
    )
    return [outcomes[target] for target in targets if target in outcomes]


def _stop_agents(ctx: Context, target_names: list[str], grace: float) -> dict[str, Outcome]:
    """Stop the agents, all of one host together. Return the outcomes by the name that was given first."""
    outcomes: dict[str, Outcome] = {}
    live: dict[int, tuple[Host, list[ObservedAgent]]] = {}
    for name, observed in resolve_without_repeats(ctx, target_names):
        if isinstance(observed, HostStopped):
            outcomes[name] = Outcome(id=record_store.find_id(ctx.home, name), name=name, extra={"was": "STOPPED"})
            continue
        if isinstance(observed, MngrError):
            outcomes[name] = make_failed_outcome(name, observed)
            continue
        try:
            record = get_record(observed)
        except MngrError as error:
            outcomes[name] = make_failed_outcome(name, error, observed.id)
            continue
        if observed.state.state in LIVE_STATES:
            live.setdefault(id(observed.host), (observed.host, []))[1].append(observed)
        outcomes[name] = Outcome(id=observed.id, name=record.name, extra={"was": observed.state.state})
    problems = map_parallel(lambda host_agents: _end_processes(ctx, *host_agents, grace), live.values())
    for (_, group), problem in zip(live.values(), problems, strict=True):
        if problem is not None:  # The host no longer answers; agents on other hosts are stopped anyway.
            failures = {
                observed.id: make_failed_outcome(get_record(observed).name, problem, observed.id) for observed in group
            }
            outcomes = {name: failures.get(outcome.id or "", outcome) for name, outcome in outcomes.items()}
    return outcomes


def _end_processes(ctx: Context, host: Host, agents: list[ObservedAgent], grace: float) -> None:
    """End the processes of the live agents and record it in their events."""
    live = [agent for agent in agents if agent.state.state in LIVE_STATES]
    if live:
        end_processes(host, [agent.id for agent in live], grace=grace, reason="")
    for agent in live:
        record_store.add_event(host, agent.id, "stopped", reason="user")
        ctx.hooks.notify("mngr_stopped", agent=agent.record)
