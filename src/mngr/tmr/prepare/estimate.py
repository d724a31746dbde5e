"""Estimates the agents, tokens, money and time of a run before any agent is created, as low and high values."""

from __future__ import annotations

import math
from collections import Counter

from mngr.base.model import Struct
from mngr.base.size_format import choose_noun, format_count
from mngr.tmr.prepare.history.earlier_results import RunHistory
from mngr.tmr.prepare.network_failures import NetworkFailures, find_network_failures
from mngr.tmr.prepare.prepare import PreparedTests
from mngr.tmr.prepare.prompt import Prompt
from mngr.tmr.prepare.verdict_of_one_test import (
    FAILS_ALONE,
    FAILS_IN_SUITE,
    describe_runs,
    describe_verdict,
    explain_verdict,
)
from mngr.tmr.run_plan import RunPlan

KINDS_WITHOUT_MODEL = ("mechanic", "player", "command")  # agent kinds that need no model
_MAX_LISTED_TASKS = 20
_MAX_DEPENDENT_TESTS = 5
_FULL_RECEIPT_RUNS = 24  # about how many more runs a full receipt needs than a quick one
_MODEL_TURNS = (
    5,
    60,
)  # low and high number of times that a model reads its context, when there is no history
_AGENT_MINUTES = (1.0, 15.0)  # low and high duration of one agent
_SCRIPTED_AGENT_SECONDS = (2.0, 15.0)  # low and high duration of one agent without a model


class PlannedTask(Struct):
    """A task that a run begins with: one test, or a root cause with all its affected tests."""

    slug: str
    tests: list[str]
    root_cause: str | None = None
    before: str = ""  # where mngr ran the first test before any change, and how the runs ended


class DependentTest(Struct):
    """A test that passes alone and fails in the suite, or the reverse."""

    test: str
    verdict: str
    before: str  # where mngr ran it, and how the runs ended
    explanation: str


class SkippedTest(Struct):
    """A test that gets no agent, with the reason."""

    test: str
    why: str


