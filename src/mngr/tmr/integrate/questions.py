"""Questions of an integration to agents: tasks of an engine with a journal of its own, `integrate/journal.jsonl`.

So limits, money, reminders and going on after a crash are the same as for tests. A question that was settled once is not asked again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from mngr.api import Fleet
from mngr.mapreduce import host_costs
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.journal import Journal, read_journal
from mngr.mapreduce.recipe import Recipe
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, add_usage, replay_rows
from mngr.mapreduce.scheduler import Scheduler
from mngr.tmr.commits import untrusted
from mngr.tmr.plan import RunPlan
from mngr.tmr.run import build_agent_options

KINDS_WITHOUT_ANSWERS = ("mechanic", "command")  # kinds that cannot be asked
SCRIPTED = "player"  # can, by those who want one: it knows what it was told beforehand


class QuestionRecipe(Recipe, Protocol):
    """What is asked."""

    def has_task(self, slug: str) -> bool:
        """Whether a task is about one of these."""
        ...


def ask_agents(
    fleet: Fleet, run: RunDir, plan: RunPlan, limits: RunLimits, questions: QuestionRecipe, kind: str | None,
    say: Callable[[dict[str, Any]], None],
) -> RunState:  # fmt: skip
    """Ask until all is answered or given up; `kind` is that of agents which are made for it.

    `limits` are those of one question in time, and in money those of the whole run, of which what it has spent is taken off.
    """
    place = get_questions_dir(run)
    wish = build_agent_options(plan).replace(transfer="mirror")
    if kind is not None and kind != plan.agent:
        wish = wish.replace(agent=kind, args=[])
    with Journal(place.journal) as journal:
        _close_obsolete(fleet, journal, questions)
        left = limits.replace(**_compute_remaining_limits(run, limits), canary=0)
        return Scheduler(fleet, place, journal, questions, wish, left, say).run()


def get_questions_dir(run: RunDir) -> RunDir:
    """The folder of the questions of a run, with the run's own repository."""
    place = RunDir(run.root, run.name)
    place.path = os.path.join(run.path, "integrate")
    place.journal = os.path.join(place.path, "journal.jsonl")
    place.tasks = os.path.join(place.path, "tasks")
    os.makedirs(place.tasks, exist_ok=True)
    return place


def make_row_announcer(say: Callable[[str], None]) -> Callable[[dict[str, Any]], None]:
    """What is said of the rows of that journal."""

    def hear(row: dict[str, Any]) -> None:
        if row["type"] in ("alert", "alarm"):
            say(str(row["text"]))
        elif row["type"] in ("launched", "settled"):
            say(f"{row['slug']}: {row.get('outcome') or 'asked'}")

    return hear


def read_first_line(path: str) -> str:
    """Of a file that an agent may have left."""
    return untrusted.clean_line(read_answer(path).partition("\n")[0][:1000])


def read_answer(path: str, most: int = 20000) -> str:
    """A text that an agent may have left; empty where it left none, or something else."""
    if os.path.islink(path) or not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(most)


def _compute_remaining_limits(run: RunDir, limits: RunLimits) -> dict[str, Any]:
    """What the run itself has left of its money and tokens."""
    used: dict[str, Any] = {}
    state = replay_rows(read_journal(run.journal))
    for one in state.tasks.values():
        used = add_usage(used, {**one.usage, "cost_usd": one.usage.get("cost_usd") or 0.0})
    tokens = sum(used.get(key) or 0 for key in ("input_tokens", "output_tokens", "cache_write_tokens"))
    left: dict[str, Any] = {}
    if limits.budget is not None:
        left["budget"] = max(
            0.0, limits.budget - (used.get("cost_usd") or 0.0) - host_costs.sum_costs(state.hosts.values())
        )
    if limits.max_tokens is not None:
        left["max_tokens"] = max(0, limits.max_tokens - tokens)
    return left


def _close_obsolete(fleet: Fleet, journal: Journal, questions: QuestionRecipe) -> None:
    """Close what was asked once and nobody wants to know any more."""
    for one in replay_rows(journal.rows).tasks.values():
        if one.state != "settled" and not questions.has_task(one.task.slug):
            if one.agent is not None:
                fleet.stop([one.agent])
            journal.write("settled", slug=one.task.slug, outcome="unmerged", reason="it is not asked any more")
