"""Collects the changes of the overview for a subscriber, since the subscriber last read them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from mngr.base.model import Struct
from mngr.overview.agent_cards import AgentCard
from mngr.overview.follow_runs import RunCard

_MAX_PENDING_CHANGES = 10_000


class Overview(Struct):
    """All agents, sorted, and the latest runs. `errors` says, by host, which hosts do not answer."""

    agents: tuple[AgentCard, ...] = ()
    runs: tuple[RunCard, ...] = ()
    errors: Mapping[str, str] = {}
    revision: int = 0
    is_complete: bool = False  # True when every host has answered or failed once


class CardChange(Struct):
    """A card before and after a change. `before` is None for a new agent, `after` for a destroyed one."""

    before: AgentCard | None
    after: AgentCard | None


class OverviewChange(Struct):
    """The latest overview, and in order the changes of cards since the last one."""

    overview: Overview
    cards: tuple[CardChange, ...] = ()


class Subscription:
    """Collects changes until its subscriber takes them, so that a slow subscriber delays nobody.

    If very many changes wait, the changes of an agent are merged into one. `wake` is called, in the follower's thread,
    for the first change after the subscriber took the earlier ones.
    """

    def __init__(self, overview: Overview, wake: Callable[[], None] | None = None) -> None:
        self._overview = overview
        self._cards = [CardChange(before=None, after=card) for card in overview.agents]
        self._is_changed = True
        self._condition = threading.Condition()
        self._wake = wake

    def put(self, overview: Overview, cards: list[CardChange]) -> None:
        """Add changes. Only the follower calls this."""
        with self._condition:
            is_first = not self._is_changed
            self._overview = overview
            self._cards += cards
            if len(self._cards) > _MAX_PENDING_CHANGES:
                self._cards = merge_changes(self._cards)
            self._is_changed = True
            self._condition.notify_all()
        if is_first and self._wake is not None:
            self._wake()

    def take(self) -> OverviewChange | None:
        """Return what changed since the last call, or None. The first call returns all agents as new."""
        with self._condition:
            if not self._is_changed:
                return None
            change = OverviewChange(overview=self._overview, cards=tuple(self._cards))
            self._cards = []
            self._is_changed = False
            return change

    def wait(self, seconds: float) -> OverviewChange | None:
        """Return what changed since the last call, or None when nothing changes for this many seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_changed, seconds)
        return self.take()


def merge_changes(changes: list[CardChange]) -> list[CardChange]:
    """Return one change for each agent: from its first `before` to its last `after`."""
    merged: dict[str, CardChange] = {}
    for change in changes:
        card = change.after or change.before
        assert card is not None
        earlier = merged.get(card.id)
        merged[card.id] = change if earlier is None else change.replace(before=earlier.before)
    return [change for change in merged.values() if change.before is not None or change.after is not None]
