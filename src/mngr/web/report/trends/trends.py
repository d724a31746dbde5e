"""The trends of a project's test runs: pass rate, flaky tests, cost and time, as plots and as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.tmr.prepare.history.flaky_list import FlakyTest, FlakyTestFile
from mngr.web.report.report_data import ReportFacts
from mngr.web.report.trends.run_summaries import RunSummary, load_run_summaries
from mngr.web.templates import format_dollars, format_duration, render_template

_WIDTH, _HEIGHT = 360.0, 170.0  # SVG units of a plot.
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 352.0, 12.0, 142.0
_MAX_FLAKY = 100
_STEPS = (1, 2, 2.5, 5, 10)  # Between two marks on an axis, times a power of ten.
_TIME_STEPS = (1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 18000, 36000, 86400)


class PlotPoint(Struct):
    """The value of one run."""

    x: float
    y: float
    label: str
    run: str


class PlotSeries(Struct):
    """The values of all runs, as one line."""

    name: str  # before | after | value
    label: str
    points: list[PlotPoint]


class PlotTick(Struct):
    """A mark on an axis."""

    position: float
    label: str


class Plot(Struct):
    """A plot over all runs."""

    title: str
    width: float
    height: float
    left: float
    right: float
    bottom: float
    series: list[PlotSeries]
    rows: list[PlotTick]  # From the bottom to the top.
    latest: str  # The value of the last run.


class Trends(Struct):
    """The trends of a project."""

    runs: list[RunSummary]  # The oldest first.
    plots: list[Plot]
    flaky_tests: list[FlakyTest]  # The latest first.


def load_trends(local: Host, root: str, current: ReportFacts | None = None) -> Trends:
    """Return the trends of a project. `current` is a run that may not have ended yet."""
    runs = load_run_summaries(local, root, current)
    flaky_tests = sorted(FlakyTestFile(local.home, root).read().values(), key=lambda test: test.last_seen, reverse=True)
    return Trends(runs=runs, plots=_build_plots(runs), flaky_tests=flaky_tests[:_MAX_FLAKY])


def render_trends(facts: ReportFacts, trends: Trends) -> str:
    """Return the page with the trends, which is beside the first page of a report."""
    return render_template(
        "report/trends.html", up="", plays=False, is_live=facts.is_live, run=facts.run.name, trends=trends
    )


def _build_plots(runs: Sequence[RunSummary]) -> list[Plot]:
    before = {"before": [run.share_before for run in runs], "after": [run.share_after for run in runs]}
    counts = {"value": [float(run.flaky) for run in runs]}
    costs = {"value": [run.cost for run in runs]}
    seconds = {"value": [run.seconds for run in runs]}
    plots = [
        _build_plot("Tests that pass", runs, before, _format_share, 1.0),
        _build_plot("Flaky tests", runs, counts, lambda value: f"{value:.0f}", None),
        _build_plot("Cost", runs, costs, format_dollars, None),
        _build_plot("Time", runs, seconds, format_duration, None),
    ]
    return [plot for plot in plots if plot is not None]


def _format_share(share: float) -> str:
    """Return a share in percent. Only a whole is 100%."""
    return f"{math.floor(share * 1000) / 10:g}%"


def _build_plot(
    title: str,
    runs: Sequence[RunSummary],
    values_by_series: Mapping[str, Sequence[float | None]],
    format_value: Callable[[float], str],
    highest: float | None,
) -> Plot | None:
    """Return a plot, or None if no run has a value. With `highest`, the axis ends there and may begin above zero."""
    labels = {"before": "before the run", "after": "with all merged changes", "value": ""}
    shown = [value for values in values_by_series.values() for value in values if value is not None]
    if not shown:
        return None
    low, high = 0.0, highest or 0.0
    if highest is None:
        steps = _TIME_STEPS if format_value is format_duration else ()
        high = _round_up(max(shown), steps)
    else:
        low = min(highest - 0.1, math.floor(min(shown) * 10) / 10)

    def to_y(value: float) -> float:
        return round(_BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP), 1)

    series = []
    for name, values in values_by_series.items():
        points = [
            PlotPoint(x=_to_x(index, len(runs)), y=to_y(value), label=format_value(value), run=runs[index].run)
            for index, value in enumerate(values)
            if value is not None
        ]
        if points:
            series.append(PlotSeries(name=name, label=labels[name], points=points))
    marks = [low, high] if high - low <= 1 and highest is None else [low, (low + high) / 2, high]
    return Plot(
        title=title,
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=_RIGHT,
        bottom=_BOTTOM,
        series=series,
        rows=[PlotTick(position=to_y(mark), label=format_value(mark) if mark else "0") for mark in marks],
        latest=max((each.points[-1] for each in reversed(series)), key=lambda point: point.x).label,
    )


def _to_x(index: int, count: int) -> float:
    """Return the horizontal position of a run. All runs have the same distance."""
    return round(_LEFT + (index + 0.5) / count * (_RIGHT - _LEFT), 1)


def _round_up(value: float, steps: Sequence[float]) -> float:
    """Return the end of an axis: a number that is easy to read, and at least the value."""
    if steps:
        return next((float(2 * step) for step in steps if 2 * step >= value), float(math.ceil(value / 86400) * 86400))
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in _STEPS if step * power >= value * 0.999999)
