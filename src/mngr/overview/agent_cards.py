"""An agent as a person sees it on a card: what it needs, its question, its work and its cost."""

from __future__ import annotations

from collections.abc import Iterable

from mngr.base import time_format
from mngr.base.model import AgentView, Struct

# The groups, in the order in which a person looks at them.
NEEDS_YOU, WORKING, PARKED, ENDED = GROUPS = ("needs_you", "working", "parked", "ended")
_NEED_ORDER = ("permission", "question", "login", "answer", "review", "")


class AgentFacts(Struct):
    """Facts about an agent that cost a call to its host. `question` is one clean line.

    The question and the answers belong to the state that `read_in` names.
    """

    read_in: str = ""  # from `describe_state`
    question: str = ""
    answers: tuple[str, ...] = ()  # complete commands that give the agent what it needs
    insertions: int | None = None  # lines since the base; None when mngr has not counted them
    deletions: int | None = None
    unpulled: int | None = None  # commits
    dirty: bool | None = None
    cost_usd: float | None = None


class AgentCard(Struct):
    """An agent with its group and its facts. `need` says why a person is needed, or is empty."""

    view: AgentView
    group: str
    need: str  # permission | question | login | answer (its turn ended) | review (it ended with unpulled work)
    facts: AgentFacts

    @property
    def is_current(self) -> bool:
        """True when the facts were read in the present state, so that the question is the present one."""
        return self.facts.read_in == describe_state(self.view)

    @property
    def id(self) -> str:
        """Return the agent's id."""
        return self.view.id

    def compute_age(self, now: float) -> float | None:
        """Return the seconds since the agent has its state, or None when no valid time is known."""
        try:
            return now - time_format.parse_timestamp(self.view.state_since or self.view.created_at or "")
        except ValueError:
            return None


def build_card(view: AgentView, facts: AgentFacts) -> AgentCard:
    """Return the card of an agent. It does not repeat the question of an earlier state."""
    if facts.read_in != describe_state(view):
        facts = facts.replace(question="", answers=())
    group, need = classify_need(view, facts)
    return AgentCard(view=view, group=group, need=need, facts=facts)


def describe_state(view: AgentView) -> str:
    """Return a text that changes whenever the agent gets another state."""
    return f"{view.state} {view.state_reason} {view.state_since}"


def classify_need(view: AgentView, facts: AgentFacts) -> tuple[str, str]:
    """Return the group of an agent, and what it needs from a person."""
    if view.state == "WAITING":
        return NEEDS_YOU, view.state_reason if view.state_reason in ("permission", "question") else "answer"
    if view.state == "PARKED":
        return (NEEDS_YOU, "login") if view.state_reason == "login" else (PARKED, "")
    if view.state in ("STARTING", "RUNNING"):
        return WORKING, ""
    if view.state == "DONE" and facts.unpulled:
        return NEEDS_YOU, "review"
    return ENDED, ""


def sort_cards(cards: Iterable[AgentCard]) -> list[AgentCard]:
    """Return the cards by group. In the first group, the most urgent need and the longest wait come first."""
    return sorted(cards, key=_build_sort_key)


def _build_sort_key(card: AgentCard) -> tuple[int, int, str, str]:
    """Return a key that keeps working agents in place, whose state can change every second."""
    since = card.view.created_at if card.group == WORKING else card.view.state_since
    if card.group == PARKED:
        since = card.view.parked_until or "~"
    return GROUPS.index(card.group), _NEED_ORDER.index(card.need), since or "", card.view.name
