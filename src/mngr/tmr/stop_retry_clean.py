"""Stops a run, retries its tasks and cleans it up."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from mngr.api import Fleet
from mngr.base.errors import MngrError, NotFound, suggest_closest
from mngr.base.model import AgentView, Outcome, Struct
from mngr.mapreduce.hosts.pool import delete_snapshot, find_host_provider
from mngr.mapreduce.journal.host_rows import HostStoppedRow, ReleasedRow
from mngr.mapreduce.journal.journal_file import Journal, find_writer, read_journal
from mngr.mapreduce.journal.journal_rows import AgainRow
from mngr.mapreduce.journal.replay import replay_rows
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.run_plan import load_plan

_STOP_TIMEOUT = 10.0  # seconds that the run's process has to end
_LIVE_STATES = ("STARTING", "RUNNING", "WAITING", "PARKED")
RETRYABLE_OUTCOMES = ("blocked", "failed", "refuted", "flaky", "unverified")


class CleanResult(Struct):
    """What `tmr clean` removed, or would remove."""

    agents: list[str]
    hosts: list[str] = []  # hosts that a provider created for the run and that still existed
    bytes: int  # size of the run's folder, which stays
    problems: list[str] = []


def list_agents(fleet: Fleet, run: RunDir) -> list[AgentView]:
    """Return all agents of a run, including its clean rooms."""
    return [agent for agent in fleet.list().agents if agent.labels.get("run") == run.name]


def stop_run(fleet: Fleet, run: RunDir, *, destroy: bool = False) -> list[Outcome]:
    """End the process of a run, then stop or destroy its agents. Return an outcome for each agent."""
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
    """Return the existing journals: the run's own and that of its integration's questions."""
    paths = (run.journal, os.path.join(run.path, "integrate", "journal.jsonl"))
    return [path for path in paths if os.path.exists(path)]


def _stop_hosts(fleet: Fleet, path: str) -> None:
    """Stop the hosts of a run where the provider can do that, so that they cost nothing meanwhile."""
    with Journal(path) as journal:
        for name, run_host in replay_rows(journal.rows).hosts.items():
            can_stop = run_host.state == "running" and fleet.context.get_provider(run_host.provider).can_stop_hosts
            if can_stop and fleet.stop([f"@{name}.{run_host.provider}"])[0].ok:
                journal.write(HostStoppedRow(host=name))


def _release_hosts(fleet: Fleet, run: RunDir, path: str) -> tuple[list[str], list[str]]:
    """Release the remaining hosts of a run and delete its snapshot. Return the released hosts and the problems."""
    hosts, problems = [], []
    with Journal(path) as journal:
        state = replay_rows(journal.rows)
        for name, run_host in state.hosts.items():
            if run_host.state == "gone":
                continue
            try:
                agents = fleet.trash_agents_and_destroy_host(run_host.provider, name, ("run", run.name))
                journal.write(ReleasedRow(host=name, agents=agents))
                hosts.append(name)
            except MngrError as failure:
                problems.append(f"{name}: {failure.message}")
        if state.snapshot is not None and (error := delete_snapshot(fleet, state.snapshot, journal.write)):
            problems.append(f"cannot delete the snapshot {state.snapshot}: {error}")
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
    """Queue settled tasks again: those given by slug or test, or all with such an outcome. Return their slugs."""
    with Journal(run.journal) as journal:
        state = replay_rows(journal.rows)
        slug_by_name = {slug: slug for slug in state.tasks} | {
            task_state.task.title: slug for slug, task_state in state.tasks.items()
        }
        slugs = []
        for task in tasks:
            if task not in slug_by_name:
                raise NotFound(
                    f"the run {run.name} has no task {task!r}",
                    suggest_closest(task, list(slug_by_name)) or f"list the tasks: mngr tmr status {run.name}",
                )
            slugs.append(slug_by_name[task])
        for slug in slugs:
            if state.tasks[slug].state != "settled":
                raise MngrError(
                    f"the task {slug} is not finished yet: it is {state.tasks[slug].state}",
                    f"continue the run: mngr tmr resume {run.name}",
                )
        if not tasks:
            slugs = [
                task_state.task.slug for task_state in state.list_in_state("settled") if task_state.outcome in outcomes
            ]
        # Another program may not understand the first one's arguments.
        agent_args = list(args) if agent or args else None
        for slug in slugs:
            journal.write(AgainRow(slug=slug, hint=hint, agent_kind=agent, agent_args=agent_args))
    return slugs


def clean_run(fleet: Fleet, run: RunDir, *, dry_run: bool = False) -> CleanResult:
    """Move the agents of a run to the trash and release its hosts. The run's folder stays."""
    writer = find_writer(run.journal)
    if writer is not None:
        raise MngrError(
            f"the run {run.name} is still running, in process {writer}", f"stop it first: mngr tmr stop {run.name}"
        )
    agents = list_agents(fleet, run)
    names = [agent.name for agent in agents]
    size = sum(_measure_size(os.path.join(top, name)) for top, _, files in os.walk(run.path) for name in files)
    clean_rooms = [agent.name for agent in agents if agent.labels.get("role") == "clean-room"]
    room_hosts = _map_leftover_hosts_to_addresses(fleet, run)
    if dry_run:
        host_tables = [replay_rows(read_journal(path)).hosts for path in list_journals(run)]
        hosts = [name for table in host_tables for name, host in table.items() if host.state != "gone"]
        return CleanResult(agents=names, hosts=[*hosts, *room_hosts], bytes=size)
    outcomes = fleet.discard_clean_rooms(clean_rooms) + fleet.destroy(
        [name for name in names if name not in clean_rooms], force=True
    )
    outcomes += fleet.destroy(list(room_hosts.values()), force=True)
    problems = [f"{outcome.name}: {outcome.error}" for outcome in outcomes if not outcome.ok]
    hosts = list(room_hosts)
    for path in list_journals(run):
        released, release_problems = _release_hosts(fleet, run, path)
        hosts += released
        problems += release_problems
    return CleanResult(agents=names, hosts=hosts, bytes=size, problems=problems)


def _map_leftover_hosts_to_addresses(fleet: Fleet, run: RunDir) -> dict[str, str]:
    """Return the hosts, with their addresses, of clean rooms that a killed process left behind."""
    try:
        provider = find_host_provider(fleet.context, load_plan(run).test_on)
    except MngrError:  # a run of `mngr map`
        return {}
    if provider is None:
        return {}
    hosts = [host for host in fleet.context.get_provider(provider).list() if host.startswith(f"tmr-{run.name}-")]
    return {host: f"@{host}.{provider}" for host in sorted(hosts)}


def _measure_size(path: str) -> int:
    """Return the size of a file, or 0 when it is gone."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
