"""The one gate for new agents: slots, memory, disk, money, time, rate limits and repeated failures."""

from __future__ import annotations

import re

from mngr.base.model import Struct
from mngr.base.size_format import format_size
from mngr.mapreduce.journal.run_rows import AlarmRow

_GIB = 1 << 30
_MIN_PARALLEL = 1.0
_RATE_LIMIT_HOLD = 20.0  # rate limits reported within this many seconds count as one limit
# Seconds until the next probe, a start of one agent while an alarm is open; the delay doubles each time.
_FIRST_PROBE_DELAY, _MAX_PROBE_DELAY = 5.0, 300.0
# Seconds until the next try after a provider refused; the delay doubles each time.
_FIRST_REFUSAL_DELAY, _MAX_REFUSAL_DELAY = 1.0, 60.0
# The kind of an error by its text. The first match wins.
_ERROR_PATTERNS = (
    ("rate_limit", re.compile(r"\b(429|529|rate.?limit|overloaded|quota|too many requests)", re.I)),
    ("login", re.compile(r"\b(401|403|log.?in|logged out|credential|api key|unauthori[sz]ed|authentication)", re.I)),
    (
        "host",
        re.compile(
            r"(could not be reached|unreachable|does not answer|connection|no space left|cannot allocate)", re.I
        ),
    ),
    (
        "dependency",
        re.compile(r"(\bsetup failed|is not installed|command not found|no such file|not executable)", re.I),
    ),
)


class RunLimits(Struct):
    """The limits of a run."""

    max_agents: int = 10
    max_starting: int = 4  # agents, or hosts created for them, that may start at the same time
    starting_per_host: int = 1  # agents that may start on one host at the same time
    budget: float | None = None  # US dollars for this run
    budget_per_day: float | None = None  # US dollars a day for all runs
    max_tokens: int | None = None
    deadline: float | None = None  # seconds after the start of the run
    timeout: float = 3600.0  # seconds for one task
    stall_timeout: float = 600.0  # seconds without activity, after which an agent counts as hung
    free_memory: int = _GIB
    free_disk: int = _GIB
    alarm: int = 5  # number of similar failures that opens an alarm
    on_alarm: str = "pause"  # pause | probe
    canary: int = 3  # agents that run until the first one finishes


class RunLoad(Struct):
    """The present load of a run, as the governor needs it."""

    now: float  # seconds since the run began
    working: int  # agents that run or are being created
    starting: int
    settled: int = 0  # tasks that did not fail
    spent: float = 0.0
    spent_today: float = 0.0  # US dollars spent by other runs
    tokens: int = 0
    memory: int | None = None  # free bytes; None when unknown
    disk: int | None = None


class LaunchAllowance(Struct):
    """How many agents may start now, and what prevents more."""

    count: int
    reason: str | None = None
    is_final: bool = False  # nothing more will be launched in this run


