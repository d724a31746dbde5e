"""Reads which tests the project's own pytest collects, from the observer's report."""

from __future__ import annotations

from mngr.base.untrusted_json import as_list, get_text
from mngr.tmr.cleanroom.clean_room import CommandOutcome, ObserverRow
from mngr.tmr.runners.pytest.observer_report import SessionEnd, find_failure, find_session_end, select_rows
from mngr.tmr.runners.pytest.read_results import make_paths_relative
from mngr.tmr.runners.test_run import CollectedTests, TestFunction

_MAX_OUTPUT = 20_000  # characters


def read_collection(command_outcome: CommandOutcome, command: list[str], work_dir: str) -> CollectedTests:
    """Build the list of tests from the observer's report of `pytest --collect-only`."""
    outcome = make_paths_relative(command_outcome, work_dir)
    end = find_session_end(outcome.observer_rows)
    failures = [failure for row in outcome.observer_rows if (failure := find_failure(row)) is not None]
    tests = _parse_tests(select_rows(outcome.observer_rows, "test"))
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
        environment=end.environment,
        command=command,
        seconds=outcome.seconds,
        output=(outcome.out + outcome.err)[-_MAX_OUTPUT:],
    )


def _parse_tests(rows: list[ObserverRow]) -> list[TestFunction]:
    """Return the test functions; node ids that differ only in parameters belong to one function."""
    tests: dict[str, TestFunction] = {}
    ids: dict[str, list[str]] = {}
    for row in rows:
        test_id = str(row.get("test"))
        tests.setdefault(test_id, _parse_test(test_id, row))
        ids.setdefault(test_id, []).append(str(row.get("id")))
    return [test.replace(ids=ids[test_id]) for test_id, test in tests.items()]


def _parse_test(test_id: str, row: ObserverRow) -> TestFunction:
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
        return f"pytest did not finish collecting the tests within {outcome.seconds:.0f} s"
    text = (outcome.err.strip() or outcome.out.strip())[-4000:]
    if "mngr_observer" in text and "import" in text.lower():
        return f"{text}\n(the command in --pytest must pass PYTHONPATH on to pytest)"
    return text or f"pytest ended with exit code {outcome.code} and printed nothing"
