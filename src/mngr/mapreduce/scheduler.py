"""The loop of a run: plan, launch, watch, collect and check tasks until all are settled.

One thread decides and writes the journal. Slow work runs in other threads, after its intent was journaled.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mngr.api import Fleet
from mngr.base.errors import EngineBusy, HostGone, HostStopped, MngrError, NotFound, Unreachable
from mngr.base.model import AgentView
from mngr.mapreduce import governor as governing
from mngr.mapreduce import reminders
from mngr.mapreduce.agent_actions import AgentActions, CollectedWork
from mngr.mapreduce.governor import Governor, RunLimits, RunLoad
from mngr.mapreduce.hosts.assign_hosts import PooledHost
from mngr.mapreduce.hosts.pool import HostPool, find_host_provider
from mngr.mapreduce.hosts.reachability import HostReachability
from mngr.mapreduce.journal import journal_rows, run_rows
from mngr.mapreduce.journal.journal_file import JournaledState
from mngr.mapreduce.journal.run_state import ACTIVE_STATES, RunState, TaskState
from mngr.mapreduce.measure_run_usage import Budget, is_overloaded
from mngr.mapreduce.recipe import AgentOptions, Recipe
from mngr.mapreduce.reminders import Collect, Remind
from mngr.mapreduce.reminders_and_parking import Messenger, make_delivery_row
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.task_watch import TaskWatch
from mngr.mapreduce.worker_threads import THREAD_COUNTS, JobKind, WorkerThreads

MAX_LAUNCHES = 3  # launches of one task; three times as many when the host or the model caused the failures
MAX_PULLS = 6  # attempts to pull; ten times as many, about an hour, while the host does not answer
# Seconds between two looks at the agents, at least, and seconds of one turn of the loop.
_MIN_WATCH_INTERVAL, _LOOP_INTERVAL = 0.25, 1.0
_MAX_HOST_STOPS = 10  # restarts of a task whose host stopped by itself, for example at a time limit
_PARKED_STOP_DELAY = 300.0  # seconds after which a parked agent is stopped, so that its host can be released


class Scheduler:
    """Runs a recipe to its end."""

    def __init__(
        self,
        fleet: Fleet,
        run: RunDir,
        state: JournaledState,
        recipe: Recipe,
        options: AgentOptions,
        limits: RunLimits,
        checks: int = 2,
    ) -> None:
        self._journaled_state = state
        self._write = state.write
        self._recipe = recipe
        per_host = max(1, options.agents_per_host) if find_host_provider(fleet.context, options.on) else 1
        self._governor = Governor(limits.replace(starting_per_host=per_host))
        self._budget, self._reachability = Budget(fleet, limits), HostReachability()
        self._actions = AgentActions(fleet, run, recipe, options, self._budget)
        self._began = time.monotonic()
        self._active_since: dict[str, float] = {}  # task slug -> when its agent was launched, parked or woken
        self._failed_pulls: dict[str, int] = {}  # task slug -> failed attempts to pull its work
        self._not_before: dict[str, float] = {}  # task slug -> time before which nothing is done with the task
        self._stopped_agents: set[str] = set()  # ids of agents that a person stopped
        self._reported_wait_reason: str | None = None
        self._is_launching_over = False
        self._watch = TaskWatch(
            fleet.watch(quick=_MIN_WATCH_INTERVAL, slow=max(_LOOP_INTERVAL, limits.max_agents / 20))
        )
        max_starting = min(limits.max_starting * per_host, limits.max_agents)
        self._workers = WorkerThreads(
            {**THREAD_COUNTS, JobKind.LAUNCH: max_starting, JobKind.PROMPT: max_starting, JobKind.CHECK: checks}
        )
        self._host_pool = HostPool(fleet, run, state, options, self._actions.source, self._workers, self._reachability)
        self._messenger = Messenger(self._governor, self._actions, self._workers, state)
        # The method that takes a job's result, for each kind of job.
        self._result_handlers: dict[JobKind, Callable[[str, Any], None]] = {
            JobKind.LAUNCH: self._after_launch,
            JobKind.PROMPT: self._after_message,
            JobKind.REMIND: self._after_message,
            JobKind.PULL: self._after_pull,
            JobKind.CHECK: self._after_check,
            JobKind.QUICK_CHECK: self._after_check,
            JobKind.COUNT: lambda *_: self._park_if_exhausted(),
            JobKind.PREPARE: self._after_prepare,
            JobKind.RELEASE: self._host_pool.handle_released,
            JobKind.STOP: self._messenger.handle_stopped,
        }

    @property
    def _state(self) -> RunState:
        return self._journaled_state.current

    def run(self) -> RunState:
        """Run until all tasks are settled or nothing more may be launched. Return the final state."""
        try:
            self._budget.load_daily_cost(self._state)
            self._resume()
            while True:
                is_place_needed = self._is_launching_over or self._recipe.is_waiting_for_host
                self._host_pool.release_idle_hosts(releases_all=is_place_needed)
                if self._is_parked():
                    break
                new_rows = self._recipe.plan_rows(self._state)
                for row in new_rows:
                    self._write(row)
                if not new_rows and self._state.is_settled and not self._has_pending_jobs():
                    break
                self._launch_ready_tasks()
                self._watch_agents()
                for result in self._workers.take_results():
                    self._result_handlers[result.kind](result.subject, result.value)
                self._enforce_time_limits()
            self._journal_end()
            return self._state
        finally:
            self._watch.close()

    def _is_parked(self) -> bool:
        """True when tasks are left, none is in progress, and nothing more may be launched."""
        is_busy = self._has_pending_jobs() or self._state.tasks.count_in_state(*ACTIVE_STATES, "checking")
        if is_busy or self._state.is_settled:
            return False
        has_alarm = self._governor.alarm_reason is not None
        return self._is_launching_over or (has_alarm and self._governor.limits.on_alarm == "pause")

    def _has_pending_jobs(self) -> bool:
        """True while hosts are being released or agents stopped."""
        return self._host_pool.has_releases() or self._messenger.pending_stops > 0

    def _journal_end(self) -> None:
        """Close the host pool and journal how the run ended."""
        outcome = "settled" if self._state.is_settled else "parked"
        self._host_pool.close(outcome)
        reason = None if outcome == "settled" else self._governor.alarm_reason or self._reported_wait_reason
        self._write(run_rows.EndedRow(outcome=outcome, why=reason))

    # Launching

    def _launch_ready_tasks(self) -> None:
        """Launch queued tasks and resume parked ones, as far as the governor allows."""
        delayed = self._list_delayed_tasks()
        waiting_count = self._state.tasks.count_in_state("queued") - len(delayed)
        ready = [task for task in self._state.list_in_state("parked") if self._messenger.can_resume(task)]
        if not waiting_count and not ready:
            return
        allowance = self._governor.decide_launches(self._measure_load())
        if allowance.reason != self._reported_wait_reason and allowance.count == 0 and allowance.reason:
            self._write(run_rows.AlertRow(text=f"no new agents: {allowance.reason}", wait_reason=allowance.reason))
        self._reported_wait_reason = allowance.reason
        if allowance.is_final:
            self._park_all(allowance.reason or "")
            return
        if waiting_count and self._host_pool.needs_snapshot(waiting_count):
            self._host_pool.prepare_snapshot(self._recipe.choose_base(next(self._state.tasks.iter_queue(delayed))))
        if self._host_pool.is_preparing:
            waiting_count = 0
        new_count = self._host_pool.count_placeable(min(waiting_count, max(0, allowance.count - len(ready))))
        for task in ready[: allowance.count]:
            self._active_since[task.task.slug] = time.monotonic()
            self._messenger.resume_task(task)
        for task in list(itertools.islice(self._state.tasks.iter_queue(delayed), new_count)):
            self._launch_task(task)

    def _list_delayed_tasks(self) -> set[str]:
        tasks, delays = self._state.tasks, self._not_before.items()
        return {slug for slug, at in delays if at > time.monotonic() and tasks[slug].state == "queued"}

    def _launch_task(self, task: TaskState) -> None:
        slug, attempt = task.task.slug, task.attempt + 1
        agent = self._actions.choose_agent_name(task.task, attempt)
        pooled_host = self._host_pool.assign_host(slug)
        host = pooled_host.name if pooled_host is not None else None
        base = self._recipe.choose_base(task)
        self._write(journal_rows.LaunchRow(slug=slug, agent=agent, attempt=attempt, base=base, host=host))
        self._start_agent(self._state.tasks[slug], pooled_host)

    def _start_agent(self, task: TaskState, pooled_host: PooledHost | None) -> None:
        self._active_since[task.task.slug] = time.monotonic()
        host = None if pooled_host is None else pooled_host.name
        self._workers.submit(
            JobKind.LAUNCH, task.task.slug, lambda: self._actions.ensure_agent(task, pooled_host), host
        )

    def _after_launch(self, slug: str, result: AgentView | MngrError) -> None:
        if isinstance(result, EngineBusy):  # this counts as no attempt: the launch is repeated when there may be room
            self._write(journal_rows.BusyRow(slug=slug, error=result.message))
            self._governor.record_refusal(result.message, self._seconds_elapsed())
            return
        if isinstance(result, MngrError):
            self._handle_launch_failure("launch", slug, result)
            return
        self._governor.record_start()
        self._host_pool.record_arrival(self._state.tasks[slug], result)
        self._write(journal_rows.LaunchedRow(slug=slug, id=result.id, host=result.host, kind=result.kind), sync=False)
        self._send_prompt(self._state.tasks[slug])

    def _after_prepare(self, snapshot: str, result: str | MngrError) -> None:
        if isinstance(result, EngineBusy):
            self._governor.record_refusal(result.message, self._seconds_elapsed())
        self._host_pool.handle_prepared(snapshot, result)

    def _send_prompt(self, task: TaskState) -> None:
        """Send the agent its prompt."""
        text = self._recipe.build_prompt(task)
        if not text:  # the program needs no prompt
            self._after_message(task.task.slug, "none")
            return
        self._workers.submit(JobKind.PROMPT, task.task.slug, lambda: self._actions.send_prompt(task, text), task.host)

    def _after_message(self, slug: str, proof: str | MngrError) -> None:
        task = self._state.tasks[slug]
        if isinstance(proof, MngrError) and task.state == "launching":
            self._handle_launch_failure("prompt", slug, proof)
        elif isinstance(proof, MngrError):
            reason = self._messenger.message_reasons.get(slug)
            self._start_pull(task, close_reason=f"mngr could not message the agent ({reason}): {proof.message}")
        else:
            self._write(make_delivery_row(task, proof))
            self._host_pool.record_wake(task.host)
            self._watch_agent(self._state.tasks[slug])

    def _watch_agent(self, task: TaskState) -> None:
        """Watch the task's agent. The loop tries again while the host does not answer."""
        is_host_known = self._watch.add(task)
        if task.agent_id and not is_host_known:
            self._handle_missing_agent(task.agent_id)

    def _handle_launch_failure(self, stage: str, slug: str, error: MngrError) -> None:
        """Record a failed launch and queue the task again, unless it failed too often."""
        task = self._state.tasks[slug]
        error_kind = governing.classify_error(error.message) if not isinstance(error, Unreachable) else "host"
        # New agents avoid a host that does not answer.
        silent_host = self._host_pool.mark_unreachable(slug) if isinstance(error, Unreachable) else None
        self._write(journal_rows.LaunchFailedRow(slug=slug, stage=stage, error_kind=error_kind, error=error.message))
        self._report_failure(stage, error.message, silent_host or slug, error_kind)
        is_external = error_kind in ("rate_limit", "host")  # the task itself did not fail
        if is_external and silent_host is None and self._governor.record_rate_limit(self._seconds_elapsed()):
            self._write(run_rows.WindowRow(size=int(self._governor.max_parallel), why=error_kind))
        if task.attempt >= MAX_LAUNCHES * (3 if is_external else 1):
            reason = f"mngr could not start the agent: {error.message}"
            self._write(journal_rows.SettledRow(slug=slug, outcome="failed", reason=reason))
            return
        self._not_before[slug] = time.monotonic() + 2.0 ** min(task.attempt, 6)

    def _report_failure(self, stage: str, text: str, slug: str, error_kind: str | None = None) -> None:
        if error_kind is None and governing.is_timeout_error(text) and is_overloaded():
            error_kind = "host"
        alarm = self._governor.record_failure(stage, text, slug, self._seconds_elapsed(), error_kind)
        if alarm is not None:
            self._write(alarm)

    # Watching

    def _watch_agents(self) -> None:
        """Wait until agents change or a job ends, and react to the agents that changed."""
        update = self._watch.wait(_LOOP_INTERVAL, self._workers.wake_fd)
        if update is None:
            return
        for text in self._reachability.update(update):
            self._write(run_rows.AlertRow(text=text))
        for task in self._state.list_in_state("working") if update.errors else ():
            error = update.errors.get(task.host or "")
            if isinstance(error, HostGone):
                self._messenger.restart_on_new_host(task, self._recipe.build_prompt(task))
            elif isinstance(error, HostStopped) and (error.why or task.host in self._state.hosts):
                # The host stopped by itself, or a person stopped a host of this run. Its files are kept.
                reason = f"its host stopped: {error.why or 'the reason is unknown'}"
                self._messenger.restart_agent(task, reason, _MAX_HOST_STOPS)
            elif error is not None:
                self._report_failure(
                    "work", f"{task.host} does not answer", self._host_pool.get_failure_source(task), "host"
                )
        for view in update.agents:
            self._react_to_agent(view)
        for agent_id in update.destroyed:
            self._handle_missing_agent(agent_id)

    def _react_to_agent(self, view: AgentView) -> None:
        """Do what the agent's state asks for."""
        task = self._state.tasks.get(self._watch.find_slug(view.id) or "")
        if task is None or task.agent_id != view.id:
            return
        if task.state == "parked" and view.state == "RUNNING" and not task.is_stopped:
            self._write(journal_rows.UnparkedRow(slug=task.task.slug, why="the agent continued by itself"))
            self._active_since[task.task.slug] = time.monotonic()
        elif task.state != "working" or self._not_before.get(task.task.slug, 0.0) > time.monotonic():
            return
        elif view.state == "PARKED":
            self._active_since[task.task.slug] = time.monotonic()
            self._messenger.park_task(task, view, self._seconds_elapsed())
            if view.state_reason == "login":
                self._report_failure("work", "the agent has to log in again", task.task.slug, "login")
        elif view.state == "STOPPED" and view.state_reason == "rescue":  # another process found the host gone
            self._messenger.restart_on_new_host(task, self._recipe.build_prompt(task))
        # Destroying an agent stops it first, so wait until it is clear which of the two it was.
        elif view.state == "STOPPED" and view.id not in self._stopped_agents:
            self._stopped_agents.add(view.id)
            self._not_before[task.task.slug] = time.monotonic() + 2.0
        elif view.state_reason == "lost" and self._messenger.restart_agent(task, "lost", 2):
            pass
        else:
            action = reminders.next_action(view, self._governor.limits.stall_timeout)
            if isinstance(action, Remind):
                self._remind(task, action.reason, action.text)
            elif isinstance(action, Collect):
                self._start_pull(task, close_reason=action.failure)

    def _handle_missing_agent(self, agent_id: str) -> None:
        """Queue the task of a destroyed agent again, unless its host is being rebuilt."""
        task = self._state.tasks.get(self._watch.find_slug(agent_id) or "")
        if task is not None and not self._actions.host_recovery.is_settled(task.host or ""):
            return  # the agent is being restored
        if task is not None and task.agent_id == agent_id and task.state in ("working", "parked"):
            self._requeue_destroyed(task)
        self._watch.remove(agent_id)  # a task that is still open is watched again in the next turn

    def _requeue_destroyed(self, task: TaskState) -> None:
        """Queue the task again, or settle it as failed after too many launches."""
        slug, error = task.task.slug, "its agent was destroyed"
        self._write(journal_rows.LaunchFailedRow(slug=slug, stage="work", error_kind="host", error=error))
        if task.attempt >= MAX_LAUNCHES:
            self._write(journal_rows.SettledRow(slug=slug, outcome="failed", reason=error))

    def _remind(self, task: TaskState, reason: str, text: str) -> None:
        """Remind the agent, or pull its work if it already got all reminders."""
        if not self._messenger.remind(task, reason, text):
            self._start_pull(task, close_reason=reason)

    # Collecting

    def _start_pull(self, task: TaskState, close_reason: str | None = None) -> None:
        self._write(journal_rows.PullRow(slug=task.task.slug, close_reason=close_reason))
        task = self._state.tasks[task.task.slug]
        final = close_reason is not None or task.reminders >= reminders.MAX_REMINDERS
        tag = self._actions.find_host_tag(task.host)
        collect = partial(self._actions.collect_work, task, final=final, tag=tag)
        self._workers.submit(JobKind.PULL, task.task.slug, collect, task.host)

    def _after_pull(self, slug: str, result: CollectedWork | MngrError) -> None:
        task = self._state.tasks[slug]
        if isinstance(result, NotFound):
            self._requeue_destroyed(task)
            return
        if isinstance(result, MngrError):  # the host does not answer or the disk is full, but the work still exists
            self._failed_pulls[slug] = self._failed_pulls.get(slug, 0) + 1
            self._write(journal_rows.PullFailedRow(slug=slug, error=result.message))
            is_unreachable = isinstance(result, Unreachable)
            source = self._host_pool.get_failure_source(task) if is_unreachable else slug
            self._report_failure("pull", result.message, source, "host" if is_unreachable else None)
            self._not_before[slug] = time.monotonic() + 2.0 ** min(self._failed_pulls[slug], MAX_PULLS)
            if self._failed_pulls[slug] >= MAX_PULLS * (10 if is_unreachable else 1):
                self._write(journal_rows.SettledRow(slug=slug, outcome="failed", reason=result.message))
            elif isinstance(result, HostGone):  # the watch may not report the lost host again
                self._messenger.restart_on_new_host(self._state.tasks[slug], self._recipe.build_prompt(task))
            return
        self._write(result.to_row(slug))
        task = self._state.tasks[slug]
        if result.is_final:
            if task.agent_id:
                self._watch.remove(task.agent_id)  # another task may use the same agent
            self._start_check(task)
        else:
            self._remind(task, "result", result.judgement.problem or "")

    def _start_check(self, task: TaskState) -> None:
        self._write(journal_rows.CheckRow(slug=task.task.slug))
        task = self._state.tasks[task.task.slug]
        kind = JobKind.QUICK_CHECK if self._recipe.can_check_without_run(task) else JobKind.CHECK
        self._workers.submit(kind, task.task.slug, lambda: self._recipe.check(task))

    def _after_check(self, slug: str, result: Mapping[str, object] | MngrError | None) -> None:
        if isinstance(result, EngineBusy) and not self._is_launching_over:
            return self._start_check(self._state.tasks[slug])  # the provider had no capacity for the check's host
        if isinstance(result, MngrError):
            result = {"verdict": "unverified", "reason": result.message}
        if result is not None:
            self._write(journal_rows.CheckedRow(slug=slug, check=result))
        outcome, reason = self._recipe.decide_outcome(self._state.tasks[slug])
        self._write(journal_rows.SettledRow(slug=slug, outcome=outcome, reason=reason))
        if outcome == "failed":
            self._report_failure("work", reason or outcome, slug)
        else:
            self._governor.record_success()
            if self._governor.alarm_reason is not None:
                self._governor.clear_alarm()
                self._write(run_rows.AlarmOverRow(text="the alarm is over, because a task succeeded"))

    # Time and money

    def _seconds_elapsed(self) -> float:
        return time.monotonic() - self._began

    def _measure_load(self) -> RunLoad:
        return self._budget.measure_load(self._seconds_elapsed(), self._state)

    def _enforce_time_limits(self) -> None:
        now = time.monotonic()
        for task in self._state.list_in_state("working", "parked"):
            if not self._watch.is_watched(task):
                self._watch_agent(task)
        for task in self._state.list_in_state("working"):
            slug, limit = task.task.slug, self._governor.limits.timeout
            if now - self._active_since.get(slug, now) > limit and self._not_before.get(slug, 0.0) <= now:
                self._start_pull(task, close_reason="timeout")
        for task in self._state.list_in_state("parked"):
            if not task.is_stopped and now - self._active_since.get(task.task.slug, now) > _PARKED_STOP_DELAY:
                self._messenger.stop_agents([task], task.reason, task.parked_until)
        self._park_if_exhausted()
        if (names := self._budget.begin_count_if_due(self._state)) is not None:
            self._workers.submit(JobKind.COUNT, "", lambda: self._budget.count_usage(names))

    def _park_if_exhausted(self) -> None:
        if reason := self._governor.find_exhausted_limit(self._measure_load()):
            self._park_all(reason)

    def _park_all(self, reason: str) -> None:
        """Stop launching and park all active tasks. A later resume can continue them."""
        self._is_launching_over = True
        self._reported_wait_reason = reason
        active = self._state.list_in_state("working", "parked")
        self._messenger.stop_agents([task for task in active if not task.is_stopped], reason)

    # After a crash

    def _resume(self) -> None:
        """Continue the unfinished tasks of an interrupted run without repeating any finished step."""
        if not self._state.tasks:
            return
        self._write(run_rows.ResumedRow())
        self._host_pool.restore_hosts()
        for task in list(self._state.tasks.values()):
            if task.state in ("working", "talking", "parked", "launching", "pulling"):
                self._active_since[task.task.slug] = time.monotonic()
            if task.state == "launching":
                self._start_agent(task, self._host_pool.assign_host(task.task.slug))
            elif task.state in ("working", "talking"):
                self._write(journal_rows.RemindedRow(slug=task.task.slug))
                self._watch_agent(self._state.tasks[task.task.slug])
            elif task.state == "parked":
                self._watch_agent(task)
            elif task.state == "pulling" and not task.is_stopped:
                self._start_pull(task, close_reason=task.close_reason)
            elif task.state == "pulling" or (task.state == "checking" and task.check is None):
                self._start_check(task)
            elif task.state == "checking":
                self._after_check(task.task.slug, task.check)
