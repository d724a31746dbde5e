"""What a run has used while its agents are working."""

from __future__ import annotations

import json

import pytest

from mngr.api import Fleet
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.journal.agent_usage import AgentUsage
from mngr.mapreduce.journal.run_state import RunState, Task, TaskState, TaskTable
from mngr.mapreduce.measure_run_usage import Budget
from tests.conftest import MngrProgram


def state(agent: str, own: float = 0.0, all_of_them: float = 0.0) -> RunState:
    """Return a run with one working task."""
    task = TaskState(
        task=Task(slug="t", title="t"), state="working", agent=agent, agent_usage=AgentUsage(cost_usd=own), usage=AgentUsage(cost_usd=all_of_them)
    )  # fmt: skip
    return RunState(tasks=TaskTable([task]))


def spend(mngr: MngrProgram, agent: str, dollars: float) -> None:
    path = mngr.home / "agents" / mngr.get_agent(agent)["id"] / "transcript.jsonl"
    with path.open("a") as file:
        file.write(json.dumps({"role": "assistant", "text": "x", "usage": {"cost_usd": dollars}}) + "\n")


@pytest.fixture
def budget(mngr: MngrProgram) -> Budget:
    mngr("create", "foo", "player")
    mngr("create", "bar", "player")
    return Budget(Fleet(str(mngr.home), cwd=str(mngr.repo)), RunLimits(budget=1.0))


def test_usage_of_collected_work_counts_once(mngr: MngrProgram, budget: Budget) -> None:
    spend(mngr, "foo", 0.5)
    budget.count_usage({"t": "foo"})
    assert budget.sum_spent(state("foo"))[0] == 0.5
    assert budget.sum_spent(state("foo", own=0.5, all_of_them=0.5))[0] == 0.5
    # The collected work used more than the last count saw.
    assert budget.sum_spent(state("foo", own=0.7, all_of_them=0.7))[0] == 0.7
    spend(mngr, "foo", 0.5)
    budget.count_usage({"t": "foo"})
    assert budget.sum_spent(state("foo", own=0.7, all_of_them=0.7))[0] == 1.0


def test_usage_of_a_replaced_agent_is_not_counted_again(mngr: MngrProgram, budget: Budget) -> None:
    spend(mngr, "foo", 0.5)
    budget.count_usage({"t": "foo"})
    assert budget.sum_spent(state("bar", all_of_them=0.5))[0] == 0.5
    spend(mngr, "bar", 0.25)
    budget.count_usage({"t": "bar"})
    assert budget.sum_spent(state("bar", all_of_them=0.5))[0] == 0.75


def test_the_last_known_usage_counts_while_an_agent_does_not_answer(mngr: MngrProgram, budget: Budget) -> None:
    spend(mngr, "foo", 0.5)
    budget.count_usage({"t": "foo"})
    record = mngr.home / "agents" / mngr.get_agent("foo")["id"] / "agent.json"
    record.write_text("?")
    assert budget.find_usage("foo") is None
    budget.count_usage({"t": "foo"})
    assert budget.sum_spent(state("foo"))[0] == 0.5
    budget.count_usage({})
    assert budget.sum_spent(state("foo"))[0] == 0.0
