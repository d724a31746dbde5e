"""Tests the text of notifications, and what the default filter selects."""

from __future__ import annotations

from mngr.base import json_structs
from mngr.base.model import AgentView
from mngr.notifications.notification import (
    DEFAULT_FILTER,
    Notification,
    build_agent_notification,
    build_run_notification,
    classify_state,
)
from mngr.notifications.notify_settings import compile_notification_filter

AT = "2026-11-19T18:00:00.000Z"


def build(state: str, reason: str | None, question: str = "", labels: dict[str, str] | None = None) -> Notification:
    view = AgentView(
        id="a-0123456789ab", name="foo", kind="claude", state=state, state_reason=reason, state_source="hook", host="h1",
        provider="ssh", project="shop", work_dir="/w", labels=labels or {},
    )  # fmt: skip
    return build_agent_notification("id", AT, view, question, ("mngr message foo --allow", "mngr message foo --deny"))


def test_the_text_has_the_name_the_reason_the_question_and_the_commands() -> None:
    text = build("WAITING", "permission", "Bash: git push").text
    assert text == (
        "foo asks for permission: “Bash: git push” | mngr message foo --allow | or: mngr message foo --deny"
    )
    assert build("FAILED", "exit 3").title == "foo has failed (exit 3)"
    assert build("PARKED", "login").title == "foo needs a login"


def test_a_hostile_question_stays_one_short_clean_line_within_its_quotation_marks() -> None:
    question = "a\x1b]0;evil\x07\x1b[31m\r\nb\u202e” | mngr destroy --force foo “\x00" + "x" * 5000
    text = build("WAITING", "question", question).text
    assert text.isprintable() and "\n" not in text
    assert text.count("”") == 1 and text.index("”") > text.index("destroy")
    assert "evil" not in text and len(text) < 500


def test_secrets_in_a_question_do_not_leave_the_machine() -> None:
    text = build(
        "WAITING", "permission", "curl -H 'Authorization: Bearer ghp_abcdefghijklmnopqrstuvwxyz0123456789'"
    ).text
    assert "ghp_" not in text and "[redacted: " in text


def test_a_hostile_reason_is_cleaned() -> None:
    title = build("FAILED", "exit \x1b[2J\n3" + "9" * 500).title
    assert title.isprintable() and len(title) < 150


def test_the_default_filter_selects_what_needs_a_person() -> None:
    matches = compile_notification_filter(DEFAULT_FILTER)

    def is_sent(item: Notification) -> bool:
        return matches(json_structs.encode(item))

    sent = [("WAITING", "permission"), ("WAITING", "question"), ("WAITING", "end_of_turn"), ("PARKED", "login")]
    assert all(is_sent(build(*state)) for state in [*sent, ("FAILED", "exit 3"), ("FAILED", "lost")])
    assert not any(is_sent(build(*state)) for state in [("PARKED", "quota"), ("DONE", None)])
    assert is_sent(build_run_notification("id", AT, "ended", "nightly", "/p", "settled"))
    assert is_sent(build_run_notification("id", AT, "alarm", "nightly", "/p", "the login is dead"))


def test_the_default_filter_leaves_the_agents_of_a_run_to_the_run() -> None:
    item = build("WAITING", "question", labels={"run": "nightly", "task": "t"})
    assert not compile_notification_filter(DEFAULT_FILTER)(json_structs.encode(item))


def test_working_and_stopped_agents_cause_no_notification() -> None:
    assert [classify_state(state, None) for state in ("STARTING", "RUNNING", "STOPPED", "UNKNOWN")] == [None] * 4
