"""Reads the events of agents. mngr, the launch wrapper and the agents themselves write them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.follow_files import Tail, TailGroup, iter_lines
from mngr.agents.inspect.for_each_agent import resolve_without_repeats
from mngr.agents.inspect.list import ObservedAgent
from mngr.base import names_and_addresses as naming
from mngr.base import time_format
from mngr.base.errors import Unreachable, UsageError
from mngr.base.model import Struct
from mngr.base.untrusted_json import as_object, find_text, get_object, parse_json
from mngr.host import host_store
from mngr.host.protocol import Host

SETTLE_SECONDS = 0.2  # After this time without a new line, all past events have been read.
_MAX_SORTED_BYTES = 64 * 1024 * 1024  # of past events; later ones are not sorted by time
_ZERO_TIMESTAMP = "0000-00-00T00:00:00.000Z"


class AgentEvent(Struct):
    """Something that happened to an agent."""

    v: int = 1
    at: str
    agent: str  # its id
    name: str
    type: str
    source: str
    data: dict[str, object]


class EventFilter(Struct):
    """Selects events by time and type. An empty field selects all events."""

    since: str = ""  # a timestamp
    types: tuple[str, ...] = ()


def read_events(ctx: Context, names: list[str], event_filter: EventFilter) -> list[AgentEvent]:
    """Return the events of the named agents, or of all agents, in the order in which they happened."""
    events: list[AgentEvent] = []
    for host, agents in _group_agents_by_host(ctx, names):
        agent_names = {agent.id: _get_agent_name(agent) for agent in agents}
        paths = [os.path.join(agent_id, "events.jsonl") for agent_id in agent_names]
        script = 'cd "$0" && LC_ALL=C exec grep "" /dev/null "$@"'  # grep prints the file's name before every line.
        result = host.run(["sh", "-c", script, host.home.agents, *paths], timeout=listing.LIST_TIMEOUT)
        for line in result.out.split(b"\n"):
            path, _, text = line.partition(b":")
            agent_id = path.partition(b"/")[0].decode("ascii", "replace")
            event = _parse_event(text, event_filter, agent_names, agent_id)
            if event:
                events.append(event)
    return _sort_events(events)


def follow_events(ctx: Context, names: list[str], event_filter: EventFilter) -> Iterator[AgentEvent]:
    """Yield past events and then new ones as they happen. Without names, also follow agents that are created later."""
    tails = TailGroup(ctx.note)
    agent_names: dict[str, str] = {}
    try:
        groups = _group_agents_by_host(ctx, names)
        for host, agents in groups:
            _follow_agents(tails, host, agents, agent_names)
        past_lines: list[bytes] = []
        started_at, past_bytes = time.monotonic(), 0
        while time.monotonic() < started_at + 1.0 and past_bytes < _MAX_SORTED_BYTES:
            if not (lines := tails.wait(SETTLE_SECONDS)):
                break
            past_lines.extend(lines)
            past_bytes += sum(map(len, lines))
        yield from _sort_events(_parse_events(past_lines, event_filter, agent_names))
        for lines in iter_lines(tails):
            yield from _parse_events(lines, event_filter, agent_names)
            if lines:
                continue
            for host, _ in groups:
                present_ids = _list_agent_ids(ctx, host)
                if names and not present_ids & set(agent_names):
                    return
                new_ids = [] if names else [i for i in present_ids - set(agent_names) if naming.is_agent_id(i)]
                if new_ids:
                    _follow_agents(tails, host, listing.observe_host(ctx, host, new_ids), agent_names)
    finally:
        tails.close()


def _sort_events(events: list[AgentEvent]) -> list[AgentEvent]:
    """Return the events by time, keeping each agent's events in file order. Some writers know only whole seconds."""
    latest_times: dict[str, str] = {}
    sort_keys: list[tuple[str, int]] = []
    for number, event in enumerate(events):
        latest_times[event.agent] = max(latest_times.get(event.agent, ""), event.at)
        sort_keys.append((latest_times[event.agent], number))
    return [events[number] for _, number in sorted(sort_keys)]


