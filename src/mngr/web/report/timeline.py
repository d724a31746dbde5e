"""All tasks of a run over time, on one screen whatever their number: a picture, drawn from the journal."""

from __future__ import annotations

from collections.abc import Callable

from mngr.base import clock
from mngr.web.html_text import escape_long, escape_plain, format_duration, to_class_name
from mngr.web.report.run_facts import ReportFacts, ReportTask

SHOWN_STATES = ("queued", "launching", "working", "talking", "parked", "pulling", "checking")
_STATE_LABELS = {"talking": "reminded", "pulling": "brought home", "checking": "checked by us"}
_HIGH, _WIDE = 640, 1000.0  # pixels for all rows; units from the begin to the end
_TICK_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800)


def render_timeline(facts: ReportFacts) -> str:
    """The picture and what its colours mean; nothing while there is no task."""
    tasks = sorted((one for one in facts.tasks if one.spans), key=_build_sort_key)
    if not tasks:
        return ""
    begin, end = facts.started_at, max(facts.ended_at, facts.started_at + 1.0)
    row = max(3.0, min(18.0, _HIGH / len(tasks)))
    high = row * len(tasks)

    def x(at: float) -> float:
        return round((at - begin) / (end - begin) * _WIDE, 2)

    body = "".join(_render_row(one, at * row, row, x) for at, one in enumerate(tasks))
    ready = facts.rows_by_type.get("standing")
    first = x(clock.parse_timestamp(ready[0]["at"])) if ready else 0.0
    shade = f'<rect class="untouched" x="0" y="0" width="{first}" height="{high:.1f}"><title>every test, untouched</title></rect>'
    ticks = _list_ticks(begin, end)
    lines = "".join(f'<line x1="{x(at)}" x2="{x(at)}" y1="0" y2="{high:.1f}"/>' for at, _ in ticks)
    labels = "".join(f'<span style="left:{x(at) / _WIDE * 100:.2f}%">{label}</span>' for at, label in ticks)
    seen = {span.state for one in tasks for span in one.spans}
    key = "".join(
        f'<span class="{to_class_name(name)}"><i></i>{_STATE_LABELS.get(name, name)}</span>'
        for name in SHOWN_STATES
        if name in seen
    )
    key = '<span class="c-untouched"><i></i>tests, untouched</span>' * bool(ready) + key
    ends = sorted({str(one.status_row["outcome"]) for one in tasks if one.status_row["outcome"]})
    key += "".join(f'<span class="{to_class_name(name)} end"><i></i>{escape_long(name)}</span>' for name in ends)
    return (
        f'<div class="key">{key}</div><div class="timeline"><svg viewBox="0 0 {_WIDE:.0f} {high:.1f}" preserveAspectRatio="none" '
        f'style="height:{high:.0f}px" role="img" aria-label="timeline">{shade}<g class="lines">{lines}</g>{body}</svg>'
        f'<div class="axis">{labels}</div></div>'
    )


def _build_sort_key(one: ReportTask) -> tuple[float, str]:
    """Who was launched first comes first; who waits, last."""
    begun = [span.begin for span in one.spans if span.state != "queued"]
    return (min(begun) if begun else float("inf"), one.title)


def _render_row(one: ReportTask, top: float, row: float, x: Callable[[float], float]) -> str:
    gap = 0.0 if row < 5 else min(3.0, row * 0.2)
    rects = []
    for span in one.spans:
        wide = max(x(span.end) - x(span.begin), 0.0 if span.state == "queued" else 0.8)
        thin = 0.35 if span.state == "queued" else 1.0
        high = (row - gap) * thin
        y = top + (row - gap - high) / 2
        rects.append(
            f'<rect class="{to_class_name(span.state)}" x="{x(span.begin)}" y="{y:.2f}" width="{wide:.2f}" height="{high:.2f}"/>'
        )
    if one.status_row["outcome"]:
        at = x(one.spans[-1].end)
        rects.append(
            f'<rect class="{to_class_name(one.status_row["outcome"])} end" x="{at}" y="{top:.2f}" width="5" height="{row - gap:.2f}"/>'
        )
    spent = format_duration(one.status_row["seconds"])
    title = f"{escape_plain(one.title, 200)}: {escape_long(one.outcome)}{f', {spent}' if spent else ''}"
    back = f'<rect class="back" x="0" y="{top:.2f}" width="{_WIDE:.0f}" height="{row:.2f}"/>'
    return f'<a href="tasks/{escape_plain(one.slug)}.html" data-slug="{escape_plain(one.slug)}"><title>{title}</title>{back}{"".join(rects)}</a>'


def _list_ticks(begin: float, end: float) -> list[tuple[float, str]]:
    """At most ten times at even distances, counted from the begin."""
    step = next((step for step in _TICK_SECONDS if (end - begin) / step <= 10), _TICK_SECONDS[-1])
    count = int((end - begin) / step)
    return [(begin + n * step, _format_tick(n * step)) for n in range(count + 1)][:200]


def _format_tick(seconds: int) -> str:
    if seconds == 0:
        return "0"
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d} h" if hours else f"{rest // 60}:{rest % 60:02d}" if rest >= 60 else f"{rest} s"
