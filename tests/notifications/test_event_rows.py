"""Tests which changes of state the events of an agent show."""

from __future__ import annotations

import json

import pytest

from mngr.agents.context import Context
from mngr.notifications import event_rows
from mngr.notifications.event_rows import NewRows, StateChange, find_changes, read_new_rows
from tests.conftest import MngrProgram

AGENT = "a-0123456789ab"


def read(*events: tuple[str, str, dict[str, object]], last_state: str | None = None) -> list[StateChange]:
    """Return the changes in events, each given as its type, source and data."""
    rows = [
        {"v": 1, "at": f"2026-11-19T18:00:{number:02d}.000Z", "agent": AGENT, "type": name, "source": source, "data": data}
        for number, (name, source, data) in enumerate(events)
    ]  # fmt: skip
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return find_changes(AGENT, NewRows(offset=0, size=len(data), data=data), last_state)[0]


def states(changes: list[StateChange]) -> list[tuple[str, str | None]]:
    return [(change.state, change.reason) for change in changes]


def test_the_events_of_the_scripted_agent_show_its_states() -> None:
    changes = read(
        ("ready", "player", {}),
        ("waiting", "player", {"reason": "end_of_turn"}),
        ("message", "player", {}),
        ("turn_end", "player", {"reason": "question"}),
        ("waiting", "player", {"reason": "question"}),
        ("parked", "player", {"reason": "login"}),
    )
    assert states(changes) == [
        ("READY", None), ("READY", None), ("RUNNING", None), ("WAITING", "question"), ("PARKED", "login"),
    ]  # fmt: skip


def test_the_events_of_hooks_show_requests_and_the_end_of_a_turn() -> None:
    changes = read(
        ("message", "hook", {}), ("permission", "hook", {}), ("tool_end", "hook", {}), ("question", "hook", {}),
        ("message", "hook", {}), ("turn_failed", "hook", {"error": "authentication_failed"}), ("message", "hook", {}),
        ("turn_end", "hook", {}),
    )  # fmt: skip
    assert [state for state in states(changes) if state[0] != "RUNNING"] == [
        ("WAITING", "permission"), ("WAITING", "question"), ("PARKED", "login"), ("WAITING", "end_of_turn"),
    ]  # fmt: skip


def test_a_turn_that_goes_on_with_a_queued_message_has_not_ended() -> None:
    changes = read(("turn_end", "hook", {}), ("tool_start", "hook", {}))
    assert states(changes) == [("RUNNING", None)]


def test_a_program_that_was_stopped_has_not_failed() -> None:
    changes = read(("exited", "wrapper", {"code": 143}), ("stopped", "mngr", {"reason": "user"}))
    assert states(changes) == [("STOPPED", "user")]
    changes = read(("exited", "wrapper", {"code": 3}), ("started", "mngr", {}))
    assert states(changes) == [("FAILED", "exit 3"), ("READY", None)]


def test_equal_events_have_different_ids_and_a_second_reading_gives_the_same_ids() -> None:
    events = [("permission", "hook", {"n": 1}), ("message", "hook", {}), ("permission", "hook", {"n": 1})]
    ids = [change.id for change in read(*events)]  # type: ignore[arg-type]
    assert len(set(ids)) == 3
    assert ids == [change.id for change in read(*events)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "line", [b"[]", b"{", b'{"type": 3}', b'{"type": "waiting", "data": 5}', b'{"type":"exited","data":{"code":"x"}}']
)
def test_a_hostile_row_does_no_harm(line: bytes) -> None:
    data = line + b"\n" + b'{"type": "permission", "at": "x", "data": {}}\n'
    changes, end = find_changes(AGENT, NewRows(offset=7, size=7 + len(data), data=data), None)
    assert states(changes)[-1] == ("WAITING", "permission")
    assert changes[-1].at == ""
    assert end == 7 + len(data)


@pytest.mark.parametrize("at", ["2026-11-19\x1b[2J 18:00:00", "x" * 24, "", 5])
def test_a_time_that_is_no_timestamp_is_not_used(at: object) -> None:
    data = json.dumps({"type": "permission", "at": at}).encode() + b"\n"
    (change,) = find_changes(AGENT, NewRows(offset=0, size=len(data), data=data), None)[0]
    assert change.at == ""


def test_an_incomplete_row_is_read_later_and_an_endless_row_is_skipped() -> None:
    assert find_changes(AGENT, NewRows(offset=7, size=20, data=b'{"type": "per'), None) == ([], 7)
    data = b"x" * event_rows.READ_BYTES
    assert find_changes(AGENT, NewRows(offset=7, size=10**9, data=data), None) == ([], 7 + len(data))


def test_rows_of_several_agents_are_read_in_one_call_and_links_are_not_followed(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr("create", "bar", "--", "sleep", "1000")
    ids = [str(agent["id"]) for agent in mngr.list_agents()]
    host = Context(str(mngr.home), cwd=str(mngr.repo)).get_host("local", "local")
    found = read_new_rows(host, dict.fromkeys(ids, 0))
    files = {agent_id: mngr.home / "agents" / agent_id / "events.jsonl" for agent_id in ids}
    assert {agent_id: rows.data for agent_id, rows in found.items()} == {i: files[i].read_bytes() for i in ids}
    assert read_new_rows(host, {ids[0]: 10})[ids[0]].data == files[ids[0]].read_bytes()[10:]
    assert read_new_rows(host, {ids[0]: 10**9})[ids[0]].data == b""
    files[ids[1]].unlink()
    files[ids[1]].symlink_to(files[ids[0]])
    assert list(read_new_rows(host, dict.fromkeys(ids, 0))) == [ids[0]]
