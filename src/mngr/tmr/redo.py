"""A change that a person wants otherwise: the agent that made it is told so, in the same conversation, and its task is done again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mngr.agents.inspect.trash import TrashedAgent
from mngr.api import Fleet
from mngr.base.errors import MngrError, NotFound
from mngr.base.model import AgentView, Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.hosts.pool import list_saved_agents
from mngr.mapreduce.journal import Journal
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import pin_commit
from mngr.mapreduce.run_state import TaskState, replay_rows
from mngr.tmr.changes.changes import Change
from mngr.tmr.commits.untrusted import clean_line
from mngr.tmr.integrate.questions import KINDS_WITHOUT_ANSWERS
from mngr.tmr.plan import load_plan
from mngr.tmr.recipe import fingerprint_claim

_REDO_MESSAGE = """Your work on {task} was looked at by a person, who wants it otherwise:

{message}

Your commits are on the branch {branch}; go on there (`git switch {branch}` if you are elsewhere). Commit what you change, one commit for each kind, and write $MNGR_OUTPUT_DIR/result.json anew, in one step, as your first instructions say: about all that you did for this task, not only about what is new. Then stop.

(Word {number} after your work was taken home.)
"""


class RedoRequest(Struct):
    """Who was told, and what it is about."""

    agent: str
    other_agents: list[str]  # who made the same and were not told
    slug: str


def request_redo(fleet: Fleet, run: RunDir, changes: Sequence[Change], message: str) -> RedoRequest:
    """Put the task behind a change back, for the agent that did it; raises NotFound, MngrError."""
    makers = {maker.agent: maker.task for change in changes for maker in change.made_by}
    agent = _get_author(fleet, run, makers, message)
    slug = makers[agent.name]
    with Journal(run.journal) as journal:
        one = replay_rows(journal.rows).tasks[slug]
        if one.state != "settled":
            raise MngrError(f"{slug} is not settled yet: it is {one.state}", f"go on: mngr tmr resume {run.name}")
        told = [row for row in journal.rows if _is_redo_row(row)]
        text = _REDO_MESSAGE.format(
            task=clean_line(one.task.title), message=message.strip(), branch=agent.branch,
            number=1 + sum(row["slug"] == slug for row in told),
        )  # fmt: skip
        data = {"who": agent.name, "tell": text, "answered": _fingerprint_claim(one), "spend": "redo"}
        journal.write("again", slug=slug, data=data)
    return RedoRequest(agent=agent.name, other_agents=[name for name in makers if name != agent.name], slug=slug)


def _get_author(fleet: Fleet, run: RunDir, tasks: dict[str, str], message: str) -> AgentView | TrashedAgent:
    """The first of those who made it that is there, or can be brought back, and understands words."""
    names = list(tasks)
    there: dict[str, AgentView | TrashedAgent] = dict(list_saved_agents(fleet, run, load_plan(run).on))
    there |= {agent.name: agent for agent in fleet.list().agents}
    found = [there[name] for name in names if name in there]
    able = [agent for agent in found if agent.kind not in KINDS_WITHOUT_ANSWERS]
    if able:
        return able[0]
    task = tasks[names[0]]
    again = f"have another do it: mngr tmr retry {task} -m {clean_line(message, 60)!r} --agent KIND"
    if found:
        raise MngrError(f"{names[0]} is of kind {found[0].kind}, which understands no words", again)
    raise NotFound(f"{' and '.join(names)} is not there any more", f"mngr undestroy --list; or {again}")


def restore_unanswered(local: Host, run: RunDir) -> dict[str, str]:
    """Leave all as it was where nothing came of what was asked, be it by a command that was killed; why nothing came, by task."""
    found = {}
    with Journal(run.journal) as journal:
        rows = list(journal.rows)
        now = replay_rows(rows).tasks
        for slug, at in {row["slug"]: at for at, row in enumerate(rows) if _is_redo_row(row)}.items():
            one, before = now[slug], replay_rows(rows[:at]).tasks[slug]
            is_done = any(row["type"] == "restored" and row["slug"] == slug for row in rows[at:])
            if (
                is_done
                or one.state != "settled"
                or (one.outcome != "failed" and _fingerprint_claim(one) != _fingerprint_claim(before))
            ):
                continue
            if before.commit is not None and git.find_commit(local, run.repo, before.commit):
                pin_commit(local, run, slug, before.commit)
            journal.write(
                "restored", slug=slug, commit=before.commit, claim=before.claim, check=before.check, outcome=before.outcome,
                reason=before.reason,
            )  # fmt: skip
            found[slug] = one.reason or "it did not answer"
    return found


def _is_redo_row(row: dict[str, Any]) -> bool:
    """Whether it puts a task back for who did it."""
    return row["type"] == "again" and "tell" in (row.get("data") or {})


def _fingerprint_claim(one: TaskState) -> str:
    """What an agent said, without what we said of it."""
    return fingerprint_claim({key: value for key, value in one.claim.items() if key not in ("closed", "problem")})
