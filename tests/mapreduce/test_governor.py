from __future__ import annotations

from typing import Any

import pytest

from mngr.mapreduce.governor import Governor, Limits, Load, cause_of, is_slow


def load(now: float = 0.0, **more: Any) -> Load:
    return Load(**{"now": now, "working": 0, "starting": 0, "settled": 1, **more})


def test_slots_and_what_is_starting() -> None:
    governor = Governor(Limits(max_agents=10, max_starting=4))
    assert governor.gate(load()).room == 4
    assert governor.gate(load(working=8, starting=1)).room == 2
    assert governor.gate(load(working=10)).room == 0
    assert governor.gate(load(working=12)).room == 0


def test_a_few_go_ahead_until_one_went_all_the_way() -> None:
    governor = Governor(Limits(max_agents=10, max_starting=10, canary=3))
    assert governor.gate(load(settled=0)).room == 3
    assert governor.gate(load(settled=0, working=3)).room == 0
    assert governor.gate(load(settled=1, working=3)).room == 7
    assert Governor(Limits(max_agents=2, canary=3)).gate(load(settled=0)).room == 2


@pytest.mark.parametrize(
    ("limits", "more"),
    [
        (Limits(budget=1.0), {"spent": 1.0}),
        (Limits(budget_per_day=1.0), {"spent": 0.4, "spent_today": 0.6}),
        (Limits(max_tokens=100), {"tokens": 100}),
        (Limits(deadline=60.0), {"now": 60.0}),
    ],
)
def test_what_is_used_up_ends_the_launches_for_good(limits: Limits, more: dict[str, Any]) -> None:
    assert Governor(limits).gate(load()).room == 4
    gate = Governor(limits).gate(load(**more))
    assert gate.room == 0 and gate.is_final and gate.why


def test_memory_and_disk_hold_launches_up_and_nothing_more() -> None:
    governor = Governor(Limits(free_memory=1000, free_disk=1000))
    for short in ({"memory": 999}, {"disk": 999}):
        gate = governor.gate(load(**short))
        assert gate.room == 0 and not gate.is_final and "free" in (gate.why or "")
    assert governor.gate(load(memory=1000, disk=1000)).room == 4


def test_a_limit_halves_and_success_adds() -> None:
    governor = Governor(Limits(max_agents=16, max_starting=16))
    assert governor.limited(100.0, 110.0) and governor.window == 8
    assert not governor.limited(101.0, 111.0) and governor.window == 8  # one limit, told by many
    assert governor.gate(load(105.0)).room == 0
    assert governor.gate(load(112.0)).room == 8
    assert governor.limited(130.0) and governor.window == 4
    for _ in range(4):
        governor.succeeded()
    assert 4.9 < governor.window < 5.0
    for _ in range(1000):
        governor.succeeded()
    assert governor.window == 16
    for at in range(0, 4000, 100):
        governor.limited(float(at))
    assert governor.window == 1.0


def test_those_that_fail_alike_open_the_circuit() -> None:
    governor = Governor(Limits(alarm=3))
    assert governor.failed("launch", "setup failed with exit code 1: uv sync in /a/b1", "a") is None
    assert (
        governor.failed("launch", "setup failed with exit code 1: uv sync in /a/b1", "a") is None
    )  # the same one again
    assert governor.failed("work", "another thing", "x") is None
    assert governor.failed("launch", "setup failed with exit code 2: uv sync in /a/b2", "b") is None
    alarm = governor.failed("launch", "setup failed with exit code 1: uv sync in /a/b3", "c")
    assert alarm is not None and alarm["cause"] == "dependency" and alarm["tasks"] == ["a", "b", "c"]
    gate = governor.gate(load())
    assert gate.room == 0 and not gate.is_final and "3 failed alike at launch" in (gate.why or "")
    assert governor.failed("launch", "setup failed", "d") is None  # it is open
    governor.close()
    assert governor.gate(load()).room == 4


def test_success_in_between_says_that_it_is_not_for_all() -> None:
    governor = Governor(Limits(alarm=2))
    assert governor.failed("work", "no result", "a") is None
    governor.succeeded()
    assert governor.failed("work", "no result", "b") is None


def test_a_probe_goes_alone_and_now_and_then() -> None:
    governor = Governor(Limits(alarm=1, on_alarm="probe"))
    assert governor.failed("prompt", "429 Too Many Requests", "a", now=100.0)
    assert governor.gate(load(104.0)).room == 0
    assert governor.gate(load(106.0, working=1)).room == 0
    assert governor.gate(load(106.0)).room == 1
    assert governor.gate(load(115.0)).room == 0  # later each time
    assert governor.gate(load(116.0)).room == 1


def test_a_dead_login_is_everybodys_at_once_but_not_one_that_a_text_speaks_of() -> None:
    governor = Governor(Limits(alarm=3))
    assert governor.failed("work", "the test of the login fails", "a") is None
    alarm = governor.failed("work", "the login is dead", "b", cause="login")
    assert alarm is not None and alarm["cause"] == "login"


def test_whose_trouble_it_is_can_be_known_better_than_by_the_text() -> None:
    governor = Governor(Limits(alarm=1))
    alarm = governor.failed("work", "timeout", "a", cause="host")
    assert alarm is not None and alarm["cause"] == "host"
    assert is_slow("timeout") and is_slow("no sign of life, and it hangs") and not is_slow("exit code 1")


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
    assert cause_of(text) == cause