def _list_agent_ids(ctx: Context, host: Host) -> set[str]:
    """Return the ids of the agents on a host, or an empty set when the host was destroyed."""
    try:
        return set(host.run(["ls", host.home.agents], timeout=listing.LIST_TIMEOUT).text.split())
    except Unreachable:
        if not host_store.is_removed(ctx.home, host.provider, host.name):
            raise
        return set()


def parse_since(text: str) -> str:
    """Return the timestamp for `2026-11-15`, `2026-11-15T21:30`, or a duration before now such as `10m`."""
    if "-" not in text:
        return time_format.format_timestamp(time.time() - time_format.parse_duration(text))
    stripped = text.strip().replace(" ", "T").removesuffix("Z")
    timestamp = stripped + _ZERO_TIMESTAMP[len(stripped) :]
    try:
        formatted = time_format.format_timestamp(time_format.parse_timestamp(timestamp))
    except (ValueError, OverflowError):
        formatted = ""
    if formatted[:19] != timestamp[:19]:  # A 30th of February is formatted as another day.
        raise UsageError(
            f"{text!r} is not a time",
            "write a time in UTC such as 2026-11-15 or 2026-11-15T21:30, or an age such as 10m",
        )
    return timestamp


def _group_agents_by_host(ctx: Context, names: list[str]) -> list[tuple[Host, list[ObservedAgent]]]:
    """Return each host with its observed agents: the named ones, or all. Raise the error of a name that fails."""
    if not names:
        ctx.home.exists()  # Raises when another program owns the home.
        hosts = [ctx.get_host(*host_key) for host_key in ctx.list_host_keys()]
        return [(host, listing.observe_host(ctx, host)) for host in hosts]
    groups: dict[int, tuple[Host, list[ObservedAgent]]] = {}
    for _, observed in resolve_without_repeats(ctx, names):
        if isinstance(observed, Exception):
            raise observed
        groups.setdefault(id(observed.host), (observed.host, []))[1].append(observed)
    return list(groups.values())


def _follow_agents(tails: TailGroup, host: Host, agents: list[ObservedAgent], agent_names: dict[str, str]) -> None:
    """Add a tail for the event files of these agents, and remember the agents' names."""
    if agents:
        agent_names.update((agent.id, _get_agent_name(agent)) for agent in agents)
        tails.add(Tail(host, [os.path.join(host.home.agent_dir(agent.id), "events.jsonl") for agent in agents]))


def _get_agent_name(observed: ObservedAgent) -> str:
    return observed.record.name if observed.record else observed.id


def _parse_events(lines: list[bytes], event_filter: EventFilter, agent_names: dict[str, str]) -> list[AgentEvent]:
    """Return the events in the lines that the filter selects."""
    parsed = [_parse_event(line, event_filter, agent_names) for line in lines]
    return [event for event in parsed if event is not None]


def _parse_event(
    line: bytes, event_filter: EventFilter, agent_names: dict[str, str], agent_id: str | None = None
) -> AgentEvent | None:
    """Return the event in a line if the filter selects it. Skip other lines, since agents can write anything there."""
    try:
        row = as_object(parse_json(line))
    except ValueError:
        return None
    at, event_type = find_text(row, "at"), find_text(row, "type")
    if at is None or event_type is None:
        return None
    is_type_selected = not event_filter.types or event_type in event_filter.types
    if at < event_filter.since or not is_type_selected:
        return None
    agent_id = agent_id or str(row.get("agent"))
    return AgentEvent(
        at=at,
        agent=agent_id,
        name=agent_names.get(agent_id, agent_id),
        type=event_type,
        source=str(row.get("source")),
        data=get_object(row, "data"),
    )
