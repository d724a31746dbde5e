"""What a run has used while its agents are at work."""

from __future__ import annotations

import json

import pytest

from mngr.api import Fleet
from mngr.mapreduce.budget import Budget
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.run_state import RunState, Task, TaskState
from tests.conftest import MngrProgram


def state(agent: str, own: float = 0.0, all_of_them: float = 0.0) -> RunState:
    """One task that works."""
    one = TaskState(
        task=Task(slug="t", title="t"), state="working", agent=agent, own={"cost_usd": own}, usage={"cost_usd": all_of_them}
    )  # fmt: skip
    return RunState(tasks={"t": one})


def spend(mngr: MngrProgram, agent: str, dollars: float) -> None:
    path = mngr.home / "agents" / mngr.get_agent(agent)["id"] / "transcript.jsonl"
    with path.open("a") as file:
        file.write(json.dumps({"role": "assistant", "text": "x", "usage": {"cost_usd": dollars}}) + "\n")


@pytest.fixture
def purse(mngr: MngrProgram) -> Budget:
    mngr("create", "foo", "player")
    mngr("create", "bar", "player")
    return Budget(Fleet(str(mngr.home), cwd=str(mngr.repo)), RunLimits(budget=1.0))


def test_what_was_brought_home_counts_once(mngr: MngrProgram, purse: Budget) -> None:
    spend(mngr, "foo", 0.5)
    purse.count_usage({"t": "foo"})
    assert purse.sum_spent(state("foo"))[0] == 0.5
    assert purse.sum_spent(state("foo", own=0.5, all_of_them=0.5))[0] == 0.5
    assert purse.sum_spent(state("foo", own=0.7, all_of_them=0.7))[0] == 0.7  # there is more at home than we counted
    spend(mngr, "foo", 0.5)
    purse.count_usage({"t": "foo"})
    assert purse.sum_spent(state("foo", own=0.7, all_of_them=0.7))[0] == 1.0


def test_what_an_agent_used_is_not_counted_again_for_the_one_that_took_its_place(
    mngr: MngrProgram, purse: Budget
) -> None:
    spend(mngr, "foo", 0.5)
    purse.count_usage({"t": "foo"})
    assert purse.sum_spent(state("bar", all_of_them=0.5))[0] == 0.5
    spend(mngr, "bar", 0.25)
    purse.count_usage({"t": "bar"})
    assert purse.sum_spent(state("bar", all_of_them=0.5))[0] == 0.75


def test_of_who_does_not_answer_the_last_is_known(mngr: MngrProgram, purse: Budget) -> None:
    spend(mngr, "foo", 0.5)
    purse.count_usage({"t": "foo"})
    record = mngr.home / "agents" / mngr.get_agent("foo")["id"] / "agent.json"
    record.write_text("?")
    assert purse.find_usage("foo") is None
    purse.count_usage({"t": "foo"})
    assert purse.sum_spent(state("foo"))[0] == 0.5
    purse.count_usage({})
    assert purse.sum_spent(state("foo"))[0] == 0.0
