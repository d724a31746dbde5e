"""What is concluded from rows, messages and outcomes; nothing is run."""

from __future__ import annotations

from typing import Any

import pytest

from mngr.tmr.cleanroom.clean_rooms import CommandOutcome
from mngr.tmr.cleanroom.test_run import Failure, Frame, TestFunction, TestRun, read_test_run
from mngr.tmr.prepare.root_causes import group_failures, normalize_message, remove_volatile_parts
from mngr.tmr.verify.receipt import decide_verdict

WORK = "/h/work/room-1"


def row(when: str, outcome: str, name: str = "t.py::test", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "row": "phase",
        "id": name,
        "when": when,
        "outcome": outcome,
        "seconds": 0.1,
        **more,
    }
    if outcome == "failed":
        found["failure"] = {"exception": "E", "message": f"{WORK}/a.txt is gone", "frames": []}
    return found


def judged(
    rows: list[dict[str, Any]], *, code: int = 0, ids: tuple[str, ...] = ("t.py::test",), **more: Any
) -> TestRun:
    test = TestFunction(id="t.py::test", ids=list(ids), path="t.py", name="test")
    return read_test_run(
        test,
        CommandOutcome(code=code, out="", err="", seconds=1.0, probe_rows=rows, **more),
        "pytest t.py::test",
        WORK,
    )


def test_an_attempt_that_was_repeated_is_counted_and_not_a_failure() -> None:
    first = [row("setup", "passed"), row("call", "failed"), row("teardown", "passed")]
    second = [row("setup", "passed"), row("call", "passed"), row("teardown", "passed")]
    run = judged([*first, *second, {"row": "end", "exit": 0}])
    assert (run.outcome, run.reruns, run.failures) == ("pass", 1, [])
    assert decide_verdict([run], []) == ("flaky", "it passed only because a plugin repeated it: 1")


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ([row("setup", "failed"), row("teardown", "passed")], "error"),
        ([row("setup", "passed"), row("call", "passed"), row("teardown", "failed")], "error"),
        ([row("setup", "passed"), row("call", "failed"), row("teardown", "failed")], "fail"),
        ([row("setup", "skipped", why="no"), row("teardown", "passed")], "skip"),
        ([], "error"),
    ],
)
def test_phases_make_an_outcome(rows: list[dict[str, Any]], outcome: str) -> None:
    run = judged([*rows, {"row": "end", "exit": 1}])
    assert run.outcome == outcome
    assert bool(run.failures) == (outcome in ("fail", "error"))


def test_paths_of_a_room_do_not_matter() -> None:
    run = judged([row("setup", "passed"), row("call", "failed"), {"row": "end", "exit": 1}])
    assert run.why == "E: a.txt is gone" and run.missing == []


def test_one_skipped_parameter_does_not_make_it_skipped() -> None:
    both = [row("setup", "skipped", "t.py::test[1]", why="no"), row("setup", "passed", "t.py::test[2]")]
    run = judged(
        [*both, row("call", "passed", "t.py::test[2]"), {"row": "end", "exit": 0}],
        ids=("t.py::test[1]", "t.py::test[3]"),
    )
    assert (run.outcome, run.missing) == ("pass", ["t.py::test[3]"])


def test_rows_may_be_anything() -> None:
    """A hostile test can write what it likes where its rows go."""
    bad: list[dict[str, Any]] = [
        {"row": "phase"},
        {
            "row": "phase",
            "id": 3,
            "when": [],
            "outcome": "failed",
            "failure": {"frames": [1, {"line": "x"}], "sections": 7},
        },
        {
            "row": "end",
            "exit": "no",
            "imported": [],
            "strays": {},
            "resolved": 1,
            "e2e": [3, {"path": "../../x"}, {"path": "/etc"}],
        },
    ]
    run = judged(bad)
    assert run.outcome in ("fail", "error") and run.artifacts == [] and run.imported_from == {}
    assert TestRun.from_dict(run.to_dict()) == run


