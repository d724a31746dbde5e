"""Draws all tasks of a run over time as one picture that fits on a screen."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.base import time_format
from mngr.tmr.prepare.journal_facts import BaselineDone
from mngr.web.html_text import escape_long, escape_plain, format_duration, to_class_name
from mngr.web.report.report_data import ReportFacts, ReportTask, StateSpan

SHOWN_STATES = ("queued", "launching", "working", "talking", "parked", "pulling", "checking")
_STATE_LABELS = {"talking": "reminded by mngr", "pulling": "collected", "checking": "verified by mngr"}
_HIGH, _WIDE = 640, 1000.0  # Pixels for all rows; SVG units from the start to the end.
_TICK_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800)


class _TimeScale:
    """Converts times to SVG units."""

    def __init__(self, begin: float, end: float) -> None:
        self._begin = begin
        self._duration = end - begin

    def to_x(self, timestamp: float) -> float:
        """Return the horizontal position of a time."""
        return round((timestamp - self._begin) / self._duration * _WIDE, 2)


def render_timeline(facts: ReportFacts) -> str:
    """Return the picture and its legend, or nothing while there is no task."""
    tasks = sorted((task for task in facts.tasks if task.spans), key=_build_sort_key)
    if not tasks:
        return ""
    begin, end = facts.started_at, max(facts.ended_at, facts.started_at + 1.0)
    scale = _TimeScale(begin, end)
    row_height = max(3.0, min(18.0, _HIGH / len(tasks)))
    height = row_height * len(tasks)
    body = "".join(_render_row(task, index * row_height, row_height, scale) for index, task in enumerate(tasks))
    baseline_rows = facts.run_state.recipe_rows.get(BaselineDone.type_name, ())
    baseline_end = scale.to_x(time_format.parse_timestamp(baseline_rows[0].at)) if baseline_rows else 0.0
    shade = f'<rect class="untouched" x="0" y="0" width="{baseline_end}" height="{height:.1f}"><title>baseline: every test before any change</title></rect>'
    ticks = [(scale.to_x(timestamp), label) for timestamp, label in _list_ticks(begin, end)]
    lines = "".join(f'<line x1="{x}" x2="{x}" y1="0" y2="{height:.1f}"/>' for x, _ in ticks)
    labels = "".join(f'<span style="left:{x / _WIDE * 100:.2f}%">{label}</span>' for x, label in ticks)
    legend = _render_legend(tasks, has_baseline=bool(baseline_rows))
    return (
        f'<div class="key">{legend}</div><div class="timeline"><svg viewBox="0 0 {_WIDE:.0f} {height:.1f}" preserveAspectRatio="none" '
        f'style="height:{height:.0f}px" role="img" aria-label="timeline">{shade}<g class="lines">{lines}</g>{body}</svg>'
        f'<div class="axis">{labels}</div></div>'
    )


def _render_legend(tasks: Sequence[ReportTask], *, has_baseline: bool) -> str:
    """Return the colours of the states and outcomes that occur."""
    used_states = {span.state for task in tasks for span in task.spans}
    outcomes = sorted({task.outcome for task in tasks if task.is_over})
    entries = ['<span class="c-untouched"><i></i>baseline</span>'] if has_baseline else []
    for state in SHOWN_STATES:
        if state in used_states:
            entries.append(f'<span class="{to_class_name(state)}"><i></i>{_STATE_LABELS.get(state, state)}</span>')
    for outcome in outcomes:
        entries.append(f'<span class="{to_class_name(outcome)} end"><i></i>{escape_long(outcome)}</span>')
    return "".join(entries)


def _build_sort_key(task: ReportTask) -> tuple[float, str]:
    """Return a key that sorts tasks by launch time; queued tasks come last."""
    start_times = [span.begin for span in task.spans if span.state != "queued"]
    return min(start_times, default=float("inf")), task.title


def _render_row(task: ReportTask, top: float, row_height: float, scale: _TimeScale) -> str:
    """Return the row of one task: a bar for each state, and a mark for the outcome."""
    gap = 0.0 if row_height < 5 else min(3.0, row_height * 0.2)
    full_height = row_height - gap
    bars = "".join(_render_bar(span, top, full_height, scale) for span in task.spans)
    if task.is_over:
        end_x = scale.to_x(task.spans[-1].end)
        bars += f'<rect class="{to_class_name(task.outcome)} end" x="{end_x}" y="{top:.2f}" width="5" height="{full_height:.2f}"/>'
    title = f"{escape_plain(task.title, 200)}: {escape_long(task.outcome)}"
    if task.status.seconds is not None:
        title += f", {format_duration(task.status.seconds)}"
    slug = escape_plain(task.slug)
    background = f'<rect class="back" x="0" y="{top:.2f}" width="{_WIDE:.0f}" height="{row_height:.2f}"/>'
    return f'<a href="tasks/{slug}.html" data-slug="{slug}"><title>{title}</title>{background}{bars}</a>'


def _render_bar(span: StateSpan, top: float, full_height: float, scale: _TimeScale) -> str:
    """Return the bar of one period; it is thin while the task is queued."""
    is_queued = span.state == "queued"
    min_width = 0.0 if is_queued else 0.8
    height = full_height * (0.35 if is_queued else 1.0)
    begin_x = scale.to_x(span.begin)
    width = max(scale.to_x(span.end) - begin_x, min_width)
    y = top + (full_height - height) / 2
    return f'<rect class="{to_class_name(span.state)}" x="{begin_x}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"/>'


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
