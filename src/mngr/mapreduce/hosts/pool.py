"""The hosts that a provider makes for a run: prepared once for all, shared, paid for, and given back as soon as nobody needs them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from mngr.agents.archive.prepared_host import prepare
from mngr.agents.context import Context
from mngr.agents.create.request import CreateRequest
from mngr.agents.hosts.removal import end_interrupted
from mngr.agents.inspect.trash import Grave
from mngr.api import Fleet
from mngr.base import clock
from mngr.base.errors import Busy, MngrError, UsageError
from mngr.base.model import AgentView
from mngr.mapreduce.hosts.reachability import Reach
from mngr.mapreduce.hosts.slots import Mooring, Moorings
from mngr.mapreduce.recipe import Wish
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, TaskState
from mngr.mapreduce.worker_threads import Crew

_WORTH = 3  # hosts, from which on it pays to prepare one for all
_TRIES = 3  # of giving a host back
_PAUSE = 5.0  # seconds before the second, twice as many before the third
_PLACED = ("launching", "working", "talking", "parked")


def provider_of(ctx: Context, on: str) -> str | None:
    """The provider that makes a host for each address like this; None where there is none to make."""
    name = on.removeprefix("@.") if on.startswith("@.") else None
    return name if name and ctx.provider(name).can_create_hosts else None


def rate_of(ctx: Context, provider: str) -> float | None:
    """US dollars an hour that one of its hosts costs, by your own settings; None when they do not say."""
    value = ctx.settings_at(None).table(f"providers.{provider}").get("cost_per_hour")
    try:
        rate = None if value is None else float(value)
    except (TypeError, ValueError):
        rate = -1.0
    if rate is not None and not 0.0 <= rate < float("inf"):
        raise UsageError(
            f"[providers.{provider}] cost_per_hour: {value!r} is no amount of money", "for example: 0.12"
        )
    return rate


def saved_agents(fleet: Fleet, run: RunDir, on: str) -> dict[str, Grave]:
    """The agents of a run whose hosts were given back, by name; they can be brought back where a host can be made for them."""
    if provider_of(fleet.context, on) is None:
        return {}
    found = [grave for grave in fleet.graves() if grave.problem is None]
    return {
        grave.name: grave
        for grave in found
        if ((grave.meta.get("record") or {}).get("labels") or {}).get("run") == run.name
    }


class Dock:
    """Decides, in the engine's one thread, where agents go and which hosts go; what takes time is done by the crew."""

    def __init__(
        self, fleet: Fleet, run: RunDir, wish: Wish, source: str, crew: Crew, reach: Reach, state: Callable[[], RunState],
        write: Callable[..., None],
    ) -> None:  # fmt: skip
        self._fleet, self._run, self._wish, self._source, self._reach = fleet, run, wish, source, reach
        self._crew, self._state, self._write = crew, state, write
        ctx = fleet.context
        self.provider = provider_of(ctx, wish.on)
        self._moorings = Moorings(wish.per_host)
        self._leaving: set[str] = set()  # hosts that are being given back
        self._later: dict[str, float] = {}  # hosts that could not be given back: when to try again
        self._tries: dict[str, int] = {}
        self._preparing_since: str | None = None
        self._can_prepare = False
        if self.provider is not None:
            makes: Any = ctx.provider(self.provider)
            makes.waits = False  # the governor has the patience: others may be launched meanwhile
            self._rate = rate_of(ctx, self.provider)
            self._can_prepare = makes.can_snapshot_hosts and wish.transfer == "mirror"

    # Places

    def fit(self, wanted: int) -> int:
        """How many of so many new agents can go somewhere now."""
        return wanted if self.provider is None else self._moorings.fit(wanted, self._reach.away)

    def place(self, slug: str) -> Mooring | None:
        """Where the agent of a task goes; None where no hosts are made."""
        if self.provider is None:
            return None
        mooring = self._moorings.take(slug, self._reach.away)
        snapshot = self._state().snapshot
        if mooring.name is None and snapshot is not None:
            mooring.options = {"snapshot": snapshot}
        return mooring

    def silent(self, slug: str) -> str | None:
        """The host that a task was to be on and that does not answer: no more go there until it does. None where none is made."""
        host = self._moorings.find(slug)
        if host is not None:
            self._reach.away.add(host)
        return host

    def blame(self, one: TaskState) -> str:
        """Who is to blame when its host does not answer: one of many hosts is no more than one, whoever is on it."""
        return one.task.slug if self.provider is None or one.host is None else one.host

    def arrived(self, one: TaskState, agent: AgentView) -> None:
        """The agent of a task is there; a host that is new is written down."""
        if self.provider is None or agent.provider != self.provider:
            return
        hosts = self._state().hosts
        mooring = self._moorings.arrived(one.task.slug, agent.host)
        is_ours = mooring.since is not None or "who" not in one.task.data
        if agent.host not in hosts and is_ours:
            since = mooring.since or agent.created_at
            self._write(
                "host", host=agent.host, provider=self.provider, since=since, rate=self._rate, sync=False
            )
        self.woke(agent.host)

    def woke(self, host: str | None) -> None:
        """An agent on a host goes on, so that one runs again."""
        rented = self._state().hosts.get(host or "")
        if rented is not None and rented.state == "resting":
            self._write("woken", host=host, sync=False)

    def adopt(self) -> None:
        """Know the hosts again that were there before a crash."""
        state = self._state()
        if self.provider is None:
            return
        for problem in end_interrupted(self._fleet.context, self.provider):
            self._write("alert", text=problem)
        for name, rented in state.hosts.items():
            if rented.state in ("running", "resting"):
                slugs = [
                    s for s, one in state.tasks.items() if one.host == name and one.agent_id and _needs(one)
                ]
                self._moorings.adopt(name, slugs)
        for name in [name for name, rented in state.hosts.items() if rented.state == "leaving"]:
            self._release(name)
        kept = state.preparing
        if kept is not None and os.path.isdir(os.path.join(self._fleet.context.home.snapshots, kept)):
            self._write("prepared", snapshot=kept)

    # Preparing

    def is_ready(self, waiting: int, base: str | None) -> bool:
        """Whether hosts can be made now: with so many agents to come one may be prepared for all of them first."""
        state = self._state()
        if not self._can_prepare or state.snapshot is not None:
            return True
        if self._preparing_since is None:
            new = -(-waiting // max(1, self._wish.per_host))
            if len(state.hosts) + new < _WORTH:
                return True
            self._prepare(base)
        return False

    def _prepare(self, base: str | None) -> None:
        name = f"{self._wish.prefix}-{self._run.name}-first"
        request = CreateRequest(
            address=f"{name}{self._wish.on}", source=self._source, transfer="mirror", labels={"run": self._run.name},
            branch=None if base is None else f"{base}:mngr/{name}", env=[f"{k}={v}" for k, v in self._wish.env.items()],
        )  # fmt: skip
        snapshot = f"{self._wish.prefix}-{self._run.name}-{os.urandom(2).hex()}"
        self._preparing_since = clock.stamp()
        self._write("prepare", snapshot=snapshot, provider=self.provider)
        self._crew.do("prepare", snapshot, lambda: prepare(self._fleet.context, request, snapshot))

    def after_prepare(self, snapshot: str, result: str | MngrError) -> None:
        """Others start from it; where it could not be had, each is prepared on its own. While it is Busy it is tried again."""
        since, self._preparing_since = self._preparing_since, None
        if isinstance(result, Busy):
            return
        first, until = f"{snapshot}-first", clock.stamp()  # of no name that anybody else needs
        self._write("host", host=first, provider=self.provider, since=since, until=until, rate=self._rate)
        if isinstance(result, MngrError):
            self._can_prepare = False
            self._write("prepared", snapshot=None, error=result.message)
            self._write(
                "alert", text=f"no host could be prepared for all, so each is on its own: {result.message}"
            )
        else:
            self._write("prepared", snapshot=snapshot)

    # Giving back

    def turn(self, wanted: int) -> None:
        """Give back the hosts that nobody is on, but for those that so many more agents can use."""
        if self.provider is None:
            return
        self._moorings.keep({slug for slug, one in self._state().tasks.items() if _needs(one)})
        if self._wish.keep_hosts:
            return
        for host in self._moorings.spare(wanted, self._reach.away):
            if host in self._state().hosts:
                self._release(host)
        now = time.monotonic()
        for host in [host for host, at in self._later.items() if at <= now]:
            del self._later[host]
            self._release(host)

    def _release(self, host: str) -> None:
        provider, label = self._state().hosts[host].provider, ("run", self._run.name)
        self._write("release", host=host)
        self._leaving.add(host)
        self._crew.do("release", host, lambda: self._fleet.release_host(provider, host, label), host)

    def after_release(self, host: str, result: list[str] | MngrError) -> None:
        """It is gone, or will be tried again, and then is left for `tmr clean`."""
        self._leaving.discard(host)
        if not isinstance(result, MngrError):
            self._write("released", host=host, agents=result)
            return
        self._write("release_failed", host=host, error=result.message)
        self._tries[host] = self._tries.get(host, 0) + 1
        if self._tries[host] < _TRIES:
            self._later[host] = time.monotonic() + _PAUSE * 2.0 ** (self._tries[host] - 1)
        else:
            self._write("alert", text=f"{host} could not be given back: {result.message}")

    def is_quiet(self) -> bool:
        """Whether nothing is being given back."""
        return not self._leaving and not self._later

    def close(self, how: str) -> None:
        """The run ends: what nobody needs any more goes; where agents are to go on another day, their hosts rest."""
        state = self._state()
        if self.provider is None:
            return
        if how == "settled" and state.snapshot is not None:
            drop_snapshot(self._fleet, state.snapshot, self._write)
        if how != "settled" and self._fleet.context.provider(self.provider).can_stop_hosts:
            for name, rented in list(state.hosts.items()):
                if rented.state == "running":
                    self._rest(name)

    def _rest(self, host: str) -> None:
        outcome = self._fleet.stop([f"@{host}.{self.provider}"])[0]
        if outcome.ok:
            self._write("rested", host=host)
        else:
            self._write("alert", text=f"{host} could not be stopped: {outcome.error}")


def drop_snapshot(fleet: Fleet, name: str, write: Callable[..., object]) -> str | None:
    """Take away what hosts of a run were made from; why not, None when it is gone."""
    known = [snapshot.name for snapshot in fleet.snapshots()]
    outcome = fleet.destroy_snapshots([name])[0] if name in known else None
    if outcome is None or outcome.ok:
        write("unprepared", snapshot=name)
        return None
    return outcome.error or "it could not be deleted"


def _needs(one: TaskState) -> bool:
    """Whether a task needs its agent, and so its host: not once all is brought home."""
    return one.state in _PLACED or (one.state == "pulling" and not one.is_stopped)
