from __future__ import annotations

from typing import Any

import pytest

from mngr.mapreduce.governor import Governor, RunLimits, RunLoad, classify_error, is_timeout_error


def load(now: float = 0.0, **fields: Any) -> RunLoad:
    return RunLoad(**{"now": now, "working": 0, "starting": 0, "settled": 1, **fields})


def test_launches_are_limited_by_free_slots_and_by_starting_agents() -> None:
    governor = Governor(RunLimits(max_agents=10, max_starting=4))
    assert governor.decide_launches(load()).count == 4
    assert governor.decide_launches(load(working=8, starting=1)).count == 2
    assert governor.decide_launches(load(working=10)).count == 0
    assert governor.decide_launches(load(working=12)).count == 0


def test_only_canary_agents_run_until_the_first_one_finishes() -> None:
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
def test_an_exhausted_limit_ends_all_launches(limits: RunLimits, more: dict[str, Any]) -> None:
    assert Governor(limits).decide_launches(load()).count == 4
    allowance = Governor(limits).decide_launches(load(**more))
    assert allowance.count == 0 and allowance.is_final and allowance.reason


def test_low_memory_or_disk_only_pauses_launches() -> None:
    governor = Governor(RunLimits(free_memory=1000, free_disk=1000))
    for short in ({"memory": 999}, {"disk": 999}):
        allowance = governor.decide_launches(load(**short))
        assert allowance.count == 0 and not allowance.is_final and "free" in (allowance.reason or "")
    assert governor.decide_launches(load(memory=1000, disk=1000)).count == 4


def test_a_rate_limit_halves_parallel_agents_and_success_raises_them() -> None:
    governor = Governor(RunLimits(max_agents=16, max_starting=16))
    assert governor.record_rate_limit(100.0, 110.0) and governor.max_parallel == 8
    # Two reports within the hold time count as one limit.
    assert not governor.record_rate_limit(101.0, 111.0) and governor.max_parallel == 8
    assert governor.decide_launches(load(105.0)).count == 0
    assert governor.decide_launches(load(112.0)).count == 8
    assert governor.record_rate_limit(130.0) and governor.max_parallel == 4
    for _ in range(4):
        governor.record_success()
    assert 4.9 < governor.max_parallel < 5.0
    for _ in range(1000):
        governor.record_success()
    assert governor.max_parallel == 16
    for now in range(0, 4000, 100):
        governor.record_rate_limit(float(now))
    assert governor.max_parallel == 1.0


def test_similar_failures_of_several_tasks_open_an_alarm() -> None:
    governor = Governor(RunLimits(alarm=3))
    assert governor.record_failure("launch", "setup failed with exit code 1: uv sync in /a/b1", "a") is None
    assert (
        governor.record_failure("launch", "setup failed with exit code 1: uv sync in /a/b1", "a") is None
    )  # the same task again
    assert governor.record_failure("work", "another thing", "x") is None
    assert governor.record_failure("launch", "setup failed with exit code 2: uv sync in /a/b2", "b") is None
    alarm = governor.record_failure("launch", "setup failed with exit code 1: uv sync in /a/b3", "c")
    assert alarm is not None and alarm.error_kind == "dependency" and alarm.tasks == ["a", "b", "c"]
    allowance = governor.decide_launches(load())
    assert (
        allowance.count == 0
        and not allowance.is_final
        and "3 similar failures at the stage launch" in (allowance.reason or "")
    )
    assert governor.record_failure("launch", "setup failed", "d") is None  # the alarm is already open
    governor.clear_alarm()
    assert governor.decide_launches(load()).count == 4


def test_a_success_resets_the_count_of_similar_failures() -> None:
    governor = Governor(RunLimits(alarm=2))
    assert governor.record_failure("work", "no result", "a") is None
    governor.record_success()
    assert governor.record_failure("work", "no result", "b") is None


def test_probes_run_alone_with_growing_delays() -> None:
    governor = Governor(RunLimits(alarm=1, on_alarm="probe"))
    assert governor.record_failure("prompt", "429 Too Many Requests", "a", now=100.0)
    assert governor.decide_launches(load(104.0)).count == 0
    assert governor.decide_launches(load(106.0, working=1)).count == 0
    assert governor.decide_launches(load(106.0)).count == 1
    assert governor.decide_launches(load(115.0)).count == 0  # each delay is longer
    assert governor.decide_launches(load(116.0)).count == 1


def test_a_dead_login_opens_an_alarm_at_once_but_the_word_login_does_not() -> None:
    governor = Governor(RunLimits(alarm=3))
    assert governor.record_failure("work", "the test of the login fails", "a") is None
    alarm = governor.record_failure("work", "the login is dead", "b", error_kind="login")
    assert alarm is not None and alarm.error_kind == "login"


def test_a_given_cause_overrides_the_cause_in_the_text() -> None:
    governor = Governor(RunLimits(alarm=1))
    alarm = governor.record_failure("work", "timeout", "a", error_kind="host")
    assert alarm is not None and alarm.error_kind == "host"
    assert (
        is_timeout_error("timeout")
        and is_timeout_error("no activity, and it hangs")
        and not is_timeout_error("exit code 1")
    )


@pytest.mark.parametrize(
    ("text", "error_kind"),
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
def test_an_error_text_is_classified_by_its_cause(text: str, error_kind: str) -> None:
    assert classify_error(text) == error_kind
