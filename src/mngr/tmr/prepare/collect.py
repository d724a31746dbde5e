"""What tests there are, by pytest itself in the project's own environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CommandOutcome
from mngr.tmr.cleanroom.test_run import PROBE_ARGS, Failure, TestFunction, make_paths_relative, parse_failure

COLLECT_TIMEOUT = 600.0


class CollectedTests(Struct):
    """All tests in pytest's order, or what stands in the way of knowing them."""

    tests: list[TestFunction]
    errors: list[str]  # for people
    failures: list[Failure] = []  # the same, as data
    resolved: dict[str, Any] = {}  # where the project's packages and programs lead: see resolve.problems
    checkout_modules: list[str] = []  # modules that came from the user's checkout
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
    """Ask pytest; raises MngrError when the room is the trouble. `program` is the one that the project is about."""
    words = ["--collect-only", "-q", *args, *paths]
    ran = room.run([*pytest, *PROBE_ARGS, *words], timeout=COLLECT_TIMEOUT, probe={"resolve": True, "program": program})
    place = f"{room.inner_work_dir}/"
    ran = ran.replace(
        probe_rows=make_paths_relative(ran.probe_rows, place),
        out=make_paths_relative(ran.out, place),
        err=make_paths_relative(ran.err, place),
    )
    end = next((row for row in ran.probe_rows if row["row"] == "end"), {})
    failures = [failure for row in ran.probe_rows if (failure := parse_failure(row)) is not None]
    tests = _parse_tests([row for row in ran.probe_rows if row["row"] == "test"])
    errors = [failure.text.strip() or f"{failure.exception}: {failure.message}" for failure in failures]
    if not errors and (not end or not tests):
        errors = [_describe_error(ran)]
    resolved, strays = end.get("resolved"), end.get("strays")
    return CollectedTests(
        tests=tests, errors=errors, failures=failures, resolved=resolved if isinstance(resolved, dict) else {},
        checkout_modules=[str(path) for path in strays] if isinstance(strays, list) else [],
        python=str(end.get("python", "")), pytest=str(end.get("pytest", "")), command=[*pytest, *words],
    )  # fmt: skip


def _parse_tests(rows: list[dict[str, Any]]) -> list[TestFunction]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = str(row.get("test"))
        if name not in found:
            line, markers = row.get("line"), row.get("markers")
            found[name] = {
                "id": name, "ids": [], "path": str(row.get("path")), "line": line if isinstance(line, int) else None,
                "name": str(row.get("name")), "doc": str(row.get("doc", "")),
                "markers": [str(mark) for mark in markers] if isinstance(markers, list) else [],
            }  # fmt: skip
        found[name]["ids"].append(str(row.get("id")))
    return [TestFunction(**facts) for facts in found.values()]


def _describe_error(ran: CommandOutcome) -> str:
    """What a pytest said that could not even begin, or found nothing."""
    if ran.timed_out:
        return f"collecting did not end within {ran.seconds:.0f} s"
    text = (ran.err.strip() or ran.out.strip())[-4000:]
    if "mngr_probe" in text and "import" in text.lower():
        return f"{text}\n(the runner must hand PYTHONPATH on to pytest)"
    return text or f"pytest ended with exit code {ran.code} and said nothing"
