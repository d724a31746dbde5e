"""Tests what an agent needs from a person: its question and the commands that answer."""

from __future__ import annotations

import json

import pytest

from mngr.agents.inspect.find import get_agent
from mngr.agents.inspect.needs_from_person import describe_request, list_answers, read_question
from mngr.api import Fleet
from tests.conftest import MngrProgram


def read_from(mngr: MngrProgram, name: str, until: str | None = None) -> str:
    fleet = Fleet(home=str(mngr.home))
    return read_question(fleet.context, *get_agent(fleet.context, name), until=until)


def test_the_question_of_an_agent_is_its_last_words(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "--", '[{"ask": "first?"}, {"ask": "second?"}]')
    assert read_from(mngr, "foo") == ""
    mngr("message", "foo", "-m", "go", "--wait")
    assert read_from(mngr, "foo") == "first?"
    asked_at = next(row["at"] for row in mngr.run_json("events", "foo", "--type", "turn_end")["events"])
    mngr("message", "foo", "-m", "yes", "--wait")
    assert read_from(mngr, "foo") == "second?"
    assert read_from(mngr, "foo", until=asked_at) == "first?"


def test_a_request_in_the_events_is_the_question(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "--", '[{"ask": "first?"}]')
    mngr("message", "foo", "-m", "go", "--wait")
    data = {"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}}
    row = {"v": 1, "at": "2100-01-01T00:00:00.000Z", "type": "permission", "source": "hook", "data": data}
    with (mngr.get_agent_dir("foo") / "events.jsonl").open("a") as events:
        events.write(json.dumps(row) + "\n")
    assert read_from(mngr, "foo") == "Bash: rm -rf build"
    assert read_from(mngr, "foo", until="2099-01-01T00:00:00.000Z") == "first?"


def test_a_link_in_place_of_the_conversation_is_not_followed(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "--", '[{"ask": "well?"}]')
    mngr("message", "foo", "-m", "go", "--wait")
    transcript = mngr.get_agent_dir("foo") / "transcript.jsonl"
    elsewhere = mngr.repo / "elsewhere.jsonl"
    elsewhere.write_text(transcript.read_text())
    transcript.unlink()
    transcript.symlink_to(elsewhere)
    assert read_from(mngr, "foo") == ""


@pytest.mark.parametrize(
    ("state", "reason", "commands"),
    [
        ("WAITING", "permission", ("mngr message foo --allow", "mngr message foo --deny")),
        ("WAITING", "question", ("mngr message foo -m TEXT",)),
        ("PARKED", "login", ("mngr message foo -m TEXT",)),
        ("FAILED", "exit 1", ("mngr explain foo", "mngr start foo")),
        ("RUNNING", None, ()),
    ],
)
def test_the_commands_that_answer(mngr: MngrProgram, state: str, reason: str | None, commands: tuple[str, ...]) -> None:
    mngr("create", "foo", "player")
    fleet = Fleet(home=str(mngr.home))
    _, record = get_agent(fleet.context, "foo")
    assert list_answers(fleet.context, record, state, reason) == commands


def test_a_question_of_a_coding_agent_is_answered_on_its_screen(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    fleet = Fleet(home=str(mngr.home))
    record = get_agent(fleet.context, "foo")[1].replace(kind="claude")
    assert list_answers(fleet.context, record, "WAITING", "question") == ("mngr connect foo",)
    assert list_answers(fleet.context, record, "WAITING", "permission")[0] == "mngr message foo --allow"


@pytest.mark.parametrize(
    ("event_type", "data", "question"),
    [
        ("permission", {"tool_name": "Write", "tool_input": {"file_path": "a.py"}}, "Write: a.py"),
        ("permission", {"tool_name": "Fetch", "tool_input": {"depth": 2}}, 'Fetch: {"depth": 2}'),
        (
            "question",
            {"tool_input": {"questions": [{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}]}},
            "Which? (a, b)",
        ),
        ("permission", {"message": "may I?"}, "may I?"),
        ("permission", {}, ""),
        ("turn_end", {"message": "done"}, ""),
    ],
)
def test_the_question_that_a_hook_reports(event_type: str, data: dict[str, object], question: str) -> None:
    assert describe_request(event_type, data) == question
