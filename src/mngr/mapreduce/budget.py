"""What a run has used: money, tokens, memory, disk."""

from __future__ import annotations

import os
import time
from typing import Any

from mngr.api import Fleet
from mngr.base import clock
from mngr.base.errors import MngrError
from mngr.base.fanout import map_parallel
from mngr.mapreduce import host_costs
from mngr.mapreduce.governor import RunLimits, RunLoad
from mngr.mapreduce.run_state import ACTIVE_STATES, RunState

_COUNT_INTERVAL = 15.0  # seconds between two looks at what agents at work have used
_MAX_LOAD_PER_CPU = 4  # processes that want to run, of each processor
_BUDGET_TOKEN_FIELDS = ("input_tokens", "output_tokens", "cache_write_tokens")


class Budget:
    """Knows what was spent, by what the programs themselves wrote down."""

    def __init__(self, fleet: Fleet, limits: RunLimits) -> None:
        self._fleet = fleet
        self._limits = limits
        self._live_usage: dict[
            str, tuple[str, dict[str, Any]]
        ] = {}  # of tasks: agents at work, and what they have used
        self._counted_at = time.monotonic()
        self._is_counting = False
        self._other_runs_cost = 0.0  # what other runs have cost today

    def load_daily_cost(self, state: RunState) -> None:
        """What all agents have cost today without those of this run."""
        if self._limits.budget_per_day is not None:
            today = clock.format_timestamp()[:10]
            rows = self._fleet.usage(by="day", destroyed=True)
            spent = sum(row.cost_usd or 0.0 for row in rows if row.group == today)
            self._other_runs_cost = max(0.0, spent - self.sum_spent(state)[0])

    def sum_spent(self, state: RunState) -> tuple[float, int]:
        """US dollars and tokens so far, as far as they are known."""
        used = [one.usage for one in state.tasks.values() if one.usage]
        for slug, (
            agent,
            now,
        ) in self._live_usage.items():  # what came since the last time that it was brought home
            one = state.tasks.get(slug)
            if one is not None and one.agent == agent:
                keys = (*_BUDGET_TOKEN_FIELDS, "cost_usd")
                used.append({key: max(0, (now.get(key) or 0) - (one.own.get(key) or 0)) for key in keys})
        cost = sum(float(row.get("cost_usd") or 0.0) for row in used)
        return cost, sum(int(row.get(key) or 0) for row in used for key in _BUDGET_TOKEN_FIELDS)

    def measure_load(self, now: float, state: RunState) -> RunLoad:
        """Who works, what is used and what is left."""
        busy = state.list_in_state(*ACTIVE_STATES)
        settled = [one for one in state.list_in_state("settled") if one.outcome != "failed"]
        starting = sum(one.state == "launching" for one in busy)
        cost, tokens = self.sum_spent(state)
        cost += host_costs.sum_costs(state.hosts.values())
        return RunLoad(
            now=now, working=len(busy), starting=starting, settled=len(settled), spent=cost, spent_today=self._other_runs_cost, tokens=tokens, memory=measure_free_memory(),
            disk=measure_free_disk(self._fleet.context.home.root),
        )  # fmt: skip

    def begin_count_if_due(self) -> bool:
        """Whether there is a limit that needs it, and the last count is old."""
        limits = self._limits
        wanted = limits.budget is not None or limits.max_tokens is not None or limits.budget_per_day is not None
        if not wanted or self._is_counting or time.monotonic() - self._counted_at < _COUNT_INTERVAL:
            return False
        self._is_counting = True
        return True

    def count_usage(self, names: dict[str, str]) -> None:
        """Ask the agents of these tasks; takes a while. Of who does not answer, what it said last is known."""
        try:
            found = zip(names.items(), map_parallel(self.find_usage, names.values()), strict=True)
            before = {slug: known for slug, known in self._live_usage.items() if slug in names}
            self._live_usage = before | {slug: (agent, used) for (slug, agent), used in found if isinstance(used, dict)}
        finally:
            self._counted_at, self._is_counting = time.monotonic(), False

    def find_usage(self, name: str) -> dict[str, Any] | None:
        """What one agent has used, None when that is not known."""
        try:
            rows = self._fleet.usage([name])
        except MngrError:
            return None
        return rows[0].to_dict() if rows else None


def measure_free_memory() -> int | None:
    """Bytes that a new program could have."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return None


def measure_free_disk(path: str) -> int | None:
    """Bytes that are free where a path is."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def is_overloaded() -> bool:
    """Whether this machine has far more to do than it can."""
    return os.getloadavg()[0] > _MAX_LOAD_PER_CPU * (os.cpu_count() or 1)
