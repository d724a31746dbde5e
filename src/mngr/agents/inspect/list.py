"""`list`: one program per host, in parallel, and a state with its reason for every agent."""

from __future__ import annotations

import json
import os
import time

from mngr.base import clock, names
from mngr.base.errors import HostGone, HostStopped, MngrError
from mngr.base.fanout import map_parallel
from mngr.base.model import AgentRecord, AgentState, AgentView, Evidence, Struct
from mngr.host import registry, scripts, store, tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.agents.context import Context
    from mngr.host.protocol import Host

LIST_TIMEOUT = 20.0


class ObservedAgent(Struct):
    """An agent as a host showed it: its record, the evidence, and the state that follows."""

    host: Host
    id: str
    record: AgentRecord | None  # None when damaged
    damage: str | None = None
    evidence: Evidence
    state: AgentState


class Listing(Struct):
    """All agents, and the hosts that did not answer."""

    agents: list[AgentView]
    errors: list[dict[str, str]] = []
    notes: list[str] = []


def list_agents(ctx: Context) -> Listing:
    """Every agent on every host; a host that does not answer is an error row, not a failure."""
    if not ctx.home.exists() and not ctx.hooks.plugins:
        return Listing(agents=[])
    shown = [_list_host_agents(ctx, *row) for row in observe_all_hosts(ctx)]
    agents = sorted((a for one in shown for a in one.agents), key=lambda a: (a.created_at or "", a.name))
    ctx.hooks.notify("mngr_listed", agents=agents)
    errors = [error for one in shown for error in one.errors]
    return Listing(agents=agents, errors=errors, notes=[note for one in shown for note in one.notes])


def _list_host_agents(ctx: Context, provider: str, host: str, answer: list[ObservedAgent] | MngrError) -> Listing:
    """What there is to show of one host."""
    try:
        if isinstance(answer, HostStopped):
            return Listing(agents=[make_view(seen, "STOPPED") for seen in list_last_observed(ctx, answer)])
        if isinstance(answer, HostGone):
            where = f"@{host}.{provider}"
            note = f"{answer.message}; make it anew with what was kept: mngr start {where}; forget it: mngr destroy {where}"
            return Listing(agents=[make_view(seen, "GONE") for seen in list_last_observed(ctx, answer)], notes=[note])
        if isinstance(answer, MngrError):
            agents = [make_view(seen, "UNKNOWN") for seen in _list_unknown(ctx, provider, host)]
            return Listing(agents=agents, errors=[_make_error_row(provider, host, answer)])
        notes = []
        if any(_is_watcher_missing(seen) for seen in answer):
            notes = [f"{host}: limits are not being watched; mngr limit NAME sets the watcher up again"]
        return Listing(agents=[make_view(seen) for seen in answer], notes=notes)
    except Exception as error:
        return Listing(agents=[], errors=[_make_error_row(provider, host, _make_bug_error(error))])


def _make_error_row(provider: str, host: str, error: MngrError) -> dict[str, str]:
    return {"provider": provider, "host": host, "error": error.message}


