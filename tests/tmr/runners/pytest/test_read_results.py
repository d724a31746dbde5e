"""Tests what mngr concludes from observer rows, messages and outcomes; nothing is run."""

from __future__ import annotations

from typing import Any

import pytest

from mngr.base.json_structs import decode, encode
from mngr.tmr.cleanroom.clean_room import CommandOutcome
from mngr.tmr.prepare.root_causes import group_failures, normalize_message, remove_volatile_parts
from mngr.tmr.runners.pytest.read_results import read_test_run
from mngr.tmr.runners.test_run import Failure, Frame, TestFunction, TestRun
from mngr.tmr.verify.receipt import decide_verdict

WORK = "/h/work/room-1"


def make_row(when: str, outcome: str, name: str = "t.py::test", **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "row": "phase",
        "id": name,
        "when": when,
        "outcome": outcome,
        "seconds": 0.1,
        **more,
    }
    if outcome == "failed":
        fields["failure"] = {"exception": "E", "message": f"{WORK}/a.txt is gone", "frames": []}
    return fields


def judge_rows(
    rows: list[dict[str, Any]], *, code: int = 0, ids: tuple[str, ...] = ("t.py::test",), **more: Any
) -> TestRun:
    test = TestFunction(id="t.py::test", ids=list(ids), path="t.py", name="test")
    return read_test_run(
        test,
        CommandOutcome(code=code, out="", err="", seconds=1.0, observer_rows=rows, **more),
        "pytest t.py::test",
        WORK,
    )


def test_a_repeated_attempt_counts_as_a_rerun_and_makes_the_receipt_flaky() -> None:
    first = [make_row("setup", "passed"), make_row("call", "failed"), make_row("teardown", "passed")]
    second = [make_row("setup", "passed"), make_row("call", "passed"), make_row("teardown", "passed")]
    run = judge_rows([*first, *second, {"row": "end", "exit": 0}])
    assert (run.outcome, run.reruns, run.failures) == ("pass", 1, [])
    assert decide_verdict([run], []) == ("flaky", "it passed only because a pytest plugin repeated it (repetitions: 1)")


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ([make_row("setup", "failed"), make_row("teardown", "passed")], "error"),
        ([make_row("setup", "passed"), make_row("call", "passed"), make_row("teardown", "failed")], "error"),
        ([make_row("setup", "passed"), make_row("call", "failed"), make_row("teardown", "failed")], "fail"),
        ([make_row("setup", "skipped", why="no"), make_row("teardown", "passed")], "skip"),
        ([], "error"),
    ],
)
def test_the_phases_of_a_test_determine_its_outcome(rows: list[dict[str, Any]], outcome: str) -> None:
    run = judge_rows([*rows, {"row": "end", "exit": 1}])
    assert run.outcome == outcome
    assert bool(run.failures) == (outcome in ("fail", "error"))


def test_paths_in_a_clean_room_are_relative_to_its_work_dir() -> None:
    run = judge_rows([make_row("setup", "passed"), make_row("call", "failed"), {"row": "end", "exit": 1}])
    assert run.why == "E: a.txt is gone" and run.missing == []


def test_a_test_with_one_skipped_parameter_still_passes() -> None:
    setups = [make_row("setup", "skipped", "t.py::test[1]", why="no"), make_row("setup", "passed", "t.py::test[2]")]
    run = judge_rows(
        [*setups, make_row("call", "passed", "t.py::test[2]"), {"row": "end", "exit": 0}],
        ids=("t.py::test[1]", "t.py::test[3]"),
    )
    assert (run.outcome, run.missing) == ("pass", ["t.py::test[3]"])


def test_malformed_observer_rows_do_no_harm() -> None:
    """A hostile test can write anything into the file of its rows."""
    rows: list[dict[str, Any]] = [
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
            "checkout_modules": {},
            "resolved": 1,
            "e2e": [3, {"path": "../../x"}, {"path": "/etc"}],
        },
    ]
    run = judge_rows(rows)
    assert run.outcome in ("fail", "error") and run.artifacts == [] and run.imported_from == {}
    assert decode(TestRun, encode(run)) == run


