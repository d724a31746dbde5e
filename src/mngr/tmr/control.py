"""What can be done to a run from outside: stop it, try again, clean it up."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from mngr.api import Fleet
from mngr.base.errors import MngrError, NotFound, suggest_closest
from mngr.base.model import AgentView, Outcome, Struct
from mngr.mapreduce.hosts.pool import delete_snapshot
from mngr.mapreduce.journal import Journal, find_writer, read_journal
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import replay_rows
from mngr.tmr.plan import load_plan

_STOP_TIMEOUT = 10.0  # seconds for an orchestrator to end
_LIVE_STATES = ("STARTING", "RUNNING", "WAITING", "PARKED")
RETRYABLE_OUTCOMES = ("blocked", "failed", "refuted", "flaky", "unverified")


class CleanResult(Struct):
    """What a run had beside its folder."""

    agents: list[str]
    hosts: list[str] = []  # that a provider made for it, and that were still there
    bytes: int  # of its folder, which stays
    problems: list[str] = []


def list_agents(fleet: Fleet, run: RunDir) -> list[AgentView]:
    """Every agent of a run, rooms too."""
    return [agent for agent in fleet.list().agents if agent.labels.get("run") == run.name]


def stop_run(fleet: Fleet, run: RunDir, *, destroy: bool = False) -> list[Outcome]:
    """End the process that runs it, then all its agents; an outcome each."""
    writer = find_writer(run.journal)
    if writer:
        os.kill(writer, signal.SIGINT)
        deadline = time.monotonic() + _STOP_TIMEOUT
        while find_writer(run.journal) == writer:
            if time.monotonic() > deadline:
                os.kill(writer, signal.SIGKILL)
                break
            time.sleep(0.05)
    agents = list_agents(fleet, run)
    if destroy:
        return fleet.destroy([agent.name for agent in agents], force=True)
    outcomes = fleet.stop([agent.name for agent in agents if agent.state in _LIVE_STATES])
    for journal in list_journals(run):
        _stop_hosts(fleet, journal)
    return outcomes


def list_journals(run: RunDir) -> list[str]:
    """That of the run, and that of the questions of its integration."""
    found = (run.journal, os.path.join(run.path, "integrate", "journal.jsonl"))
    return [path for path in found if os.path.exists(path)]


def _stop_hosts(fleet: Fleet, path: str) -> None:
    """Stop the hosts of a run where that can be done, so that they cost nothing until it goes on."""
    with Journal(path) as journal:
        for name, rented in replay_rows(journal.rows).hosts.items():
            can = rented.state == "running" and fleet.context.get_provider(rented.provider).can_stop_hosts
            if can and fleet.stop([f"@{name}.{rented.provider}"])[0].ok:
                journal.write("rested", host=name)


def _release_hosts(fleet: Fleet, run: RunDir, path: str) -> tuple[list[str], list[str]]:
    """Take away what hosts a run still has, and what they were made from; the hosts, and what went wrong."""
    hosts, problems = [], []
    with Journal(path) as journal:
        state = replay_rows(journal.rows)
        for name, rented in state.hosts.items():
            if rented.state == "gone":
                continue
            try:
                agents = fleet.release_host(rented.provider, name, ("run", run.name))
                journal.write("released", host=name, agents=agents)
                hosts.append(name)
            except MngrError as error:
                problems.append(f"{name}: {error.message}")
        if state.snapshot is not None and (why := delete_snapshot(fleet, state.snapshot, journal.write)):
            problems.append(f"the snapshot {state.snapshot}: {why}")
    return hosts, problems


def retry_tasks(
    run: RunDir,
    tasks: list[str],
    *,
    outcomes: tuple[str, ...] = RETRYABLE_OUTCOMES,
    hint: str = "",
    agent: str | None = None,
    args: Sequence[str] = (),
) -> list[str]:
    """Put settled tasks back: those named by slug or test, or all with such an outcome; their slugs."""
    with Journal(run.journal) as journal:
        state = replay_rows(journal.rows)
        known = {slug: slug for slug in state.tasks} | {one.task.title: slug for slug, one in state.tasks.items()}
        slugs = []
        for task in tasks:
            if task not in known:
                raise NotFound(
                    f"the run {run.name} has no task {task!r}",
                    suggest_closest(task, list(known)) or "see: mngr tmr status",
                )
            slugs.append(known[task])
        for slug in slugs:
            if state.tasks[slug].state != "settled":
                raise MngrError(
                    f"{slug} is not settled yet: it is {state.tasks[slug].state}",
                    f"go on: mngr tmr resume {run.name}",
                )
        if not tasks:
            slugs = [one.task.slug for one in state.list_in_state("settled") if one.outcome in outcomes]
        data: dict[str, Any] = {key: value for key, value in (("hint", hint), ("agent", agent)) if value}
        if agent or args:  # what one program understands, another need not
            data["args"] = list(args)
        for slug in slugs:
            journal.write("again", slug=slug, data=data)
    return slugs


def clean_run(fleet: Fleet, run: RunDir, *, dry_run: bool = False) -> CleanResult:
    """Put the agents of a run in the graveyard; its folder stays."""
    writer = find_writer(run.journal)
    if writer is not None:
        raise MngrError(f"the run {run.name} goes on in process {writer}", f"stop it first: mngr tmr stop {run.name}")
    agents = list_agents(fleet, run)
    names = [agent.name for agent in agents]
    size = sum(_measure_size(os.path.join(top, name)) for top, _, files in os.walk(run.path) for name in files)
    rooms = [agent.name for agent in agents if agent.labels.get("role") == "room"]
    judges = _list_clean_room_hosts(run, [agent for agent in agents if agent.name in rooms])
    if dry_run:
        rented = [replay_rows(read_journal(path)).hosts for path in list_journals(run)]
        hosts = [name for table in rented for name, host in table.items() if host.state != "gone"]
        return CleanResult(agents=names, hosts=[*hosts, *judges], bytes=size)
    outcomes = fleet.discard_clean_rooms(rooms) + fleet.destroy(
        [name for name in names if name not in rooms], force=True
    )
    outcomes += fleet.destroy(list(judges.values()), force=True)
    problems = [f"{outcome.name}: {outcome.error}" for outcome in outcomes if not outcome.ok]
    hosts = list(judges)
    for path in list_journals(run):
        gone, wrong = _release_hosts(fleet, run, path)
        hosts += gone
        problems += wrong
    return CleanResult(agents=names, hosts=hosts, bytes=size, problems=problems)


def _list_clean_room_hosts(run: RunDir, rooms: Sequence[AgentView]) -> dict[str, str]:
    """The hosts that were made for rooms that a killed process left, and their addresses."""
    on = load_plan(run).verify_on if rooms else ""
    made = [room.host for room in rooms if on.startswith("@.") and room.provider == on[2:]]
    return {host: f"@{host}{on[1:]}" for host in sorted(set(made))}


def _measure_size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
