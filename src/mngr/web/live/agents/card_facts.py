"""The facts about an agent as the templates of its card and of its page need them."""

from __future__ import annotations

import time

from mngr.base import time_format
from mngr.base.model import Struct
from mngr.overview.agent_cards import ENDED, NEEDS_YOU, PARKED, WORKING, AgentCard, describe_state
from mngr.overview.card_words import describe_need_or_state


class CardFacts(Struct):
    """An agent as its card shows it. `since` is a time in seconds since the epoch, or None."""

    id: str
    name: str
    kind: str
    group: str
    words: str  # what it needs, or its state
    tone: str  # the CSS class for the words
    since: int | None
    state: str  # from `describe_state`: what an answer refers to
    question: str
    can_answer: bool
    can_stop: bool
    can_start: bool
    can_pull: bool
    details: tuple[str, ...]
    commands: tuple[str, ...]  # complete commands that only a terminal can run, and that give the agent what it needs
    host_note: str = ""  # why the agent's state is unknown


def describe_card(card: AgentCard) -> CardFacts:
    """Return the facts for the templates."""
    view, facts = card.view, card.facts
    is_reachable = view.state != "UNKNOWN"
    return CardFacts(
        id=view.id,
        name=view.name,
        kind=view.kind,
        group=card.group,
        words=describe_need_or_state(card, time.time()),
        tone=_choose_tone(card),
        since=_parse_time(view.state_since or view.created_at),
        state=describe_state(view),
        question=facts.question if card.group == NEEDS_YOU else "",
        can_answer=card.need == "permission" and card.is_current,
        can_stop=is_reachable and card.group in (NEEDS_YOU, WORKING, PARKED) and view.state != "DONE",
        can_start=is_reachable and (card.group == ENDED or view.state == "DONE"),
        can_pull=bool(facts.unpulled) and card.group != WORKING,
        details=tuple(_list_details(card)),
        commands=facts.answers if card.need == "login" and card.is_current else (),
        host_note="" if is_reachable else f"mngr shows the last known facts, because {view.state_reason}",
    )


def _choose_tone(card: AgentCard) -> str:
    if card.need:
        return "tone-need"
    if card.view.state in ("FAILED", "UNKNOWN"):
        return "tone-bad"
    return {WORKING: "tone-good", PARKED: "tone-parked"}.get(card.group, "tone-quiet")


def _list_details(card: AgentCard) -> list[str]:
    """Return changed lines, commits to pull, cost, host and branch, as far as they are known."""
    view, facts = card.view, card.facts
    details = []
    if facts.insertions or facts.deletions:
        details.append(f"+{facts.insertions} −{facts.deletions}")
    if facts.unpulled and card.group != WORKING:
        details.append(f"{facts.unpulled} to pull")
    if facts.cost_usd:
        details.append(f"${facts.cost_usd:.2f}")
    details += [view.kind, view.host]
    if view.branch:
        details.append(view.branch)
    return details


def _parse_time(timestamp: str | None) -> int | None:
    try:
        return int(time_format.parse_timestamp(timestamp or ""))
    except (ValueError, OverflowError):
        return None
