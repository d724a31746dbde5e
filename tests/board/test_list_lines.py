"""Tests the lines of the list."""

from __future__ import annotations

from mngr.base.time_format import parse_timestamp
from mngr.board.list_lines import build_lines
from mngr.board.run_screen import build_run_lines
from mngr.overview.agent_cards import AgentFacts, build_card, describe_state
from mngr.overview.card_words import format_end_time
from mngr.overview.follow_runs import RunCard
from mngr.overview.run_facts import RunFacts
from tests.overview.test_agent_cards import make_view

SINCE = "2026-11-15T10:00:00.000Z"
NOW = parse_timestamp(SINCE) + 300


def show(*cards: object, runs: tuple[RunCard, ...] = (), marked: tuple[str, ...] = (), width: int = 100) -> list[str]:
    return [line.text.plain for line in build_lines(cards, runs, marked, width, NOW)]  # type: ignore[arg-type]


def test_a_line_has_the_age_the_changes_the_cost_the_host_and_the_branch() -> None:
    view = make_view("fix", "WAITING", "question", SINCE).replace(branch="mngr/fix")
    facts = AgentFacts(
        read_in=describe_state(view), question="red\x1b[31m or blue?", insertions=12, deletions=3, unpulled=2, cost_usd=0.456
    )  # fmt: skip
    heading, line, question = show(build_card(view, facts))
    assert heading == "needs you (1)"
    assert line.split() == ["fix", "5m", "question", "+12", "−3", "2", "to", "pull", "$0.46", "local", "mngr/fix"]
    assert question == "    red or blue?"


def test_a_marked_agent_has_a_star() -> None:
    card = build_card(make_view("fix"), AgentFacts())
    assert show(card)[1].startswith("  fix") and show(card, marked=("a-fix",))[1].startswith("* fix")


def test_a_parked_agent_shows_when_its_limit_ends() -> None:
    view = make_view("fix", "PARKED", "quota", SINCE).replace(parked_until="2026-11-15T10:35:00.000Z")
    assert show(build_card(view, AgentFacts()))[0] == "parked (1)"
    assert "(in 30m)" in show(build_card(view, AgentFacts()))[1]
    for made_up in (None, "soon", "9999999999-01-01T00:00:00Z", "99999-99-99T99:99:99.999Z"):
        assert format_end_time(made_up, NOW) == "an unknown time"


def test_a_run_shows_its_progress_and_its_alarm() -> None:
    facts = RunFacts(began_at=NOW, settled=5, total=10, alarm="all fail", outcomes="5 failed")
    (heading, line) = show(runs=(RunCard(name="nightly", state="running", facts=facts),))
    assert heading == "runs (1)"
    assert "[#####.....] 5 of 10  ALARM  5 failed" in line


def test_only_a_run_that_goes_on_has_a_pace() -> None:
    facts = RunFacts(began_at=NOW - 600, settled=5, total=10, paced_from=(NOW - 300, 0))
    run = RunCard(name="nightly", state="running", facts=facts)
    assert build_run_lines(run, NOW)[0].plain.endswith("5 of 10 tasks finished, 1.0 per minute, about 5:00 left")
    assert build_run_lines(run.replace(state="interrupted"), NOW)[0].plain.endswith("5 of 10 tasks finished")
