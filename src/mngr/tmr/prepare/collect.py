"""Collects the tests with the project's own pytest, in the project's own environment."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.base.json_values import as_list, get_text
from mngr.base.model import Struct
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CommandOutcome, ProbeRequest
from mngr.tmr.cleanroom.probe_report import (
    NOTHING_RESOLVED,
    Failure,
    ProbeRow,
    ResolvedCode,
    SessionEnd,
    find_failure,
    find_session_end,
    select_rows,
)
from mngr.tmr.cleanroom.test_run import PROBE_ARGS, TestFunction, make_paths_relative

COLLECT_TIMEOUT = 600.0


class CollectedTests(Struct):
    """All tests in pytest's order, or the errors that prevented their collection."""

    tests: list[TestFunction]
    errors: list[str]  # as text for people
    failures: list[Failure] = []  # the same errors, as data
    resolved: ResolvedCode = NOTHING_RESOLVED  # files of the project's packages and programs: see describe_foreign_code
    checkout_modules: list[str] = []  # modules that were imported from the user's checkout
    python: str = ""
    pytest: str = ""
    command: list[str] = []


def collect_tests(
    room: CleanRoom,
    pytest: Sequence[str],
    paths: Sequence[str] = (),
    args: Sequence[str] = (),
    *,
    program: str | None = None,
) -> CollectedTests:
    """Collect the tests with pytest in a clean room.

    `program` is the project's main command, if it has one. Raises MngrError when the clean room fails.
    """
    pytest_args = ["--collect-only", "-q", *args, *paths]
    outcome = room.run(
        [*pytest, *PROBE_ARGS, *pytest_args], timeout=COLLECT_TIMEOUT, probe=ProbeRequest(resolve=True, program=program)
    )
    outcome = make_paths_relative(outcome, room.inner_work_dir)
    end = find_session_end(outcome.probe_rows)
    failures = [failure for row in outcome.probe_rows if (failure := find_failure(row)) is not None]
    tests = _parse_tests(select_rows(outcome.probe_rows, "test"))
    errors = [failure.text.strip() or f"{failure.exception}: {failure.message}" for failure in failures]
    if not errors and (end is None or not tests):
        errors = [_describe_error(outcome)]
    end = end or SessionEnd()
    return CollectedTests(
        tests=tests,
        errors=errors,
        failures=failures,
        resolved=end.resolved,
        checkout_modules=end.checkout_modules,
        python=end.environment.get("python", ""),
        pytest=end.environment.get("pytest", ""),
        command=[*pytest, *pytest_args],
    )


def _parse_tests(rows: list[ProbeRow]) -> list[TestFunction]:
    """Return the test functions; node ids that differ only in parameters belong to one function."""
    tests: dict[str, TestFunction] = {}
    ids: dict[str, list[str]] = {}
    for row in rows:
        test_id = str(row.get("test"))
        tests.setdefault(test_id, _parse_test(test_id, row))
        ids.setdefault(test_id, []).append(str(row.get("id")))
    return [test.replace(ids=ids[test_id]) for test_id, test in tests.items()]


def _parse_test(test_id: str, row: ProbeRow) -> TestFunction:
    line = row.get("line")
    return TestFunction(
        id=test_id,
        ids=[],
        path=str(row.get("path")),
        line=line if isinstance(line, int) else None,
        name=str(row.get("name")),
        doc=get_text(row, "doc"),
        markers=[str(mark) for mark in as_list(row.get("markers"))],
    )


def _describe_error(outcome: CommandOutcome) -> str:
    """Explain why pytest could not start or found no tests."""
    if outcome.timed_out:
        return f"collecting did not end within {outcome.seconds:.0f} s"
    text = (outcome.err.strip() or outcome.out.strip())[-4000:]
    if "mngr_probe" in text and "import" in text.lower():
        return f"{text}\n(the runner must hand PYTHONPATH on to pytest)"
    return text or f"pytest ended with exit code {outcome.code} and said nothing"