def test_volatile_parts_are_removed_from_messages() -> None:
    first = "no /tmp/pytest-of-me/pytest-3/x0/conf.toml for 3f2a9bc01d at 2026-01-02T03:04:05Z, 0x7f12, after 1.25s, port 40123"
    second = "no /tmp/pytest-of-you/pytest-81/x0/conf.toml for 9e01bb77aa at 2026-05-06T07:08:09Z, 0x7e00, after 0.5s, port 9"
    assert (
        remove_volatile_parts(first)
        == remove_volatile_parts(second)
        == "no PATH/conf.toml for HEX at TIME, HEX, after Ns, port N"
    )
    assert remove_volatile_parts("/a/b/one.txt is gone") != remove_volatile_parts("/a/b/two.txt is gone")
    assert normalize_message("ValueError", "bad 'x' and \"y\"") == normalize_message(
        "ValueError", "bad 'it\\'s' and \"z\""
    )
    assert normalize_message("KeyError", "'x'") != normalize_message("KeyError", "'y'")
    assert remove_volatile_parts("\x1b[31mred\x1b[0m\nmore") == "red"
    assert remove_volatile_parts("the following failed:\nthis") == "the following failed: this"


def make_failed_run(
    test: str, exception: str, message: str, *frames: tuple[str, int, str], when: str = "call"
) -> TestRun:
    all_frames = [Frame(path=path, line=line, function=function, project=True) for path, line, function in frames]
    failure = Failure(id=test, when=when, exception=exception, message=message, frames=all_frames)
    outcome = "fail" if when == "call" else "error"
    return TestRun(test=test, outcome=outcome, seconds=1.0, exit_code=1, command="", failures=[failure])


def list_group_sizes(*runs: TestRun) -> list[int]:
    return [len(root_cause.tests) for root_cause in group_failures({run.test: run for run in runs})]


def test_errors_in_a_test_helper_are_grouped_but_its_failed_assertions_are_not() -> None:
    helper = ("tests/helpers.py", 7, "start")
    broken = [
        make_failed_run(f"tests/t.py::t{n}", "TypeError", "start() takes 1", ("tests/t.py", n, f"t{n}"), helper)
        for n in range(4)
    ]
    assert list_group_sizes(*broken) == [4]
    checks = [
        make_failed_run(f"tests/t.py::t{n}", "AssertionError", "assert 1 == 0", ("tests/t.py", n, f"t{n}"), helper)
        for n in range(4)
    ]
    assert list_group_sizes(*checks) == [1, 1, 1, 1]


def test_the_same_import_error_in_several_files_is_one_root_cause() -> None:
    message = "cannot import name 'x' from 'shop' (/h/work/room-1/shop/__init__.py)"
    missing = [
        make_failed_run(f"tests/t{n}.py::t", "ImportError", message, (f"tests/t{n}.py", 1, "<module>"), when="collect")
        for n in range(3)
    ]
    assert list_group_sizes(*missing) == [3]


def test_the_same_message_at_two_locations_is_two_root_causes() -> None:
    first = make_failed_run("tests/t.py::a", "RuntimeError", "no", ("tests/t.py", 1, "a"), ("shop/a.py", 3, "f"))
    second = make_failed_run("tests/t.py::b", "RuntimeError", "no", ("tests/t.py", 5, "b"), ("shop/b.py", 3, "f"))
    like_first = make_failed_run("tests/t.py::c", "RuntimeError", "no", ("tests/t.py", 9, "c"), ("shop/a.py", 3, "f"))
    assert sorted(list_group_sizes(first, second, like_first)) == [1, 2]


def test_the_verdict_follows_from_the_observed_runs() -> None:
    passed = TestRun(test="t", outcome="pass", seconds=1.0, exit_code=0, command="")
    failed = passed.replace(outcome="fail", why="E: no")
    affected = passed.replace(test="w")
    assert decide_verdict([passed, passed], [affected, affected])[0] == "confirmed"
    assert decide_verdict([passed, failed], []) == ("flaky", "it passed 1 of 2 times; first failure (fail): E: no")
    assert decide_verdict([failed, failed], []) == ("refuted", "it failed 2 of 2 times: E: no")
    assert decide_verdict([passed], [affected.replace(outcome="timeout", why="late")]) == (
        "refuted",
        "the affected test w does not pass: late",
    )
    assert decide_verdict([passed], [], "elsewhere") == ("unverified", "wrong code under test: elsewhere")
