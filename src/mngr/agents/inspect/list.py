"""`list`: one program per host, in parallel, and a state with its reason for every agent."""

from __future__ import annotations

import json
import os
import time

from mngr.base import clock, names
from mngr.base.errors import HostGone, HostStopped, MngrError
from mngr.base.fanout import fanout
from mngr.base.model import AgentRecord, AgentView, Evidence, Record, State
from mngr.host import registry, scripts, store, tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.agents.context import Context
    from mngr.host.protocol import Host

DEADLINE = 20.0


class Seen(Record):
    """An agent as a host showed it: its record, the evidence, and the state that follows."""

    host: Host
    id: str
    record: AgentRecord | None  # None when damaged
    damage: str | None = None
    evidence: Evidence
    state: State


class Listing(Record):
    """All agents, and the hosts that did not answer."""

    agents: list[AgentView]
    errors: list[dict[str, str]] = []
    notes: list[str] = []


def list_agents(ctx: Context) -> Listing:
    """Every agent on every host; a host that does not answer is an error row, not a failure."""
    if not ctx.home.exists() and not ctx.hooks.plugins:
        return Listing(agents=[])
    shown = [_show(ctx, *row) for row in look_everywhere(ctx)]
    agents = sorted((a for one in shown for a in one.agents), key=lambda a: (a.created_at or "", a.name))
    ctx.hooks.tell("mngr_listed", agents=agents)
    errors = [error for one in shown for error in one.errors]
    return Listing(agents=agents, errors=errors, notes=[note for one in shown for note in one.notes])


def _show(ctx: Context, provider: str, host: str, answer: list[Seen] | MngrError) -> Listing:
    """What there is to show of one host."""
    try:
        if isinstance(answer, HostStopped):
            return Listing(agents=[view(seen, "STOPPED") for seen in last_seen(ctx, answer)])
        if isinstance(answer, HostGone):
            where = f"@{host}.{provider}"
            note = f"{answer.message}; make it anew with what was kept: mngr start {where}; forget it: mngr destroy {where}"
            return Listing(agents=[view(seen, "GONE") for seen in last_seen(ctx, answer)], notes=[note])
        if isinstance(answer, MngrError):
            agents = [view(seen, "UNKNOWN") for seen in _unknown(ctx, provider, host)]
            return Listing(agents=agents, errors=[_error(provider, host, answer)])
        notes = []
        if any(_misses_watcher(seen) for seen in answer):
            notes = [f"{host}: limits are not being watched; mngr limit NAME sets the watcher up again"]
        return Listing(agents=[view(seen) for seen in answer], notes=notes)
    except Exception as error:
        return Listing(agents=[], errors=[_error(provider, host, _stumbled(error))])


def _error(provider: str, host: str, error: MngrError) -> dict[str, str]:
    return {"provider": provider, "host": host, "error": error.message}