def _make_bug_error(error: Exception) -> MngrError:
    """What we say where we are not up to what a host said: it must not take the others with it."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" ({os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno})" if at else ""
    return MngrError(f"this is a bug in mngr: {type(error).__name__}: {error}{where}", "please report it")


def observe_all_hosts(
    ctx: Context, places: list[tuple[str, str]] | None = None
) -> list[tuple[str, str, list[ObservedAgent] | MngrError]]:
    """(provider, host, what it shows or why it does not answer) of every host or of some, asked in parallel."""
    places = ctx.list_host_keys() if places is None else places
    answers = map_parallel(lambda place: observe_host(ctx, ctx.get_host(*place)), places, at_once=32)
    found: list[tuple[str, str, list[ObservedAgent] | MngrError]] = []
    for (provider, host), answer in zip(places, answers, strict=True):
        if isinstance(answer, Exception) and not isinstance(answer, MngrError):
            answer = _make_bug_error(answer)
        found.append((provider, host, answer))
    return found


def observe_host(ctx: Context, host: Host, ids: list[str] | None = None) -> list[ObservedAgent]:
    """What a host shows of all its agents, or of some."""
    seen = _observe_once(ctx, host, ids)
    lost = [s.id for s in seen if s.state.reason == "lost"]
    if lost:  # its pane may have come, or its exit record, between our two readings: look again
        again = {s.id: s for s in _observe_once(ctx, host, lost)}
        seen = [again.get(s.id, s) for s in seen]
    return _add_screens(ctx, host, seen)


def _add_screens(ctx: Context, host: Host, seen: list[ObservedAgent]) -> list[ObservedAgent]:
    """The same; where a kind cannot tell without the agent's screen, with that: one more call for all of them."""
    asked: dict[str, str] = {}
    for s in seen:
        wants = None if s.record is None or s.evidence.pane is None else _find_screen_check(ctx, s.record)
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
    result = host.run(["tmux", "-u", "-S", host.tmux_socket, *words[1:]], timeout=LIST_TIMEOUT)
    screens: dict[str, list[str]] = {}
    for line in result.out.decode("utf-8", "replace").split("\n"):
        word, _, rest = line.partition(" ")
        if word == "mngr-screen" and rest in asked and rest not in screens:
            current = screens.setdefault(rest, [])
        elif screens:
            current.append(line)
    found: list[ObservedAgent] = []
    for s in seen:
        if s.id in screens and s.record is not None:
            evidence = s.evidence.replace(screen="\n".join(screens[s.id]))
            s = s.replace(evidence=evidence, state=ctx.get_agent_kind(s.record).state(s.record, evidence))
        found.append(s)
    return found


def _find_screen_check(ctx: Context, record: AgentRecord) -> Callable[[Evidence, AgentState], bool] | None:
    """How its kind decides whether it needs the screen; None for one that never does."""
    try:
        return getattr(ctx.get_agent_kind(record), "wants_screen", None)
    except MngrError:
        return None


def _observe_once(ctx: Context, host: Host, ids: list[str] | None) -> list[ObservedAgent]:
    argv = [
        "sh",
        "-c",
        scripts.read_program("list.sh"),
        "list.sh",
        host.home.root,
        host.tmux_socket,
        *(ids or []),
    ]
    asked = time.time()
    result = host.run(argv, timeout=LIST_TIMEOUT)
    if not host.is_local and ids is None:
        registry.save_last_listing(ctx.home, host.provider, host.name, result.out, asked)
    return _parse_answer(ctx, host, result.out, ids, time.time())


def list_last_observed(ctx: Context, error: HostStopped | HostGone) -> list[ObservedAgent]:
    """The agents of a host that is stopped or gone, and so are they; those that had ended are as they were."""
    found, at = _load_remembered(ctx, error.provider, error.host)
    state = AgentState(state="FAILED", reason="host gone", source="cache", since=clock.format_timestamp(at))
    if isinstance(error, HostStopped):
        reason = "host stopped" + (f": {error.why}" if error.why else "")
        state = state.replace(state="STOPPED", reason=reason)
    ended = ("DONE", "FAILED", "STOPPED")
    return [s if s.state.state in ended and s.state.reason != "lost" else s.replace(state=state) for s in found]


def _list_unknown(ctx: Context, provider: str, name: str) -> list[ObservedAgent]:
    """The agents of a host that does not answer: nobody knows how they are now."""
    found, at = _load_remembered(ctx, provider, name)
    reason = f"its host does not answer; last seen {clock.format_age(time.time() - at)} ago"
    state = AgentState(state="UNKNOWN", reason=reason, source="cache", since=clock.format_timestamp(at))
    return [seen.replace(state=state) for seen in found]


def _load_remembered(ctx: Context, provider: str, name: str) -> tuple[list[ObservedAgent], float]:
    """The agents of a host as it last showed them, and when that was."""
    out, at = registry.find_last_listing(ctx.home, provider, name) or (b"", 0.0)
    found = [seen for seen in _parse_answer(ctx, _RememberedHost(name, provider), out, None, at) if seen.record]
    return [s for s in found if not os.path.isdir(os.path.join(ctx.home.trash, s.id))], at


