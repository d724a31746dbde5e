"""`events`: what happened to agents, as mngr, their wrapper and they themselves wrote it down."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import Seen
from mngr.agents.inspect.tail import Tail, Tails, every_second
from mngr.agents.inspect.targets import meant
from mngr.base import clock
from mngr.base import names as naming
from mngr.base.errors import Unreachable, UsageError
from mngr.base.model import Record
from mngr.host import registry
from mngr.host.protocol import Host

SETTLES = 0.2  # seconds of silence after which all that is past has been read
_ZERO = "0000-00-00T00:00:00.000Z"


class Wanted(Record):
    """Which rows to give."""

    since: str = ""  # a stamp
    types: tuple[str, ...] = ()


def read_events(ctx: Context, names: list[str], wanted: Wanted) -> list[dict[str, Any]]:
    """The rows of these agents, of all when none is named, in the order they happened."""
    rows: list[dict[str, Any]] = []
    for host, seen in _agents(ctx, names):
        called = {s.id: _name(s) for s in seen}
        paths = [os.path.join(agent_id, "events.jsonl") for agent_id in called]
        script = 'cd "$0" && LC_ALL=C exec grep "" /dev/null "$@"'  # grep names the file of every row
        found = host.run(["sh", "-c", script, host.home.agents, *paths], timeout=listing.DEADLINE)
        for line in found.out.split(b"\n"):
            path, _, text = line.partition(b":")
            agent_id = path.partition(b"/")[0].decode("ascii", "replace")
            row = _row(text, wanted, called, agent_id)
            if row:
                rows.append(row)
    return _in_order(rows)


def follow_events(ctx: Context, names: list[str], wanted: Wanted) -> Iterator[dict[str, Any]]:
    """The same, and then as they come; agents made later are followed too when none is named."""
    tails = Tails()
    called: dict[str, str] = {}
    try:
        groups = _agents(ctx, names)
        for host, seen in groups:
            _follow(tails, host, seen, called)
        past: list[bytes] = []
        began = time.monotonic()
        while time.monotonic() < began + 1.0 and (lines := tails.wait(SETTLES)):
            past.extend(lines)
        yield from _in_order([row for line in past if (row := _row(line, wanted, called))])
        for lines in every_second(tails):
            yield from (row for line in lines if (row := _row(line, wanted, called)))
            if lines:
                continue
            for host, _ in groups:
                here = _ids(ctx, host)
                if names and not here & set(called):
                    return
                fresh = [] if names else [i for i in here - set(called) if naming.is_id(i)]
                if fresh:
                    _follow(tails, host, listing.look(ctx, host, fresh), called)
    finally:
        tails.close()


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By time, and each agent's as it was written: not every clock that writes them knows parts of a second."""
    latest: dict[object, str] = {}
    keyed: list[tuple[str, int]] = []
    for number, row in enumerate(rows):
        latest[row["agent"]] = max(latest.get(row["agent"], ""), str(row["at"]))
        keyed.append((latest[row["agent"]], number))
    return [rows[number] for _, number in sorted(keyed)]


def _ids(ctx: Context, host: Host) -> set[str]:
    """The agents of a host; none when it was destroyed."""
    try:
        return set(host.run(["ls", host.home.agents], timeout=listing.DEADLINE).text.split())
    except Unreachable:
        if not registry.is_gone(ctx.home, host.provider, host.name):
            raise
        return set()


def parse_since(text: str) -> str:
    """The stamp of a time: `2026-11-15`, `2026-11-15T21:30`, or how long ago: `10m`."""
    if "-" not in text:
        return clock.stamp(time.time() - clock.parse_length(text))
    short = text.strip().replace(" ", "T").removesuffix("Z")
    full = short + _ZERO[len(short) :]
    try:
        exists = (
            clock.stamp(clock.parse_stamp(full))[:19] == full[:19]
        )  # a 30th of February comes back as another day
    except (ValueError, OverflowError):
        exists = False
    if not exists:
        raise UsageError(
            f"{text!r} is not a time",
            "write it in UTC as 2026-11-15 or 2026-11-15T21:30, or how long ago: 10m",
        )
    return full


def _agents(ctx: Context, names: list[str]) -> list[tuple[Host, list[Seen]]]:
    """The agents meant, by host."""
    if not names:
        ctx.home.exists()  # raises when it is not ours
        hosts = [ctx.host(*place) for place in ctx.places()]
        return [(host, listing.look(ctx, host)) for host in hosts]
    found: dict[int, tuple[Host, list[Seen]]] = {}
    for _, seen in meant(ctx, names):
        if isinstance(seen, Exception):
            raise seen
        found.setdefault(id(seen.host), (seen.host, []))[1].append(seen)
    return list(found.values())


def _follow(tails: Tails, host: Host, seen: list[Seen], called: dict[str, str]) -> None:
    if seen:
        called.update((s.id, _name(s)) for s in seen)
        tails.add(Tail(host, [os.path.join(host.home.agent(s.id), "events.jsonl") for s in seen]))


def _name(seen: Seen) -> str:
    return seen.record.name if seen.record else seen.id


def _row(
    line: bytes, wanted: Wanted, called: dict[str, str], agent: str | None = None
) -> dict[str, Any] | None:
    """The row in a line if it is wanted; agents can write anything there, so only what has our shape is one."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if (
        not isinstance(row, dict)
        or not isinstance(row.get("at"), str)
        or not isinstance(row.get("type"), str)
    ):
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
