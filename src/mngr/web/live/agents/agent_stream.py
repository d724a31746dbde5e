"""Sends the head and one tab of an agent to one client, and then each change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from mngr.overview.agent_cards import AgentCard
from mngr.overview.agent_details import LIVE_STATES, SHORTEST_PAUSE, AgentDetail, Span, load_detail
from mngr.overview.subscription import OverviewChange
from mngr.overview.untrusted_text import clean_line
from mngr.web.live.agents.card_facts import describe_card
from mngr.web.live.agents.detail_html import render_detail
from mngr.web.live.background_calls import TooManyCalls
from mngr.web.live.event_stream import HEARTBEAT_SECONDS, OverviewChanges
from mngr.web.live.site import Site

_LONGEST_PAUSE = 1.0  # seconds between two looks at a screen that does not change
_PATIENCE = 3.0  # seconds after which the page says that the host has not answered yet
_WAITING = AgentDetail(lines=((Span(text="waiting for hosts that do not answer", style="warning"),),))


async def stream_agent(site: Site, agent_id: str, tab: str) -> AsyncIterator[tuple[str, object]]:
    """Yield the head and the tab of an agent, and again when they change. The agent may be gone or come back."""
    changes = OverviewChanges(site.follower)
    client = _AgentClient(site, agent_id, tab)
    sent_at = time.monotonic()
    try:
        while True:
            change = await changes.wait(client.get_wait_seconds())
            head = None if change is None else client.take_change(change)
            if head is not None:
                yield "agent", head
            client.load_if_due(changes.wake)
            detail = client.take_detail()
            if detail is not None:
                yield "detail", detail
            if head is not None or detail is not None:
                sent_at = time.monotonic()
            elif time.monotonic() - sent_at > HEARTBEAT_SECONDS:
                sent_at = time.monotonic()
                yield "heartbeat", {}
    finally:
        changes.close()


class _AgentClient:
    """What one client shows of an agent, and when to look again."""

    def __init__(self, site: Site, agent_id: str, tab: str) -> None:
        self._site = site
        self._agent_id = agent_id
        self._tab = tab
        self._name = ""
        self._card: AgentCard | None = None
        self._head: dict[str, object] = {}
        self._detail_html: str | None = None
        self._load: asyncio.Task[AgentDetail] | None = None
        self._load_began_at = 0.0
        self._due_at: float | None = None
        self._pause = SHORTEST_PAUSE

    def get_wait_seconds(self) -> float:
        """Return how long the client may wait for a change."""
        now = time.monotonic()
        if self._load is not None:
            patience = self._load_began_at + _PATIENCE - now
            return patience if patience > 0 else HEARTBEAT_SECONDS
        return HEARTBEAT_SECONDS if self._due_at is None else max(0.0, min(HEARTBEAT_SECONDS, self._due_at - now))

    def take_change(self, change: OverviewChange) -> dict[str, object] | None:
        """Return the head if it changed, and look at the tab soon if the agent did something."""
        overview = change.overview
        old = self._card
        self._card = next((card for card in overview.agents if card.id == self._agent_id), None)
        if self._card is not None and self._card != old:
            self._name = self._card.view.name
            if old is None or _has_acted(old, self._card):
                self._pause = SHORTEST_PAUSE
                soon = time.monotonic() + (0.0 if old is None else SHORTEST_PAUSE)
                self._due_at = soon if self._due_at is None else min(self._due_at, soon)
        head = self._build_head(is_complete=overview.is_complete)
        if head == self._head:
            return None
        self._head = head
        return head

    def _build_head(self, *, is_complete: bool) -> dict[str, object]:
        if self._card is not None:
            html = self._site.render("agent_head.html", card=describe_card(self._card), view=self._card.view)
            return {"html": html, "title": self._name, "is_present": True}
        if not is_complete:
            text = "looking for the agent"
        elif self._name:
            text = f"{self._name} was destroyed. You can restore it: mngr undestroy {self._name}"
        else:
            text = "This agent does not exist. It may have been destroyed."
        return {"html": self._site.render("no_agent.html", text=text), "title": "no agent", "is_present": False}

    def load_if_due(self, on_end: Callable[[], None]) -> None:
        """Start to load the tab if it is time and the load before has ended."""
        now = time.monotonic()
        if self._card is not None and self._load is None and self._due_at is not None and now >= self._due_at:
            self._due_at = None
            self._load_began_at = now
            self._load = asyncio.ensure_future(self._site.loads.run(self._load_in_thread))
            self._load.add_done_callback(lambda _: on_end())

    def take_detail(self) -> dict[str, object] | None:
        """Return the tab if it was loaded and has changed, or a note that its host has not answered yet."""
        if self._load is None:
            return None
        if not self._load.done():
            return self._show(_WAITING) if time.monotonic() - self._load_began_at >= _PATIENCE else None
        load, self._load = self._load, None
        detail = _WAITING if isinstance(load.exception(), TooManyCalls) else load.result()
        shown = self._show(detail)
        self._pause = SHORTEST_PAUSE if shown is not None else min(_LONGEST_PAUSE, self._pause * 2)
        is_live = self._tab == "screen" and self._card is not None and self._card.view.state in LIVE_STATES
        if is_live or detail is _WAITING:
            self._due_at = time.monotonic() + self._pause
        return shown

    def _load_in_thread(self) -> AgentDetail:
        try:
            return load_detail(self._site.fleet, self._agent_id, self._tab)
        except Exception as error:  # A bug in one tab must not end the page.
            text = clean_line(f"mngr cannot show this: {type(error).__name__}: {error}")
            return AgentDetail(lines=((Span(text=text, style="warning"),),))

    def _show(self, detail: AgentDetail) -> dict[str, object] | None:
        html = render_detail(detail)
        if html == self._detail_html:
            return None
        self._detail_html = html
        return {"html": html, "is_log": detail.is_log, "is_prose": detail.is_prose}


def _has_acted(old: AgentCard, card: AgentCard) -> bool:
    """True when the agent's tabs may show something new."""
    return (old.view.state, old.view.activity_at, old.facts) != (card.view.state, card.view.activity_at, card.facts)
