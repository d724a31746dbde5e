"""The facts for one picture of all tasks of a run over time, which fits on a screen."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.base import time_format
from mngr.base.model import Struct
from mngr.tmr.prepare.journal_facts import BaselineDone
from mngr.web.report.report_data import ReportFacts, ReportTask, StateSpan

SHOWN_STATES = ("queued", "launching", "working", "talking", "parked", "pulling", "checking")
_STATE_LABELS = {"talking": "reminded by mngr", "pulling": "collected", "checking": "verified by mngr"}
_HIGH, _WIDE = 640, 1000.0  # Pixels for all rows; SVG units from the start to the end.
_TICK_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800)


class LegendEntry(Struct):
    """A colour of the picture."""

    name: str  # The state, the outcome, or "untouched".
    label: str
    is_outcome: bool


class TimelineBar(Struct):
    """A period of a task, in SVG units."""

    state: str
    x: float
    y: float
    width: float
    height: float


class TimelineRow(Struct):
    """The bars of one task."""

    task: ReportTask
    y: float
    bars: list[TimelineBar]
    mark: TimelineBar | None  # The outcome, at the end of the task.


class Tick(Struct):
    """A time on the axis, counted from the start."""

    x: float
    label: str


class Timeline(Struct):
    """The picture of a run."""

    width: float
    height: float
    row_height: float
    baseline_width: float
    legend: list[LegendEntry]
    ticks: list[Tick]
    rows: list[TimelineRow]


class _TimeScale:
    """Converts times to SVG units."""

    def __init__(self, begin: float, end: float) -> None:
        self._begin = begin
        self._duration = end - begin

    def to_x(self, timestamp: float) -> float:
        """Return the horizontal position of a time."""
        return round((timestamp - self._begin) / self._duration * _WIDE, 2)


def build_timeline(facts: ReportFacts) -> Timeline | None:
    """Return the picture, or None while there is no task."""
    tasks = sorted((task for task in facts.tasks if task.spans), key=_build_sort_key)
    if not tasks:
        return None
    begin, end = facts.started_at, max(facts.ended_at, facts.started_at + 1.0)
    scale = _TimeScale(begin, end)
    row_height = max(3.0, min(18.0, _HIGH / len(tasks)))
    baseline_rows = facts.run_state.recipe_rows.get(BaselineDone.type_name, ())
    return Timeline(
        width=_WIDE,
        height=round(row_height * len(tasks), 1),
        row_height=round(row_height, 2),
        baseline_width=scale.to_x(time_format.parse_timestamp(baseline_rows[0].at)) if baseline_rows else 0.0,
        legend=_build_legend(tasks, has_baseline=bool(baseline_rows)),
        ticks=[Tick(x=scale.to_x(timestamp), label=label) for timestamp, label in _list_ticks(begin, end)],
        rows=[_build_row(task, index * row_height, row_height, scale) for index, task in enumerate(tasks)],
    )


def _build_legend(tasks: Sequence[ReportTask], *, has_baseline: bool) -> list[LegendEntry]:
    """Return the colours of the states and outcomes that occur."""
    used_states = {span.state for task in tasks for span in task.spans}
    outcomes = sorted({task.outcome for task in tasks if task.is_over})
    baseline = [LegendEntry(name="untouched", label="baseline", is_outcome=False)] if has_baseline else []
    states = [
        LegendEntry(name=state, label=_STATE_LABELS.get(state, state), is_outcome=False)
        for state in SHOWN_STATES
        if state in used_states
    ]
    return [
        *baseline,
        *states,
        *(LegendEntry(name=outcome, label=outcome, is_outcome=True) for outcome in outcomes),
    ]


def _build_sort_key(task: ReportTask) -> tuple[float, str]:
    """Return a key that sorts tasks by launch time; queued tasks come last."""
    start_times = [span.begin for span in task.spans if span.state != "queued"]
    return min(start_times, default=float("inf")), task.title


def _build_row(task: ReportTask, top: float, row_height: float, scale: _TimeScale) -> TimelineRow:
    """Return the row of one task: a bar for each state, and a mark for the outcome."""
    gap = 0.0 if row_height < 5 else min(3.0, row_height * 0.2)
    full_height = round(row_height - gap, 2)
    mark = None
    if task.is_over:
        end_x = scale.to_x(task.spans[-1].end)
        mark = TimelineBar(state=task.outcome, x=end_x, y=round(top, 2), width=5, height=full_height)
    return TimelineRow(
        task=task,
        y=round(top, 2),
        bars=[_build_bar(span, top, full_height, scale) for span in task.spans],
        mark=mark,
    )


def _build_bar(span: StateSpan, top: float, full_height: float, scale: _TimeScale) -> TimelineBar:
    """Return the bar of one period; it is thin while the task is queued."""
    is_queued = span.state == "queued"
    min_width = 0.0 if is_queued else 0.8
    height = full_height * (0.35 if is_queued else 1.0)
    begin_x = scale.to_x(span.begin)
    return TimelineBar(
        state=span.state,
        x=begin_x,
        y=round(top + (full_height - height) / 2, 2),
        width=round(max(scale.to_x(span.end) - begin_x, min_width), 2),
        height=round(height, 2),
    )


def _list_ticks(begin: float, end: float) -> list[tuple[float, str]]:
    """Return at most about ten evenly spaced times with labels, counted from the start."""
    step = next((step for step in _TICK_SECONDS if (end - begin) / step <= 10), _TICK_SECONDS[-1])
    count = int((end - begin) / step)
    return [(begin + number * step, _format_tick(number * step)) for number in range(count + 1)][:200]


def _format_tick(seconds: int) -> str:
    if seconds == 0:
        return "0"
    hours, seconds_of_hour = divmod(seconds, 3600)
    minutes, rest = divmod(seconds_of_hour, 60)
    if hours:
        return f"{hours}:{minutes:02d} h"
    return f"{minutes}:{rest:02d}" if minutes else f"{rest} s"
