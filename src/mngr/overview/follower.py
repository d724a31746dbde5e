"""Follows all agents and runs of a home in one thread, and tells its subscribers what changed."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable

from mngr.agents.inspect.list import Listing
from mngr.agents.inspect.watch import WatchUpdate
from mngr.api import Fleet
from mngr.base.errors import HostGone, HostStopped, MngrError
from mngr.base.model import AgentView
from mngr.host import host_store
from mngr.overview.agent_cards import AgentCard, AgentFacts, build_card, describe_state, sort_cards
from mngr.overview.agent_facts import FactReader
from mngr.overview.discovery import NameDirectory
from mngr.overview.follow_runs import RunFollower
from mngr.overview.subscription import CardChange, Overview, Subscription

_TICK_SECONDS = 0.5  # between two looks at the names of the home and at the journals of runs
_LISTING_SECONDS = 30.0  # between two listings of all hosts, where other clients may create agents
_RETRY_SECONDS = 1.0  # after a bug


class OverviewFollower:
    """Follows the agents and runs until it is closed. Each host is asked without an event every `slow` seconds.

    A change that an agent's hooks report arrives at once. A change that only a screen shows arrives after `slow`.
    `root` is the project whose runs are followed, if any. Without `with_facts`, the cards have no facts that cost a call.
    `on_event` is called in the follower's thread for each agent with new events, also when its card stays the same.
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        root: str | None = None,
        slow: float = 2.0,
        with_facts: bool = True,
        on_event: Callable[[AgentView], None] | None = None,
    ) -> None:
        self._fleet = fleet
        self._on_event = on_event
        self._watcher = fleet.watch(slow=slow)
        self._names = NameDirectory(fleet.context.home)
        self._runs = RunFollower(root) if root is not None else None
        self._followed: set[str] = set()
        self._cards: dict[str, AgentCard] = {}
        self._facts: dict[str, AgentFacts] = {}
        self._errors: dict[str, str] = {}
        self._overview = Overview()
        self._subscriptions: list[Subscription] = []
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()  # from other threads
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_in, False)
        self._wake_lock = threading.Lock()  # Other threads may call until the follower has closed its pipe.
        self._is_closed = threading.Event()
        self._listed_at: float | None = None
        self._is_listing = False
        self._is_complete = False
        self._fact_reader = FactReader(
            fleet,
            lambda facts: self._call(lambda: self._apply_facts(facts)),
            lambda error: self._call(lambda: self._set_error("mngr", str(error))),
        )
        if not with_facts:
            self._fact_reader.close()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def subscribe(self, wake: Callable[[], None] | None = None) -> Subscription:
        """Return a subscription, which starts with all agents as new."""
        with self._lock:
            subscription = Subscription(self._overview, wake)
            self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Collect no more changes for a subscription."""
        with self._lock:
            self._subscriptions.remove(subscription)

    def refresh(self, ids: list[str]) -> None:
        """Query agents now, with their facts, for example after an operation on them."""
        self._call(lambda: self._refresh(ids))

    def close(self) -> None:
        """Stop following."""
        self._is_closed.set()
        self._fact_reader.close()
        self._call(lambda: None)
        self._thread.join(5.0)
        with self._wake_lock:
            if not self._thread.is_alive() and self._wake_in >= 0:
                os.close(self._wake_in)
                os.close(self._wake_out)
                self._wake_in = -1

    def _call(self, function: Callable[[], None]) -> None:
        """Run a function in the follower's thread."""
        self._calls.put(function)
        with self._wake_lock:
            if self._wake_in < 0:
                return  # The follower is closed.
            try:
                os.write(self._wake_in, b".")
            except BlockingIOError:
                pass  # The thread has not read the earlier ones, so it will wake up.

    def _run(self) -> None:
        while not self._is_closed.is_set():
            try:
                self._step()
            except Exception as error:  # The followers of all agents must survive a bug in one look.
                self._set_error("mngr", f"{type(error).__name__}: {error}")
                self._publish()
                self._is_closed.wait(_RETRY_SECONDS)
        self._watcher.close()

    def _step(self) -> None:
        """Look at the names and the runs, wait for changes of agents, and publish what changed."""
        for name, agent_id in self._names.find_new(self._followed):
            try:
                self._watcher.add_by_name(name, agent_id)
                self._followed.add(agent_id)
            except MngrError as error:
                self._set_error(name, error.message)
        self._list_in_background()
        update = self._watcher.wait(_TICK_SECONDS, self._wake_out)
        self._run_calls()
        if update is not None:
            self._apply_update(update)
        if self._runs is not None:
            self._runs.read()
        self._publish()

    def _run_calls(self) -> None:
        while not self._calls.empty():
            self._calls.get()()
        os.set_blocking(self._wake_out, False)
        try:
            while os.read(self._wake_out, 4096):
                pass
        except BlockingIOError:
            pass

    def _refresh(self, ids: list[str]) -> None:
        for agent_id in ids:
            self._watcher.request_update(agent_id)
            if agent_id in self._cards:
                self._fact_reader.request(self._cards[agent_id].view, soon=True)

    # The listing of all hosts finds agents without a name in this home, and those of hosts that do not answer.

    def _list_in_background(self) -> None:
        if self._is_listing:
            return
        now = time.monotonic()
        if self._listed_at is not None:
            has_other_hosts = any(card.view.provider != "local" for card in self._cards.values())
            if now < self._listed_at + _LISTING_SECONDS or not (has_other_hosts or self._errors):
                return
        self._is_listing = True
        threading.Thread(target=self._list_all, daemon=True).start()

    def _list_all(self) -> None:
        try:
            listing = self._fleet.list()
        except MngrError as error:
            listing = Listing(agents=[], errors=[{"provider": "", "host": "mngr", "error": error.message}])
        finally:
            self._listed_at = time.monotonic()
            self._is_listing = False
        self._call(lambda: self._apply_listing(listing))

    def _apply_listing(self, listing: Listing) -> None:
        """Add the agents that the watcher does not know or cannot reach."""
        self._errors = {error["host"]: error["error"] for error in listing.errors}
        for view in listing.agents:
            if view.id not in self._followed:
                try:
                    self._watcher.add(self._fleet.context.get_host(view.provider, view.host), view.id)
                    self._followed.add(view.id)
                except MngrError as error:
                    self._set_error(view.host, error.message)
            if view.id not in self._cards or view.host_state != "RUNNING":
                self._apply_view(view)
        self._is_complete = True

    # Changes.

    def _apply_update(self, update: WatchUpdate) -> None:
        for view in update.agents:
            self._errors.pop(view.host, None)
            self._apply_view(view)
            if view.id in update.with_events:
                self._fact_reader.request(view)
                if self._on_event is not None:
                    self._on_event(view)
        for agent_id in update.destroyed:
            self._remove(agent_id)
        for host, error in update.errors.items():
            self._apply_host_error(host, error)

    def _apply_view(self, view: AgentView) -> None:
        old = self._cards.get(view.id)
        self._cards[view.id] = build_card(view, self._facts.get(view.id, AgentFacts()))
        if old is None or describe_state(old.view) != describe_state(view):
            self._fact_reader.request(view, soon=old is not None)

    def _apply_facts(self, facts: dict[str, AgentFacts]) -> None:
        for agent_id, agent_facts in facts.items():
            card = self._cards.get(agent_id)
            if card is not None:
                self._facts[agent_id] = agent_facts
                self._cards[agent_id] = build_card(card.view, agent_facts)

    def _apply_host_error(self, host: str, error: MngrError) -> None:
        """Show on all cards of a host that it does not answer, or remove the cards of a host that was removed."""
        for card in [card for card in self._cards.values() if card.view.host == host]:
            view = card.view
            if view.provider != "local" and host_store.is_removed(self._fleet.context.home, view.provider, host):
                self._remove(view.id)
            else:
                self._cards[view.id] = build_card(_mark_unreachable(view, error), card.facts)
        if not isinstance(error, HostStopped):
            self._set_error(host, error.message)

    def _remove(self, agent_id: str) -> None:
        self._cards.pop(agent_id, None)
        self._facts.pop(agent_id, None)
        self._followed.discard(agent_id)
        self._watcher.remove(agent_id)
        self._fact_reader.forget(agent_id)

    def _set_error(self, host: str, text: str) -> None:
        self._errors[host] = text

    def _publish(self) -> None:
        """Tell the subscribers what differs from the last overview."""
        agents = tuple(sort_cards(self._cards.values()))
        runs = self._runs.cards if self._runs is not None else ()
        new = self._overview.replace(agents=agents, runs=runs, errors=dict(self._errors), is_complete=self._is_complete)
        if new == self._overview:
            return
        with self._lock:
            before = {card.id: card for card in self._overview.agents}
            after = {card.id: card for card in agents}
            changes = [
                CardChange(before=before.get(card.id), after=card) for card in agents if before.get(card.id) != card
            ]
            changes += [CardChange(before=card, after=None) for card in before.values() if card.id not in after]
            self._overview = new.replace(revision=self._overview.revision + 1)
            for subscription in self._subscriptions:
                subscription.put(self._overview, changes)


def _mark_unreachable(view: AgentView, error: MngrError) -> AgentView:
    """Return the view of an agent whose host does not answer."""
    if isinstance(error, HostStopped):
        is_ended = view.state in ("DONE", "FAILED", "STOPPED")
        return view if is_ended else view.replace(state="STOPPED", state_reason="host stopped", host_state="STOPPED")
    if isinstance(error, HostGone):
        return view.replace(state="FAILED", state_reason="host gone", host_state="GONE")
    return view.replace(state="UNKNOWN", state_reason="its host does not answer", host_state="UNKNOWN")
