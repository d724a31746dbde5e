"""Measures what a run has used: money, tokens, memory and disk."""

from __future__ import annotations

import os
import time

from mngr.agents.inspect.usage import UsageRow
from mngr.api import Fleet
from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.base.fanout import map_parallel
from mngr.mapreduce.governor import RunLimits, RunLoad
from mngr.mapreduce.journal.agent_usage import AgentUsage
from mngr.mapreduce.journal.run_state import ACTIVE_STATES, RunState

_COUNT_INTERVAL = 15.0  # seconds between two counts of what the working agents have used
_MAX_LOAD_PER_CPU = 4  # waiting processes for each processor


class Budget:
    """Sums what the agents of a run have used, as their programs recorded it."""

    def __init__(self, fleet: Fleet, limits: RunLimits) -> None:
        self._fleet = fleet
        self._limits = limits
        # Task slug -> the working agent and what it has used so far.
        self._live_usage: dict[str, tuple[str, AgentUsage]] = {}
        self._counted_at = time.monotonic()
        self._is_counting = False
        self._other_runs_cost = 0.0  # US dollars that other runs have cost today

    def load_daily_cost(self, state: RunState) -> None:
        """Load what all agents except those of this run have cost today."""
        if self._limits.budget_per_day is not None:
            today = time_format.format_timestamp()[:10]
            rows = self._fleet.usage(by="day", destroyed=True)
            spent = sum(row.cost_usd or 0.0 for row in rows if row.group == today)
            self._other_runs_cost = max(0.0, spent - self.sum_spent(state)[0])

    def sum_spent(self, state: RunState) -> tuple[float, int]:
        """Return the US dollars and tokens used so far, as far as they are known."""
        cost, tokens = state.tasks.cost_usd, state.tasks.budget_tokens
        # Add what the working agents have used since their work was last pulled.
        for slug, (agent, live_usage) in self._live_usage.items():
            task = state.tasks.get(slug)
            if task is not None and task.agent == agent:
                added = live_usage.subtract(task.agent_usage)
                cost, tokens = cost + (added.cost_usd or 0.0), tokens + added.budget_tokens
        return cost, tokens

    def measure_load(self, now: float, state: RunState) -> RunLoad:
        """Return the working agents, the spent money and tokens, and the free memory and disk."""
        cost, tokens = self.sum_spent(state)
        cost += state.hosts.sum_costs()
        return RunLoad(
            now=now,
            working=state.tasks.count_in_state(*ACTIVE_STATES),
            starting=state.tasks.count_in_state("launching"),
            settled=state.tasks.success_count,
            spent=cost,
            spent_today=self._other_runs_cost,
            tokens=tokens,
            memory=measure_free_memory(),
            disk=measure_free_disk(self._fleet.context.home.root),
        )

    def begin_count_if_due(self, state: RunState) -> dict[str, str] | None:
        """Return the agents by task, and mark a count as running, when a limit needs a new count. Else return None."""
        limits = self._limits
        needs_count = limits.budget is not None or limits.max_tokens is not None or limits.budget_per_day is not None
        if not needs_count or self._is_counting or time.monotonic() - self._counted_at < _COUNT_INTERVAL:
            return None
        self._is_counting = True
        return {task.task.slug: task.agent for task in state.list_in_state("working", "parked") if task.agent}

    def count_usage(self, names: dict[str, str]) -> None:
        """Ask the agents of these tasks what they have used. If an agent does not answer, keep its last known usage."""
        try:
            results = zip(names.items(), map_parallel(self.find_usage, names.values()), strict=True)
            last_known = {slug: usage for slug, usage in self._live_usage.items() if slug in names}
            self._live_usage = last_known | {
                slug: (agent, usage_now) for (slug, agent), usage_now in results if isinstance(usage_now, AgentUsage)
            }
        finally:
            self._counted_at, self._is_counting = time.monotonic(), False

    def find_usage(self, name: str) -> AgentUsage | None:
        """Return what an agent has used, or None when that is unknown."""
        try:
            rows = self._fleet.usage([name])
        except MngrError:
            return None
        return make_usage(rows[0]) if rows else None


def make_usage(row: UsageRow) -> AgentUsage:
    """Return the usage of one agent."""
    return AgentUsage(
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cache_read_tokens=row.cache_read_tokens,
        cache_write_tokens=row.cache_write_tokens,
        cost_usd=row.cost_usd,
    )


def measure_free_memory() -> int | None:
    """Return the bytes of memory that a new program could use, or None when that is unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return None


def measure_free_disk(path: str) -> int | None:
    """Return the free bytes of the file system that holds the path, or None when that is unknown."""
    try:
        stats = os.statvfs(path)
    except OSError:
        return None
    return stats.f_bavail * stats.f_frsize


def is_overloaded() -> bool:
    """True when far more processes wait than this machine's processors can run."""
    return os.getloadavg()[0] > _MAX_LOAD_PER_CPU * (os.cpu_count() or 1)
