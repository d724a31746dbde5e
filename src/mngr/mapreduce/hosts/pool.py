"""The hosts that a provider creates for a run. They are prepared once, shared, billed, and released when idle."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from mngr.agents.archive.prepared_host import snapshot_prepared_host
from mngr.agents.context import Context
from mngr.agents.create.spec import AgentSpec
from mngr.agents.inspect.trash import TrashedAgent
from mngr.agents.remove_hosts import remove_incomplete_hosts
from mngr.api import Fleet
from mngr.base import time_format
from mngr.base.errors import EngineBusy, MngrError, UsageError
from mngr.base.model import AgentView
from mngr.mapreduce.hosts.assign_hosts import HostSlots, PooledHost
from mngr.mapreduce.hosts.reachability import HostReachability
from mngr.mapreduce.journal.host_rows import (
    HostStartedRow,
    HostStoppedRow,
    NewHostRow,
    ReleasedRow,
    ReleaseFailedRow,
    ReleaseRow,
)
from mngr.mapreduce.journal.journal_file import JournaledState
from mngr.mapreduce.journal.run_rows import AlertRow, PreparedRow, PrepareRow, UnpreparedRow
from mngr.mapreduce.journal.run_state import JournalRow, RunState, TaskState
from mngr.mapreduce.recipe import AgentOptions
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.worker_threads import JobKind, WorkerThreads

_MIN_HOSTS_TO_PREPARE = 3  # number of hosts from which a prepared snapshot saves time
_MAX_RELEASE_ATTEMPTS = 3  # attempts to release a host
_RETRY_DELAY = 5.0  # seconds before the second attempt, twice as many before the third
_STATES_ON_HOST = ("launching", "working", "talking", "parked")


def find_host_provider(ctx: Context, on: str) -> str | None:
    """Return the provider that creates a host for each such address, or None when it creates none."""
    name = on.removeprefix("@.") if on.startswith("@.") else None
    return name if name and ctx.get_provider(name).can_create_hosts else None


def find_hourly_rate(ctx: Context, provider: str) -> float | None:
    """Return what a host of the provider costs per hour in US dollars, or None when the settings do not say."""
    value = ctx.load_project_settings(None).get_table(f"providers.{provider}").get("cost_per_hour")
    try:
        rate = None if value is None else float(value)
    except (TypeError, ValueError):
        rate = -1.0
    if rate is not None and not 0.0 <= rate < float("inf"):
        raise UsageError(
            f"[providers.{provider}] cost_per_hour: {value!r} is not an amount of US dollars",
            f"correct it: mngr config set --user providers.{provider}.cost_per_hour 0.12",
        )
    return rate


def list_saved_agents(fleet: Fleet, run: RunDir, on: str) -> dict[str, TrashedAgent]:
    """Return the agents of a run whose hosts were released, by name. They can be restored on a new host."""
    if find_host_provider(fleet.context, on) is None:
        return {}
    readable = [trashed for trashed in fleet.list_trash() if trashed.problem is None]
    return {
        trashed.name: trashed
        for trashed in readable
        if trashed.saved.record is not None and trashed.saved.record.labels.get("run") == run.name
    }


class HostPool:
    """Decides which host an agent gets and which hosts are released. Worker threads do the slow part."""

    def __init__(
        self,
        fleet: Fleet,
        run: RunDir,
        state: JournaledState,
        options: AgentOptions,
        source: str,
        workers: WorkerThreads,
        reachability: HostReachability,
    ) -> None:
        self._fleet = fleet
        self._run = run
        self._state = state
        self._write = state.write
        self._options = options
        self._source = source  # the repository that prepared hosts get a copy of
        self._workers = workers
        self._reachability = reachability
        ctx = fleet.context
        self.provider = find_host_provider(ctx, options.on)
        self._slots = HostSlots(options.agents_per_host)
        self._releasing: set[str] = set()  # hosts that are being released
        self._release_retry_at: dict[str, float] = {}  # host -> when to try again to release it
        self._release_attempts: dict[str, int] = {}
        self._preparing_since: str | None = None
        self._can_prepare = False
        if self.provider is not None:
            host_provider: Any = ctx.get_provider(self.provider)
            # A busy provider must fail at once: the governor waits, and other agents can start meanwhile. Slurm and Ray
            # have a queue, in which each host waits for its place.
            host_provider.waits = False
            self._hourly_rate = find_hourly_rate(ctx, self.provider)
            self._can_prepare = host_provider.can_snapshot_hosts and options.transfer == "mirror"

    # Assigning

    def count_placeable(self, wanted: int) -> int:
        """Return how many of the wanted new agents can get a host now."""
        return wanted if self.provider is None else self._slots.count_placeable(wanted, self._reachability.unreachable)

    def assign_host(self, slug: str) -> PooledHost | None:
        """Return the host for a task's agent, or None where the run creates no hosts."""
        if self.provider is None:
            return None
        pooled_host = self._slots.assign_host(slug, self._reachability.unreachable)
        snapshot = self._state.current.snapshot
        if pooled_host.name is None and snapshot is not None:
            pooled_host.build_options = {"snapshot": snapshot}
        return pooled_host

    def mark_unreachable(self, slug: str) -> str | None:
        """Mark the task's host as unreachable, so that no new agent goes there.

        Return its name, or None without a host.
        """
        host = self._slots.find_host(slug)
        if host is not None:
            self._reachability.unreachable.add(host)
        return host

    def get_failure_source(self, task: TaskState) -> str:
        """Return who failed when a host does not answer: the host, so that all its agents count once, or the task."""
        return task.task.slug if self.provider is None or task.host is None else task.host

    def record_arrival(self, task: TaskState, agent: AgentView) -> None:
        """Record that a task's agent is on its host, and journal the host if it is new."""
        if self.provider is None or agent.provider != self.provider:
            return
        hosts = self._state.current.hosts
        pooled_host = self._slots.record_arrival(task.task.slug, agent.host)
        is_run_host = pooled_host.creation_began_at is not None or task.task.existing_agent is None
        if agent.host not in hosts and is_run_host:
            since = pooled_host.creation_began_at or agent.created_at
            self._write(
                NewHostRow(host=agent.host, provider=self.provider, since=since, rate=self._hourly_rate), sync=False
            )
        self.record_wake(agent.host)

    def record_wake(self, host: str | None) -> None:
        """Record that a stopped host runs again because one of its agents continues."""
        run_host = self._state.current.hosts.get(host or "")
        if host is not None and run_host is not None and run_host.state == "stopped":
            self._write(HostStartedRow(host=host), sync=False)

    def restore_hosts(self) -> None:
        """Load the hosts of an interrupted run from its state."""
        state = self._state.current
        if self.provider is None:
            return
        for problem in remove_incomplete_hosts(self._fleet.context, self.provider):
            self._write(AlertRow(text=problem))
        slugs_by_host: dict[str, list[str]] = {}
        for task in _list_tasks_on_hosts(state):
            if task.agent_id and task.host is not None:
                slugs_by_host.setdefault(task.host, []).append(task.task.slug)
        for name, run_host in state.hosts.items():
            if run_host.state in ("running", "stopped"):
                self._slots.add_host(name, slugs_by_host.get(name, []))
        for name in [name for name, run_host in state.hosts.items() if run_host.state == "leaving"]:
            self._release_host(name)
        snapshot = state.pending_snapshot
        if snapshot is not None and os.path.isdir(os.path.join(self._fleet.context.home.snapshots, snapshot)):
            self._write(PreparedRow(snapshot=snapshot))

    # Preparing

    @property
    def is_preparing(self) -> bool:
        """True while the snapshot is being made. No host is created meanwhile."""
        return self._preparing_since is not None

    def needs_snapshot(self, waiting: int) -> bool:
        """True when a snapshot saves time, because the waiting agents need several hosts."""
        state = self._state.current
        if not self._can_prepare or self.is_preparing or state.snapshot is not None:
            return False
        new_hosts = -(-waiting // max(1, self._options.agents_per_host))
        return len(state.hosts) + new_hosts >= _MIN_HOSTS_TO_PREPARE

    def prepare_snapshot(self, base: str | None) -> None:
        """Prepare one host in a worker thread and save it as the snapshot for all others."""
        name = f"{self._options.name_prefix}-{self._run.name}-first"
        spec = AgentSpec(
            address=f"{name}{self._options.on}",
            source=self._source,
            transfer="mirror",
            branch=None if base is None else f"{base}:mngr/{name}",
            env=self._options.env,
            labels={"run": self._run.name},
        )
        snapshot = f"{self._options.name_prefix}-{self._run.name}-{os.urandom(2).hex()}"
        self._preparing_since = time_format.format_timestamp()
        self._write(PrepareRow(snapshot=snapshot, provider=self.provider))
        self._workers.submit(
            JobKind.PREPARE, snapshot, lambda: snapshot_prepared_host(self._fleet.context, spec, snapshot)
        )

    def handle_prepared(self, snapshot: str, result: str | MngrError) -> None:
        """Journal the snapshot. Without it, each host is prepared by itself. A busy provider is asked again."""
        since, self._preparing_since = self._preparing_since, None
        if isinstance(result, EngineBusy):
            return
        first, until = f"{snapshot}-first", time_format.format_timestamp()  # a name that no other host can have
        self._write(
            NewHostRow(host=first, provider=self.provider or "", since=since, until=until, rate=self._hourly_rate)
        )
        if isinstance(result, MngrError):
            self._can_prepare = False
            self._write(PreparedRow(snapshot=None, error=result.message))
            self._write(
                AlertRow(text=f"mngr could not prepare a snapshot, so it sets up each host by itself: {result.message}")
            )
        else:
            self._write(PreparedRow(snapshot=snapshot))

    # Releasing

    def release_idle_hosts(self, *, releases_all: bool) -> None:
        """Release the hosts without agents. Without `releases_all`, keep those that queued tasks can still use."""
        if self.provider is None:
            return
        self._slots.retain_tasks({task.task.slug for task in _list_tasks_on_hosts(self._state.current)})
        if self._options.keep_hosts:
            return
        wanted = 0 if releases_all else self._state.current.tasks.count_in_state("queued")
        for host in self._slots.take_idle_hosts(wanted, self._reachability.unreachable):
            if host in self._state.current.hosts:
                self._release_host(host)
        now = time.monotonic()
        for host in [host for host, retry_at in self._release_retry_at.items() if retry_at <= now]:
            del self._release_retry_at[host]
            self._release_host(host)

    def _release_host(self, host: str) -> None:
        """Release a host in a worker thread."""
        provider, label = self._state.current.hosts[host].provider, ("run", self._run.name)
        self._write(ReleaseRow(host=host))
        self._releasing.add(host)
        self._workers.submit(
            JobKind.RELEASE, host, lambda: self._fleet.trash_agents_and_destroy_host(provider, host, label), host
        )

    def handle_released(self, host: str, result: list[str] | MngrError) -> None:
        """Journal a released host. After a failure try again later, and finally leave the host to `tmr clean`."""
        self._releasing.discard(host)
        if not isinstance(result, MngrError):
            self._write(ReleasedRow(host=host, agents=result))
            return
        self._write(ReleaseFailedRow(host=host, error=result.message))
        self._release_attempts[host] = self._release_attempts.get(host, 0) + 1
        if self._release_attempts[host] < _MAX_RELEASE_ATTEMPTS:
            self._release_retry_at[host] = time.monotonic() + _RETRY_DELAY * 2.0 ** (self._release_attempts[host] - 1)
        else:
            self._write(
                AlertRow(
                    text=f"mngr could not release the host {host}: {result.message}; try again: mngr tmr clean {self._run.name}"
                )
            )

    def has_releases(self) -> bool:
        """True while a host is being released or waits for another attempt."""
        return bool(self._releasing or self._release_retry_at)

    def close(self, outcome: str) -> None:
        """End the run.

        When all tasks are settled, delete the snapshot; otherwise stop the hosts so that they can continue.
        """
        state = self._state.current
        if self.provider is None:
            return
        if outcome == "settled" and state.snapshot is not None:
            delete_snapshot(self._fleet, state.snapshot, self._write)
        if outcome != "settled" and self._fleet.context.get_provider(self.provider).can_stop_hosts:
            for name, run_host in list(state.hosts.items()):
                if run_host.state == "running":
                    self._stop_host(name)

    def _stop_host(self, host: str) -> None:
        """Stop a host and keep its files."""
        outcome = self._fleet.stop([f"@{host}.{self.provider}"])[0]
        if outcome.ok:
            self._write(HostStoppedRow(host=host))
        else:
            self._write(AlertRow(text=f"mngr could not stop the host {host}: {outcome.error}"))


def delete_snapshot(fleet: Fleet, name: str, write: Callable[[JournalRow], object]) -> str | None:
    """Delete the snapshot of a run. Return the error, or None when the snapshot is gone."""
    names = [snapshot.name for snapshot in fleet.list_snapshots()]
    outcome = fleet.destroy_snapshots([name])[0] if name in names else None
    if outcome is None or outcome.ok:
        write(UnpreparedRow(snapshot=name))
        return None
    return outcome.error or "mngr could not delete it"


def _list_tasks_on_hosts(state: RunState) -> list[TaskState]:
    """Return the tasks that still need their agent, and so its host. Collected work needs none."""
    tasks = state.list_in_state(*_STATES_ON_HOST, "pulling")
    return [task for task in tasks if task.state != "pulling" or not task.is_stopped]
