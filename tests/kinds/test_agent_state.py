"""From evidence to a state: every witness, and the order in which they are heard."""

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


def said(phase: str = "ready", **evidence: Any) -> tuple[str, str | None, str, str | None]:
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
def test_an_unfinished_record_is_heard_before_anything_else(phase: str, alive: bool, expected: Any) -> None:
    assert said(phase, is_owner_alive=alive, exit={"code": 0}, stopped={}, hook_status=WAITING, pane=ALIVE) == expected


def test_a_stop_marker_is_heard_before_the_exit_it_caused() -> None:
    stopped = {"at": 1794778200, "reason": "idle"}
    assert said(stopped=stopped, exit={"code": 143}, pane=DEAD) == ("STOPPED", "idle", "record", MADE)
    assert said(stopped={"at": 1794778200, "reason": ""}) == ("STOPPED", None, "record", MADE)


def test_an_exit_record_tells_done_from_failed() -> None:
    assert said(exit={"code": 0, "at": 1794778200}, pane=DEAD, hook_status=WAITING) == ("DONE", None, "exit", MADE)
    assert said(exit={"code": 3, "at": 1794778200}, pane=ALIVE) == ("FAILED", "exit 3", "exit", MADE)


def test_the_agents_own_word_counts_while_it_lives() -> None:
    assert said(pane=ALIVE, hook_status=WAITING) == ("WAITING", "question", "hook", LATER)
    assert said(pane=DEAD, hook_status=WAITING) == ("FAILED", "lost", "process", None)
    assert said(pane=None, hook_status=WAITING) == ("FAILED", "lost", "process", None)


def test_a_status_names_its_own_source_and_when_it_ends() -> None:
    parked = {"state": "PARKED", "reason": "rate_limit", "source": "transcript", "at": LATER, "until": MADE}
    state = derive_state(record(), Evidence(now=0.0, pane=ALIVE, hook_status=parked))
    assert (state.state, state.source, state.parked_until) == ("PARKED", "transcript", MADE)


def test_a_program_that_says_nothing_runs_as_long_as_its_process_does() -> None:
    assert said(pane=ALIVE) == ("RUNNING", None, "process", MADE)
    assert said(pane=None) == ("FAILED", "lost", "process", None)


def test_without_an_answer_from_tmux_nothing_is_guessed() -> None:
    assert said(is_tmux_running=False, pane=ALIVE, hook_status=WAITING) == (
        "UNKNOWN",
        "tmux does not answer",
        "process",
        None,
    )
    assert said(is_tmux_running=False, exit={"code": 0}) == ("DONE", None, "exit", None)


@pytest.mark.parametrize("word", ["DONE", "STOPPED", "waiting", "", 7, None, ["WAITING"]])
def test_an_agent_cannot_say_of_itself_what_only_we_can_know(word: Any) -> None:
    assert said(pane=ALIVE, hook_status={"state": word}) == ("RUNNING", None, "process", MADE)


def test_what_an_agent_writes_cannot_break_the_table() -> None:
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
def test_a_time_that_is_none_is_left_out(at: Any) -> None:
    assert parse_row_time({"at": at}) is None


def test_times_are_stamps_or_seconds() -> None:
    assert (
        parse_row_time({"at": MADE})
        == MADE
        == parse_row_time({"at": 1794778200})
        == parse_row_time({"at": 1794778200.0})
    )


def test_the_witnesses_stand_in_the_order_of_trust() -> None:
    assert [name for name, _ in EVIDENCE_RULES] == [
        "record",
        "stop marker",
        "exit record",
        "status",
        "process",
    ]


def test_running_means_a_live_terminal() -> None:
    assert is_running(Evidence(now=0.0, pane=ALIVE))
    assert not any(
        is_running(Evidence(now=0.0, **e)) for e in ({"pane": DEAD}, {"pane": ALIVE, "is_tmux_running": False}, {})
    )
