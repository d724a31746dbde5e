"""Renders the runs of tests before any change: where mngr ran each test, and how the runs ended."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.tmr.prepare.verdict_of_one_test import combine_runs, describe_runs, explain_verdict
from mngr.tmr.runners.test_run import TestRun
from mngr.web.html_text import escape_plain, format_duration, render_chip, render_folded, render_list
from mngr.web.report.report_data import ReportFacts, ReportTask

_MAX_TESTS = 2000
_PLACES = {"suite": "in the suite", "alone": "alone"}


def render_task_baseline(task: ReportTask) -> str:
    """Return the runs of a task's test before any change, with an explanation if the runs differ."""
    runs = task.baseline_runs
    if not runs:
        return ""
    explanation = explain_verdict(combine_runs(runs))
    explanation_html = f'<p class="lead">{escape_plain(explanation)}</p>' if explanation else ""
    rows = "".join(_render_run(run) for run in runs)
    head = "<tr><th>where</th><th>outcome</th><th>time</th><th>reason</th></tr>"
    return f'{explanation_html}<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _render_run(run: TestRun) -> str:
    place = escape_plain(_PLACES.get(run.seen, run.seen), 40)
    return (
        f"<tr><td>{place}</td><td>{render_chip(run.outcome)}</td><td>{format_duration(run.seconds)}</td>"
        f"<td>{escape_plain(run.why, 500)}</td></tr>"
    )


def render_all_tests(facts: ReportFacts) -> str:
    """Return a folded list of all tests with their runs before any change. Tests that do not always pass come first."""
    verdicts = {test: combine_runs(runs) for test, runs in facts.baseline_runs.items()}
    tests = sorted(verdicts, key=lambda test: verdicts[test] == "pass")
    items = [_render_test(test, verdicts[test], facts.baseline_runs[test]) for test in tests[:_MAX_TESTS]]
    surplus = len(tests) - _MAX_TESTS
    note = f'<p class="note">{surplus} more tests are not shown.</p>' if surplus > 0 else ""
    noun = "test" if len(tests) == 1 else "tests"
    return render_folded(f"{len(tests)} {noun}, and where mngr ran them", render_list(items) + note) if items else ""


def _render_test(test: str, verdict: str, runs: Sequence[TestRun]) -> str:
    about = ". ".join(filter(None, [describe_runs(runs), explain_verdict(verdict)]))
    return f'{render_chip(verdict)} <code>{escape_plain(test, 300)}</code> <span class="quiet">{escape_plain(about, 400)}</span>'
