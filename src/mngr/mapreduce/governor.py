"""The one gate for every launch: slots, memory, disk, money, time, rate limits, and failures that are alike."""

from __future__ import annotations

import re
from typing import Any

from mngr.base.model import Struct

_GIB = 1 << 30
_MIN_PARALLEL = 1.0
_RATE_LIMIT_HOLD = 20.0  # seconds: limits that are told within one such time are one limit
_FIRST_PROBE_DELAY, _MAX_PROBE_DELAY = (
    5.0,
    300.0,
)  # seconds until the first try while the circuit is open, twice as many each time
_FIRST_REFUSAL_DELAY, _MAX_REFUSAL_DELAY = (
    1.0,
    60.0,
)  # seconds until the next try after a provider refused, twice as many each time
# What an error says about whose trouble it is; the first that fits.
_ERROR_PATTERNS = (
    ("rate_limit", re.compile(r"\b(429|529|rate.?limit|overloaded|quota|too many requests)", re.I)),
    ("login", re.compile(r"\b(401|403|log.?in|logged out|credential|api key|unauthori[sz]ed|authentication)", re.I)),
    ("host", re.compile(r"(could not be reached|unreachable|does not answer|connection|no space left|cannot allocate)", re.I)),
    ("dependency", re.compile(r"(\bsetup failed|is not installed|command not found|no such file|not executable)", re.I)),
)  # fmt: skip


class RunLimits(Struct):
    """What a run may use."""

    max_agents: int = 10
    max_starting: int = 4  # at once: agents, or the hosts that are made for them
    per_host: int = 1  # agents that may start on one host at once
    budget: float | None = None  # US dollars of this run
    budget_per_day: float | None = None  # of all runs
    max_tokens: int | None = None
    deadline: float | None = None  # seconds since the run began
    timeout: float = 3600.0  # seconds for one task
    stall: float = 600.0  # seconds without a sign of life
    free_memory: int = _GIB
    free_disk: int = _GIB
    alarm: int = 5  # so many that fail alike open the circuit
    on_alarm: str = "pause"  # pause | probe
    canary: int = 3


class RunLoad(Struct):
    """How things are, as the governor needs to know it."""

    now: float  # seconds since the run began
    working: int  # agents that run, or are being made
    starting: int
    settled: int = 0  # tasks that went all the way
    spent: float = 0.0
    spent_today: float = 0.0  # by other runs
    tokens: int = 0
    memory: int | None = None  # free bytes; None when nobody knows
    disk: int | None = None


class LaunchAllowance(Struct):
    """How many may start now, and why not more."""

    count: int
    reason: str | None = None
    is_final: bool = False  # nothing more will be launched in this run