def _stumbled(error: Exception) -> MngrError:
    """What we say where we are not up to what a host said: it must not take the others with it."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" ({os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno})" if at else ""
    return MngrError(f"this is a bug in mngr: {type(error).__name__}: {error}{where}", "please report it")


def look_everywhere(
    ctx: Context, places: list[tuple[str, str]] | None = None
) -> list[tuple[str, str, list[Seen] | MngrError]]:
    """(provider, host, what it shows or why it does not answer) of every host or of some, asked in parallel."""
    places = ctx.places() if places is None else places
    answers = fanout(lambda place: look(ctx, ctx.host(*place)), places, at_once=32)
    found: list[tuple[str, str, list[Seen] | MngrError]] = []
    for (provider, host), answer in zip(places, answers, strict=True):
        if isinstance(answer, Exception) and not isinstance(answer, MngrError):
            answer = _stumbled(answer)
        found.append((provider, host, answer))
    return found


def look(ctx: Context, host: Host, ids: list[str] | None = None) -> list[Seen]:
    """What a host shows of all its agents, or of some."""
    seen = _look_once(ctx, host, ids)
    lost = [s.id for s in seen if s.state.reason == "lost"]
    if lost:  # its pane may have come, or its exit record, between our two readings: look again
        again = {s.id: s for s in _look_once(ctx, host, lost)}
        seen = [again.get(s.id, s) for s in seen]
    return _with_screens(ctx, host, seen)


def _with_screens(ctx: Context, host: Host, seen: list[Seen]) -> list[Seen]:
    """The same; where a kind cannot tell without the agent's screen, with that: one more call for all of them."""
    asked: dict[str, str] = {}
    for s in seen:
        wants = None if s.record is None or s.evidence.pane is None else _wants_screen(ctx, s.record)
        if wants is not None and wants(s.evidence, s.state):
            asked[s.id] = str((s.evidence.pane or {})["pane"])
    if not asked:
        return seen
    words: list[str] = []
    for agent_id, pane in asked.items():
        words += [
            ";",
            "display-message",
            "-p",
            f"mngr-screen {agent_id}",
            ";",
            "capture-pane",
            "-p",
            "-t",
            pane,
        ]
    result = host.run(["tmux", "-u", "-S", host.socket, *words[1:]], timeout=DEADLINE)
    screens: dict[str, list[str]] = {}
    for line in result.out.decode("utf-8", "replace").split("\n"):
        word, _, rest = line.partition(" ")
        if word == "mngr-screen" and rest in asked and rest not in screens:
            current = screens.setdefault(rest, [])
        elif screens:
            current.append(line)
    found: list[Seen] = []
    for s in seen:
        if s.id in screens and s.record is not None:
            evidence = s.evidence.replace(screen="\n".join(screens[s.id]))
            s = s.replace(evidence=evidence, state=ctx.kind_of(s.record).state(s.record, evidence))
        found.append(s)
    return found


def _wants_screen(ctx: Context, record: AgentRecord) -> Callable[[Evidence, State], bool] | None:
    """How its kind decides whether it needs the screen; None for one that never does."""
    try:
        return getattr(ctx.kind_of(record), "wants_screen", None)
    except MngrError:
        return None


def _look_once(ctx: Context, host: Host, ids: list[str] | None) -> list[Seen]:
    argv = ["sh", "-c", scripts.program("list.sh"), "list.sh", host.home.root, host.socket, *(ids or [])]
    asked = time.time()
    result = host.run(argv, timeout=DEADLINE)
    if not host.is_here and ids is None:
        registry.save_seen(ctx.home, host.provider, host.name, result.out, asked)
    return _parse(ctx, host, result.out, ids, time.time())


def last_seen(ctx: Context, error: HostStopped | HostGone) -> list[Seen]:
    """The agents of a host that is stopped or gone, and so are they; those that had ended are as they were."""
    found, at = _remembered(ctx, error.provider, error.host)
    state = State(state="FAILED", reason="host gone", source="cache", since=clock.stamp(at))
    if isinstance(error, HostStopped):
        reason = "host stopped" + (f": {error.why}" if error.why else "")
        state = state.replace(state="STOPPED", reason=reason)
    ended = ("DONE", "FAILED", "STOPPED")
    return [
        s if s.state.state in ended and s.state.reason != "lost" else s.replace(state=state) for s in found
    ]


def _unknown(ctx: Context, provider: str, name: str) -> list[Seen]:
    """The agents of a host that does not answer: nobody knows how they are now."""
    found, at = _remembered(ctx, provider, name)
    reason = f"its host does not answer; last seen {clock.age(time.time() - at)} ago"
    state = State(state="UNKNOWN", reason=reason, source="cache", since=clock.stamp(at))
    return [seen.replace(state=state) for seen in found]


def _remembered(ctx: Context, provider: str, name: str) -> tuple[list[Seen], float]:
    """The agents of a host as it last showed them, and when that was."""
    out, at = registry.load_seen(ctx.home, provider, name) or (b"", 0.0)
    found = [seen for seen in _parse(ctx, _Silent(name, provider), out, None, at) if seen.record]
    return [s for s in found if not os.path.isdir(os.path.join(ctx.home.graveyard, s.id))], at


