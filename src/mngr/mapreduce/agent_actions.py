"""What the engine does to one agent: make, tell, bring home, stop. Each can be done again after a crash and then does no more."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from typing import Any

from mngr.agents.sync.pull import Into
from mngr.api import Fleet
from mngr.base import clock
from mngr.base.errors import HostGone, MngrError, NotFound, Unreachable
from mngr.base.model import AgentView, Record
from mngr.host import git, registry, store
from mngr.mapreduce import reminders
from mngr.mapreduce.budget import Purse
from mngr.mapreduce.hosts.pool import provider_of, saved_agents
from mngr.mapreduce.hosts.recovery import Wrecks
from mngr.mapreduce.hosts.slots import Mooring
from mngr.mapreduce.recipe import Judgement, Recipe, Wish
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import COUNTS, Task, TaskState

_READY = 300.0  # seconds for the first one: a program may take its time to start beside a hundred others
_GONE = ("DONE", "FAILED", "STOPPED")
_HALF = ("create_interrupted", "destroy_interrupted")  # whoever made it, or took it away, died


class Home(Record):
    """What came home of a task."""

    commit: str | None = None
    commits: int = 0
    judgement: Judgement
    usage: dict[str, Any] | None = None
    is_dirty: bool = False
    is_final: bool  # the agent was stopped
    error: str | None = None  # why nothing, or not all, came
    before_edit: int | None = None  # tokens that it used before it changed a file


class Hands:
    """Acts on agents of a run."""

    def __init__(self, fleet: Fleet, run: RunDir, recipe: Recipe, wish: Wish, purse: Purse) -> None:
        self._fleet = fleet
        self._run = run
        self._recipe = recipe
        self._wish = wish
        self._purse = purse
        self.wrecks = Wrecks()
        self._provider = provider_of(fleet.context, wish.on)
        self.source = run.root if wish.transfer == "worktree" else run.repo

    def name(self, task: Task, attempt: int) -> str:
        """The agent of a task at an attempt: somebody who is there, if the task is for them."""
        own = f"{self._wish.prefix}-{self._run.name}-{task.slug}" + (f"-{attempt}" if attempt > 1 else "")
        return str(task.data.get("who") or own)

    def make(self, one: TaskState, mooring: Mooring | None = None) -> AgentView:
        """The agent of a task: the one that is there already, else a new one, at the mooring if there is one."""
        assert one.agent is not None
        task = one.task
        found = self._find(one.agent)
        if found is None and "who" not in task.data:
            before = self.name(task, one.attempt - 1)
            if one.attempt > 1 and self._is_known(before):
                self._fleet.stop([before])  # it may still work, though nobody could tell it so
            return self._at(mooring, lambda on, options: self._create(one, on, options))
        if found is None:
            grave = saved_agents(self._fleet, self._run, self._wish.on).get(one.agent)
            if grave is None:
                raise NotFound(f"{one.agent} is not there any more", "see: mngr undestroy --list")
            found = self._at(mooring, lambda on, options: self._revive(grave.id, on))
        if "branch" in task.data and one.base is not None:
            self._fleet.give(one.agent, self._run.repo, one.base)
        return found

    def _at(self, mooring: Mooring | None, act: Callable[[str, dict[str, str]], AgentView]) -> AgentView:
        """What is made at an address; the first at a mooring makes its host."""
        if mooring is None:
            return act(self._wish.on, {})
        with mooring.making:
            if mooring.name is None:
                mooring.since = clock.stamp()
                made = act(self._wish.on, mooring.options)
                mooring.name = made.host
                return made
        return act(f"@{mooring.name}{self._wish.on[1:]}", {})

    def _create(self, one: TaskState, on: str, options: dict[str, str]) -> AgentView:
        wish, task = self._wish, one.task
        branch = None if one.base is None else f"{one.base}:mngr/{self._run.name}/{task.slug}"
        return self._fleet.create(
            f"{one.agent}{on}", task.data.get("agent", wish.agent), task.data.get("args", wish.args),
            source=self.source, branch=branch, transfer=wish.transfer, dirty="ignore", env=wish.env, build_args=options,
            sandbox=wish.sandbox, network=wish.network, yolo=wish.yolo, labels={"run": self._run.name, "task": task.slug},
        )  # fmt: skip

    def _revive(self, grave: str, on: str) -> AgentView:
        """An agent as it was when its host was given back, on another."""
        outcome = self._fleet.undestroy([grave], on=on, set_up=True)[0]
        if not outcome.ok:
            raise MngrError(outcome.error or "it could not be brought back", outcome.hint)
        return self._fleet.get(outcome.name)

    def _find(self, name: str) -> AgentView | None:
        """The agent if it is whole; what a crash left half made is taken away."""
        if self._wish.on and not self._is_known(name):
            return None
        try:
            agent = self._fleet.get(name)
        except NotFound:
            return None
        if agent.state_reason in _HALF:
            self._fleet.destroy([name], force=True)
            return None
        if agent.state in _GONE:
            self._fleet.start([name])
        return self._fleet.get(name)

    def _is_known(self, name: str) -> bool:
        """Whether somebody has that name: one elsewhere has it here first, so no host has to be asked."""
        return store.find_id(self._fleet.context.home, name) is not None

    def brief(self, one: TaskState, text: str) -> str:
        """Give it its task, and keep what it was told."""
        folder = self._run.task(one.task.slug)
        os.makedirs(folder, exist_ok=True)
        how = "a" if "who" in one.task.data else "w"  # it was told something before
        with open(os.path.join(folder, "prompt.md"), how, encoding="utf-8") as file:
            file.write(text)
        return self.tell(one, text, _READY)

    def tell(self, one: TaskState, text: str, patience: float) -> str:
        """Send a message that the agent does not have yet; the proof that it arrived. Raises MngrError."""
        return self.wrecks.calmly(one.host or "", lambda: self._tell(one, text, patience))

    def _tell(self, one: TaskState, text: str, patience: float) -> str:
        assert one.agent is not None
        if self._has(one.agent, text):
            return "transcript"
        outcome = self._fleet.message([one.agent], text, start=True, timeout=patience)[0]
        if not outcome.ok:
            why = outcome.error or "it could not be told"
            if outcome.exit_code == Unreachable.exit_code:
                raise Unreachable(why, outcome.hint)
            raise MngrError(why + self._end(one.agent), outcome.hint)
        return str(outcome.extra.get("proof"))

    def revive(self, one: TaskState, prompt: str) -> str:
        """Start an agent whose host is gone, which makes that anew; it goes on, or begins again if it knows of nothing."""
        assert one.agent is not None
        with self.wrecks.salvage(one.host or ""):
            for pause in (1.0, 4.0, 16.0, None):
                outcome = self._fleet.start([one.agent])[0]
                if outcome.ok:
                    break
                if pause is None:
                    raise MngrError(outcome.error or "it could not be started", outcome.hint)
                time.sleep(pause)
            if not prompt:  # a program that needs no word
                return "none"
            moved = f"{reminders.MOVED} ({clock.stamp()})"
            return self._tell(one, moved if self._has(one.agent, prompt) else prompt, _READY)

    def _end(self, name: str) -> str:
        """How one that could not be told anything has ended, if it has."""
        try:
            code = self._fleet.get(name).exit_code
        except MngrError:
            return ""
        return ": its program is not installed" if code == 127 else f": exit code {code}" if code else ""

    def _has(self, name: str, text: str) -> bool:
        try:
            rows = list(self._fleet.transcript(name))
        except MngrError:
            return False
        return any(row["role"] == "user" and row["text"].strip() == text.strip() for row in rows)

    def tag(self, host: str | None) -> str | None:
        """What tells a host that was made for the run from one that is made anew with the same name."""
        facts = (
            registry.load(self._fleet.context.home, self._provider, host) if self._provider and host else None
        )
        return None if facts is None else facts["engine"].get("tag")

    def fetch(self, one: TaskState, *, final: bool, tag: str | None) -> Home:
        """Bring its work home and judge it; stop the agent if that is all that can be had of it, or if this is to be the end.

        HostGone when its host has another `tag` by now: what is on the new one is not what it had done.
        """
        host = one.host or ""

        def act() -> Home:
            if self.tag(host) != tag:
                raise HostGone(self._provider or "", host, "it was made anew meanwhile")
            return self._fetch(one, final=final)

        return self.wrecks.calmly(host, act)

    def _fetch(self, one: TaskState, *, final: bool) -> Home:
        assert one.agent is not None
        name, folder = one.agent, self._run.task(one.task.slug)
        os.makedirs(folder, exist_ok=True)
        agent = self._fleet.get(name)
        error = None
        commit, commits = None, 0
        try:
            into = Into(
                repo=self._run.repo, ref=self._run.ref(one.task.slug), outputs=os.path.join(folder, "outputs"),
                branch=one.task.data.get("branch"),
            )  # fmt: skip
            pulled = self._fleet.pull(name, into=into)
            commit, commits = pulled.commit, pulled.commits
        except Unreachable:
            raise  # that is its host's trouble
        except MngrError as problem:
            error = problem.message
            commit = git.resolve(self._fleet.context.local, self._run.repo, self._run.ref(one.task.slug))
        dirty = bool(self._fleet.add_git([agent])[0].dirty)
        alive = agent.state not in _GONE
        judgement = self._recipe.judge(one, folder, alive=alive)
        if error is not None:
            judgement = judgement.replace(problem=f"Your work could not be fetched: {error}")
        if judgement.problem is None and dirty:
            judgement = judgement.replace(
                problem="Your work tree has changes that are not committed. Commit what belongs to the task, "
                "take the rest away, and write the result again."
            )
        if judgement.problem is not None and agent.state_reason == "lost" and not final:
            raise Unreachable(f"{name} was cut off in the middle", "it is started again")
        is_final = final or judgement.problem is None or not alive
        before_edit = None
        if is_final:
            before_edit = tokens_before_edit(self._keep(name, folder, dirty))
            self._fleet.stop([name])
        return Home(
            commit=commit, commits=commits, judgement=judgement, usage=self._purse.usage(name), is_dirty=dirty,
            is_final=is_final, error=error, before_edit=before_edit,
        )  # fmt: skip

    def _keep(self, name: str, folder: str, dirty: bool) -> list[dict[str, Any]]:
        """Its conversation, and what it never committed; the conversation."""
        try:
            rows = list(self._fleet.transcript(name))
        except MngrError:
            rows = []
        with open(os.path.join(folder, "transcript.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        if dirty:
            try:
                left = self._fleet.diff(name)
            except MngrError as error:
                left = error.message.encode()
            with open(os.path.join(folder, "uncommitted.diff"), "wb") as diff:
                diff.write(left)
        return rows

    def stop(self, some: list[TaskState]) -> list[str]:
        """End them and keep everything; one that is gone is stopped. Who could not be stopped, and why."""
        outcomes = self._fleet.stop([one.agent for one in some if one.agent is not None])
        silent = [done for done in outcomes if not done.ok and done.exit_code == Unreachable.exit_code]
        return [f"{done.name}: {done.error}" for done in silent]


def tokens_before_edit(rows: list[dict[str, Any]]) -> int | None:
    """What an agent read and wrote until it first changed a file, by the names of its tools; None when it never did."""
    total = 0
    for row in rows:
        used = row.get("usage")
        if isinstance(used, dict):
            total += sum(value for key in COUNTS if isinstance(value := used.get(key), int))
        if row.get("role") == "tool" and re.search(
            r"edit|write|patch|replace|create", str(row.get("tool")), re.IGNORECASE
        ):
            return total
    return None
