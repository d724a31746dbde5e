"""Asks agents the questions of an integration, with a scheduler and its own journal, `integrate/journal.jsonl`.

So limits, budget, reminders and recovery work as for tests. A settled question is not asked again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from mngr.api import Fleet
from mngr.base.paths import open_plain_file
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.journal import host_costs
from mngr.mapreduce.journal.journal_file import Journal, JournaledState, read_journal
from mngr.mapreduce.journal.journal_rows import LaunchedRow, SettledRow
from mngr.mapreduce.journal.replay import replay_rows
from mngr.mapreduce.journal.run_rows import AlarmRow, AlertRow
from mngr.mapreduce.journal.run_state import JournalRow, RunState
from mngr.mapreduce.recipe import Recipe
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.scheduler import Scheduler
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.clean_room_and_agent_options import build_agent_options
from mngr.tmr.commits import clean_untrusted_text
from mngr.tmr.commits.trees import GIT_SAFE_ARGS
from mngr.tmr.prepare.prompt import quote_block
from mngr.tmr.run_plan import RunPlan

KINDS_WITHOUT_ANSWERS = ("mechanic", "command")  # agent kinds that cannot answer questions
SCRIPTED = "player"  # can answer only what its script says, so it is asked only on request


RowListener = Callable[[JournalRow], None]  # gets each new row of the questions' journal


class QuestionRecipe(Recipe, Protocol):
    """The recipe of some questions."""

    def has_task(self, slug: str) -> bool:
        """True when the task is one of these questions."""
        ...


def ask_agents(
    fleet: Fleet,
    run: RunDir,
    plan: RunPlan,
    limits: RunLimits,
    questions: QuestionRecipe,
    kind: str | None,
    on_row: RowListener,
) -> RunState:
    """Ask until every question is answered or given up. New agents are of the given kind.

    The time limits hold for one question. The budget is that of the whole run, minus what the run has spent.
    """
    questions_dir = get_questions_dir(run)
    options = build_agent_options(plan).replace(transfer="mirror")
    if kind is not None and kind != plan.agent:
        options = options.replace(agent=kind, args=[])
    with Journal(questions_dir.journal) as journal:
        _close_obsolete(fleet, journal, questions)
        remaining_limits = _subtract_spent(run, limits).replace(canary=0)
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


def make_row_announcer(report: Callable[[str], None]) -> RowListener:
    """Return a listener that reports the important rows of the questions' journal."""

    def announce(row: JournalRow) -> None:
        if isinstance(row, (AlertRow, AlarmRow)):
            report(row.text)
        elif isinstance(row, LaunchedRow):
            report(f"{row.slug}: mngr asks an agent")
        elif isinstance(row, SettledRow):
            report(f"{row.slug}: {row.outcome}")

    return announce


def read_first_line(path: str) -> str:
    """Return the first line of a file that an agent may have left."""
    return clean_untrusted_text.clean_line(read_answer(path).partition("\n")[0][:1000])


def read_answer(path: str, max_characters: int = 20000) -> str:
    """Return a text that an agent may have left, or an empty string if there is no regular file."""
    try:
        with open_plain_file(path) as file:
            return file.read(4 * max_characters).decode("utf-8", "replace")[:max_characters]
    except OSError:
        return ""


def _subtract_spent(run: RunDir, limits: RunLimits) -> RunLimits:
    """Return the limits with what is left of the run's budget and tokens."""
    state = replay_rows(read_journal(run.journal))
    usages = [task.usage for task in state.tasks.values() if task.usage is not None]
    if limits.budget is not None:
        spent = sum(usage.cost_usd or 0.0 for usage in usages) + host_costs.sum_costs(state.hosts.values())
        limits = limits.replace(budget=max(0.0, limits.budget - spent))
    if limits.max_tokens is not None:
        tokens = sum(usage.budget_tokens for usage in usages)
        limits = limits.replace(max_tokens=max(0, limits.max_tokens - tokens))
    return limits


def _close_obsolete(fleet: Fleet, journal: Journal, questions: QuestionRecipe) -> None:
    """Stop and settle questions that are no longer asked."""
    for task in replay_rows(journal.rows).tasks.values():
        if task.state != "settled" and not questions.has_task(task.task.slug):
            if task.agent is not None:
                fleet.stop([task.agent])
            journal.write(SettledRow(slug=task.task.slug, outcome="unmerged", reason="the question is obsolete"))


def quote_diff(local: Host, repo: str, change: Change) -> str:
    """Return the diff of a change as a block for a prompt."""
    args = ("diff-tree", "-p", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
    commits = (change.parent, change.commit)
    result = git.run(local, repo, *GIT_SAFE_ARGS, *args, *commits, git_command=git.ISOLATED_GIT)
    return quote_block(result.out.decode("utf-8", "replace"), "diff")
