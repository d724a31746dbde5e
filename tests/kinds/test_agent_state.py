"""Deriving a state from evidence: every rule, and the order of the rules."""

from __future__ import annotations

from typing import Any

import pytest

from mngr.base.model import AgentRecord, Evidence
from mngr.kinds.agent_state import EVIDENCE_RULES, derive_state, is_running, parse_row_time

MADE = "2026-11-15T21:30:00.000Z"
LATER = "2026-11-15T21:31:00.000Z"
ALIVE = {"session": "foo", "pane": "%1", "pid": "7", "dead": "0", "activity": "1", "attached": "0"}
DEAD = {**ALIVE, "dead": "1"}
WAITING = {"state": "WAITING", "reason": "question", "source": "hook", "at": LATER}


def record(phase: str = "ready") -> AgentRecord:
    return AgentRecord(
        id="a-000000000000", name="foo", kind="command", phase=phase, project="p", source=None, work_dir="/w",
        transfer="none", created_at=MADE,
    )  # fmt: skip


def derive(phase: str = "ready", **evidence: Any) -> tuple[str, str | None, str, str | None]:
    state = derive_state(record(phase), Evidence(now=0.0, **evidence))
    return state.state, state.reason, state.source, state.since


@pytest.mark.parametrize(
    ("phase", "alive", "expected"),
    [
        ("creating", True, ("STARTING", None, "record", MADE)),
        ("creating", False, ("FAILED", "create_interrupted", "record", MADE)),
        ("destroying", True, ("STOPPED", "destroying", "record", None)),
        ("destroying", False, ("STOPPED", "destroy_interrupted", "record", None)),
    ],
)
def test_an_unfinished_record_overrides_all_other_evidence(phase: str, alive: bool, expected: Any) -> None:
    assert (
        derive(phase, is_owner_alive=alive, exit={"code": 0}, stopped={}, hook_status=WAITING, pane=ALIVE) == expected
    )


def test_a_stop_marker_overrides_the_exit_that_it_caused() -> None:
    stopped = {"at": 1794778200, "reason": "idle"}
    assert derive(stopped=stopped, exit={"code": 143}, pane=DEAD) == ("STOPPED", "idle", "record", MADE)
    assert derive(stopped={"at": 1794778200, "reason": ""}) == ("STOPPED", None, "record", MADE)


def test_the_exit_code_decides_between_done_and_failed() -> None:
    assert derive(exit={"code": 0, "at": 1794778200}, pane=DEAD, hook_status=WAITING) == ("DONE", None, "exit", MADE)
    assert derive(exit={"code": 3, "at": 1794778200}, pane=ALIVE) == ("FAILED", "exit 3", "exit", MADE)


def test_the_reported_status_counts_only_while_the_agent_runs() -> None:
    assert derive(pane=ALIVE, hook_status=WAITING) == ("WAITING", "question", "hook", LATER)
    assert derive(pane=DEAD, hook_status=WAITING) == ("FAILED", "lost", "process", None)
    assert derive(pane=None, hook_status=WAITING) == ("FAILED", "lost", "process", None)


def test_a_status_can_name_its_source_and_its_end() -> None:
    parked: dict[str, object] = {
        "state": "PARKED",
        "reason": "rate_limit",
        "source": "transcript",
        "at": LATER,
        "until": MADE,
    }
    state = derive_state(record(), Evidence(now=0.0, pane=ALIVE, hook_status=parked))
    assert (state.state, state.source, state.parked_until) == ("PARKED", "transcript", MADE)


def test_a_program_without_a_status_runs_as_long_as_its_process() -> None:
    assert derive(pane=ALIVE) == ("RUNNING", None, "process", MADE)
    assert derive(pane=None) == ("FAILED", "lost", "process", None)


def test_the_state_is_unknown_when_tmux_does_not_answer() -> None:
    assert derive(is_tmux_running=False, pane=ALIVE, hook_status=WAITING) == (
        "UNKNOWN",
        "tmux does not answer",
        "process",
        None,
    )
    assert derive(is_tmux_running=False, exit={"code": 0}) == ("DONE", None, "exit", None)


@pytest.mark.parametrize("word", ["DONE", "STOPPED", "waiting", "", 7, None, ["WAITING"]])
def test_an_agent_cannot_report_a_state_that_only_mngr_may_set(word: Any) -> None:
    assert derive(pane=ALIVE, hook_status={"state": word}) == ("RUNNING", None, "process", MADE)


def test_hostile_status_values_are_shortened_or_ignored() -> None:
    hostile = {
        "state": "WAITING",
        "reason": "a\n\tb" + "x" * 500,
        "source": ["no"],
        "at": "yesterday",
        "until": 9,
    }
    state = derive_state(record(), Evidence(now=0.0, pane=ALIVE, hook_status=hostile))
    assert state.reason == "a b" + "x" * 97
    assert (state.source, state.since, state.parked_until) == ("hook", None, None)


@pytest.mark.parametrize("at", [float("inf"), -1, 10**30, "2026-11-15", "2026-11-15t21:31:00.000Z", None, {}])
def test_an_invalid_time_is_ignored(at: Any) -> None:
    assert parse_row_time({"at": at}) is None


def test_a_time_is_a_timestamp_or_a_number_of_seconds() -> None:
    assert (
        parse_row_time({"at": MADE})
        == MADE
        == parse_row_time({"at": 1794778200})
        == parse_row_time({"at": 1794778200.0})
    )


def test_the_rules_are_ordered_by_reliability() -> None:
    assert [name for name, _ in EVIDENCE_RULES] == [
        "record",
        "stop marker",
        "exit record",
        "status",
        "process",
    ]


def test_an_agent_runs_only_in_a_live_terminal() -> None:
    assert is_running(Evidence(now=0.0, pane=ALIVE))
    assert not any(
        is_running(Evidence(now=0.0, **e)) for e in ({"pane": DEAD}, {"pane": ALIVE, "is_tmux_running": False}, {})
    )