def remember_agent(ctx: Context, host: Host, record: AgentRecord) -> None:
    """An agent that was just made, in the last answer of its host: that may stop before it is asked again."""
    if not host.is_local:
        row = f"dir {record.id}\n{record.id}/agent.json:".encode() + store.encode_record(record)
        registry.append_last_listing(ctx.home, host.provider, host.name, row)


class _RememberedHost:
    """A host that is only remembered."""

    def __init__(self, name: str, provider: str) -> None:
        self.name = name
        self.provider = provider


def _parse_answer(ctx: Context, host: Any, out: bytes, ids: list[str] | None, now: float) -> list[ObservedAgent]:
    order: list[str] = []
    panes: dict[str, dict[str, str]] = {}
    files: dict[str, dict[str, list[str]]] = {}
    watcher, answers, told = False, True, None
    for line in out.decode("utf-8", "replace").split("\n"):
        word, _, rest = line.partition(" ")
        if word == "dir":
            order.append(rest)
        elif word == "clock":
            told = _parse_seconds(rest)
        elif line == "stranger":
            answers = False
        elif line == "again":
            files.clear()
        elif word == "pane":
            part = rest.split(" ", 9)
            if len(part) != 10 or not _is_valid_pane(*part[3:9]):
                continue
            if part[2] == tmux.WATCHER_SESSION:
                watcher = part[5] == "0"
            elif part[1] == "agent" and part[0]:
                keys = ("session", "pane", "pid", "dead", "activity", "attached", "created", "title")
                panes[part[0]] = dict(zip(keys, part[2:], strict=True))
        elif "/" in word:
            path, _, text = line.partition(":")
            agent_id, _, name = path.partition("/")
            files.setdefault(agent_id, {}).setdefault(name, []).append(text)
    heard = Evidence(now=now, has_watcher=watcher, is_tmux_running=answers, host_time=told)
    return [
        _observe_from_files(ctx, host, agent_id, files.get(agent_id, {}), panes.get(agent_id), heard)
        for agent_id in order
        if names.is_agent_id(agent_id) and (ids is None or agent_id in files)
    ]


def _observe_from_files(
    ctx: Context,
    host: Host,
    agent_id: str,
    files: dict[str, list[str]],
    pane: dict[str, str] | None,
    heard: Evidence,
) -> ObservedAgent:
    proc = files.get("proc", [""])[0].strip()
    evidence = heard.replace(
        pane=pane,
        exit=_parse_row(files.get("exit")),
        stopped=_parse_row(files.get("stopped")),
        hook_status=_parse_row(files.get("status")),
        program_status=_find_program_status(files),
        pid=int(proc) if names.is_number(proc) else None,
    )
    try:
        if "agent.json" not in files:
            raise ValueError("it is missing or empty")
        record = store.decode_record("\n".join(files["agent.json"]))
        if record.id != agent_id:
            raise ValueError(f"it is of another agent, {record.id}")
    except ValueError as error:
        state = AgentState(state="UNKNOWN", reason=f"damaged record: {error}", source="record")
        return ObservedAgent(host=host, id=agent_id, record=None, damage=str(error), evidence=evidence, state=state)
    if record.phase != "ready":
        evidence = evidence.replace(is_owner_alive=store.is_owner_alive(record.owner, record.provider != "local"))
    try:
        state = ctx.get_agent_kind(record).state(record, evidence)
    except MngrError as error:
        state = AgentState(state="UNKNOWN", reason=error.message, source="record")
    return ObservedAgent(host=host, id=agent_id, record=record, evidence=evidence, state=state)


def _is_valid_pane(pane: str, *numbers: str) -> bool:
    """Whether tmux can have said that: its server is the agents' to change."""
    return pane.startswith("%") and all(map(names.is_number, (pane[1:], *numbers)))


