"""The progress of a run as a person sees it: counts, pace, root causes, cost, alerts and the latest events."""

from __future__ import annotations

from collections.abc import Iterable

from mngr.base import time_format
from mngr.base.model import Struct
from mngr.base.size_format import format_count
from mngr.mapreduce.journal import host_costs
from mngr.mapreduce.journal.host_rows import ReleaseFailedRow
from mngr.mapreduce.journal.journal_rows import LaunchFailedRow, LaunchRow, PullFailedRow
from mngr.mapreduce.journal.replay import Replay
from mngr.mapreduce.journal.run_rows import MessageRow, ResumedRow, WindowRow
from mngr.mapreduce.journal.run_state import JournalRow, RecipeRow, RunState
from mngr.tmr.prepare.journal_facts import (
    BaselineRun,
    BaseMoved,
    RootCauseFound,
    RootCauseGivenUp,
    TestsCollected,
    describe_row,
    list_facts,
)

_STATE_ORDER = ("queued", "launching", "working", "talking", "parked", "pulling", "checking")
_ALERT_ROWS = (MessageRow, WindowRow, LaunchFailedRow, PullFailedRow, ReleaseFailedRow)
_MAX_ALERTS, _MAX_NEWS, _MAX_CAUSES = 3, 5, 20
_MIN_SETTLED_FOR_PACE = 3


class RootCauseProgress(Struct):
    """A root cause of a run: its title, its affected tests, and whether it is open, repaired or not repaired."""

    title: str
    tests: int
    state: str


class RunFacts(Struct):
    """The facts about a run that its screens show. Texts are for people and may contain untrusted characters."""

    began_at: float  # seconds since the epoch
    settled: int = 0
    total: int = 0
    paced_from: tuple[float, int] | None = None  # when the measurement of the pace began, and the settled tasks then
    preparation: str = ""  # how far the baseline is, before the run has tasks
    counts: str = ""  # tasks that are not settled, by state
    outcomes: str = ""  # settled tasks, by outcome
    root_causes: str = ""  # their number, and how many are repaired
    causes: tuple[RootCauseProgress, ...] = ()  # the first ones
    cost: str = ""  # tokens, money and hosts
    waits: str | None = None  # why the run creates no new agents
    alarm: str | None = None
    alerts: tuple[str, ...] = ()  # the latest ones
    news: tuple[str, ...] = ()  # the latest other events

    def format_head(self, now: float) -> str:
        """Return the elapsed time."""
        return format_clock(now - self.began_at)

    def format_progress(self, now: float) -> str:
        """Return how many tasks are finished and, if it can be estimated, how long the others take."""
        text = f"{self.settled} of {self.total} tasks finished"
        start_time, settled_at_start = self.paced_from or (0.0, self.settled)
        finished = self.settled - settled_at_start
        if finished < _MIN_SETTLED_FOR_PACE or self.settled == self.total:
            return text
        pace = finished / max(now - start_time, 0.001)
        left = format_clock((self.total - self.settled) / pace)
        return f"{text}, {pace * 60:.1f} per minute, about {left} left"

    def list_lines(self) -> list[str]:
        """Return the lines below the first one, each without leading spaces."""
        lines = [self.counts, self.outcomes, self.root_causes, self.cost]
        if self.waits is not None:
            lines.append(f"no new agents: {self.waits}")
        if self.alarm is not None:
            lines.append(f"ALARM: {self.alarm}")
        return [line for line in (*lines, *(f"! {alert}" for alert in self.alerts), *self.news) if line]


def format_bar(settled: int, total: int, width: int) -> str:
    """Return a progress bar of this width, or an empty text when it would be too narrow."""
    if width < 5 or not total:
        return ""
    filled = width * settled // total
    return f"[{'#' * filled}{'.' * (width - filled)}]"


