from __future__ import annotations

from typing import Any

import pytest

from mngr.mapreduce.governor import Governor, RunLimits, RunLoad, classify_error, is_timeout_error


def load(now: float = 0.0, **more: Any) -> RunLoad:
    return RunLoad(**{"now": now, "working": 0, "starting": 0, "settled": 1, **more})


def test_slots_and_what_is_starting() -> None:
    governor = Governor(RunLimits(max_agents=10, max_starting=4))
    assert governor.decide_launches(load()).count == 4
    assert governor.decide_launches(load(working=8, starting=1)).count == 2
    assert governor.decide_launches(load(working=10)).count == 0
    assert governor.decide_launches(load(working=12)).count == 0


def test_a_few_go_ahead_until_one_went_all_the_way() -> None:
    governor = Governor(RunLimits(max_agents=10, max_starting=10, canary=3))
    assert governor.decide_launches(load(settled=0)).count == 3
    assert governor.decide_launches(load(settled=0, working=3)).count == 0
    assert governor.decide_launches(load(settled=1, working=3)).count == 7
    assert Governor(RunLimits(max_agents=2, canary=3)).decide_launches(load(settled=0)).count == 2


@pytest.mark.parametrize(
    ("limits", "more"),
    [
        (RunLimits(budget=1.0), {"spent": 1.0}),
        (RunLimits(budget_per_day=1.0), {"spent": 0.4, "spent_today": 0.6}),
        (RunLimits(max_tokens=100), {"tokens": 100}),
        (RunLimits(deadline=60.0), {"now": 60.0}),
    ],
)
def test_what_is_used_up_ends_the_launches_for_good(limits: RunLimits, more: dict[str, Any]) -> None:
    assert Governor(limits).decide_launches(load()).count == 4
    gate = Governor(limits).decide_launches(load(**more))
    assert gate.count == 0 and gate.is_final and gate.reason


def test_memory_and_disk_hold_launches_up_and_nothing_more() -> None:
    governor = Governor(RunLimits(free_memory=1000, free_disk=1000))
    for short in ({"memory": 999}, {"disk": 999}):
        gate = governor.decide_launches(load(**short))
        assert gate.count == 0 and not gate.is_final and "free" in (gate.reason or "")
    assert governor.decide_launches(load(memory=1000, disk=1000)).count == 4


def test_a_limit_halves_and_success_adds() -> None:
    governor = Governor(RunLimits(max_agents=16, max_starting=16))
    assert governor.record_rate_limit(100.0, 110.0) and governor.max_parallel == 8
    assert not governor.record_rate_limit(101.0, 111.0) and governor.max_parallel == 8  # one limit, told by many
    assert governor.decide_launches(load(105.0)).count == 0
    assert governor.decide_launches(load(112.0)).count == 8
    assert governor.record_rate_limit(130.0) and governor.max_parallel == 4
    for _ in range(4):
        governor.record_success()
    assert 4.9 < governor.max_parallel < 5.0
    for _ in range(1000):
        governor.record_success()
    assert governor.max_parallel == 16
    for at in range(0, 4000, 100):
        governor.record_rate_limit(float(at))
    assert governor.max_parallel == 1.0


def test_those_that_fail_alike_open_the_circuit() -> None:
    governor = Governor(RunLimits(alarm=3))
    assert governor.record_failure("launch", "setup failed with exit code 1: uv sync in /a/b1", "a") is None
    assert (
        governor.record_failure("launch", "setup failed with exit code 1: uv sync in /a/b1", "a") is None
    )  # the same one again
    assert governor.record_failure("work", "another thing", "x") is None
    assert governor.record_failure("launch", "setup failed with exit code 2: uv sync in /a/b2", "b") is None
    alarm = governor.record_failure("launch", "setup failed with exit code 1: uv sync in /a/b3", "c")
    assert alarm is not None and alarm["cause"] == "dependency" and alarm["tasks"] == ["a", "b", "c"]
    gate = governor.decide_launches(load())
    assert gate.count == 0 and not gate.is_final and "3 failed alike at launch" in (gate.reason or "")
    assert governor.record_failure("launch", "setup failed", "d") is None  # it is open
    governor.clear_alarm()
    assert governor.decide_launches(load()).count == 4


def test_success_in_between_says_that_it_is_not_for_all() -> None:
    governor = Governor(RunLimits(alarm=2))
    assert governor.record_failure("work", "no result", "a") is None
    governor.record_success()
    assert governor.record_failure("work", "no result", "b") is None


def test_a_probe_goes_alone_and_now_and_then() -> None:
    governor = Governor(RunLimits(alarm=1, on_alarm="probe"))
    assert governor.record_failure("prompt", "429 Too Many Requests", "a", now=100.0)
    assert governor.decide_launches(load(104.0)).count == 0
    assert governor.decide_launches(load(106.0, working=1)).count == 0
    assert governor.decide_launches(load(106.0)).count == 1
    assert governor.decide_launches(load(115.0)).count == 0  # later each time
    assert governor.decide_launches(load(116.0)).count == 1


def test_a_dead_login_is_everybodys_at_once_but_not_one_that_a_text_speaks_of() -> None:
    governor = Governor(RunLimits(alarm=3))
    assert governor.record_failure("work", "the test of the login fails", "a") is None
    alarm = governor.record_failure("work", "the login is dead", "b", cause="login")
    assert alarm is not None and alarm["cause"] == "login"


def test_whose_trouble_it_is_can_be_known_better_than_by_the_text() -> None:
    governor = Governor(RunLimits(alarm=1))
    alarm = governor.record_failure("work", "timeout", "a", cause="host")
    assert alarm is not None and alarm["cause"] == "host"
    assert (
        is_timeout_error("timeout")
        and is_timeout_error("no sign of life, and it hangs")
        and not is_timeout_error("exit code 1")
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("API Error: 429 rate_limit_error", "rate_limit"),
        ("529 Overloaded", "rate_limit"),
        ("401 Unauthorized: please log in", "login"),
        ("box could not be reached", "host"),
        ("No space left on device", "host"),
        ("[project] setup failed with exit code 1", "dependency"),
        ("AssertionError: nothing", "code"),
    ],
)
def test_whose_trouble_it_is(text: str, cause: str) -> None:
    assert classify_error(text) == cause