def _parse_seconds(text: str) -> float | None:
    """Seconds as `date +%s.%N` tells them; some know only whole ones."""
    whole, _, rest = text.partition(".")
    part = rest.strip("N%") or "0"
    return float(f"{whole}.{part}") if names.is_number(whole) and names.is_number(part) else None


def _find_program_status(files: dict[str, list[str]]) -> dict[str, Any] | None:
    """What its program says in a file of its own; the newest where an earlier one left its behind."""
    rows = [row for name in files if name.startswith("witness/") and (row := _parse_row(files[name]))]
    return max(rows, key=lambda row: str(row.get("updatedAt", "")), default=None)


def make_view(seen: ObservedAgent, host_state: str = "RUNNING") -> AgentView:
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
        state_since=max(state.since, record.created_at) if state.since else None,  # some clocks know only seconds
        parked_until=state.parked_until,
        host=seen.host.name,  # as we call it; another client may have another name for it
        provider=seen.host.provider,
        host_state=host_state,
        project=record.project,
        work_dir=record.work_dir,
        branch=record.branch,
        base=record.base,
        created_at=record.created_at,
        activity_at=_compute_activity_at(record, evidence, state),
        labels=record.labels,
        pid=evidence.pid if state.state in ("STARTING", "RUNNING", "WAITING", "PARKED") else None,
        exit_code=(evidence.exit or {}).get("code") if state.state in ("DONE", "FAILED") else None,
    )


def observe_started(host: Host, record: AgentRecord) -> ObservedAgent:
    """An agent whose process was just seen to run; saves a second look."""
    pid = int(host.read(os.path.join(host.home.agent_dir(record.id), "proc")))
    state = AgentState(state="RUNNING", source="process", since=record.created_at)
    return ObservedAgent(host=host, id=record.id, record=record, evidence=Evidence(now=0.0, pid=pid), state=state)


def list_hosts(ctx: Context) -> list[dict[str, Any]]:
    """Every host, whether it answers, and how many agents it has."""
    rows: list[dict[str, Any]] = []
    for provider, host, answer in observe_all_hosts(ctx):
        row: dict[str, Any] = {
            "host": host,
            "provider": provider,
            "state": "RUNNING",
            "agents": None,
            "ends_at": _find_end_time(ctx, provider, host),
            "error": None,
        }
        try:
            row.update(_get_host_state(ctx, answer))
        except Exception as error:
            row.update(state="UNKNOWN", error=_make_bug_error(error).message)
        rows.append(row)
    return rows


def _get_host_state(ctx: Context, answer: list[ObservedAgent] | MngrError) -> dict[str, Any]:
    if isinstance(answer, HostStopped):
        return {"state": "STOPPED", "agents": len(list_last_observed(ctx, answer)), "error": answer.why}
    if isinstance(answer, HostGone):
        return {"state": "GONE", "agents": len(list_last_observed(ctx, answer)), "error": answer.message}
    if isinstance(answer, MngrError):
        return {"state": "UNKNOWN", "error": answer.message}
    return {"agents": len(answer)}


def _find_end_time(ctx: Context, provider: str, host: str) -> str | None:
    """When an engine ends a host by itself, which may start again; None when it does not."""
    known = (registry.find_facts(ctx.home, provider, host) or {}).get("engine")
    return known.get("ends_at") if isinstance(known, dict) else None


def _compute_activity_at(record: AgentRecord, evidence: Evidence, state: AgentState) -> str | None:
    if evidence.pane is not None:
        seen = clock.format_timestamp(float(evidence.pane["activity"]))
        return max(seen, state.since or "", record.created_at)  # tmux counts whole seconds
    return state.since or record.created_at


def _is_watcher_missing(seen: ObservedAgent) -> bool:
    record = seen.record
    limited = record is not None and (record.idle_timeout is not None or record.lifetime is not None)
    return (
        limited and not seen.evidence.has_watcher and seen.state.state in ("STARTING", "RUNNING", "WAITING", "PARKED")
    )


def _parse_row(lines: list[str] | None) -> dict[str, Any] | None:
    if not lines:
        return None
    try:
        row = json.loads(lines[0])
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
