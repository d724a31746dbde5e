"""Tests the groups and the order in which a person sees agents."""

from __future__ import annotations

import pytest

from mngr.base.model import AgentView
from mngr.overview.agent_cards import AgentFacts, build_card, describe_state, sort_cards


def make_view(
    name: str = "foo", state: str = "RUNNING", reason: str | None = None, since: str | None = None
) -> AgentView:
    return AgentView(
        id=f"a-{name}", name=name, kind="player", state=state, state_reason=reason, state_source="hook",
        state_since=since, host="local", provider="local", project="shop", work_dir="/work",
        created_at="2026-11-15T10:00:00.000Z",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "reason", "unpulled", "group", "need"),
    [
        ("WAITING", "permission", 0, "needs_you", "permission"),
        ("WAITING", "question", None, "needs_you", "question"),
        ("WAITING", "end_of_turn", 0, "needs_you", "answer"),
        ("WAITING", None, 0, "needs_you", "answer"),
        ("PARKED", "login", None, "needs_you", "login"),
        ("PARKED", "quota", None, "parked", ""),
        ("RUNNING", "retrying", 3, "working", ""),
        ("STARTING", None, None, "working", ""),
        ("DONE", None, 2, "needs_you", "review"),
        ("DONE", None, 0, "ended", ""),
        ("FAILED", "exit 1", 2, "ended", ""),
        ("STOPPED", None, None, "ended", ""),
        ("UNKNOWN", "its host does not answer", None, "ended", ""),
    ],
)
def test_an_agent_is_in_the_group_of_what_it_needs(
    state: str, reason: str | None, unpulled: int | None, group: str, need: str
) -> None:
    card = build_card(make_view(state=state, reason=reason), AgentFacts(unpulled=unpulled))
    assert (card.group, card.need) == (group, need)


def test_permission_comes_first_and_then_the_longest_wait() -> None:
    views = [
        make_view("done", "DONE"),
        make_view("busy", "RUNNING"),
        make_view("late", "WAITING", "end_of_turn", "2026-11-15T10:02:00.000Z"),
        make_view("early", "WAITING", "end_of_turn", "2026-11-15T10:01:00.000Z"),
        make_view("ask", "WAITING", "permission", "2026-11-15T10:03:00.000Z"),
    ]
    cards = sort_cards(build_card(view, AgentFacts()) for view in views)
    assert [card.view.name for card in cards] == ["ask", "early", "late", "busy", "done"]


def test_the_age_of_a_time_that_an_agent_made_up_is_unknown() -> None:
    assert build_card(make_view(since="yesterday"), AgentFacts()).compute_age(0.0) is None
    assert build_card(make_view(since="1970-01-01T00:00:10.000Z"), AgentFacts()).compute_age(70.0) == 60.0


def test_a_card_does_not_repeat_the_question_of_an_earlier_state() -> None:
    waiting = make_view(state="WAITING", reason="question", since="2026-11-15T10:02:00.000Z")
    facts = AgentFacts(read_in=describe_state(waiting), question="red or blue?", answers=("mngr",), insertions=3)
    card = build_card(waiting, facts)
    assert card.is_current and card.facts.question == "red or blue?"
    later = build_card(waiting.replace(state_since="2026-11-15T10:05:00.000Z"), facts)
    assert (later.is_current, later.facts.question, later.facts.answers, later.facts.insertions) == (False, "", (), 3)