class Estimate(Struct):
    """The plan of a run with low and high estimates. `cost_usd` is None when no price is known."""

    tests: int  # tests in the baseline
    failing: int
    flaky: int
    passing: int  # tasks for tests that pass
    tasks: list[PlannedTask]
    dependent_tests: list[DependentTest] = []  # tests whose outcome depends on other tests
    network_failures: NetworkFailures | None = None  # tests that fail without network access
    skipped_by_rank: int  # passing tests that only rank too low for a task
    more_command: str = ""  # plans a task for them, too; the command line adds it
    skipped: list[SkippedTest]
    agents: tuple[int, int]
    prompt_tokens: int  # of the longest prompt
    shared_tokens: int  # of the part that all prompts share, so that prompt caches work
    tokens: tuple[int, int]
    cost_usd: tuple[float, float] | None
    seconds: tuple[float, float]

    def describe_chosen_tests(self) -> str:
        """Return which tests become tasks, which do not, and how to get those."""
        causes = sum(task.root_cause is not None for task in self.tasks)
        others = len(self.tasks) - causes - self.passing
        lines = [
            f"The run has {format_count(len(self.tasks), 'task')}: {format_count(causes, 'shared root cause')}, "
            f"{others} other {choose_noun(others, 'test that does', 'tests that do')} not pass, {format_count(self.passing, 'passing test')}."
        ]
        if self.skipped_by_rank:
            left = format_count(self.skipped_by_rank, "passing test")
            lines.append(
                f"Without a task: {left}. Tests that cite the tutorial come first, then weak, recently changed and slow tests."
            )
            lines.append(f"To create tasks for them, too: {self.more_command}")
        return "\n".join(lines)

    def describe_network_failures(self) -> str:
        """Return a line on the tests that fail without network access, or an empty text."""
        return f"{self.network_failures.describe()}\n" if self.network_failures is not None else ""

    def _describe_dependent_tests(self) -> str:
        """Return a line for each test whose outcome depends on other tests, and what that means."""
        lines = [
            f"{row.test} is {describe_verdict(row.verdict)}. {row.explanation}\n"
            for row in self.dependent_tests[:_MAX_DEPENDENT_TESTS]
        ]
        if len(self.dependent_tests) > _MAX_DEPENDENT_TESTS:
            left = len(self.dependent_tests) - _MAX_DEPENDENT_TESTS
            lines.append(
                f"{format_count(left, 'more test')} also {choose_noun(left, 'depends', 'depend')} on other tests.\n"
            )
        return "".join(lines)

    @property
    def task_list(self) -> str:
        """Return the first tasks, one per line, or an empty text."""
        if not self.tasks:
            return ""
        lines = ["Tasks:", *(f"  {_format_task(task)}" for task in self.tasks[:_MAX_LISTED_TASKS])]
        if len(self.tasks) > _MAX_LISTED_TASKS:
            lines.append(f"  … and {len(self.tasks) - _MAX_LISTED_TASKS} more; --format json lists all")
        return "\n".join(lines)

    @property
    def text(self) -> str:
        """Return the estimate as sentences for people."""
        cost = "cost unknown" if self.cost_usd is None else f"${self.cost_usd[0]:.2f} to ${self.cost_usd[1]:.2f}"
        low, high = (f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s" for seconds in self.seconds)
        skipped = f"{format_count(len(self.skipped), 'test')} {choose_noun(len(self.skipped), 'gets', 'get')} no agent."
        if not self.skipped:
            skipped = "Every test gets an agent."
        return (
            f"Before any change, {self.failing} of {format_count(self.tests, 'test')} {choose_noun(self.failing, 'fails', 'fail')} "
            f"and {self.flaky} {choose_noun(self.flaky, 'is', 'are')} flaky. {skipped}\n"
            f"{self.describe_network_failures()}{self._describe_dependent_tests()}{self.describe_chosen_tests()}\n"
            f"Estimate: {_format_range(*self.agents)} {choose_noun(self.agents[1], 'agent')}, {_format_range(*self.tokens)} tokens, {cost}, {low} to {high}.\n"
            f"Each prompt has up to {self.prompt_tokens} tokens. The first {self.shared_tokens} are the same for all agents."
        )


def estimate_run(
    plan: RunPlan,
    prepared: PreparedTests,
    tasks: list[PlannedTask],
    history: RunHistory,
    prompts: list[Prompt],
    slots: int,
    cores: int,
) -> Estimate:
    """Estimate the run from its baseline, its tasks, its prompts and the history of earlier runs."""
    selected = prepared.selected_tests
    verdicts = Counter(result.verdict for result in prepared.tests.values())
    prompt_tokens = max((prompt.tokens for prompt in prompts), default=0)
    min_agents = len(tasks)
    max_agents = len(selected) + plan.root_cause_attempts * len(prepared.root_causes)
    known_entries = [entry for entry in history.tests.values() if entry.tokens]
    is_free = plan.agent in KINDS_WITHOUT_MODEL
    if is_free:
        tokens_per_agent = (0, 0)
    elif known_entries:
        tokens_per_agent = (min(entry.tokens for entry in known_entries), max(entry.tokens for entry in known_entries))
    else:
        tokens_per_agent = (prompt_tokens * _MODEL_TURNS[0], prompt_tokens * _MODEL_TURNS[1])
    tokens = (tokens_per_agent[0] * min_agents, tokens_per_agent[1] * max_agents)
    rates = [entry.cost / entry.tokens for entry in known_entries if entry.cost is not None]
    cost = None
    if is_free:
        cost = (0.0, 0.0)
    elif rates:
        cost = (tokens[0] * min(rates), tokens[1] * max(rates))
    receipt_runs = plan.receipt_runs + (_FULL_RECEIPT_RUNS if plan.verify == "full" else 0)
    mngr_seconds = sum(result.seconds for result in selected) * receipt_runs / cores
    agent_seconds = _SCRIPTED_AGENT_SECONDS if is_free else (_AGENT_MINUTES[0] * 60, _AGENT_MINUTES[1] * 60)
    rounds = (math.ceil(min_agents / max(1, slots)), math.ceil(max_agents / max(1, slots)))
    return Estimate(
        tests=len(prepared.tests),
        failing=verdicts["fail"],
        flaky=verdicts["flaky"] + verdicts[FAILS_IN_SUITE] + verdicts[FAILS_ALONE],
        passing=sum(task.root_cause is None and prepared.tests[task.tests[0]].verdict == "pass" for task in tasks),
        tasks=tasks,
        network_failures=find_network_failures(result.failing_run for result in prepared.tests.values())
        if plan.isolation == "on"
        else None,
        dependent_tests=[
            DependentTest(
                test=name,
                verdict=result.verdict,
                before=describe_runs(result.runs),
                explanation=explain_verdict(result.verdict),
            )
            for name, result in prepared.tests.items()
            if result.verdict in (FAILS_IN_SUITE, FAILS_ALONE)
        ],
        skipped_by_rank=prepared.skipped_by_rank,
        skipped=[SkippedTest(test=test, why=why) for test, why in prepared.skipped.items()],
        agents=(min_agents, max_agents),
        prompt_tokens=prompt_tokens,
        shared_tokens=prompts[0].shared_tokens if prompts else 0,
        tokens=tokens,
        cost_usd=cost,
        seconds=(mngr_seconds + rounds[0] * agent_seconds[0], mngr_seconds * 2 + rounds[1] * agent_seconds[1]),
    )


def _format_task(task: PlannedTask) -> str:
    """Return the task's test with its runs, or its root cause with the first of the affected tests."""
    before = f" ({task.before})" if task.before else ""
    if task.root_cause is None:
        return task.tests[0] + before
    others = f" and {len(task.tests) - 1} more" if len(task.tests) > 1 else ""
    return f"{task.tests[0]}{before}{others} (root cause {task.root_cause})"


def _format_range(low: float, high: float) -> str:
    return _format_number(low) if low == high else f"{_format_number(low)} to {_format_number(high)}"


def _format_number(number: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= 10 * size:
            return f"{number / size:.0f}{letter}"
    return f"{number:.0f}"