def remember(ctx: Context, host: Host, record: AgentRecord) -> None:
    """An agent that was just made, in the last answer of its host: that may stop before it is asked again."""
    if not host.is_here:
        row = f"dir {record.id}\n{record.id}/agent.json:".encode() + store.encode(record)
        registry.add_seen(ctx.home, host.provider, host.name, row)


class _Silent:
    """A host that is only remembered."""

    def __init__(self, name: str, provider: str) -> None:
        self.name = name
        self.provider = provider


def _parse(ctx: Context, host: Any, out: bytes, ids: list[str] | None, now: float) -> list[Seen]:
    order: list[str] = []
    panes: dict[str, dict[str, str]] = {}
    files: dict[str, dict[str, list[str]]] = {}
    watcher, answers, told = False, True, None
    for line in out.decode("utf-8", "replace").split("\n"):
        word, _, rest = line.partition(" ")
        if word == "dir":
            order.append(rest)
        elif word == "clock":
            told = _seconds(rest)
        elif line == "stranger":
            answers = False
        elif line == "again":
            files.clear()
        elif word == "pane":
            part = rest.split(" ", 9)
            if len(part) != 10 or not _is_pane(*part[3:9]):
                continue
            if part[2] == tmux.WATCHER:
                watcher = part[5] == "0"
            elif part[1] == "agent" and part[0]:
                keys = ("session", "pane", "pid", "dead", "activity", "attached", "created", "title")
                panes[part[0]] = dict(zip(keys, part[2:], strict=True))
        elif "/" in word:
            path, _, text = line.partition(":")
            agent_id, _, name = path.partition("/")
            files.setdefault(agent_id, {}).setdefault(name, []).append(text)
    heard = Evidence(now=now, watcher=watcher, tmux_answers=answers, clock=told)
    return [
        _understand(ctx, host, agent_id, files.get(agent_id, {}), panes.get(agent_id), heard)
        for agent_id in order
        if names.is_id(agent_id) and (ids is None or agent_id in files)
    ]


def _understand(
    ctx: Context,
    host: Host,
    agent_id: str,
    files: dict[str, list[str]],
    pane: dict[str, str] | None,
    heard: Evidence,
) -> Seen:
    proc = files.get("proc", [""])[0].strip()
    evidence = heard.replace(
        pane=pane,
        exit=_row(files.get("exit")),
        stopped=_row(files.get("stopped")),
        status=_row(files.get("status")),
        witness=_witness(files),
        pid=int(proc) if names.is_number(proc) else None,
    )
    try:
        if "agent.json" not in files:
            raise ValueError("it is missing or empty")
        record = store.decode("\n".join(files["agent.json"]))
        if record.id != agent_id:
            raise ValueError(f"it is of another agent, {record.id}")
    except ValueError as error:
        state = State(state="UNKNOWN", reason=f"damaged record: {error}", source="record")
        return Seen(host=host, id=agent_id, record=None, damage=str(error), evidence=evidence, state=state)
    if record.phase != "ready":
        evidence = evidence.replace(owner_alive=store.is_alive(record.owner, record.provider != "local"))
    try:
        state = ctx.kind_of(record).state(record, evidence)
    except MngrError as error:
        state = State(state="UNKNOWN", reason=error.message, source="record")
    return Seen(host=host, id=agent_id, record=record, evidence=evidence, state=state)


def _is_pane(pane: str, *numbers: str) -> bool:
    """Whether tmux can have said that: its server is the agents' to change."""
    return pane.startswith("%") and all(map(names.is_number, (pane[1:], *numbers)))


def _seconds(text: str) -> float | None:
    """Seconds as `date +%s.%N` tells them; some know only whole ones."""
    whole, _, rest = text.partition(".")
    part = rest.strip("N%") or "0"
    return float(f"{whole}.{part}") if names.is_number(whole) and names.is_number(part) else None


def _witness(files: dict[str, list[str]]) -> dict[str, Any] | None:
    """What its program says in a file of its own; the newest where an earlier one left its behind."""
    rows = [row for name in files if name.startswith("witness/") and (row := _row(files[name]))]
    return max(rows, key=lambda row: str(row.get("updatedAt", "")), default=None)