def format_clock(seconds: float) -> str:
    """Return a duration as `1:05` or `1:00:05`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


class RunTimeline:
    """The rows of a run so far. `began_at` is the start of a resumed run, whose earlier rows are given."""

    def __init__(self, rows: Iterable[JournalRow] = (), began_at: float | None = None) -> None:
        self._replay = Replay()
        self._news: list[str] = []
        self._alerts: list[str] = []
        self._began_at: float | None = None
        self._paced_from: tuple[float, int] | None = None
        for row in rows:
            self.add_row(row)
        if began_at is not None:
            self._began_at = began_at
            self._paced_from = began_at, self._count_settled()

    @property
    def state(self) -> RunState:
        """Return the state after the last row."""
        return self._replay.state

    def add_row(self, row: JournalRow) -> None:
        """Add one more row of the journal."""
        self._replay.add(row)
        is_resumed = isinstance(row, ResumedRow)
        timestamp = time_format.parse_timestamp(row.at)
        self._began_at = timestamp if is_resumed or self._began_at is None else min(self._began_at, timestamp)
        if is_resumed or (isinstance(row, LaunchRow) and self._paced_from is None):
            self._paced_from = timestamp, self._count_settled()
        text = format_row(row)
        if text and _is_alert(row):
            self._alerts = [*self._alerts, text][-_MAX_ALERTS:]
        elif text:
            self._news = [*self._news, text][-_MAX_NEWS:]

    def build_facts(self, default_start: float) -> RunFacts:
        """Return the facts after the last row. A run without rows begins at `default_start`."""
        state = self.state
        settled = state.list_in_state("settled")
        states = [task.state for task in state.tasks.values() if task.state != "settled"]
        return RunFacts(
            began_at=default_start if self._began_at is None else self._began_at,
            settled=len(settled),
            total=len(state.tasks),
            paced_from=self._paced_from,
            preparation="" if state.tasks else _format_preparation(state),
            counts=_format_counts(states, _STATE_ORDER),
            outcomes=_format_counts([str(task.outcome) for task in settled]),
            root_causes=_format_root_causes(state),
            causes=_list_causes(state),
            cost=_format_cost(state),
            waits=state.wait_reason,
            alarm=None if state.open_alarm is None else state.open_alarm.text,
            alerts=tuple(self._alerts),
            news=tuple(self._news),
        )

    def _count_settled(self) -> int:
        return self.state.tasks.count_in_state("settled")


def format_row(row: JournalRow) -> str:
    """Return a journal row as one line for people, or an empty text if it is not worth a line."""
    return describe_row(row) if isinstance(row, RecipeRow) else row.describe()


def _is_alert(row: JournalRow) -> bool:
    """True when the row stays on the screen longer than others."""
    return isinstance(row, _ALERT_ROWS) or (isinstance(row, RecipeRow) and row.type == RootCauseGivenUp.type_name)


def _format_counts(words: list[str], order: tuple[str, ...] = ()) -> str:
    """Return how often each word occurs, in the given order or alphabetically."""
    return ", ".join(f"{number} {word}" for word in order or sorted(set(words)) if (number := words.count(word)))


def _format_preparation(state: RunState) -> str:
    """Return how far the baseline is."""
    collected = list_facts(state, TestsCollected)
    if not collected:
        return "collecting tests"
    run_count = len(state.recipe_rows.get(BaselineRun.type_name, ()))
    return f"baseline: {format_count(run_count, 'test run')} so far, {format_count(len(collected[0].tests), 'test')}"


def _format_root_causes(state: RunState) -> str:
    """Return how many root causes there are, and how many of them are repaired."""
    found = list_facts(state, RootCauseFound)
    if not found:
        return ""
    test_count = sum(len(fact.root_cause.tests) for fact in found)
    repaired = len(list_facts(state, BaseMoved))
    given_up = len(list_facts(state, RootCauseGivenUp))
    shared = f"{format_count(len(found), 'root cause')}, shared by {format_count(test_count, 'test')}"
    return f"{shared}: {repaired} repaired, {given_up} not repaired"


def _list_causes(state: RunState) -> tuple[RootCauseProgress, ...]:
    """Return the first root causes. A root cause is repaired when later tasks start from its fix."""
    given_up = {fact.root_cause for fact in list_facts(state, RootCauseGivenUp)}
    fixing_tasks = [state.tasks[fact.by] for fact in list_facts(state, BaseMoved) if fact.by in state.tasks]
    repaired = {task.task.data.get("root_cause") for task in fixing_tasks}
    causes = []
    for fact in list_facts(state, RootCauseFound)[:_MAX_CAUSES]:
        cause = fact.root_cause
        word = "repaired" if cause.id in repaired else "not repaired" if cause.id in given_up else "open"
        causes.append(RootCauseProgress(title=cause.title, tests=len(cause.tests), state=word))
    return tuple(causes)


def _format_cost(state: RunState) -> str:
    """Return the tokens, the cost and the hosts."""
    usages = [task.usage for task in state.tasks.values() if task.usage is not None]
    tokens = sum(usage.tokens for usage in usages)
    cost = sum(usage.cost_usd or 0.0 for usage in usages)
    unpriced_note = " plus tokens without a known price" if any(usage.cost_usd is None for usage in usages) else ""
    hosts = host_costs.summarize_costs(state.hosts.values())
    parts = [f"{tokens} tokens, ${cost:.2f}{unpriced_note}"] if tokens else []
    if hosts.made:
        parts.append(f"{hosts.running} of {hosts.made} hosts running")
    if hosts.cost_usd is not None:
        parts.append(f"${hosts.cost_usd:.2f} for hosts")
    return ", ".join(parts)
