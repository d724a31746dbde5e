"""Decides the outcome of a run of pytest from the observer's report, never from the terminal output."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from mngr.tmr.cleanroom.clean_room import CommandOutcome, ObserverRow
from mngr.tmr.runners.pytest.observer_report import (
    SessionEnd,
    TestPhase,
    count_started_programs,
    find_failure,
    find_loaded_files,
    find_session_end,
    make_row_paths_relative,
    parse_lines,
    parse_phase,
    select_rows,
)
from mngr.tmr.runners.test_run import Failure, TestFunction, TestRun, first_line, is_own_source

_MAX_OUTPUT = 8_000  # characters of pytest's output that a run keeps


def read_test_run(test: TestFunction, command_outcome: CommandOutcome, command: str, work_dir: str) -> TestRun:
    """Build the run from the observer's report, with paths relative to the work dir."""
    command_outcome = make_paths_relative(command_outcome, work_dir)
    rows = command_outcome.observer_rows
    phases = [parse_phase(row) for row in select_rows(rows, "phase")]
    end = find_session_end(rows)
    ids, reruns = combine_phases(phases)
    failures = list_failures(rows)
    outcome, reason = _decide_outcome(command_outcome, ids, failures, phases, end)
    if outcome in ("fail", "error") and not failures:
        failures = [_make_output_failure(test, command_outcome, reason)]
    end = end or SessionEnd()
    return TestRun(
        test=test.id,
        outcome=outcome,
        why=reason,
        seconds=command_outcome.seconds,
        cpu=command_outcome.cpu,
        exit_code=command_outcome.code,
        ids=ids,
        missing=[node_id for node_id in test.ids if node_id not in ids],
        failures=failures,
        reruns=reruns,
        command=command,
        imported_from=end.imported,
        wrong_code=_list_wrong_code(end),
        resolved=end.resolved,
        output=_cut_output(command_outcome.out + command_outcome.err),
        transcripts={session.test: session.text for session in end.sessions},
        artifacts=[session.path for session in end.sessions if is_in_work_dir(session.path)],
        left=command_outcome.leftover_processes,
        findings=[finding.replace(path=test.path) for finding in command_outcome.findings],
        environment=end.environment,
        lines=parse_lines(rows),
        programs=count_started_programs(rows),
        loaded=find_loaded_files(rows),
    )


def make_paths_relative(command_outcome: CommandOutcome, work_dir: str) -> CommandOutcome:
    """Return the outcome with all paths relative to the work dir, so that results are the same in all clean rooms."""
    prefix = f"{work_dir}{os.sep}"
    return command_outcome.replace(
        observer_rows=make_row_paths_relative(command_outcome.observer_rows, prefix),
        out=command_outcome.out.replace(prefix, ""),
        err=command_outcome.err.replace(prefix, ""),
    )


def combine_phases(phases: Sequence[TestPhase]) -> tuple[dict[str, str], int]:
    """Return the outcome of each node id's last attempt, and how many attempts were repeated."""
    outcomes: dict[str, str] = {}
    attempts: dict[str, int] = {}
    for phase in phases:
        if phase.when == "setup":
            attempts[phase.id] = attempts.get(phase.id, 0) + 1
            outcomes.pop(phase.id, None)
        if phase.outcome == "failed":
            has_failed_in_test = phase.when == "call" or outcomes.get(phase.id) == "fail"
            outcomes[phase.id] = "fail" if has_failed_in_test else "error"
        elif phase.outcome == "skipped":
            outcomes.setdefault(phase.id, "skip")
        elif phase.when == "call":
            outcomes.setdefault(phase.id, "pass")
    return outcomes, sum(attempts.values()) - len(attempts)


