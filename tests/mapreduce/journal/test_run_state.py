"""The tables of tasks and hosts, whose counts and sums change with each row."""

from __future__ import annotations

from mngr.mapreduce.journal.agent_usage import AgentUsage
from mngr.mapreduce.journal.host_costs import HostTable, RunHost
from mngr.mapreduce.journal.run_state import Task, TaskState, TaskTable


def make_task(slug: str, *, state: str = "queued", priority: int = 0, seconds: float = 0.0) -> TaskState:
    return TaskState(task=Task(slug=slug, title=slug, priority=priority, expected_seconds=seconds), state=state)


def test_the_queue_is_ordered_by_priority_then_by_duration_then_by_creation() -> None:
    table = TaskTable([make_task("b"), make_task("a"), make_task("long", seconds=9.0), make_task("red", priority=1)])
    assert [task.task.slug for task in table.iter_queue()] == ["red", "long", "b", "a"]


def test_a_launched_task_leaves_the_queue_and_returns_to_its_place() -> None:
    table = TaskTable([make_task("first"), make_task("second"), make_task("third")])
    table.put(make_task("second", state="working"))
    assert [task.task.slug for task in table.iter_queue()] == ["first", "third"]
    table.put(make_task("second"))
    assert [task.task.slug for task in table.iter_queue()] == ["first", "second", "third"]


def test_tasks_are_listed_by_state_in_order_of_creation() -> None:
    table = TaskTable([make_task("z"), make_task("a"), make_task("m", state="settled")])
    table.put(make_task("z", state="settled"))
    assert [task.task.slug for task in table.list_in_state("settled")] == ["z", "m"]
    assert table.count_in_state("queued", "settled") == 3 and table.count_in_state("working") == 0


def test_sums_follow_a_task_that_changes() -> None:
    table = TaskTable([make_task("a")])
    usage = AgentUsage(input_tokens=10, output_tokens=5, cost_usd=0.5)
    table.put(make_task("a", state="settled").replace(usage=usage, outcome="failed"))
    assert (table.cost_usd, table.budget_tokens, table.success_count) == (0.5, 15, 0)
    table.put(make_task("a", state="settled").replace(usage=usage, outcome="fixed"))
    assert (table.cost_usd, table.budget_tokens, table.success_count) == (0.5, 15, 1)


def test_hosts_that_are_billed_no_more_keep_their_cost() -> None:
    table = HostTable({"a": RunHost(provider="p", hourly_rate=2.0, billed_hours=3.0, state="gone")})
    table.put("a", RunHost(provider="p", hourly_rate=2.0, billed_hours=4.0, state="gone"))
    table.put("b", RunHost(provider="p", hourly_rate=1.0, billed_hours=0.5, billed_since="2020-01-01T00:00:00.000Z"))
    table.put("b", RunHost(provider="p", hourly_rate=1.0, billed_hours=1.0, state="gone"))
    assert table.sum_costs() == 9.0
