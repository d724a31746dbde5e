"""The hosts that a provider makes for a run: prepared once for all, shared, paid for, and given back as soon as nobody needs them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from mngr.agents.archive.prepared_host import snapshot_prepared_host
from mngr.agents.context import Context
from mngr.agents.create.request import CreateRequest
from mngr.agents.hosts.removal import remove_incomplete_hosts
from mngr.agents.inspect.trash import TrashedAgent
from mngr.api import Fleet
from mngr.base import clock
from mngr.base.errors import EngineBusy, MngrError, UsageError
from mngr.base.model import AgentView
from mngr.mapreduce.hosts.reachability import HostReachability
from mngr.mapreduce.hosts.slots import HostSlots, PooledHost
from mngr.mapreduce.recipe import AgentOptions
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, TaskState
from mngr.mapreduce.worker_threads import WorkerThreads

_MIN_HOSTS_TO_PREPARE = 3  # hosts, from which on it pays to prepare one for all
_MAX_RELEASE_ATTEMPTS = 3  # of giving a host back
_RETRY_DELAY = 5.0  # seconds before the second, twice as many before the third
_STATES_ON_HOST = ("launching", "working", "talking", "parked")


def find_host_provider(ctx: Context, on: str) -> str | None:
    """The provider that makes a host for each address like this; None where there is none to make."""
    name = on.removeprefix("@.") if on.startswith("@.") else None
    return name if name and ctx.get_provider(name).can_create_hosts else None


def find_hourly_rate(ctx: Context, provider: str) -> float | None:
    """US dollars an hour that one of its hosts costs, by your own settings; None when they do not say."""
    value = ctx.load_project_settings(None).get_table(f"providers.{provider}").get("cost_per_hour")
    try:
        rate = None if value is None else float(value)
    except (TypeError, ValueError):
        rate = -1.0
    if rate is not None and not 0.0 <= rate < float("inf"):
        raise UsageError(f"[providers.{provider}] cost_per_hour: {value!r} is no amount of money", "for example: 0.12")
    return rate


def list_saved_agents(fleet: Fleet, run: RunDir, on: str) -> dict[str, TrashedAgent]:
    """The agents of a run whose hosts were given back, by name; they can be brought back where a host can be made for them."""
    if find_host_provider(fleet.context, on) is None:
        return {}
    found = [grave for grave in fleet.list_trash() if grave.problem is None]
    return {
        grave.name: grave
        for grave in found
        if ((grave.meta.get("record") or {}).get("labels") or {}).get("run") == run.name
    }


class HostPool:
    """Decides, in the engine's one thread, where agents go and which hosts go; what takes time is done by the crew."""

    def __init__(
        self, fleet: Fleet, run: RunDir, wish: AgentOptions, source: str, crew: WorkerThreads, reach: HostReachability, state: Callable[[], RunState],
        write: Callable[..., None],
    ) -> None:  # fmt: skip
        self._fleet, self._run, self._options, self._source, self._reachability = (
            fleet,
            run,
            wish,
            source,
            reach,
        )
        self._workers, self._state, self._write = crew, state, write
        ctx = fleet.context
        self.provider = find_host_provider(ctx, wish.on)
        self._slots = HostSlots(wish.per_host)
        self._releasing: set[str] = set()  # hosts that are being given back
        self._release_retry_at: dict[str, float] = {}  # hosts that could not be given back: when to try again
        self._release_attempts: dict[str, int] = {}
        self._preparing_since: str | None = None
        self._can_prepare = False
        if self.provider is not None:
            makes: Any = ctx.get_provider(self.provider)
            makes.waits = False  # the governor has the patience: others may be launched meanwhile
            self._hourly_rate = find_hourly_rate(ctx, self.provider)
            self._can_prepare = makes.can_snapshot_hosts and wish.transfer == "mirror"

    # Places

    def count_placeable(self, wanted: int) -> int:
        """How many of so many new agents can go somewhere now."""
        return wanted if self.provider is None else self._slots.count_placeable(wanted, self._reachability.unreachable)

    def assign_host(self, slug: str) -> PooledHost | None:
        """Where the agent of a task goes; None where no hosts are made."""
        if self.provider is None:
            return None
        mooring = self._slots.assign_host(slug, self._reachability.unreachable)
        snapshot = self._state().snapshot
        if mooring.name is None and snapshot is not None:
            mooring.build_options = {"snapshot": snapshot}
        return mooring

    def mark_unreachable(self, slug: str) -> str | None:
        """The host that a task was to be on and that does not answer: no more go there until it does. None where none is made."""
        host = self._slots.find_host(slug)
        if host is not None:
            self._reachability.unreachable.add(host)
        return host

    def get_failure_source(self, one: TaskState) -> str:
        """Who is to blame when its host does not answer: one of many hosts is no more than one, whoever is on it."""
        return one.task.slug if self.provider is None or one.host is None else one.host

    def record_arrival(self, one: TaskState, agent: AgentView) -> None:
        """The agent of a task is there; a host that is new is written down."""
        if self.provider is None or agent.provider != self.provider:
            return
        hosts = self._state().hosts
        mooring = self._slots.record_arrival(one.task.slug, agent.host)
        is_ours = mooring.creation_began_at is not None or "who" not in one.task.data
        if agent.host not in hosts and is_ours:
            since = mooring.creation_began_at or agent.created_at
            self._write(
                "host",
                host=agent.host,
                provider=self.provider,
                since=since,
                rate=self._hourly_rate,
                sync=False,
            )
        self.record_wake(agent.host)

    def record_wake(self, host: str | None) -> None:
        """An agent on a host goes on, so that one runs again."""
        rented = self._state().hosts.get(host or "")
        if rented is not None and rented.state == "resting":
            self._write("woken", host=host, sync=False)

    def restore_hosts(self) -> None:
        """Know the hosts again that were there before a crash."""
        state = self._state()
        if self.provider is None:
            return
        for problem in remove_incomplete_hosts(self._fleet.context, self.provider):
            self._write("alert", text=problem)
        for name, rented in state.hosts.items():
            if rented.state in ("running", "resting"):
                slugs = [
                    s for s, one in state.tasks.items() if one.host == name and one.agent_id and _is_agent_needed(one)
                ]
                self._slots.add_host(name, slugs)
        for name in [name for name, rented in state.hosts.items() if rented.state == "leaving"]:
            self._release_host(name)
        kept = state.pending_snapshot
        if kept is not None and os.path.isdir(os.path.join(self._fleet.context.home.snapshots, kept)):
            self._write("prepared", snapshot=kept)

    # Preparing

    def can_add_hosts(self, waiting: int, base: str | None) -> bool:
        """Whether hosts can be made now: with so many agents to come one may be prepared for all of them first."""
        state = self._state()
        if not self._can_prepare or state.snapshot is not None:
            return True
        if self._preparing_since is None:
            new = -(-waiting // max(1, self._options.per_host))
            if len(state.hosts) + new < _MIN_HOSTS_TO_PREPARE:
                return True
            self._prepare_snapshot(base)
        return False

    def _prepare_snapshot(self, base: str | None) -> None:
        name = f"{self._options.prefix}-{self._run.name}-first"
        request = CreateRequest(
            address=f"{name}{self._options.on}", source=self._source, transfer="mirror", labels={"run": self._run.name},
            branch=None if base is None else f"{base}:mngr/{name}", env=[f"{k}={v}" for k, v in self._options.env.items()],
        )  # fmt: skip
        snapshot = f"{self._options.prefix}-{self._run.name}-{os.urandom(2).hex()}"
        self._preparing_since = clock.format_timestamp()
        self._write("prepare", snapshot=snapshot, provider=self.provider)
        self._workers.submit(
            "prepare", snapshot, lambda: snapshot_prepared_host(self._fleet.context, request, snapshot)
        )

    def handle_prepared(self, snapshot: str, result: str | MngrError) -> None:
        """Others start from it; where it could not be had, each is prepared on its own. While it is Busy it is tried again."""
        since, self._preparing_since = self._preparing_since, None
        if isinstance(result, EngineBusy):
            return
        first, until = f"{snapshot}-first", clock.format_timestamp()  # of no name that anybody else needs
        self._write("host", host=first, provider=self.provider, since=since, until=until, rate=self._hourly_rate)
        if isinstance(result, MngrError):
            self._can_prepare = False
            self._write("prepared", snapshot=None, error=result.message)
            self._write("alert", text=f"no host could be prepared for all, so each is on its own: {result.message}")
        else:
            self._write("prepared", snapshot=snapshot)

    # Giving back

    def release_idle_hosts(self, wanted: int) -> None:
        """Give back the hosts that nobody is on, but for those that so many more agents can use."""
        if self.provider is None:
            return
        self._slots.retain_tasks({slug for slug, one in self._state().tasks.items() if _is_agent_needed(one)})
        if self._options.keep_hosts:
            return
        for host in self._slots.take_idle_hosts(wanted, self._reachability.unreachable):
            if host in self._state().hosts:
                self._release_host(host)
        now = time.monotonic()
        for host in [host for host, at in self._release_retry_at.items() if at <= now]:
            del self._release_retry_at[host]
            self._release_host(host)

    def _release_host(self, host: str) -> None:
        provider, label = self._state().hosts[host].provider, ("run", self._run.name)
        self._write("release", host=host)
        self._releasing.add(host)
        self._workers.submit("release", host, lambda: self._fleet.release_host(provider, host, label), host)

    def handle_released(self, host: str, result: list[str] | MngrError) -> None:
        """It is gone, or will be tried again, and then is left for `tmr clean`."""
        self._releasing.discard(host)
        if not isinstance(result, MngrError):
            self._write("released", host=host, agents=result)
            return
        self._write("release_failed", host=host, error=result.message)
        self._release_attempts[host] = self._release_attempts.get(host, 0) + 1
        if self._release_attempts[host] < _MAX_RELEASE_ATTEMPTS:
            self._release_retry_at[host] = time.monotonic() + _RETRY_DELAY * 2.0 ** (self._release_attempts[host] - 1)
        else:
            self._write("alert", text=f"{host} could not be given back: {result.message}")

    def has_no_releases(self) -> bool:
        """Whether nothing is being given back."""
        return not self._releasing and not self._release_retry_at

    def close(self, how: str) -> None:
        """The run ends: what nobody needs any more goes; where agents are to go on another day, their hosts rest."""
        state = self._state()
        if self.provider is None:
            return
        if how == "settled" and state.snapshot is not None:
            delete_snapshot(self._fleet, state.snapshot, self._write)
        if how != "settled" and self._fleet.context.get_provider(self.provider).can_stop_hosts:
            for name, rented in list(state.hosts.items()):
                if rented.state == "running":
                    self._stop_host(name)

    def _stop_host(self, host: str) -> None:
        outcome = self._fleet.stop([f"@{host}.{self.provider}"])[0]
        if outcome.ok:
            self._write("rested", host=host)
        else:
            self._write("alert", text=f"{host} could not be stopped: {outcome.error}")


def delete_snapshot(fleet: Fleet, name: str, write: Callable[..., object]) -> str | None:
    """Take away what hosts of a run were made from; why not, None when it is gone."""
    known = [snapshot.name for snapshot in fleet.list_snapshots()]
    outcome = fleet.destroy_snapshots([name])[0] if name in known else None
    if outcome is None or outcome.ok:
        write("unprepared", snapshot=name)
        return None
    return outcome.error or "it could not be deleted"


def _is_agent_needed(one: TaskState) -> bool:
    """Whether a task needs its agent, and so its host: not once all is brought home."""
    return one.state in _STATES_ON_HOST or (one.state == "pulling" and not one.is_stopped)
