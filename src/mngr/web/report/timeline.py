"""Draws all tasks of a run over time as one picture that fits on a screen."""

from __future__ import annotations

from collections.abc import Callable

from mngr.base import clock
from mngr.web.html_text import escape_long, escape_plain, format_duration, to_class_name
from mngr.web.report.report_data import ReportFacts, ReportTask

SHOWN_STATES = ("queued", "launching", "working", "talking", "parked", "pulling", "checking")
_STATE_LABELS = {"talking": "reminded", "pulling": "brought home", "checking": "checked by us"}
_HIGH, _WIDE = 640, 1000.0  # Pixels for all rows; SVG units from the start to the end.
_TICK_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800)


def render_timeline(facts: ReportFacts) -> str:
    """Return the picture and its legend, or nothing while there is no task."""
    tasks = sorted((task for task in facts.tasks if task.spans), key=_build_sort_key)
    if not tasks:
        return ""
    begin, end = facts.started_at, max(facts.ended_at, facts.started_at + 1.0)
    row_height = max(3.0, min(18.0, _HIGH / len(tasks)))
    height = row_height * len(tasks)

    def x(timestamp: float) -> float:
        return round((timestamp - begin) / (end - begin) * _WIDE, 2)

    body = "".join(_render_row(task, index * row_height, row_height, x) for index, task in enumerate(tasks))
    baseline_rows = facts.rows_by_type.get("standing")
    baseline_end = x(clock.parse_timestamp(baseline_rows[0]["at"])) if baseline_rows else 0.0
    shade = f'<rect class="untouched" x="0" y="0" width="{baseline_end}" height="{height:.1f}"><title>every test, untouched</title></rect>'
    ticks = _list_ticks(begin, end)
    lines = "".join(
        f'<line x1="{x(timestamp)}" x2="{x(timestamp)}" y1="0" y2="{height:.1f}"/>' for timestamp, _ in ticks
    )
    labels = "".join(
        f'<span style="left:{x(timestamp) / _WIDE * 100:.2f}%">{label}</span>' for timestamp, label in ticks
    )
    used_states = {span.state for task in tasks for span in task.spans}
    legend = "".join(
        f'<span class="{to_class_name(name)}"><i></i>{_STATE_LABELS.get(name, name)}</span>'
        for name in SHOWN_STATES
        if name in used_states
    )
    legend = '<span class="c-untouched"><i></i>tests, untouched</span>' * bool(baseline_rows) + legend
    outcomes = sorted({str(task.status_row["outcome"]) for task in tasks if task.status_row["outcome"]})
    legend += "".join(f'<span class="{to_class_name(name)} end"><i></i>{escape_long(name)}</span>' for name in outcomes)
    return (
        f'<div class="key">{legend}</div><div class="timeline"><svg viewBox="0 0 {_WIDE:.0f} {height:.1f}" preserveAspectRatio="none" '
        f'style="height:{height:.0f}px" role="img" aria-label="timeline">{shade}<g class="lines">{lines}</g>{body}</svg>'
        f'<div class="axis">{labels}</div></div>'
    )


def _build_sort_key(task: ReportTask) -> tuple[float, str]:
    """Return a key that sorts tasks by launch time; queued tasks come last."""
    start_times = [span.begin for span in task.spans if span.state != "queued"]
    return (min(start_times) if start_times else float("inf"), task.title)


def _render_row(task: ReportTask, top: float, row_height: float, x: Callable[[float], float]) -> str:
    """Return the row of one task: a bar for each state, and a mark for the outcome."""
    gap = 0.0 if row_height < 5 else min(3.0, row_height * 0.2)
    rects = []
    for span in task.spans:
        width = max(x(span.end) - x(span.begin), 0.0 if span.state == "queued" else 0.8)
        thickness = 0.35 if span.state == "queued" else 1.0
        height = (row_height - gap) * thickness
        y = top + (row_height - gap - height) / 2
        rects.append(
            f'<rect class="{to_class_name(span.state)}" x="{x(span.begin)}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"/>'
        )
    if task.status_row["outcome"]:
        end_x = x(task.spans[-1].end)
        rects.append(
            f'<rect class="{to_class_name(task.status_row["outcome"])} end" x="{end_x}" y="{top:.2f}" width="5" height="{row_height - gap:.2f}"/>'
        )
    duration = format_duration(task.status_row["seconds"])
    title = f"{escape_plain(task.title, 200)}: {escape_long(task.outcome)}{f', {duration}' if duration else ''}"
    background = f'<rect class="back" x="0" y="{top:.2f}" width="{_WIDE:.0f}" height="{row_height:.2f}"/>'
    return f'<a href="tasks/{escape_plain(task.slug)}.html" data-slug="{escape_plain(task.slug)}"><title>{title}</title>{background}{"".join(rects)}</a>'


def _list_ticks(begin: float, end: float) -> list[tuple[float, str]]:
    """Return at most about ten evenly spaced times with labels, counted from the start."""
    step = next((step for step in _TICK_SECONDS if (end - begin) / step <= 10), _TICK_SECONDS[-1])
    count = int((end - begin) / step)
    return [(begin + number * step, _format_tick(number * step)) for number in range(count + 1)][:200]


def _format_tick(seconds: int) -> str:
    if seconds == 0:
        return "0"
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d} h" if hours else f"{rest // 60}:{rest % 60:02d}" if rest >= 60 else f"{rest} s"
