"""The loop: plan, launch what the governor lets through, watch, bring home, check, until everything is settled.

One thread decides and writes the journal; what takes time is done by others, each thing after its intent was written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mngr.agents.inspect.watch import WatchUpdate
from mngr.api import Fleet
from mngr.base.errors import EngineBusy, HostGone, HostStopped, MngrError, NotFound, Unreachable
from mngr.base.model import AgentView
from mngr.mapreduce import governor as governing
from mngr.mapreduce import reminders
from mngr.mapreduce.agent_actions import AgentActions, CollectedWork
from mngr.mapreduce.budget import Budget, is_overloaded
from mngr.mapreduce.governor import Governor, RunLimits, RunLoad
from mngr.mapreduce.hosts.pool import HostPool, find_host_provider
from mngr.mapreduce.hosts.reachability import HostReachability
from mngr.mapreduce.hosts.slots import PooledHost
from mngr.mapreduce.journal import Journal
from mngr.mapreduce.messenger import Messenger
from mngr.mapreduce.recipe import AgentOptions, Recipe
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import ACTIVE_STATES, RunState, TaskState, apply_row, replay_rows
from mngr.mapreduce.worker_threads import WorkerThreads

MAX_LAUNCHES = 3  # of one task; three times that when it is the host's or the model's trouble
MAX_PULLS = 6  # ten times that, which is an hour, while its host does not answer
_MIN_WATCH_INTERVAL, _LOOP_INTERVAL = 0.25, 1.0  # seconds: between looks at least; between turns of the loop
_MAX_HOST_STOPS = 10  # times that a task goes on after its host stopped by itself, as at a time limit
_PARKED_STOP_DELAY = 300.0  # seconds after which an agent that is parked gives its host back


class Scheduler:
    """Runs a recipe to its end; `say` hears every row of the journal."""

    def __init__(
        self, fleet: Fleet, run: RunDir, journal: Journal, recipe: Recipe, wish: AgentOptions, limits: RunLimits,
        say: Callable[[dict[str, Any]], None], checks: int = 2,
    ) -> None:  # fmt: skip
        self._fleet, self._run, self._journal, self._recipe = fleet, run, journal, recipe
        per_host = max(1, wish.per_host) if find_host_provider(fleet.context, wish.on) else 1
        self._governor = Governor(limits.replace(per_host=per_host))
        self._budget, self._reachability = Budget(fleet, limits), HostReachability()
        self._actions = AgentActions(fleet, run, recipe, wish, self._budget)
        self._on_row = say
        self._state = replay_rows(journal.rows)
        self._began = time.monotonic()
        self._slugs: dict[str, str] = {}  # of agents' ids
        self._active_since: dict[str, float] = {}  # when a task's agent was launched, parked or woken
        self._failed_pulls: dict[str, int] = {}  # how often its work could not be brought home
        self._not_before: dict[str, float] = {}  # tasks that are not launched before
        self._stopped_agents: set[str] = set()  # agents that somebody stopped
        self._reported_wait_reason: str | None = None
        self._is_launching_over = False
        self._watch = fleet.watch(quick=_MIN_WATCH_INTERVAL, slow=max(_LOOP_INTERVAL, limits.max_agents / 20))
        most = min(limits.max_starting * per_host, limits.max_agents)
        self._workers = WorkerThreads(
            launch=most,
            talk=most,
            remind=8,
            pull=4,
            check=checks,
            settle=1,
            count=1,
            prepare=1,
            release=4,
            stop=4,
        )
        source = self._actions.source
        self._host_pool = HostPool(
            fleet, run, wish, source, self._workers, self._reachability, lambda: self._state, self._write
        )
        self._after_release = self._host_pool.handle_released
        self._messenger = Messenger(self._governor, self._actions, self._workers, lambda: self._state, self._write)
        self._after_stop = self._messenger.handle_stopped

    def run(self) -> RunState:
        """Until everything is settled, or nothing more may be launched; the state then."""
        try:
            self._budget.load_daily_cost(self._state)
            self._resume()
            while not self._is_finished():
                self._plan_rows()
                self._launch_ready_tasks()
                glance = self._watch.wait(_LOOP_INTERVAL, self._workers.wake_fd)
                if glance:
                    self._handle_updates(glance)
                for kind, slug, result in self._workers.take_results():
                    getattr(self, f"_after_{kind}")(slug, result)
                self._enforce_time_limits()
            how = "settled" if all(one.state == "settled" for one in self._state.tasks.values()) else "parked"
            self._host_pool.close(how)
            why = None if how == "settled" else self._governor.alarm_reason or self._reported_wait_reason
            self._write("ended", how=how, why=why)
        finally:
            self._watch.close()
        return self._state

    def _write(self, kind: str, *, sync: bool = True, **data: Any) -> None:
        row = self._journal.write(kind, sync=sync, **data)
        self._state = apply_row(self._state, row)
        self._on_row(row)

    def _is_finished(self) -> bool:
        self._host_pool.release_idle_hosts(0 if self._is_launching_over else len(self._state.list_in_state("queued")))
        if not self._host_pool.has_no_releases() or self._messenger.pending_stops:
            return False
        open_ = [one for one in self._state.tasks.values() if one.state != "settled"]
        if not open_:
            return not self._plan_rows()
        if any(one.state in (*ACTIVE_STATES, "checking") for one in open_):
            return False
        is_open = self._governor.alarm_reason is not None
        return self._is_launching_over or (is_open and self._governor.limits.on_alarm == "pause")

    def _plan_rows(self) -> bool:
        """Take up what the recipe says is next; whether there was something."""
        rows = self._recipe.plan_rows(self._state)
        for row in rows:
            self._write(**{"kind" if key == "type" else key: value for key, value in row.items()})
        return bool(rows)

    # Launching

    def _launch_ready_tasks(self) -> None:
        now = time.monotonic()
        waiting = [
            one for one in self._state.list_in_state("queued") if self._not_before.get(one.task.slug, 0.0) <= now
        ]
        ready = [one for one in self._state.list_in_state("parked") if self._messenger.can_resume(one)]
        if not waiting and not ready:
            return
        gate = self._governor.decide_launches(self._measure_load())
        if gate.reason != self._reported_wait_reason and gate.count == 0 and gate.reason:
            self._write("alert", text=f"no launches: {gate.reason}", waits=gate.reason)
        self._reported_wait_reason = gate.reason
        if gate.is_final:
            self._park_all(gate.reason or "")
            return
        waiting.sort(key=lambda one: (-one.task.first, -one.task.seconds))
        if waiting and not self._host_pool.can_add_hosts(len(waiting), self._recipe.choose_base(waiting[0])):
            waiting = []
        waiting = waiting[: self._host_pool.count_placeable(min(len(waiting), max(0, gate.count - len(ready))))]
        for one in [*ready, *waiting][: gate.count]:
            if one.state == "parked":
                self._active_since[one.task.slug] = time.monotonic()
                self._messenger.resume_task(one)
            else:
                self._launch_task(one)

    def _launch_task(self, one: TaskState) -> None:
        slug, attempt = one.task.slug, one.attempt + 1
        agent, mooring = self._actions.choose_agent_name(one.task, attempt), self._host_pool.assign_host(slug)
        at: dict[str, Any] = {"host": mooring.name} if mooring and mooring.name else {}
        self._write("launch", slug=slug, agent=agent, attempt=attempt, base=self._recipe.choose_base(one), **at)
        self._start_agent(self._state.tasks[slug], mooring)

    def _start_agent(self, one: TaskState, mooring: PooledHost | None) -> None:
        self._active_since[one.task.slug] = time.monotonic()
        at = None if mooring is None else mooring.name
        self._workers.submit("launch", one.task.slug, lambda: self._actions.ensure_agent(one, mooring), at)

    def _after_launch(self, slug: str, made: AgentView | MngrError) -> None:
        if isinstance(made, EngineBusy):  # no attempt at all: it is tried again when there may be room
            self._write("busy", slug=slug, error=made.message)
            self._governor.record_refusal(made.message, self._seconds_elapsed())
            return
        if isinstance(made, MngrError):
            self._handle_launch_failure("launch", slug, made)
            return
        self._governor.record_start()
        self._host_pool.record_arrival(self._state.tasks[slug], made)
        self._write("launched", slug=slug, id=made.id, host=made.host, sync=False)
        self._send_prompt(self._state.tasks[slug])

    def _after_prepare(self, snapshot: str, result: str | MngrError) -> None:
        if isinstance(result, EngineBusy):
            self._governor.record_refusal(result.message, self._seconds_elapsed())
        self._host_pool.handle_prepared(snapshot, result)

    def _send_prompt(self, one: TaskState) -> None:
        """Give it its task."""
        text = self._recipe.build_prompt(one)
        if not text:  # a program that needs no word
            self._after_talk(one.task.slug, "none")
            return
        self._workers.submit("talk", one.task.slug, lambda: self._actions.send_prompt(one, text), one.host)

    def _after_talk(self, slug: str, proof: str | MngrError) -> None:
        one = self._state.tasks[slug]
        if isinstance(proof, MngrError) and one.state == "launching":
            self._handle_launch_failure("prompt", slug, proof)
        elif isinstance(proof, MngrError):
            self._start_pull(one, closed=f"{self._messenger.message_reasons.get(slug)}, and {proof.message}")
        else:
            kind = {"launching": "prompted", "talking": "reminded"}.get(one.state, "unparked")
            self._write(kind, slug=slug, proof=proof)
            self._host_pool.record_wake(one.host)
            self._watch_agent(self._state.tasks[slug])

    _after_remind = _after_talk

    def _watch_agent(self, one: TaskState) -> None:
        """Watch its agent; that is tried at every turn while its host does not answer."""
        if one.agent_id is None or one.agent is None:
            return
        try:
            self._watch.add_by_name(one.agent, one.agent_id)
            self._slugs[one.agent_id] = one.task.slug
        except Unreachable:
            return
        except MngrError:  # its host is known no more
            self._slugs[one.agent_id] = one.task.slug
            self._handle_missing_agent(one.agent_id)

    def _handle_launch_failure(self, stage: str, slug: str, error: MngrError) -> None:
        """A launch that came to nothing: again, unless it is the task's own fault."""
        one = self._state.tasks[slug]
        cause = governing.classify_error(error.message) if not isinstance(error, Unreachable) else "host"
        silent = (
            self._host_pool.mark_unreachable(slug) if isinstance(error, Unreachable) else None
        )  # others go elsewhere
        self._write("launch_failed", slug=slug, stage=stage, cause=cause, error=error.message)
        self._report_failure(stage, error.message, silent or slug, cause)
        for_all = cause in ("rate_limit", "host")  # could not start: not about this task
        if for_all and silent is None and self._governor.record_rate_limit(self._seconds_elapsed()):
            self._write("window", size=int(self._governor.max_parallel), why=cause)
        if one.attempt >= MAX_LAUNCHES * (3 if for_all else 1):
            self._write("settled", slug=slug, outcome="failed", reason=f"could not be launched: {error.message}")
            return
        self._not_before[slug] = time.monotonic() + 2.0 ** min(one.attempt, 6)

    def _report_failure(self, stage: str, text: str, slug: str, cause: str | None = None) -> None:
        if cause is None and governing.is_timeout_error(text) and is_overloaded():
            cause = "host"
        alarm = self._governor.record_failure(stage, text, slug, self._seconds_elapsed(), cause)
        if alarm:
            self._write("alarm", **alarm)

    # Watching

    def _handle_updates(self, glance: WatchUpdate) -> None:
        for text in self._reachability.update(glance):
            self._write("alert", text=text)
        for one in self._state.list_in_state("working") if glance.errors else ():
            error = glance.errors.get(one.host or "")
            if isinstance(error, HostGone):
                self._messenger.restart_on_new_host(one, self._recipe.build_prompt(one))
            elif isinstance(error, HostStopped) and (error.why or one.host in self._state.hosts):
                # By itself, or it is ours and somebody has stopped it: with all that is on it.
                self._messenger.restart_agent(one, f"its host stopped: {error.why or 'by somebody'}", _MAX_HOST_STOPS)
            elif error is not None:
                self._report_failure(
                    "work", f"{one.host} does not answer", self._host_pool.get_failure_source(one), "host"
                )
        for view in glance.agents:
            self._react_to_agent(view)
        for agent_id in glance.destroyed:
            self._handle_missing_agent(agent_id)

    def _react_to_agent(self, view: AgentView) -> None:
        """What an agent's state asks for."""
        slug = self._slugs.get(view.id)
        one = self._state.tasks.get(slug or "")
        if one is None or one.agent_id != view.id:
            return
        if one.state == "parked" and view.state == "RUNNING" and not one.is_stopped:
            self._write("unparked", slug=slug, why="it went on by itself")
            self._active_since[one.task.slug] = time.monotonic()
        elif one.state != "working" or self._not_before.get(one.task.slug, 0.0) > time.monotonic():
            return
        elif view.state == "PARKED":
            self._active_since[one.task.slug] = time.monotonic()
            self._messenger.park_task(one, view, self._seconds_elapsed())
            if view.state_reason == "login":
                self._report_failure("work", "the login is dead", one.task.slug, "login")
        elif view.state == "STOPPED" and view.state_reason == "rescue":  # by who found its host gone
            self._messenger.restart_on_new_host(one, self._recipe.build_prompt(one))
        elif view.state == "STOPPED" and view.id not in self._stopped_agents:  # who destroys it stops it first
            self._stopped_agents.add(view.id)
            self._not_before[one.task.slug] = time.monotonic() + 2.0
        elif view.state_reason == "lost" and self._messenger.restart_agent(one, "lost", 2):
            pass
        else:
            closed, asks = reminders.next_action(view, self._governor.limits.stall)
            if asks is not None:
                self._remind(one, *asks)
            elif closed is not None:
                self._start_pull(one, closed=closed or None)

    def _handle_missing_agent(self, agent_id: str) -> None:
        """Somebody destroyed it."""
        one = self._state.tasks.get(self._slugs.get(agent_id, ""))
        if one is not None and not self._actions.host_recovery.is_settled(one.host or ""):
            return  # it is just made again
        if one is not None and one.agent_id == agent_id and one.state in ("working", "parked"):
            self._requeue_destroyed(one)
        self._watch.remove(agent_id)
        self._slugs.pop(agent_id, None)  # if its work cannot be fetched, it is looked for once more

    def _requeue_destroyed(self, one: TaskState) -> None:
        """It is begun again, unless that was done often enough."""
        slug, error = one.task.slug, "it was destroyed"
        self._write("launch_failed", slug=slug, stage="work", cause="host", error=error)
        if one.attempt >= MAX_LAUNCHES:
            self._write("settled", slug=slug, outcome="failed", reason=error)

    def _remind(self, one: TaskState, why: str, text: str, *, counts: bool = True) -> None:
        """Tell it once more what is wanted; after that it is closed as what it is."""
        if not self._messenger.remind(one, why, text, counts=counts):
            self._start_pull(one, closed=why)

    # Bringing home

    def _start_pull(self, one: TaskState, closed: str | None = None) -> None:
        self._write("pull", slug=one.task.slug, closed=closed)
        one = self._state.tasks[one.task.slug]
        final, hands = closed is not None or one.reminders >= reminders.MAX_REMINDERS, self._actions
        tag = hands.find_host_tag(one.host)
        self._workers.submit(
            "pull", one.task.slug, lambda: (hands.collect_work(one, final=final, tag=tag), closed), one.host
        )

    def _after_pull(self, slug: str, result: tuple[CollectedWork, str | None] | MngrError) -> None:
        one = self._state.tasks[slug]
        if isinstance(result, NotFound):
            self._requeue_destroyed(one)
            return
        if isinstance(result, MngrError):  # the host is gone for now, or the disk is full: it is there still
            self._failed_pulls[slug] = self._failed_pulls.get(slug, 0) + 1
            self._write("pull_failed", slug=slug, error=result.message)
            is_away = isinstance(result, Unreachable)
            who = self._host_pool.get_failure_source(one) if is_away else slug
            self._report_failure("pull", result.message, who, "host" if is_away else None)
            self._not_before[slug] = time.monotonic() + 2.0 ** min(self._failed_pulls[slug], MAX_PULLS)
            if self._failed_pulls[slug] >= MAX_PULLS * (10 if is_away else 1):
                self._write("settled", slug=slug, outcome="failed", reason=result.message)
            elif isinstance(result, HostGone):  # it may be there again: nobody would say so once more
                self._messenger.restart_on_new_host(self._state.tasks[slug], self._recipe.build_prompt(one))
            return
        home, closed = result
        claim = home.judgement.claim if closed is None else {**home.judgement.claim, "closed": closed}
        if home.is_final and home.judgement.problem:
            claim = {**claim, "problem": home.judgement.problem}
        self._write(
            "pulled", slug=slug, commit=home.commit, commits=home.commits, claim=claim, usage=home.usage, before_edit=home.before_edit,
            dirty=home.is_dirty, final=home.is_final, error=home.error,
        )  # fmt: skip
        one = self._state.tasks[slug]
        if home.is_final:
            if one.agent_id:
                self._watch.remove(one.agent_id)
                self._slugs.pop(one.agent_id, None)  # another task may be for it
            self._start_check(one)
        else:
            self._remind(one, "result", home.judgement.problem or "")

    def _start_check(self, one: TaskState) -> None:
        self._write("check", slug=one.task.slug)
        one = self._state.tasks[one.task.slug]
        lane = "settle" if self._recipe.can_check_without_run(one) else "check"
        self._workers.submit(lane, one.task.slug, lambda: self._recipe.check(one))

    def _after_check(self, slug: str, seen: dict[str, Any] | MngrError | None) -> None:
        if isinstance(seen, MngrError):
            seen = {"verdict": "unverified", "reason": seen.message}
        if seen is not None:
            self._write("checked", slug=slug, check=seen)
        outcome, reason = self._recipe.decide_outcome(self._state.tasks[slug])
        self._write("settled", slug=slug, outcome=outcome, reason=reason)
        if outcome == "failed":
            self._report_failure("work", reason or outcome, slug)
        else:
            self._governor.record_success()
            if self._governor.alarm_reason is not None:
                self._governor.clear_alarm()
                self._write("alarm_over", text="a task went well")

    _after_settle = _after_check

    # Time and money

    def _seconds_elapsed(self) -> float:
        return time.monotonic() - self._began

    def _measure_load(self) -> RunLoad:
        return self._budget.measure_load(self._seconds_elapsed(), self._state)

    def _enforce_time_limits(self) -> None:
        now = time.monotonic()
        for one in self._state.list_in_state("working", "parked"):
            if one.agent_id not in self._slugs:
                self._watch_agent(one)
        for one in self._state.list_in_state("working"):
            slug, limit = one.task.slug, self._governor.limits.timeout
            if now - self._active_since.get(slug, now) > limit and self._not_before.get(slug, 0.0) <= now:
                self._start_pull(one, closed="timeout")
        for one in self._state.list_in_state("parked"):
            if not one.is_stopped and now - self._active_since.get(one.task.slug, now) > _PARKED_STOP_DELAY:
                self._messenger.stop_agents([one], one.reason, one.parked_until)
        self._after_count()
        if self._budget.begin_count_if_due():
            at_work = self._state.list_in_state("working", "parked")
            names = {one.task.slug: one.agent for one in at_work if one.agent}
            self._workers.submit("count", "", lambda: self._budget.count_usage(names))

    def _after_count(self, *_: object) -> None:
        why = self._governor.find_exhausted_limit(self._measure_load())
        if why is not None:
            self._park_all(why)

    def _park_all(self, why: str) -> None:
        """Nothing more may be used: who works is stopped with all it has, and can be woken another day."""
        self._is_launching_over = True
        self._reported_wait_reason = why
        at_work = self._state.list_in_state("working", "parked")
        self._messenger.stop_agents([one for one in at_work if not one.is_stopped], why)

    # After a crash

    def _resume(self) -> None:
        """Go on with what was begun: nothing that is settled again, nothing twice."""
        if not self._state.tasks:
            return
        self._write("resumed")
        self._host_pool.restore_hosts()
        for one in list(self._state.tasks.values()):
            if one.state in ("working", "talking", "parked", "launching", "pulling"):
                self._active_since[one.task.slug] = time.monotonic()
            if one.state == "launching":
                self._start_agent(one, self._host_pool.assign_host(one.task.slug))
            elif one.state in ("working", "talking"):
                self._write("reminded", slug=one.task.slug)
                self._watch_agent(self._state.tasks[one.task.slug])
            elif one.state == "parked":
                self._watch_agent(one)
            elif one.state == "pulling" and not one.is_stopped:
                self._start_pull(one, closed=one.closed)
            elif one.state == "pulling" or (one.state == "checking" and one.check is None):
                self._start_check(one)
            elif one.state == "checking":
                self._after_check(one.task.slug, one.check)
