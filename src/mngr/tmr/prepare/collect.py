"""What tests there are, by pytest itself in the project's own environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mngr.base.model import Record
from mngr.tmr.cleanroom.rooms import Ran, Room
from mngr.tmr.cleanroom.test_run import PROBE, Failure, Test, failure_of, near

TIMEOUT = 600.0


class Collected(Record):
    """All tests in pytest's order, or what stands in the way of knowing them."""

    tests: list[Test]
    errors: list[str]  # for people
    failures: list[Failure] = []  # the same, as data
    resolved: dict[str, Any] = {}  # where the project's packages and programs lead: see resolve.problems
    strays: list[str] = []  # modules that came from the user's checkout
    python: str = ""
    pytest: str = ""
    command: list[str] = []


def collect(
    room: Room,
    pytest: Sequence[str],
    paths: Sequence[str] = (),
    args: Sequence[str] = (),
    *,
    program: str | None = None,
) -> Collected:
    """Ask pytest; raises MngrError when the room is the trouble. `program` is the one that the project is about."""
    words = ["--collect-only", "-q", *args, *paths]
    ran = room.run([*pytest, *PROBE, *words], timeout=TIMEOUT, probe={"resolve": True, "program": program})
    place = f"{room.place}/"
    ran = ran.replace(rows=near(ran.rows, place), out=near(ran.out, place), err=near(ran.err, place))
    end = next((row for row in ran.rows if row["row"] == "end"), {})
    failures = [failure for row in ran.rows if (failure := failure_of(row)) is not None]
    tests = _tests([row for row in ran.rows if row["row"] == "test"])
    errors = [failure.text.strip() or f"{failure.exception}: {failure.message}" for failure in failures]
    if not errors and (not end or not tests):
        errors = [_complaint(ran)]
    resolved, strays = end.get("resolved"), end.get("strays")
    return Collected(
        tests=tests, errors=errors, failures=failures, resolved=resolved if isinstance(resolved, dict) else {},
        strays=[str(path) for path in strays] if isinstance(strays, list) else [],
        python=str(end.get("python", "")), pytest=str(end.get("pytest", "")), command=[*pytest, *words],
    )  # fmt: skip


def _tests(rows: list[dict[str, Any]]) -> list[Test]:
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
    return [Test(**facts) for facts in found.values()]


def _complaint(ran: Ran) -> str:
    """What a pytest said that could not even begin, or found nothing."""
    if ran.timed_out:
        return f"collecting did not end within {ran.seconds:.0f} s"
    text = (ran.err.strip() or ran.out.strip())[-4000:]
    if "mngr_probe" in text and "import" in text.lower():
        return f"{text}\n(the runner must hand PYTHONPATH on to pytest)"
    return text or f"pytest ended with exit code {ran.code} and said nothing"
