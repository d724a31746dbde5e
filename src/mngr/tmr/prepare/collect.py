"""Collects the tests with the project's own pytest, in the project's own environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CommandOutcome
from mngr.tmr.cleanroom.test_run import PROBE_ARGS, Failure, TestFunction, make_paths_relative, parse_failure

COLLECT_TIMEOUT = 600.0


class CollectedTests(Struct):
    """All tests in pytest's order, or the errors that prevented their collection."""

    tests: list[TestFunction]
    errors: list[str]  # as text for people
    failures: list[Failure] = []  # the same errors, as data
    resolved: dict[str, Any] = {}  # files of the project's packages and programs: see describe_foreign_code
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
        [*pytest, *PROBE_ARGS, *pytest_args], timeout=COLLECT_TIMEOUT, probe={"resolve": True, "program": program}
    )
    work_dir_prefix = f"{room.inner_work_dir}/"
    outcome = outcome.replace(
        probe_rows=make_paths_relative(outcome.probe_rows, work_dir_prefix),
        out=make_paths_relative(outcome.out, work_dir_prefix),
        err=make_paths_relative(outcome.err, work_dir_prefix),
    )
    end = next((row for row in outcome.probe_rows if row["row"] == "end"), {})
    failures = [failure for row in outcome.probe_rows if (failure := parse_failure(row)) is not None]
    tests = _parse_tests([row for row in outcome.probe_rows if row["row"] == "test"])
    errors = [failure.text.strip() or f"{failure.exception}: {failure.message}" for failure in failures]
    if not errors and (not end or not tests):
        errors = [_describe_error(outcome)]
    resolved, strays = end.get("resolved"), end.get("strays")
    return CollectedTests(
        tests=tests, errors=errors, failures=failures, resolved=resolved if isinstance(resolved, dict) else {},
        checkout_modules=[str(path) for path in strays] if isinstance(strays, list) else [],
        python=str(end.get("python", "")), pytest=str(end.get("pytest", "")), command=[*pytest, *pytest_args],
    )  # fmt: skip


def _parse_tests(rows: list[dict[str, Any]]) -> list[TestFunction]:
    """Return the test functions; node ids that differ only in parameters belong to one function."""
    fields_by_test: dict[str, dict[str, Any]] = {}
    for row in rows:
        test_id = str(row.get("test"))
        if test_id not in fields_by_test:
            line, markers = row.get("line"), row.get("markers")
            fields_by_test[test_id] = {
                "id": test_id, "ids": [], "path": str(row.get("path")), "line": line if isinstance(line, int) else None,
                "name": str(row.get("name")), "doc": str(row.get("doc", "")),
                "markers": [str(mark) for mark in markers] if isinstance(markers, list) else [],
            }  # fmt: skip
        fields_by_test[test_id]["ids"].append(str(row.get("id")))
    return [TestFunction(**fields) for fields in fields_by_test.values()]


def _describe_error(outcome: CommandOutcome) -> str:
    """Explain why pytest could not start or found no tests."""
    if outcome.timed_out:
        return f"collecting did not end within {outcome.seconds:.0f} s"
    text = (outcome.err.strip() or outcome.out.strip())[-4000:]
    if "mngr_probe" in text and "import" in text.lower():
        return f"{text}\n(the runner must hand PYTHONPATH on to pytest)"
    return text or f"pytest ended with exit code {outcome.code} and said nothing"
