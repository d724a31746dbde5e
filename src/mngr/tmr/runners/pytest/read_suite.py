"""Reads the report of a pytest that ran several tests: one run per test, and which test ended pytest too early."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mngr.base.shell import join
from mngr.tmr.cleanroom.clean_room import CommandOutcome, ObserverRow
from mngr.tmr.runners.pytest.observer_report import (
    RecordedSession,
    find_session_end,
    parse_phase,
    parse_suite_lines,
    select_rows,
)
from mngr.tmr.runners.pytest.read_results import (
    combine_phases,
    decide_reported_outcome,
    get_headline,
    is_in_work_dir,
    list_failures,
    make_paths_relative,
    read_test_run,
)
from mngr.tmr.runners.test_run import SuiteRun, TestFunction, TestRun

_WHOLE_SUITE = TestFunction(id="", ids=[], path="", name="")


def read_suite_run(
    command_outcome: CommandOutcome,
    tests: Sequence[TestFunction],
    build_command: Callable[[str], list[str]],
    work_dir: str,
) -> SuiteRun:
    """Return the whole run, and the run of each of the tests that pytest ran to its end."""
    whole = read_test_run(_WHOLE_SUITE, command_outcome, "", work_dir)
    rows = make_paths_relative(command_outcome, work_dir).observer_rows
    started = [str(row.get("id")) for row in select_rows(rows, "begin")]
    ended = {str(row.get("id")) for row in select_rows(rows, "phase") if row.get("when") == "teardown"}
    rows_by_test: dict[str, list[ObserverRow]] = {}
    for row in select_rows(rows, "phase"):
        rows_by_test.setdefault(str(row.get("test", row.get("id"))), []).append(row)
    end = find_session_end(rows)
    sessions = end.sessions if end else []
    is_complete = end is not None and end.exit in (0, 1)
    interrupted = started[-1] if started and started[-1] not in ended else ""
    runs: dict[str, TestRun] = {}
    culprit = ""
    for test in tests:
        own_rows = rows_by_test.get(test.id, [])
        if interrupted in test.ids:
            culprit = test.id
        elif own_rows and (is_complete or ended.issuperset(test.ids)):
            runs[test.id] = _read_run(test, own_rows, sessions).replace(command=join(build_command(test.id)))
        elif own_failures := [failure for failure in list_failures(rows) if failure.id == test.path]:
            runs[test.id] = TestRun(
                test=test.id,
                seen="suite",
                outcome="error",
                why=get_headline(own_failures),
                seconds=0.0,
                exit_code=1,
                missing=test.ids,
                failures=own_failures,
                command=join(build_command(test.id)),
            )
    return SuiteRun(whole=whole, started=started, runs=runs, lines=parse_suite_lines(rows), culprit=culprit)


def _read_run(test: TestFunction, rows: Sequence[ObserverRow], sessions: Sequence[RecordedSession]) -> TestRun:
    """Return the run of one test from its own rows."""
    phases = [parse_phase(row) for row in rows]
    ids, reruns = combine_phases(phases)
    failures = list_failures(rows)
    outcome, reason = decide_reported_outcome(ids, failures, phases)
    own_sessions = [session for session in sessions if session.test in test.ids]
    return TestRun(
        test=test.id,
        seen="suite",
        outcome=outcome,
        why=reason,
        seconds=round(sum(phase.seconds for phase in phases), 6),
        exit_code=0 if outcome in ("pass", "skip") else 1,
        ids=ids,
        missing=[node_id for node_id in test.ids if node_id not in ids],
        failures=failures,
        reruns=reruns,
        command="",
        transcripts={session.test: session.text for session in own_sessions},
        artifacts=[session.path for session in own_sessions if is_in_work_dir(session.path)],
    )
