"""Sends the cards of all agents and runs to one client, and then only what changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from mngr.overview.agent_cards import GROUPS, NEEDS_YOU, AgentCard
from mngr.overview.card_words import HEADINGS, describe_change, list_counts
from mngr.overview.subscription import CardChange, Overview
from mngr.overview.untrusted_text import clean_line
from mngr.web.live.agents.card_facts import describe_card
from mngr.web.live.event_stream import HEARTBEAT_SECONDS, OverviewChanges
from mngr.web.live.site import Site

_SHORTEST_PAUSE = 0.1  # seconds between two events, so that many changes at the same time are one event
_MAX_NEWS = 5
_MAX_ERRORS = 5


async def stream_overview(site: Site) -> AsyncIterator[tuple[str, object]]:
    """Yield an event with all cards, and one for each later change."""
    changes = OverviewChanges(site.follower)
    client = _ClientState(site)
    try:
        while True:
            change = await changes.wait(HEARTBEAT_SECONDS)
            if change is None:
                yield "heartbeat", {}
                continue
            event = client.build_event(change.overview, change.cards)
            if event is not None:
                yield "overview", event
            await asyncio.sleep(_SHORTEST_PAUSE)
    finally:
        changes.close()


class _ClientState:
    """What one client shows."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._cards: dict[str, AgentCard] = {}
        self._html: dict[str, str] = {}  # of the cards, by id
        self._frame: dict[str, object] = {}  # everything around the cards
        self._was_complete = False  # True when the client has got all agents, so that further ones are news

    def build_event(self, overview: Overview, changes: Sequence[CardChange]) -> dict[str, object] | None:
        """Return what the client must change, or None if it shows all of it. Only changed cards are rendered."""
        changed_html = {}
        for card in overview.agents:
            if self._cards.get(card.id) != card:
                html = self._site.render("agent_card.html", card=describe_card(card))
                if self._html.get(card.id) != html:
                    changed_html[card.id] = html
        self._cards = {card.id: card for card in overview.agents}
        self._html = {id: html for id, html in {**self._html, **changed_html}.items() if id in self._cards}
        frame: dict[str, object] = {
            "is_complete": overview.is_complete,
            "summary": _describe_summary(overview),
            "errors": [
                clean_line(f"{host}: {error}", 200) for host, error in list(overview.errors.items())[:_MAX_ERRORS]
            ],
            "needs": sum(card.group == NEEDS_YOU for card in overview.agents),
            "groups": _list_groups(overview),
            "runs": self._site.render("run_list.html", runs=overview.runs),
        }
        news = _list_news(changes) if self._was_complete else []
        self._was_complete = overview.is_complete
        if not changed_html and not news and frame == self._frame:
            return None
        event = {**frame, "cards": changed_html, "news": news}
        if frame["runs"] == self._frame.get("runs"):
            del event["runs"]
        self._frame = frame
        return event


def _list_news(changes: Sequence[CardChange]) -> list[str]:
    news = [clean_line(text, 200) for change in changes if (text := describe_change(change))]
    return news[-_MAX_NEWS:]


def _describe_summary(overview: Overview) -> str:
    if overview.agents:
        return " · ".join(list_counts(overview.agents))
    if not overview.is_complete:
        return "looking for agents"
    return "There are no agents. Create one: mngr create NAME claude"


def _list_groups(overview: Overview) -> list[dict[str, object]]:
    """Return the groups that have agents, with the ids of their agents in order."""
    groups: list[dict[str, object]] = []
    for group in GROUPS:
        ids = [card.id for card in overview.agents if card.group == group]
        if ids:
            groups.append({"key": group, "title": f"{HEADINGS[group]} ({len(ids)})", "ids": ids})
    return groups
