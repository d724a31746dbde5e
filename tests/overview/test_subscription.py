"""Tests how changes reach a subscriber, also a slow one."""

from __future__ import annotations

from mngr.overview import subscription as subscription_module
from mngr.overview.agent_cards import AgentFacts, build_card
from mngr.overview.subscription import CardChange, Overview, Subscription
from tests.overview.test_agent_cards import make_view

RUNNING, DONE, STOPPED = (build_card(make_view(state=state), AgentFacts()) for state in ("RUNNING", "DONE", "STOPPED"))


def test_a_new_subscriber_gets_all_agents_as_new() -> None:
    change = Subscription(Overview(agents=(RUNNING,))).take()
    assert change is not None and change.cards == (CardChange(before=None, after=RUNNING),)


def test_changes_between_two_looks_arrive_together_and_in_order() -> None:
    subscription = Subscription(Overview())
    assert subscription.take() is not None and subscription.take() is None
    first, second = CardChange(before=None, after=RUNNING), CardChange(before=RUNNING, after=DONE)
    subscription.put(Overview(agents=(RUNNING,), revision=1), [first])
    subscription.put(Overview(agents=(DONE,), revision=2), [second])
    change = subscription.wait(1.0)
    assert change is not None and (change.overview.revision, change.cards) == (2, (first, second))


def test_a_subscriber_that_never_looks_costs_one_change_for_each_agent() -> None:
    subscription = Subscription(Overview())
    changes = [CardChange(before=RUNNING, after=DONE), CardChange(before=DONE, after=STOPPED)]
    for _ in range(subscription_module._MAX_PENDING_CHANGES):
        subscription.put(Overview(), changes)
    assert len(subscription._cards) < subscription_module._MAX_PENDING_CHANGES + 2
    change = subscription.take()
    assert change is not None and change.cards[0] == CardChange(before=RUNNING, after=STOPPED)


def test_a_subscriber_is_woken_once_until_it_looks() -> None:
    wakes: list[int] = []
    subscription = Subscription(Overview(), lambda: wakes.append(1))
    subscription.take()
    for _ in range(3):
        subscription.put(Overview(), [])
    assert len(wakes) == 1
    subscription.take()
    subscription.put(Overview(), [])
    assert len(wakes) == 2
