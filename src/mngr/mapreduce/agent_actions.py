"""Creates, prompts, collects and stops the agents of a run.

Every action can be repeated after a crash: a step that is already done is not done twice.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable

from mngr.agents.create.spec import AgentSpec
from mngr.agents.sync.pull import PullTarget
from mngr.api import Fleet
from mngr.base import time_format
from mngr.base.errors import HostGone, MngrError, NotFound, Unreachable
from mngr.base.model import AgentView, Struct
from mngr.base.untrusted_json import find_text, get_object
from mngr.host import git, host_store, record_store
from mngr.kinds.transcript_entry import TranscriptEntry
from mngr.mapreduce import reminders
from mngr.mapreduce.hosts.assign_hosts import PooledHost
from mngr.mapreduce.hosts.hosts_being_rebuilt import HostRecovery
from mngr.mapreduce.hosts.pool import find_host_provider, list_saved_agents
from mngr.mapreduce.journal.agent_usage import AgentUsage
from mngr.mapreduce.journal.journal_rows import PulledRow
from mngr.mapreduce.journal.run_state import Task, TaskState
from mngr.mapreduce.measure_run_usage import Budget
from mngr.mapreduce.recipe import AgentOptions, Judgement, Recipe
from mngr.mapreduce.run_dir import RunDir

# Seconds until the agent must accept its prompt: a program starts slowly beside a hundred others.
_READY_TIMEOUT = 300.0
_ENDED_STATES = ("DONE", "FAILED", "STOPPED")
# State reasons of an agent whose creating or destroying process died.
_INTERRUPTED_REASONS = ("create_interrupted", "destroy_interrupted")


class CollectedWork(Struct):
    """The work that mngr pulled from a task's agent, and the recipe's judgement."""

    commit: str | None = None
    commits: int = 0
    judgement: Judgement
    usage: AgentUsage | None = None
    is_dirty: bool = False
    is_final: bool  # the agent was stopped: no more work will come
    error: str | None = None  # why the pull failed
    tokens_before_edit: int | None = None  # tokens that the agent used before it first changed a file

    def to_row(self, slug: str) -> PulledRow:
        """Return the row for the journal."""
        return PulledRow(
            slug=slug,
            commit=self.commit,
            commits=self.commits,
            claim=self.judgement.claim,
            usage=self.usage,
            problem=self.judgement.problem if self.is_final else None,
            tokens_before_edit=self.tokens_before_edit,
            dirty=self.is_dirty,
            final=self.is_final,
            error=self.error,
        )


class AgentActions:
    """Acts on the agents of a run."""

    def __init__(self, fleet: Fleet, run: RunDir, recipe: Recipe, options: AgentOptions, budget: Budget) -> None:
        self._fleet = fleet
        self._run = run
        self._recipe = recipe
        self._options = options
        self._budget = budget
        self.host_recovery = HostRecovery()
        self._provider = find_host_provider(fleet.context, options.on)
        self.source = run.root if options.transfer == "worktree" else run.repo

    def choose_agent_name(self, task: Task, attempt: int) -> str:
        """Return the agent's name for this attempt, or the existing agent's name if the task is for that agent."""
        new_name = f"{self._options.name_prefix}-{self._run.name}-{task.slug}" + (f"-{attempt}" if attempt > 1 else "")
        return task.existing_agent or new_name

    def ensure_agent(self, task: TaskState, pooled_host: PooledHost | None = None) -> AgentView:
        """Return the task's agent: the existing one, a restored one, or a new one on the pooled host."""
        assert task.agent is not None
        spec = task.task
        agent = self._find_ready_agent(task.agent)
        if agent is None and spec.existing_agent is None:
            previous_name = self.choose_agent_name(spec, task.attempt - 1)
            if task.attempt > 1 and self._is_name_taken(previous_name):
                self._fleet.stop([previous_name])  # the earlier agent may still be working
            return self._run_on_host(pooled_host, lambda on, options: self._create_agent(task, on, options))
        if agent is None:
            saved = list_saved_agents(self._fleet, self._run, self._options.on).get(task.agent)
            if saved is None:
                raise NotFound(
                    f"the agent {task.agent} no longer exists", "look for it in the trash: mngr undestroy --list"
                )
            agent = self._run_on_host(pooled_host, lambda on, options: self._restore_agent(saved.id, on))
        if spec.branch is not None and task.base is not None:
            self._fleet.send_commit(task.agent, self._run.repo, task.base)
        return agent

    def _run_on_host(
        self, pooled_host: PooledHost | None, action: Callable[[str, dict[str, str]], AgentView]
    ) -> AgentView:
        """Call the action with an address and build options. The first call for a pooled host creates that host."""
        if pooled_host is None:
            return action(self._options.on, {})
        with pooled_host.creation_lock:
            if pooled_host.name is None:
                pooled_host.creation_began_at = time_format.format_timestamp()
                agent = action(self._options.on, pooled_host.build_options)
                pooled_host.name = agent.host
                return agent
        return action(f"@{pooled_host.name}{self._options.on[1:]}", {})

    def _create_agent(self, task: TaskState, on: str, build_options: dict[str, str]) -> AgentView:
        """Create the agent of a task at the address."""
        run_options, work = self._options, task.task
        spec = AgentSpec(
            address=f"{task.agent}{on}",
            kind=work.agent_kind or run_options.agent,
            command=run_options.args if work.agent_args is None else work.agent_args,
            source=self.source,
            branch=None if task.base is None else f"{task.base}:mngr/{self._run.name}/{work.slug}",
            transfer=run_options.transfer,
            dirty="ignore",
            env=run_options.env,
            build_args=[f"{key}={value}" for key, value in build_options.items()],
            sandbox=run_options.sandbox,
            network=run_options.network,
            yolo=run_options.yolo,
            labels={"run": self._run.name, "task": work.slug},
        )
        return self._fleet.create(spec)

    def _restore_agent(self, trash_id: str, on: str) -> AgentView:
        """Restore an agent from the trash onto another host, after its first host was released."""
        outcome = self._fleet.undestroy([trash_id], on=on, set_up=True)[0]
        if not outcome.ok:
            raise MngrError(outcome.error or "mngr could not restore the agent", outcome.hint)
        return self._fleet.get(outcome.name)

    def _find_ready_agent(self, name: str) -> AgentView | None:
        """Return the agent, started if it had ended. Destroy an incomplete agent and return None."""
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
        """True when an agent has the name. No host is asked: every agent is also recorded in the local home."""
        return record_store.find_id(self._fleet.context.home, name) is not None

    def send_prompt(self, task: TaskState, text: str) -> str:
        """Save the prompt in the task's folder, send it, and return the proof of delivery."""
        folder = self._run.task_path(task.task.slug)
        os.makedirs(folder, exist_ok=True)
        mode = "w" if task.task.existing_agent is None else "a"  # keep the agent's earlier prompts
        with open(os.path.join(folder, "prompt.md"), mode, encoding="utf-8") as file:
            file.write(text)
        return self.send_message(task, text, _READY_TIMEOUT)

    def send_message(self, task: TaskState, text: str, timeout: float) -> str:
        """Send a message unless the agent already has it. Return the proof of delivery, or raise MngrError."""
        return self.host_recovery.run_when_settled(task.host or "", lambda: self._send_message(task, text, timeout))

    def _send_message(self, task: TaskState, text: str, timeout: float) -> str:
        assert task.agent is not None
        if self._has_message(task.agent, text):
            return "transcript"
        outcome = self._fleet.message([task.agent], text, start=True, timeout=timeout)[0]
        if not outcome.ok:
            error = outcome.error or "mngr could not deliver the message"
            if outcome.exit_code == Unreachable.exit_code:
                raise Unreachable(error, outcome.hint)
            raise MngrError(error + self._describe_exit(task.agent), outcome.hint)
        return str(outcome.extra.get("proof"))

    def restart_on_new_host(self, task: TaskState, prompt: str) -> str:
        """Start an agent whose host is gone on a rebuilt host.

        Tell it to continue, or send the prompt if it has none.
        """
        assert task.agent is not None
        with self.host_recovery.rebuilding(task.host or ""):
            for pause in (1.0, 4.0, 16.0, None):
                outcome = self._fleet.start([task.agent])[0]
                if outcome.ok:
                    break
                if pause is None:
                    raise MngrError(outcome.error or "mngr could not start the agent", outcome.hint)
                time.sleep(pause)
            if not prompt:  # the program needs no prompt
                return "none"
            notice = f"{reminders.HOST_LOST_MESSAGE} ({time_format.format_timestamp()})"
            return self._send_message(task, notice if self._has_message(task.agent, prompt) else prompt, _READY_TIMEOUT)

    def _describe_exit(self, name: str) -> str:
        """Return how an agent's program ended, as a suffix for an error message, or an empty string."""
        try:
            code = self._fleet.get(name).exit_code
        except MngrError:
            return ""
        if code == 127:
            return ": its program is not installed"
        return f": exit code {code}" if code else ""

    def _has_message(self, name: str, text: str) -> bool:
        """True when the agent's transcript contains the text as a user message."""
        try:
            entries = list(self._fleet.transcript(name))
        except MngrError:
            return False
        return any(entry.role == "user" and entry.text.strip() == text.strip() for entry in entries)

    def find_host_tag(self, host: str | None) -> str | None:
        """Return the tag that tells a host of the run from a rebuilt host with the same name."""
        if not self._provider or not host:
            return None
        facts = host_store.find_facts(self._fleet.context.home, self._provider, host)
        return find_text(get_object(facts.own, "engine"), "tag") if facts is not None else None

    def collect_work(self, task: TaskState, *, final: bool, tag: str | None) -> CollectedWork:
        """Pull and judge the agent's work. Stop the agent if the work is complete or `final` is set.

        Raise HostGone when the host no longer has this `tag`: a rebuilt host does not hold the agent's work.
        """
        host = task.host or ""

        def collect() -> CollectedWork:
            if self.find_host_tag(host) != tag:
                raise HostGone(self._provider or "", host, "it was rebuilt in the meantime")
            return self._collect_work(task, final=final)

        return self.host_recovery.run_when_settled(host, collect)

    def _collect_work(self, task: TaskState, *, final: bool) -> CollectedWork:
        assert task.agent is not None
        name, folder = task.agent, self._run.task_path(task.task.slug)
        os.makedirs(folder, exist_ok=True)
        agent = self._fleet.get(name)
        error = None
        commit, commits = None, 0
        try:
            target = PullTarget(
                repo=self._run.repo,
                ref=self._run.ref_name(task.task.slug),
                outputs_dir=os.path.join(folder, "outputs"),
                branch=task.task.branch,
            )
            pulled = self._fleet.pull(name, into=target)
            commit, commits = pulled.commit, pulled.commits
        except Unreachable:
            raise  # the host failed, not the agent
        except MngrError as problem:
            error = problem.message
            commit = git.find_commit(
                self._fleet.context.local_host, self._run.repo, self._run.ref_name(task.task.slug), git.ISOLATED_GIT
            )
        dirty = bool(self._fleet.add_git_state([agent])[0].dirty)
        alive = agent.state not in _ENDED_STATES
        judgement = self._recipe.judge(task, folder, alive=alive)
        if error is not None:
            judgement = judgement.replace(problem=f"mngr could not fetch your work: {error}")
        if judgement.problem is None and dirty:
            judgement = judgement.replace(
                problem="Your work tree has uncommitted changes. Commit the changes that belong to the task, "
                "discard the others, and write the result again."
            )
        if judgement.problem is not None and agent.state_reason == "lost" and not final:
            raise Unreachable(f"{name} was interrupted before it finished", "mngr starts it again by itself")
        is_final = final or judgement.problem is None or not alive
        tokens_before_edit = None
        if is_final:
            tokens_before_edit = count_tokens_before_edit(self._save_conversation(name, folder, dirty))
            self._fleet.stop([name])
        return CollectedWork(
            commit=commit,
            commits=commits,
            judgement=judgement,
            usage=self._budget.find_usage(name),
            is_dirty=dirty,
            is_final=is_final,
            error=error,
            tokens_before_edit=tokens_before_edit,
        )

    def _save_conversation(self, name: str, folder: str, dirty: bool) -> list[TranscriptEntry]:
        """Save the agent's transcript and its uncommitted changes in the folder. Return the transcript."""
        try:
            entries = list(self._fleet.transcript(name))
        except MngrError:
            entries = []
        with open(os.path.join(folder, "transcript.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(entry.to_dict()) + "\n" for entry in entries)
        if dirty:
            try:
                patch = self._fleet.diff(name)
            except MngrError as error:
                patch = error.message.encode()
            with open(os.path.join(folder, "uncommitted.diff"), "wb") as diff:
                diff.write(patch)
        return entries

    def stop_agents(self, tasks: list[TaskState]) -> list[str]:
        """Stop the agents and keep everything. Return "NAME: ERROR" for each agent whose host did not answer."""
        outcomes = self._fleet.stop([task.agent for task in tasks if task.agent is not None])
        unreachable = [outcome for outcome in outcomes if not outcome.ok and outcome.exit_code == Unreachable.exit_code]
        return [f"{outcome.name}: {outcome.error}" for outcome in unreachable]


def count_tokens_before_edit(entries: list[TranscriptEntry]) -> int | None:
    """Return the tokens an agent used until its first editing tool call, or None if it changed no file."""
    total = 0
    for entry in entries:
        if entry.usage is not None:
            total += entry.usage.total_tokens
        if entry.role == "tool" and re.search(r"edit|write|patch|replace|create", entry.tool or "", re.IGNORECASE):
            return total
    return None
