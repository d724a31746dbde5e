"""What the engine does to one agent: make, tell, bring home, stop. Each can be done again after a crash and then does no more."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from typing import Any

from mngr.agents.sync.pull import PullTarget
from mngr.api import Fleet
from mngr.base import clock
from mngr.base.errors import HostGone, MngrError, NotFound, Unreachable
from mngr.base.model import AgentView, Struct
from mngr.host import git, registry, store
from mngr.mapreduce import reminders
from mngr.mapreduce.budget import Budget
from mngr.mapreduce.hosts.pool import find_host_provider, list_saved_agents
from mngr.mapreduce.hosts.recovery import HostRecovery
from mngr.mapreduce.hosts.slots import PooledHost
from mngr.mapreduce.recipe import AgentOptions, Judgement, Recipe
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import TOKEN_FIELDS, Task, TaskState

_READY_TIMEOUT = 300.0  # seconds for the first one: a program may take its time to start beside a hundred others
_ENDED_STATES = ("DONE", "FAILED", "STOPPED")
_INTERRUPTED_REASONS = ("create_interrupted", "destroy_interrupted")  # whoever made it, or took it away, died


class CollectedWork(Struct):
    """What came home of a task."""

    commit: str | None = None
    commits: int = 0
    judgement: Judgement
    usage: dict[str, Any] | None = None
    is_dirty: bool = False
    is_final: bool  # the agent was stopped
    error: str | None = None  # why nothing, or not all, came
    before_edit: int | None = None  # tokens that it used before it changed a file


class AgentActions:
    """Acts on agents of a run."""

    def __init__(self, fleet: Fleet, run: RunDir, recipe: Recipe, wish: AgentOptions, purse: Budget) -> None:
        self._fleet = fleet
        self._run = run
        self._recipe = recipe
        self._options = wish
        self._budget = purse
        self.host_recovery = HostRecovery()
        self._provider = find_host_provider(fleet.context, wish.on)
        self.source = run.root if wish.transfer == "worktree" else run.repo

    def choose_agent_name(self, task: Task, attempt: int) -> str:
        """The agent of a task at an attempt: somebody who is there, if the task is for them."""
        own = f"{self._options.prefix}-{self._run.name}-{task.slug}" + (f"-{attempt}" if attempt > 1 else "")
        return str(task.data.get("who") or own)

    def ensure_agent(self, one: TaskState, mooring: PooledHost | None = None) -> AgentView:
        """The agent of a task: the one that is there already, else a new one, at the mooring if there is one."""
        assert one.agent is not None
        task = one.task
        found = self._find_ready_agent(one.agent)
        if found is None and "who" not in task.data:
            before = self.choose_agent_name(task, one.attempt - 1)
            if one.attempt > 1 and self._is_name_taken(before):
                self._fleet.stop([before])  # it may still work, though nobody could tell it so
            return self._run_on_host(mooring, lambda on, options: self._create_agent(one, on, options))
        if found is None:
            grave = list_saved_agents(self._fleet, self._run, self._options.on).get(one.agent)
            if grave is None:
                raise NotFound(f"{one.agent} is not there any more", "see: mngr undestroy --list")
            found = self._run_on_host(mooring, lambda on, options: self._restore_agent(grave.id, on))
        if "branch" in task.data and one.base is not None:
            self._fleet.send_commit(one.agent, self._run.repo, one.base)
        return found

    def _run_on_host(self, mooring: PooledHost | None, act: Callable[[str, dict[str, str]], AgentView]) -> AgentView:
        """What is made at an address; the first at a mooring makes its host."""
        if mooring is None:
            return act(self._options.on, {})
        with mooring.creation_lock:
            if mooring.name is None:
                mooring.creation_began_at = clock.format_timestamp()
                made = act(self._options.on, mooring.build_options)
                mooring.name = made.host
                return made
        return act(f"@{mooring.name}{self._options.on[1:]}", {})

    def _create_agent(self, one: TaskState, on: str, options: dict[str, str]) -> AgentView:
        wish, task = self._options, one.task
        branch = None if one.base is None else f"{one.base}:mngr/{self._run.name}/{task.slug}"
        return self._fleet.create(
            f"{one.agent}{on}", task.data.get("agent", wish.agent), task.data.get("args", wish.args),
            source=self.source, branch=branch, transfer=wish.transfer, dirty="ignore", env=wish.env, build_args=options,
            sandbox=wish.sandbox, network=wish.network, yolo=wish.yolo, labels={"run": self._run.name, "task": task.slug},
        )  # fmt: skip

    def _restore_agent(self, grave: str, on: str) -> AgentView:
        """An agent as it was when its host was given back, on another."""
        outcome = self._fleet.undestroy([grave], on=on, set_up=True)[0]
        if not outcome.ok:
            raise MngrError(outcome.error or "it could not be brought back", outcome.hint)
        return self._fleet.get(outcome.name)

    def _find_ready_agent(self, name: str) -> AgentView | None:
        """The agent if it is whole; what a crash left half made is taken away."""
        if self._options.on and not self._is_name_taken(name):
            return None
        try:
            agent = self._fleet.get(name)
        except NotFound:
            return None
        if agent.state_reason in _INTERRUPTED_REASONS:
            self._fleet.destroy([name], force=True)
            return None
        if agent.state in _ENDED_STATES:
            self._fleet.start([name])
        return self._fleet.get(name)

    def _is_name_taken(self, name: str) -> bool:
        """Whether somebody has that name: one elsewhere has it here first, so no host has to be asked."""
        return store.find_id(self._fleet.context.home, name) is not None

    def send_prompt(self, one: TaskState, text: str) -> str:
        """Give it its task, and keep what it was told."""
        folder = self._run.task_path(one.task.slug)
        os.makedirs(folder, exist_ok=True)
        how = "a" if "who" in one.task.data else "w"  # it was told something before
        with open(os.path.join(folder, "prompt.md"), how, encoding="utf-8") as file:
            file.write(text)
        return self.send_message(one, text, _READY_TIMEOUT)

    def send_message(self, one: TaskState, text: str, patience: float) -> str:
        """Send a message that the agent does not have yet; the proof that it arrived. Raises MngrError."""
        return self.host_recovery.run_when_settled(one.host or "", lambda: self._send_message(one, text, patience))

    def _send_message(self, one: TaskState, text: str, patience: float) -> str:
        assert one.agent is not None
        if self._has_message(one.agent, text):
            return "transcript"
        outcome = self._fleet.message([one.agent], text, start=True, timeout=patience)[0]
        if not outcome.ok:
            why = outcome.error or "it could not be told"
            if outcome.exit_code == Unreachable.exit_code:
                raise Unreachable(why, outcome.hint)
            raise MngrError(why + self._describe_exit(one.agent), outcome.hint)
        return str(outcome.extra.get("proof"))

    def restart_on_new_host(self, one: TaskState, prompt: str) -> str:
        """Start an agent whose host is gone, which makes that anew; it goes on, or begins again if it knows of nothing."""
        assert one.agent is not None
        with self.host_recovery.rebuilding(one.host or ""):
            for pause in (1.0, 4.0, 16.0, None):
                outcome = self._fleet.start([one.agent])[0]
                if outcome.ok:
                    break
                if pause is None:
                    raise MngrError(outcome.error or "it could not be started", outcome.hint)
                time.sleep(pause)
            if not prompt:  # a program that needs no word
                return "none"
            moved = f"{reminders.HOST_LOST_MESSAGE} ({clock.format_timestamp()})"
            return self._send_message(one, moved if self._has_message(one.agent, prompt) else prompt, _READY_TIMEOUT)

    def _describe_exit(self, name: str) -> str:
        """How one that could not be told anything has ended, if it has."""
        try:
            code = self._fleet.get(name).exit_code
        except MngrError:
            return ""
        return ": its program is not installed" if code == 127 else f": exit code {code}" if code else ""

    def _has_message(self, name: str, text: str) -> bool:
        try:
            rows = list(self._fleet.transcript(name))
        except MngrError:
            return False
        return any(row["role"] == "user" and row["text"].strip() == text.strip() for row in rows)

    def find_host_tag(self, host: str | None) -> str | None:
        """What tells a host that was made for the run from one that is made anew with the same name."""
        facts = registry.find_facts(self._fleet.context.home, self._provider, host) if self._provider and host else None
        return None if facts is None else facts["engine"].get("tag")

    def collect_work(self, one: TaskState, *, final: bool, tag: str | None) -> CollectedWork:
        """Bring its work home and judge it; stop the agent if that is all that can be had of it, or if this is to be the end.

        HostGone when its host has another `tag` by now: what is on the new one is not what it had done.
        """
        host = one.host or ""

        def act() -> CollectedWork:
            if self.find_host_tag(host) != tag:
                raise HostGone(self._provider or "", host, "it was made anew meanwhile")
            return self._collect_work(one, final=final)

        return self.host_recovery.run_when_settled(host, act)

    def _collect_work(self, one: TaskState, *, final: bool) -> CollectedWork:
        assert one.agent is not None
        name, folder = one.agent, self._run.task_path(one.task.slug)
        os.makedirs(folder, exist_ok=True)
        agent = self._fleet.get(name)
        error = None
        commit, commits = None, 0
        try:
            into = PullTarget(
                repo=self._run.repo, ref=self._run.ref_name(one.task.slug), outputs_dir=os.path.join(folder, "outputs"),
                branch=one.task.data.get("branch"),
            )  # fmt: skip
            pulled = self._fleet.pull(name, into=into)
            commit, commits = pulled.commit, pulled.commits
        except Unreachable:
            raise  # that is its host's trouble
        except MngrError as problem:
            error = problem.message
            commit = git.find_commit(self._fleet.context.local_host, self._run.repo, self._run.ref_name(one.task.slug))
        dirty = bool(self._fleet.add_git_state([agent])[0].dirty)
        alive = agent.state not in _ENDED_STATES
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
            before_edit = count_tokens_before_edit(self._save_conversation(name, folder, dirty))
            self._fleet.stop([name])
        return CollectedWork(
            commit=commit, commits=commits, judgement=judgement, usage=self._budget.find_usage(name), is_dirty=dirty,
            is_final=is_final, error=error, before_edit=before_edit,
        )  # fmt: skip

    def _save_conversation(self, name: str, folder: str, dirty: bool) -> list[dict[str, Any]]:
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

    def stop_agents(self, some: list[TaskState]) -> list[str]:
        """End them and keep everything; one that is gone is stopped. Who could not be stopped, and why."""
        outcomes = self._fleet.stop([one.agent for one in some if one.agent is not None])
        silent = [done for done in outcomes if not done.ok and done.exit_code == Unreachable.exit_code]
        return [f"{done.name}: {done.error}" for done in silent]


def count_tokens_before_edit(rows: list[dict[str, Any]]) -> int | None:
    """What an agent read and wrote until it first changed a file, by the names of its tools; None when it never did."""
    total = 0
    for row in rows:
        used = row.get("usage")
        if isinstance(used, dict):
            total += sum(value for key in TOKEN_FIELDS if isinstance(value := used.get(key), int))
        if row.get("role") == "tool" and re.search(
            r"edit|write|patch|replace|create", str(row.get("tool")), re.IGNORECASE
        ):
            return total
    return None