def view(seen: Seen, host_state: str = "RUNNING") -> AgentView:
    """What the outside sees."""
    record, evidence, state = seen.record, seen.evidence, seen.state
    if record is None:
        return AgentView(
            id=seen.id, name=seen.id, kind="?", state=state.state, state_reason=state.reason,
            state_source=state.source, host=seen.host.name, provider=seen.host.provider, host_state=host_state,
            project="?", work_dir="?",
        )  # fmt: skip
    return AgentView(
        id=record.id,
        name=record.name,
        kind=record.kind,
        state=state.state,
        state_reason=state.reason,
        state_source=state.source,
        state_since=max(state.since, record.created_at)
        if state.since
        else None,  # some clocks know only seconds
        parked_until=state.parked_until,
        host=seen.host.name,  # as we call it; another client may have another name for it
        provider=seen.host.provider,
        host_state=host_state,
        project=record.project,
        work_dir=record.work_dir,
        branch=record.branch,
        base=record.base,
        created_at=record.created_at,
        activity_at=_activity(record, evidence, state),
        labels=record.labels,
        pid=evidence.pid if state.state in ("STARTING", "RUNNING", "WAITING", "PARKED") else None,
        exit_code=(evidence.exit or {}).get("code") if state.state in ("DONE", "FAILED") else None,
    )


def see_started(host: Host, record: AgentRecord) -> Seen:
    """An agent whose process was just seen to run; saves a second look."""
    pid = int(host.read(os.path.join(host.home.agent(record.id), "proc")))
    state = State(state="RUNNING", source="process", since=record.created_at)
    return Seen(host=host, id=record.id, record=record, evidence=Evidence(now=0.0, pid=pid), state=state)


def list_hosts(ctx: Context) -> list[dict[str, Any]]:
    """Every host, whether it answers, and how many agents it has."""
    rows: list[dict[str, Any]] = []
    for provider, host, answer in look_everywhere(ctx):
        row: dict[str, Any] = {
            "host": host,
            "provider": provider,
            "state": "RUNNING",
            "agents": None,
            "ends_at": _ends_at(ctx, provider, host),
            "error": None,
        }
        try:
            row.update(_host_state(ctx, answer))
        except Exception as error:
            row.update(state="UNKNOWN", error=_stumbled(error).message)
        rows.append(row)
    return rows


def _host_state(ctx: Context, answer: list[Seen] | MngrError) -> dict[str, Any]:
    if isinstance(answer, HostStopped):
        return {"state": "STOPPED", "agents": len(last_seen(ctx, answer)), "error": answer.why}
    if isinstance(answer, HostGone):
        return {"state": "GONE", "agents": len(last_seen(ctx, answer)), "error": answer.message}
    if isinstance(answer, MngrError):
        return {"state": "UNKNOWN", "error": answer.message}
    return {"agents": len(answer)}


def _ends_at(ctx: Context, provider: str, host: str) -> str | None:
    """When an engine ends a host by itself, which may start again; None when it does not."""
    known = (registry.load(ctx.home, provider, host) or {}).get("engine")
    return known.get("ends_at") if isinstance(known, dict) else None


def _activity(record: AgentRecord, evidence: Evidence, state: State) -> str | None:
    if evidence.pane is not None:
        seen = clock.stamp(float(evidence.pane["activity"]))
        return max(seen, state.since or "", record.created_at)  # tmux counts whole seconds
    return state.since or record.created_at


def _misses_watcher(seen: Seen) -> bool:
    record = seen.record
    limited = record is not None and (record.idle_timeout is not None or record.lifetime is not None)
    return (
        limited
        and not seen.evidence.watcher
        and seen.state.state in ("STARTING", "RUNNING", "WAITING", "PARKED")
    )


def _row(lines: list[str] | None) -> dict[str, Any] | None:
    if not lines:
        return None
    try:
        row = json.loads(lines[0])
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
