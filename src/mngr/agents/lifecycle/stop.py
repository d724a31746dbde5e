"""`stop`: end the processes, keep everything."""

from __future__ import annotations

from mngr.agents.inspect.targets import LIVE_STATES, get_record, make_failed_outcome, resolve_unique
from mngr.agents.lifecycle import hosts
from mngr.agents.workdir.discard import end_processes
from mngr.base import clock
from mngr.base.errors import HostStopped, MngrError
from mngr.base.fanout import map_parallel
from mngr.base.model import Outcome
from mngr.host import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.host.protocol import Host


def stop_targets(ctx: Context, wanted: list[str], grace: float | None = None) -> list[Outcome]:
    """Stop agents, and hosts (`@HOST`) with all agents on them; what has ended already is left as it is."""
    if grace is None:
        grace = clock.parse_duration(str(ctx.settings.get("stop.grace")))
    agents, places = hosts.split_agents_and_hosts(ctx, wanted)
    outcomes = _stop_agents(ctx, agents, grace)
    outcomes.update(hosts.stop_hosts(ctx, places, lambda host, seen: _end_processes(ctx, host, seen, grace)))
    return [outcomes[word] for word in wanted if word in outcomes]


def _stop_agents(ctx: Context, wanted: list[str], grace: float) -> dict[str, Outcome]:
    """All of a host in one go; by the words that named them first."""
    outcomes: dict[str, Outcome] = {}
    live: dict[int, tuple[Host, list[ObservedAgent]]] = {}
    for name, seen in resolve_unique(ctx, wanted):
        if isinstance(seen, HostStopped):
            outcomes[name] = Outcome(id=store.find_id(ctx.home, name), name=name, extra={"was": "STOPPED"})
            continue
        if isinstance(seen, MngrError):
            outcomes[name] = make_failed_outcome(name, seen)
            continue
        try:
            record = get_record(seen)
        except MngrError as error:
            outcomes[name] = make_failed_outcome(name, error, seen.id)
            continue
        if seen.state.state in LIVE_STATES:
            live.setdefault(id(seen.host), (seen.host, []))[1].append(seen)
        outcomes[name] = Outcome(id=seen.id, name=record.name, extra={"was": seen.state.state})
    ended = map_parallel(lambda one: _end_processes(ctx, *one, grace), live.values())
    for (_, group), problem in zip(live.values(), ended, strict=True):
        if problem is not None:  # its host does not answer any more: others are stopped all the same
            bad = {seen.id: make_failed_outcome(get_record(seen).name, problem, seen.id) for seen in group}
            outcomes = {name: bad.get(one.id or "", one) for name, one in outcomes.items()}
    return outcomes


def _end_processes(ctx: Context, host: Host, group: list[ObservedAgent], grace: float) -> None:
    live = [seen for seen in group if seen.state.state in LIVE_STATES]
    if live:
        end_processes(host, [seen.id for seen in live], grace=grace, reason="")
    for seen in live:
        store.add_event(host, seen.id, "stopped", reason="user")
        ctx.hooks.notify("mngr_stopped", agent=seen.record)
