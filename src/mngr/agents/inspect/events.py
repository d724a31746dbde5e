"""`events`: what happened to agents, as mngr, their wrapper and they themselves wrote it down."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.inspect.tail import Tail, TailGroup, iter_lines
from mngr.agents.inspect.targets import resolve_unique
from mngr.base import clock
from mngr.base import names as naming
from mngr.base.errors import Unreachable, UsageError
from mngr.base.model import Struct
from mngr.host import registry
from mngr.host.protocol import Host

SETTLE_SECONDS = 0.2  # seconds of silence after which all that is past has been read
_ZERO_TIMESTAMP = "0000-00-00T00:00:00.000Z"


class EventFilter(Struct):
    """Which rows to give."""

    since: str = ""  # a stamp
    types: tuple[str, ...] = ()


def read_events(ctx: Context, names: list[str], wanted: EventFilter) -> list[dict[str, Any]]:
    """The rows of these agents, of all when none is named, in the order they happened."""
    rows: list[dict[str, Any]] = []
    for host, seen in _group_agents_by_host(ctx, names):
        called = {s.id: _get_agent_name(s) for s in seen}
        paths = [os.path.join(agent_id, "events.jsonl") for agent_id in called]
        script = 'cd "$0" && LC_ALL=C exec grep "" /dev/null "$@"'  # grep names the file of every row
        found = host.run(["sh", "-c", script, host.home.agents, *paths], timeout=listing.LIST_TIMEOUT)
        for line in found.out.split(b"\n"):
            path, _, text = line.partition(b":")
            agent_id = path.partition(b"/")[0].decode("ascii", "replace")
            row = _parse_row(text, wanted, called, agent_id)
            if row:
                rows.append(row)
    return _sort_rows(rows)


def follow_events(ctx: Context, names: list[str], wanted: EventFilter) -> Iterator[dict[str, Any]]:
    """The same, and then as they come; agents made later are followed too when none is named."""
    tails = TailGroup()
    called: dict[str, str] = {}
    try:
        groups = _group_agents_by_host(ctx, names)
        for host, seen in groups:
            _follow_agents(tails, host, seen, called)
        past: list[bytes] = []
        began = time.monotonic()
        while time.monotonic() < began + 1.0 and (lines := tails.wait(SETTLE_SECONDS)):
            past.extend(lines)
        yield from _sort_rows([row for line in past if (row := _parse_row(line, wanted, called))])
        for lines in iter_lines(tails):
            yield from (row for line in lines if (row := _parse_row(line, wanted, called)))
            if lines:
                continue
            for host, _ in groups:
                here = _list_agent_ids(ctx, host)
                if names and not here & set(called):
                    return
                fresh = [] if names else [i for i in here - set(called) if naming.is_agent_id(i)]
                if fresh:
                    _follow_agents(tails, host, listing.observe_host(ctx, host, fresh), called)
    finally:
        tails.close()


def _sort_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By time, and each agent's as it was written: not every clock that writes them knows parts of a second."""
    latest: dict[object, str] = {}
    keyed: list[tuple[str, int]] = []
    for number, row in enumerate(rows):
        latest[row["agent"]] = max(latest.get(row["agent"], ""), str(row["at"]))
        keyed.append((latest[row["agent"]], number))
    return [rows[number] for _, number in sorted(keyed)]


def _list_agent_ids(ctx: Context, host: Host) -> set[str]:
    """The agents of a host; none when it was destroyed."""
    try:
        return set(host.run(["ls", host.home.agents], timeout=listing.LIST_TIMEOUT).text.split())
    except Unreachable:
        if not registry.is_removed(ctx.home, host.provider, host.name):
            raise
        return set()


def parse_since(text: str) -> str:
    """The stamp of a time: `2026-11-15`, `2026-11-15T21:30`, or how long ago: `10m`."""
    if "-" not in text:
        return clock.format_timestamp(time.time() - clock.parse_duration(text))
    short = text.strip().replace(" ", "T").removesuffix("Z")
    full = short + _ZERO_TIMESTAMP[len(short) :]
    try:
        exists = (
            clock.format_timestamp(clock.parse_timestamp(full))[:19] == full[:19]
        )  # a 30th of February comes back as another day
    except (ValueError, OverflowError):
        exists = False
    if not exists:
        raise UsageError(
            f"{text!r} is not a time",
            "write it in UTC as 2026-11-15 or 2026-11-15T21:30, or how long ago: 10m",
        )
    return full


def _group_agents_by_host(ctx: Context, names: list[str]) -> list[tuple[Host, list[ObservedAgent]]]:
    """The agents meant, by host."""
    if not names:
        ctx.home.exists()  # raises when it is not ours
        hosts = [ctx.get_host(*place) for place in ctx.list_host_keys()]
        return [(host, listing.observe_host(ctx, host)) for host in hosts]
    found: dict[int, tuple[Host, list[ObservedAgent]]] = {}
    for _, seen in resolve_unique(ctx, names):
        if isinstance(seen, Exception):
            raise seen
        found.setdefault(id(seen.host), (seen.host, []))[1].append(seen)
    return list(found.values())


def _follow_agents(tails: TailGroup, host: Host, seen: list[ObservedAgent], called: dict[str, str]) -> None:
    if seen:
        called.update((s.id, _get_agent_name(s)) for s in seen)
        tails.add(Tail(host, [os.path.join(host.home.agent_dir(s.id), "events.jsonl") for s in seen]))


def _get_agent_name(seen: ObservedAgent) -> str:
    return seen.record.name if seen.record else seen.id


def _parse_row(
    line: bytes, wanted: EventFilter, called: dict[str, str], agent: str | None = None
) -> dict[str, Any] | None:
    """The row in a line if it is wanted; agents can write anything there, so only what has our shape is one."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("at"), str) or not isinstance(row.get("type"), str):
        return None
    if row["at"] < wanted.since or (wanted.types and row["type"] not in wanted.types):
        return None
    agent = agent or str(row.get("agent"))
    data = row.get("data")
    return {
        "v": 1,
        "at": row["at"],
        "agent": agent,
        "name": called.get(agent, agent),
        "type": row["type"],
        "source": str(row.get("source")),
        "data": data if isinstance(data, dict) else {},
    }