def list_failures(rows: Sequence[ObserverRow]) -> list[Failure]:
    """Return the failures without those of repeated attempts."""
    last_setups = {str(row.get("id")): position for position, row in enumerate(rows) if row.get("when") == "setup"}
    failures: list[Failure] = []
    for position, row in enumerate(rows):
        is_repeated = row["row"] == "phase" and position < last_setups.get(str(row.get("id")), 0)
        failure = None if is_repeated else find_failure(row)
        if failure is not None:
            failures.append(failure)
    return failures


def _decide_outcome(
    command_outcome: CommandOutcome,
    ids: dict[str, str],
    failures: list[Failure],
    phases: list[TestPhase],
    end: SessionEnd | None,
) -> tuple[str, str]:
    """Return the outcome of the run, and the reason when it is not a pass."""
    ended_just_in_time = end is not None and end.exit in (0, 1)
    if command_outcome.timed_out and not ended_just_in_time:
        return "timeout", f"it did not finish within {command_outcome.timeout:g} s"
    if command_outcome.stop_reason:
        return "crash", command_outcome.stop_reason
    if end is None:
        return _explain_missing_end(command_outcome)
    if not ids and not failures:
        return "error", _last_line(command_outcome) or "pytest found no test to run"
    return decide_reported_outcome(ids, failures, phases)


def decide_reported_outcome(
    ids: Mapping[str, str], failures: Sequence[Failure], phases: Sequence[TestPhase]
) -> tuple[str, str]:
    """Return the outcome of tests that ran to their end, and the reason when it is not a pass."""
    outcomes = set(ids.values())
    if "fail" in outcomes:
        return "fail", get_headline(failures)
    if "error" in outcomes or failures:
        return "error", get_headline(failures)
    if outcomes == {"skip"}:
        reasons = [phase.why for phase in phases if phase.why]
        return "skip", reasons[0] if reasons else "skipped"
    return "pass", ""


def _explain_missing_end(command_outcome: CommandOutcome) -> tuple[str, str]:
    """Return the outcome and the reason of a run in which pytest did not reach its end."""
    code = command_outcome.code
    has_begun = any(row["row"] in ("begin", "phase") for row in command_outcome.observer_rows)
    if has_begun:
        exit_text = f"signal {-code}" if code < 0 else f"exit code {code}"
        return "crash", f"pytest itself ended during the test: {exit_text}"
    return "error", _last_line(command_outcome) or f"pytest did not start: exit code {code}"


def _make_output_failure(test: TestFunction, command_outcome: CommandOutcome, reason: str) -> Failure:
    """Return a failure from pytest's output, for options, plugins or a conftest that pytest rejected."""
    return Failure(
        id=test.id,
        when="collect",
        exception="",
        message=reason,
        text=_cut_output(command_outcome.err or command_outcome.out),
    )


def _list_wrong_code(end: SessionEnd) -> list[str]:
    """Describe the project's code that came from outside the clean room, or from an installed copy."""
    installed = [
        f"the tests imported {name} from {path}" for name, path in end.imported.items() if not is_own_source(path)
    ]
    return installed + [f"the tests imported {path}" for path in end.checkout_modules]


def is_in_work_dir(path: str) -> bool:
    """True when a path from a report stays in the work dir."""
    return bool(path) and not os.path.isabs(path) and ".." not in path.split(os.sep)


def get_headline(failures: Sequence[Failure]) -> str:
    """Return the first failure as one line for people."""
    first = failures[0]
    return f"{first.exception}: {first_line(first.message)}".strip(": ") or first_line(first.text)


def _last_line(command_outcome: CommandOutcome) -> str:
    """Return pytest's first error line, or its first line, about why it ran nothing."""
    lines = [line.strip() for line in (command_outcome.err + "\n" + command_outcome.out).splitlines() if line.strip()]
    error_lines = [line for line in lines if line.startswith(("ERROR", "E   ")) or "rror:" in line]
    return (error_lines or lines or [""])[0][:500]


def _cut_output(text: str) -> str:
    return text if len(text) <= _MAX_OUTPUT else text[-_MAX_OUTPUT:]