class Governor:
    """Knows what limits there are and what was seen of them; decides, and does nothing itself."""

    def __init__(self, limits: RunLimits) -> None:
        self.limits = limits
        self.max_parallel = float(limits.max_agents)  # how many at once the models bear, as far as we know
        self.alarm_reason: str | None = None  # why the circuit is open
        self._held_until = 0.0
        self._parked_until = 0.0
        self._similar_failures: dict[tuple[str, str, str], list[str]] = {}
        self._probed_at = 0.0
        self._probe_delay = _FIRST_PROBE_DELAY
        self._max_starting = float(limits.max_starting)  # how many at once a provider bears
        self._refusal_reason: str | None = None
        self._refused_until = 0.0
        self._refusal_count = 0  # times in a row

    def decide_launches(self, load: RunLoad) -> LaunchAllowance:
        """How many agents may be launched."""
        limits = self.limits
        over = self.find_exhausted_limit(load)
        if over:
            return LaunchAllowance(count=0, reason=over, is_final=True)
        if self.alarm_reason is not None:
            if limits.on_alarm == "probe" and load.working == 0 and load.now >= self._probed_at + self._probe_delay:
                self._probed_at = load.now
                self._probe_delay = min(_MAX_PROBE_DELAY, self._probe_delay * 2)
                return LaunchAllowance(count=1, reason="a probe: " + self.alarm_reason)
            return LaunchAllowance(count=0, reason=self.alarm_reason)
        if load.now < self._parked_until:
            return LaunchAllowance(count=0, reason="a limit, until it ends")
        if load.now < self._refused_until:
            return LaunchAllowance(count=0, reason=self._refusal_reason)
        if load.memory is not None and load.memory < limits.free_memory:
            return LaunchAllowance(count=0, reason=f"only {load.memory >> 20} MiB of memory are free")
        if load.disk is not None and load.disk < limits.free_disk:
            return LaunchAllowance(count=0, reason=f"only {load.disk >> 20} MiB of the disk are free")
        most = min(limits.max_agents, max(1, int(self.max_parallel)))
        why = "limits that were seen" if most < limits.max_agents else None
        if load.settled == 0 and 0 < limits.canary < most:  # a few go all the way before the rest begins
            most, why = limits.canary, "the first ones go ahead"
        starting = max(1, int(self._max_starting)) * max(1, limits.per_host)
        return LaunchAllowance(count=max(0, min(most - load.working, starting - load.starting)), reason=why)

    def find_exhausted_limit(self, load: RunLoad) -> str | None:
        """Why nothing more may be launched in this run."""
        limits = self.limits
        if limits.budget is not None and load.spent >= limits.budget:
            return f"the budget of ${limits.budget:.2f} is spent"
        if limits.budget_per_day is not None and load.spent + load.spent_today >= limits.budget_per_day:
            return f"the day's budget of ${limits.budget_per_day:.2f} is spent"
        if limits.max_tokens is not None and load.tokens >= limits.max_tokens:
            return f"all {limits.max_tokens} tokens are used"
        if limits.deadline is not None and load.now >= limits.deadline:
            return "the time is up"
        return None

    def record_rate_limit(self, now: float, until: float | None = None) -> bool:
        """A rate limit was seen: half as many from now on; whether that is news."""
        self._parked_until = max(self._parked_until, now + 1.0 if until is None else until)
        if now < self._held_until:
            return False
        self._held_until = now + _RATE_LIMIT_HOLD
        self.max_parallel = max(_MIN_PARALLEL, min(self.max_parallel, float(self.limits.max_agents)) / 2)
        return True

    def record_refusal(self, text: str, now: float) -> None:
        """A provider has no host for us at this time: fewer are tried at once, and none for a while."""
        if now >= self._refused_until:
            self._max_starting = max(1.0, self._max_starting / 2)
            self._refused_until = now + min(_MAX_REFUSAL_DELAY, _FIRST_REFUSAL_DELAY * 2.0**self._refusal_count)
            self._refusal_count += 1
        self._refusal_reason = text.strip().splitlines()[0][:200] if text.strip() else "the provider is busy"

    def record_start(self) -> None:
        """One is there: one more at once."""
        self._max_starting = min(float(self.limits.max_starting), self._max_starting + 1.0)
        self._refusal_count = 0

    def record_success(self) -> None:
        """A task went well: a little more of everything, and what failed before was not for all."""
        self.max_parallel = min(float(self.limits.max_agents), self.max_parallel + 1.0 / max(1.0, self.max_parallel))
        self._similar_failures.clear()

    def record_failure(
        self, stage: str, text: str, who: str, now: float = 0.0, cause: str | None = None
    ) -> dict[str, Any] | None:
        """A task failed at some stage; the alarm when so many have failed alike, or when a login is dead."""
        enough = 1 if cause == "login" else self.limits.alarm
        cause = cause or classify_error(text)
        who_failed = self._similar_failures.setdefault((stage, cause, _normalize_message(text)), [])
        if who not in who_failed:
            who_failed.append(who)
        if self.alarm_reason is not None or len(who_failed) < enough:
            return None
        self._probed_at, self._probe_delay = now, _FIRST_PROBE_DELAY
        self.alarm_reason = f"{len(who_failed)} failed alike at {stage}: {text.strip().splitlines()[0][:200]}"
        return {"cause": cause, "stage": stage, "text": self.alarm_reason, "tasks": list(who_failed)}

    def clear_alarm(self) -> None:
        """The circuit's cause is gone."""
        self.alarm_reason = None
        self._similar_failures.clear()


def classify_error(text: str) -> str:
    """rate_limit, login, host, dependency or code: whose trouble an error is."""
    return next((name for name, pattern in _ERROR_PATTERNS if pattern.search(text)), "code")


def is_timeout_error(text: str) -> bool:
    """Whether somebody failed by taking too long."""
    return re.search(r"timeout|no sign of life|did not show within|was not ready", text) is not None


def _normalize_message(text: str) -> str:
    """The text without what differs from one agent to the next."""
    first = (text.strip().splitlines() or [""])[0]
    return re.sub(r"[0-9a-f]{6,}|\d+|'[^']*'|\"[^\"]*\"|\S*/\S*|tmr-\S+", "#", first)[:160]
