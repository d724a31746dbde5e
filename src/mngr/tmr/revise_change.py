"""Asks the author of a change to revise it: sends the message into the same conversation and repeats the task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from mngr.agents.inspect.trash import TrashedAgent
from mngr.api import Fleet
from mngr.base import shell
from mngr.base.errors import MngrError, NotFound
from mngr.base.model import AgentView, Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.hosts.pool import list_saved_agents
from mngr.mapreduce.journal.journal_file import Journal
from mngr.mapreduce.journal.journal_rows import AgainRow, RestoredRow
from mngr.mapreduce.journal.replay import replay_rows
from mngr.mapreduce.journal.run_state import JournalRow
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import pin_commit
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.commits.clean_untrusted_text import clean_line
from mngr.tmr.integrate.ask_agents import KINDS_WITHOUT_ANSWERS
from mngr.tmr.recipe import fingerprint_claim
from mngr.tmr.run_plan import load_plan

_REDO_MESSAGE = """A person has reviewed your work on {task} and asks for this:

{message}

Your commits are on the branch {branch}. Continue there (`git switch {branch}` if you are on another branch). Commit your changes, one commit for each kind. Then write a new $MNGR_OUTPUT_DIR/result.json in one step, as your first instructions say. It describes everything that you did for this task, not only the new part. Then stop.

(Message {number} after mngr collected your work.)
"""


class RedoRequest(Struct):
    """The agent that gets the message, and its task."""

    agent: str
    other_agents: list[str]  # other agents that made the same change and get no message
    slug: str


def request_redo(fleet: Fleet, run: RunDir, changes: Sequence[Change], message: str) -> RedoRequest:
    """Queue the task behind a change again, for the agent that did it. Raise NotFound or MngrError."""
    task_by_agent = {author.agent: author.task for change in changes for author in change.made_by}
    agent = _get_author(fleet, run, task_by_agent, message)
    slug = task_by_agent[agent.name]
    with Journal(run.journal) as journal:
        task = replay_rows(journal.rows).tasks[slug]
        if task.state != "settled":
            raise MngrError(
                f"the task {slug} is not finished yet: it is {task.state}",
                f"continue the run: mngr tmr resume {run.name}",
            )
        redo_count = sum(row.slug == slug for row in journal.rows if _is_redo_row(row))
        text = _REDO_MESSAGE.format(
            task=clean_line(task.task.title),
            message=message.strip(),
            branch=agent.branch,
            number=1 + redo_count,
        )
        claim_id = fingerprint_claim(task.claim)
        journal.write(
            AgainRow(slug=slug, existing_agent=agent.name, message=text, answered_claim=claim_id, usage_purpose="redo")
        )
    return RedoRequest(agent=agent.name, other_agents=[name for name in task_by_agent if name != agent.name], slug=slug)


def _get_author(fleet: Fleet, run: RunDir, tasks: dict[str, str], message: str) -> AgentView | TrashedAgent:
    """Return the first author that exists or can be restored, and that understands messages."""
    names = list(tasks)
    agents: dict[str, AgentView | TrashedAgent] = dict(list_saved_agents(fleet, run, load_plan(run).on))
    agents |= {agent.name: agent for agent in fleet.list().agents}
    authors = [agents[name] for name in names if name in agents]
    answering = [agent for agent in authors if agent.kind not in KINDS_WITHOUT_ANSWERS]
    if answering:
        return answering[0]
    task = tasks[names[0]]
    text = shell.quote(message) if message == clean_line(message, 60) else "TEXT"
    hint = f"give the task to a new agent: mngr tmr retry {task} --run {run.name} -m {text} --agent claude"
    if authors:
        raise MngrError(f"{names[0]} is an agent of kind {authors[0].kind}, which cannot answer messages", hint)
    raise NotFound(f"the author of the change no longer exists: {' and '.join(names)}", hint)


def restore_unanswered(local: Host, run: RunDir) -> dict[str, str]:
    """Restore each task whose agent did not answer the redo message. Return the reasons, by task.

    This includes tasks of an earlier command that was killed.
    """
    reasons = {}
    with Journal(run.journal) as journal:
        rows = list(journal.rows)
        tasks = replay_rows(rows).tasks
        last_redo = {row.slug: index for index, row in enumerate(rows) if _is_redo_row(row)}
        for slug, index in last_redo.items():
            task, before = tasks[slug], replay_rows(rows[:index]).tasks[slug]
            is_done = any(isinstance(row, RestoredRow) and row.slug == slug for row in rows[index:])
            if (
                is_done
                or task.state != "settled"
                or (task.outcome != "failed" and fingerprint_claim(task.claim) != fingerprint_claim(before.claim))
            ):
                continue
            if before.commit is not None and git.find_commit(local, run.repo, before.commit, git.ISOLATED_GIT):
                pin_commit(local, run, slug, before.commit)
            journal.write(
                RestoredRow(
                    slug=slug,
                    commit=before.commit,
                    claim=before.claim,
                    check=before.check,
                    outcome=before.outcome,
                    reason=before.reason,
                    problem=before.problem,
                    close_reason=before.close_reason,
                )
            )
            reasons[slug] = task.reason or "the agent did not answer"
    return reasons


def _is_redo_row(row: JournalRow) -> TypeGuard[AgainRow]:
    """True when the row queues a task again for the agent that did it."""
    return isinstance(row, AgainRow) and row.message is not None
