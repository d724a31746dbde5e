"""Asks agents the questions of an integration, with a scheduler and its own journal, `integrate/journal.jsonl`.

So limits, budget, reminders and recovery work as for tests. A settled question is not asked again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from mngr.api import Fleet
from mngr.mapreduce import host_costs
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.journal import Journal, JournaledState, read_journal
from mngr.mapreduce.recipe import Recipe
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, add_usage, replay_rows
from mngr.mapreduce.scheduler import Scheduler
from mngr.tmr.commits import untrusted
from mngr.tmr.plan import RunPlan
from mngr.tmr.plan_options import build_agent_options

KINDS_WITHOUT_ANSWERS = ("mechanic", "command")  # agent kinds that cannot answer questions
SCRIPTED = "player"  # can answer only what its script says, so it is asked only on request


class QuestionRecipe(Recipe, Protocol):
    """The recipe of some questions."""

    def has_task(self, slug: str) -> bool:
        """True when the task is one of these questions."""
        ...


def ask_agents(
    fleet: Fleet, run: RunDir, plan: RunPlan, limits: RunLimits, questions: QuestionRecipe, kind: str | None,
    on_row: Callable[[dict[str, Any]], None],
) -> RunState:  # fmt: skip
    """Ask until every question is answered or given up. New agents are of the given kind.

    The time limits hold for one question. The budget is that of the whole run, minus what the run has spent.
    """
    questions_dir = get_questions_dir(run)
    options = build_agent_options(plan).replace(transfer="mirror")
    if kind is not None and kind != plan.agent:
        options = options.replace(agent=kind, args=[])
    with Journal(questions_dir.journal) as journal:
        _close_obsolete(fleet, journal, questions)
        remaining_limits = limits.replace(**_compute_remaining_limits(run, limits), canary=0)
        run_state = JournaledState(journal, on_row)
        return Scheduler(fleet, questions_dir, run_state, questions, options, remaining_limits).run()


def get_questions_dir(run: RunDir) -> RunDir:
    """Return the folder of a run's questions, which uses the run's repository."""
    questions_dir = RunDir(run.root, run.name)
    questions_dir.path = os.path.join(run.path, "integrate")
    questions_dir.journal = os.path.join(questions_dir.path, "journal.jsonl")
    questions_dir.tasks = os.path.join(questions_dir.path, "tasks")
    os.makedirs(questions_dir.tasks, exist_ok=True)
    return questions_dir


def make_row_announcer(report: Callable[[str], None]) -> Callable[[dict[str, Any]], None]:
    """Return a listener that reports the important rows of the questions' journal."""

    def announce(row: dict[str, Any]) -> None:
        if row["type"] in ("alert", "alarm"):
            report(str(row["text"]))
        elif row["type"] in ("launched", "settled"):
            report(f"{row['slug']}: {row.get('outcome') or 'asked'}")

    return announce


def read_first_line(path: str) -> str:
    """Return the first line of a file that an agent may have left."""
    return untrusted.clean_line(read_answer(path).partition("\n")[0][:1000])


def read_answer(path: str, max_characters: int = 20000) -> str:
    """Return a text that an agent may have left, or an empty string if there is no regular file."""
    if os.path.islink(path) or not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(max_characters)


def _compute_remaining_limits(run: RunDir, limits: RunLimits) -> dict[str, Any]:
    """Return what is left of the run's budget and tokens."""
    usage: dict[str, Any] = {}
    state = replay_rows(read_journal(run.journal))
    for task in state.tasks.values():
        usage = add_usage(usage, {**task.usage, "cost_usd": task.usage.get("cost_usd") or 0.0})
    tokens = sum(usage.get(key) or 0 for key in ("input_tokens", "output_tokens", "cache_write_tokens"))
    remaining: dict[str, Any] = {}
    if limits.budget is not None:
        remaining["budget"] = max(
            0.0, limits.budget - (usage.get("cost_usd") or 0.0) - host_costs.sum_costs(state.hosts.values())
        )
    if limits.max_tokens is not None:
        remaining["max_tokens"] = max(0, limits.max_tokens - tokens)
    return remaining


def _close_obsolete(fleet: Fleet, journal: Journal, questions: QuestionRecipe) -> None:
    """Stop and settle questions that are no longer asked."""
    for task in replay_rows(journal.rows).tasks.values():
        if task.state != "settled" and not questions.has_task(task.task.slug):
            if task.agent is not None:
                fleet.stop([task.agent])
            journal.write("settled", slug=task.task.slug, outcome="unmerged", reason="it is not asked any more")
