"""Tests the follower with real agents: it finds new ones, reports changes and survives failures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest

from mngr.agents.context import Context
from mngr.api import Fleet
from mngr.overview.agent_cards import AgentCard, AgentFacts
from mngr.overview.agent_facts import parse_shortstat
from mngr.overview.follower import OverviewFollower
from mngr.overview.subscription import CardChange, Overview, Subscription
from tests.conftest import MngrProgram
from tests.support.hosts.sshd import Farm
from tests.support.runfolder import RunFolder


@pytest.fixture
def follower(mngr: MngrProgram) -> Iterator[OverviewFollower]:
    follower = OverviewFollower(Fleet(home=str(mngr.home), cwd=str(mngr.repo)), root=str(mngr.repo))
    yield follower
    follower.close()


class Watch:
    """The latest overview and all changes so far."""

    def __init__(self, follower: OverviewFollower) -> None:
        self._subscription: Subscription = follower.subscribe()
        self.overview = Overview()
        self.changes: list[CardChange] = []

    def wait_until(self, condition: Callable[[Overview], object], seconds: float = 20.0) -> Overview:
        deadline = time.monotonic() + seconds
        while not condition(self.overview):
            assert time.monotonic() < deadline, self.overview
            change = self._subscription.wait(deadline - time.monotonic())
            if change is not None:
                self.overview = change.overview
                self.changes += change.cards
        return self.overview

    def wait_for(self, name: str, condition: Callable[[AgentCard], object]) -> AgentCard:
        self.wait_until(lambda overview: any(card.view.name == name and condition(card) for card in overview.agents))
        return next(card for card in self.overview.agents if card.view.name == name)


def test_an_agent_that_another_command_creates_appears_and_disappears(
    mngr: MngrProgram, follower: OverviewFollower
) -> None:
    watch = Watch(follower)
    watch.wait_until(lambda overview: overview.is_complete)
    mngr("create", "foo", "--", "sleep", "1000")
    started_at = time.monotonic()
    watch.wait_for("foo", lambda card: card.group == "working")
    assert time.monotonic() - started_at < 5.0
    mngr("destroy", "--force", "foo")
    watch.wait_until(lambda overview: not overview.agents)
    assert watch.changes[-1].after is None


def test_a_card_shows_the_question_the_answers_and_the_changed_lines(
    mngr: MngrProgram, follower: OverviewFollower
) -> None:
    watch = Watch(follower)
    steps = (
        '[{"write": {"path": "new.txt", "content": "a\\nb\\n"}}, {"commit": "x"}, {"permission": "may I?\\u001b[31m"}]'
    )
    mngr("create", "foo", "player", "--", steps)
    mngr("message", "foo", "-m", "go")
    card = watch.wait_for("foo", lambda card: card.need == "permission" and card.is_current)
    assert card.facts.question == "may I?"
    assert (card.facts.insertions, card.facts.deletions, card.facts.unpulled) == (2, 0, 1)
    assert card.facts.answers[0].startswith("mngr ")


def test_a_finished_agent_with_unpulled_commits_needs_a_review(mngr: MngrProgram, follower: OverviewFollower) -> None:
    watch = Watch(follower)
    commit = "echo x > new.txt && git add new.txt && git -c user.name=a -c user.email=a@b commit -qm x"
    mngr("create", "foo", "--", "sh", "-c", commit)
    assert watch.wait_for("foo", lambda card: card.need).need == "review"


def test_an_event_of_another_command_updates_the_facts(mngr: MngrProgram, follower: OverviewFollower) -> None:
    watch = Watch(follower)
    mngr("create", "foo", "--", "sleep", "1000")
    watch.wait_for("foo", lambda card: card.facts.dirty is False)
    (mngr.get_work_dir("foo") / "new.txt").write_text("x\n")
    mngr("pull", "foo")
    card = watch.wait_for("foo", lambda card: card.facts.dirty)
    assert card.facts.insertions == 1


def test_agents_on_a_lost_host_stay_and_return_with_their_host(mngr: MngrProgram, farm: Farm) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    mngr("create", "foo@h1", "--transfer", "copy", "--", "sleep", "1000")
    mngr("create", "here", "--", "sleep", "1000")
    context = Context(str(mngr.home), cwd=str(mngr.repo), settings=[f"providers.ssh.config={farm.config}"])
    follower = OverviewFollower(Fleet(context=context))
    watch = Watch(follower)
    watch.wait_for("foo", lambda card: card.group == "working")
    farm.cut("h1")
    overview = watch.wait_until(lambda overview: "h1" in overview.errors, 60.0)
    assert {card.view.name: card.view.state for card in overview.agents} == {"foo": "UNKNOWN", "here": "RUNNING"}
    farm.mend("h1")
    watch.wait_for("foo", lambda card: card.group == "working")
    watch.wait_until(lambda overview: not overview.errors)
    follower.close()


def test_a_run_appears_and_its_new_rows_are_counted(mngr: MngrProgram, follower: OverviewFollower) -> None:
    watch = Watch(follower)
    folder = RunFolder(mngr.repo, "nightly")
    folder.fill(8)
    folder.write()
    overview = watch.wait_until(lambda overview: overview.runs and overview.runs[0].state == "settled")
    (run,) = overview.runs
    assert (run.name, run.facts.settled, run.facts.total, len(run.tasks)) == ("nightly", 8, 8, 8)


def test_a_follower_without_facts_makes_no_calls_about_one_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "-m", "hello")
    follower = OverviewFollower(Fleet(home=str(mngr.home), cwd=str(mngr.repo)), with_facts=False)
    watch = Watch(follower)
    first = watch.wait_for("foo", lambda card: card.need == "answer")
    mngr("message", "foo", "-m", "again", "--wait")
    watch.wait_for("foo", lambda card: card.need == "answer" and card.view.state_since != first.view.state_since)
    follower.close()
    assert all(change.after is None or change.after.facts == AgentFacts() for change in watch.changes)


def test_a_closed_follower_leaves_no_open_file_and_no_call_fails(mngr: MngrProgram) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        follower = OverviewFollower(Fleet(home=str(mngr.home), cwd=str(mngr.repo)), root=str(mngr.repo))
        follower.close()
        follower.refresh([])
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_the_numbers_of_a_shortstat_are_read() -> None:
    assert parse_shortstat(b" 3 files changed, 12 insertions(+), 3 deletions(-)\n") == (12, 3)
    assert parse_shortstat(b" 1 file changed, 1 insertion(+)\n") == (1, 0)
    assert parse_shortstat(b" 1 file changed, 1 deletion(-)\n") == (0, 1)
    assert parse_shortstat(b"") == (0, 0)