def test_what_changes_from_run_to_run_is_left_out_of_a_message() -> None:
    one = "no /tmp/pytest-of-me/pytest-3/x0/conf.toml for 3f2a9bc01d at 2026-01-02T03:04:05Z, 0x7f12, after 1.25s, port 40123"
    two = "no /tmp/pytest-of-you/pytest-81/x0/conf.toml for 9e01bb77aa at 2026-05-06T07:08:09Z, 0x7e00, after 0.5s, port 9"
    assert (
        remove_volatile_parts(one)
        == remove_volatile_parts(two)
        == "no PATH/conf.toml for HEX at TIME, HEX, after Ns, port N"
    )
    assert remove_volatile_parts("/a/b/one.txt is gone") != remove_volatile_parts("/a/b/two.txt is gone")
    assert normalize_message("ValueError", "bad 'x' and \"y\"") == normalize_message(
        "ValueError", "bad 'it\\'s' and \"z\""
    )
    assert normalize_message("KeyError", "'x'") != normalize_message("KeyError", "'y'")
    assert remove_volatile_parts("\x1b[31mred\x1b[0m\nmore") == "red"
    assert remove_volatile_parts("the following failed:\nthis") == "the following failed: this"


def failing(test: str, exception: str, message: str, *frames: tuple[str, int, str], when: str = "call") -> TestRun:
    places = [Frame(path=path, line=line, function=function, project=True) for path, line, function in frames]
    failure = Failure(id=test, when=when, exception=exception, message=message, frames=places)
    outcome = "fail" if when == "call" else "error"
    return TestRun(test=test, outcome=outcome, seconds=1.0, exit_code=1, command="", failures=[failure])


def sizes(*runs: TestRun) -> list[int]:
    return [len(cluster.tests) for cluster in group_failures({run.test: run for run in runs})]


def test_a_helper_of_the_tests_is_a_place_like_any_other_but_its_checks_are_the_tests_own() -> None:
    helper = ("tests/helpers.py", 7, "start")
    broken = [
        failing(f"tests/t.py::t{n}", "TypeError", "start() takes 1", ("tests/t.py", n, f"t{n}"), helper)
        for n in range(4)
    ]
    assert sizes(*broken) == [4]
    checks = [
        failing(f"tests/t.py::t{n}", "AssertionError", "assert 1 == 0", ("tests/t.py", n, f"t{n}"), helper)
        for n in range(4)
    ]
    assert sizes(*checks) == [1, 1, 1, 1]


def test_what_cannot_be_imported_is_one_cause_wherever_it_is_missed() -> None:
    message = "cannot import name 'x' from 'shop' (/h/work/room-1/shop/__init__.py)"
    missing = [
        failing(f"tests/t{n}.py::t", "ImportError", message, (f"tests/t{n}.py", 1, "<module>"), when="collect")
        for n in range(3)
    ]
    assert sizes(*missing) == [3]


def test_the_same_message_at_two_places_is_two_causes() -> None:
    one = failing("tests/t.py::a", "RuntimeError", "no", ("tests/t.py", 1, "a"), ("shop/a.py", 3, "f"))
    two = failing("tests/t.py::b", "RuntimeError", "no", ("tests/t.py", 5, "b"), ("shop/b.py", 3, "f"))
    same = failing("tests/t.py::c", "RuntimeError", "no", ("tests/t.py", 9, "c"), ("shop/a.py", 3, "f"))
    assert sorted(sizes(one, two, same)) == [1, 2]


def test_receipts_are_decided_by_what_was_seen() -> None:
    good = TestRun(test="t", outcome="pass", seconds=1.0, exit_code=0, command="")
    bad = good.replace(outcome="fail", why="E: no")
    other = good.replace(test="w")
    assert decide_verdict([good, good], [other, other])[0] == "confirmed"
    assert decide_verdict([good, bad], []) == ("flaky", "it passed 1 of 2 times; else fail: E: no")
    assert decide_verdict([bad, bad], []) == ("refuted", "it failed 2 of 2 times: E: no")
    assert decide_verdict([good], [other.replace(outcome="timeout", why="late")]) == (
        "refuted",
        "the witness w does not pass: late",
    )
    assert decide_verdict([good], [], "elsewhere") == ("unverified", "wrong code under test: elsewhere")