class Governor:
    """Decides how many agents may start, from the limits and from what happened so far. It takes no action itself."""

    def __init__(self, limits: RunLimits) -> None:
        self.limits = limits
        # The number of parallel agents that the models allow, as far as is known.
        self.max_parallel = float(limits.max_agents)
        self.alarm_reason: str | None = None  # why no agents are launched; None without an alarm
        self._held_until = 0.0
        self._parked_until = 0.0
        self._similar_failures: dict[tuple[str, str, str], list[str]] = {}
        self._probed_at = 0.0
        self._probe_delay = _FIRST_PROBE_DELAY
        # The number of hosts that the provider creates in parallel, as far as is known.
        self._max_starting = float(limits.max_starting)
        self._refusal_reason: str | None = None
        self._refused_until = 0.0
        self._refusal_count = 0  # refusals in a row

    def decide_launches(self, load: RunLoad) -> LaunchAllowance:
        """Return how many agents may be launched now."""
        limits = self.limits
        exhausted = self.find_exhausted_limit(load)
        if exhausted:
            return LaunchAllowance(count=0, reason=exhausted, is_final=True)
        if self.alarm_reason is not None:
            if limits.on_alarm == "probe" and load.working == 0 and load.now >= self._probed_at + self._probe_delay:
                self._probed_at = load.now
                self._probe_delay = min(_MAX_PROBE_DELAY, self._probe_delay * 2)
                return LaunchAllowance(count=1, reason="one agent as a test: " + self.alarm_reason)
            return LaunchAllowance(count=0, reason=self.alarm_reason)
        if load.now < self._parked_until:
            return LaunchAllowance(count=0, reason="the model's rate limit or quota is reached")
        if load.now < self._refused_until:
            return LaunchAllowance(count=0, reason=self._refusal_reason)
        if load.memory is not None and load.memory < limits.free_memory:
            return LaunchAllowance(count=0, reason=f"only {format_size(load.memory)} of memory is free")
        if load.disk is not None and load.disk < limits.free_disk:
            return LaunchAllowance(count=0, reason=f"only {format_size(load.disk)} of disk space is free")
        max_working = min(limits.max_agents, max(1, int(self.max_parallel)))
        reason = "rate limits have reduced the number of agents" if max_working < limits.max_agents else None
        if load.settled == 0 and 0 < limits.canary < max_working:  # only a few agents run until the first one finishes
            max_working = limits.canary
            reason = "mngr waits until one of the first agents has finished (--canary)"
        max_starting = max(1, int(self._max_starting)) * max(1, limits.starting_per_host)
        return LaunchAllowance(
            count=max(0, min(max_working - load.working, max_starting - load.starting)), reason=reason
        )

    def find_exhausted_limit(self, load: RunLoad) -> str | None:
        """Return why nothing more may be launched in this run, or None."""
        limits = self.limits
        if limits.budget is not None and load.spent >= limits.budget:
            return f"the budget of ${limits.budget:.2f} is spent"
        if limits.budget_per_day is not None and load.spent + load.spent_today >= limits.budget_per_day:
            return f"the budget of ${limits.budget_per_day:.2f} per day is spent"
        if limits.max_tokens is not None and load.tokens >= limits.max_tokens:
            return f"the limit of {limits.max_tokens} tokens is used up"
        if limits.deadline is not None and load.now >= limits.deadline:
            return "the deadline has passed"
        return None

    def record_rate_limit(self, now: float, until: float | None = None) -> bool:
        """Record a rate limit and halve the number of parallel agents. Return False if it repeats a recent one."""
        self._parked_until = max(self._parked_until, now + 1.0 if until is None else until)
        if now < self._held_until:
            return False
        self._held_until = now + _RATE_LIMIT_HOLD
        self.max_parallel = max(_MIN_PARALLEL, min(self.max_parallel, float(self.limits.max_agents)) / 2)
        return True

    def record_refusal(self, text: str, now: float) -> None:
        """Record that a provider refused a host: create fewer hosts at the same time, and none for a while."""
        if now >= self._refused_until:
            self._max_starting = max(1.0, self._max_starting / 2)
            self._refused_until = now + min(_MAX_REFUSAL_DELAY, _FIRST_REFUSAL_DELAY * 2.0**self._refusal_count)
            self._refusal_count += 1
        self._refusal_reason = text.strip().splitlines()[0][:200] if text.strip() else "the provider is busy"

    def record_start(self) -> None:
        """Record that an agent started: allow one more start at the same time."""
        self._max_starting = min(float(self.limits.max_starting), self._max_starting + 1.0)
        self._refusal_count = 0

    def record_success(self) -> None:
        """Record a successful task: allow a little more parallel work and forget similar failures."""
        self.max_parallel = min(float(self.limits.max_agents), self.max_parallel + 1.0 / max(1.0, self.max_parallel))
        self._similar_failures.clear()

    def record_failure(
        self, stage: str, text: str, source: str, now: float = 0.0, error_kind: str | None = None
    ) -> AlarmRow | None:
        """Record a failure. Return an alarm when enough tasks failed alike or the login is dead, else None."""
        threshold = 1 if error_kind == "login" else self.limits.alarm
        error_kind = error_kind or classify_error(text)
        sources = self._similar_failures.setdefault((stage, error_kind, _normalize_message(text)), [])
        if source not in sources:
            sources.append(source)
        if self.alarm_reason is not None or len(sources) < threshold:
            return None
        self._probed_at, self._probe_delay = now, _FIRST_PROBE_DELAY
        failures = "a failure" if len(sources) == 1 else f"{len(sources)} similar failures"
        self.alarm_reason = f"{failures} at the stage {stage}: {text.strip().splitlines()[0][:200]}"
        return AlarmRow(error_kind=error_kind, stage=stage, text=self.alarm_reason, tasks=list(sources))

    def clear_alarm(self) -> None:
        """Close the alarm and forget the failures that led to it."""
        self.alarm_reason = None
        self._similar_failures.clear()


def classify_error(text: str) -> str:
    """Return the kind of an error: rate_limit, login, host, dependency or code."""
    return next((name for name, pattern in _ERROR_PATTERNS if pattern.search(text)), "code")


def is_timeout_error(text: str) -> bool:
    """True when the error says that something took too long."""
    return re.search(r"timeout|no activity|did not show within|was not ready", text) is not None


def _normalize_message(text: str) -> str:
    """Return the first line of the text, without the parts that differ between agents."""
    first_line = (text.strip().splitlines() or [""])[0]
    return re.sub(r"[0-9a-f]{6,}|\d+|'[^']*'|\"[^\"]*\"|\S*/\S*|tmr-\S+", "#", first_line)[:160]
