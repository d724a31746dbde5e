"""The loop: plan, launch what the governor lets through, watch, bring home, check, until everything is settled.

One thread decides and writes the journal; what takes time is done by others, each thing after its intent was written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mngr.agents.inspect.watch import Glance
from mngr.api import Fleet
from mngr.base.errors import Busy, HostGone, HostStopped, MngrError, NotFound, Unreachable
from mngr.base.model import AgentView
from mngr.mapreduce import governor as governing
from mngr.mapreduce import reminders
from mngr.mapreduce.agent_actions import Hands, Home
from mngr.mapreduce.budget import Purse, is_overloaded
from mngr.mapreduce.governor import Governor, Limits, Load
from mngr.mapreduce.hosts.pool import Dock, provider_of
from mngr.mapreduce.hosts.reachability import Reach
from mngr.mapreduce.hosts.slots import Mooring
from mngr.mapreduce.journal import Journal
from mngr.mapreduce.messenger import Talk
from mngr.mapreduce.recipe import Recipe, Wish
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import BUSY, RunState, TaskState, fold, step
from mngr.mapreduce.worker_threads import Crew

MOST_LAUNCHES = 3  # of one task; three times that when it is the host's or the model's trouble
MOST_PULLS = 6  # ten times that, which is an hour, while its host does not answer
_LOOK, _TICK = 0.25, 1.0  # seconds: between looks at least; between turns of the loop
_HOST_STOPS = 10  # times that a task goes on after its host stopped by itself, as at a time limit
_RELEASE = 300.0  # seconds after which an agent that is parked gives its host back


class Engine:
    """Runs a recipe to its end; `say` hears every row of the journal."""

    def __init__(
        self, fleet: Fleet, run: RunDir, journal: Journal, recipe: Recipe, wish: Wish, limits: Limits,
        say: Callable[[dict[str, Any]], None], checks: int = 2,
    ) -> None:  # fmt: skip
        self._fleet, self._run, self._journal, self._recipe = fleet, run, journal, recipe
        per_host = max(1, wish.per_host) if provider_of(fleet.context, wish.on) else 1
        self._governor = Governor(limits.replace(per_host=per_host))
        self._purse, self._reach = Purse(fleet, limits), Reach()
        self._hands = Hands(fleet, run, recipe, wish, self._purse)
        self._say = say
        self._state = fold(journal.rows)
        self._began = time.monotonic()
        self._slugs: dict[str, str] = {}  # of agents' ids
        self._since: dict[str, float] = {}  # when a task's agent was launched, parked or woken
        self._pulls: dict[str, int] = {}  # how often its work could not be brought home
        self._later: dict[str, float] = {}  # tasks that are not launched before
        self._stopped: set[str] = set()  # agents that somebody stopped
        self._told_why: str | None = None
        self._gate_is_final = False
        self._watch = fleet.watch(quick=_LOOK, slow=max(_TICK, limits.max_agents / 20))
        most = min(limits.max_starting * per_host, limits.max_agents)
        self._crew = Crew(
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
        source = self._hands.source
        self._dock = Dock(fleet, run, wish, source, self._crew, self._reach, lambda: self._state, self._write)
        self._after_release = self._dock.after_release
        self._talk = Talk(self._governor, self._hands, self._crew, lambda: self._state, self._write)
        self._after_stop = self._talk.after_stop

    def run(self) -> RunState:
        """Until everything is settled, or nothing more may be launched; the state then."""
        try:
            self._purse.look_at_the_day(self._state)
            self._adopt()
            while not self._is_over():
                self._plan()
                self._launch()
                glance = self._watch.wait(_TICK, self._crew.wake)
                if glance:
                    self._look_at(glance)
                for kind, slug, result in self._crew.done():
                    getattr(self, f"_after_{kind}")(slug, result)
                self._keep_time()
            how = "settled" if all(one.state == "settled" for one in self._state.tasks.values()) else "parked"
            self._dock.close(how)
            why = None if how == "settled" else self._governor.cause or self._told_why
            self._write("ended", how=how, why=why)
        finally:
            self._watch.close()
        return self._state

    def _write(self, kind: str, *, sync: bool = True, **data: Any) -> None:
        row = self._journal.write(kind, sync=sync, **data)
        self._state = step(self._state, row)
        self._say(row)

    def _is_over(self) -> bool:
        self._dock.turn(0 if self._gate_is_final else len(self._state.in_state("queued")))
        if not self._dock.is_quiet() or self._talk.stops:
            return False
        open_ = [one for one in self._state.tasks.values() if one.state != "settled"]
        if not open_:
            return not self._plan()
        if any(one.state in (*BUSY, "checking") for one in open_):
            return False
        is_open = self._governor.cause is not None
        return self._gate_is_final or (is_open and self._governor.limits.on_alarm == "pause")

    def _plan(self) -> bool:
        """Take up what the recipe says is next; whether there was something."""
        rows = self._recipe.more(self._state)
        for row in rows:
            self._write(**{"kind" if key == "type" else key: value for key, value in row.items()})
        return bool(rows)

    # Launching

    def _launch(self) -> None:
        now = time.monotonic()
        waiting = [
            one for one in self._state.in_state("queued") if self._later.get(one.task.slug, 0.0) <= now
        ]
        ready = [one for one in self._state.in_state("parked") if self._talk.can_go_on(one)]
        if not waiting and not ready:
            return
        gate = self._governor.gate(self._load())
        if gate.why != self._told_why and gate.room == 0 and gate.why:
            self._write("alert", text=f"no launches: {gate.why}", waits=gate.why)
        self._told_why = gate.why
        if gate.is_final:
            self._give_up(gate.why or "")
            return
        waiting.sort(key=lambda one: (-one.task.first, -one.task.seconds))
        if waiting and not self._dock.is_ready(len(waiting), self._recipe.base(waiting[0])):
            waiting = []
        waiting = waiting[: self._dock.fit(min(len(waiting), max(0, gate.room - len(ready))))]
        for one in [*ready, *waiting][: gate.room]:
            if one.state == "parked":
                self._since[one.task.slug] = time.monotonic()
                self._talk.wake(one)
            else:
                self._launch_one(one)

    def _launch_one(self, one: TaskState) -> None:
        slug, attempt = one.task.slug, one.attempt + 1
        agent, mooring = self._hands.name(one.task, attempt), self._dock.place(slug)
        at: dict[str, Any] = {"host": mooring.name} if mooring and mooring.name else {}
        self._write("launch", slug=slug, agent=agent, attempt=attempt, base=self._recipe.base(one), **at)
        self._make(self._state.tasks[slug], mooring)

    def _make(self, one: TaskState, mooring: Mooring | None) -> None:
        self._since[one.task.slug] = time.monotonic()
        at = None if mooring is None else mooring.name
        self._crew.do("launch", one.task.slug, lambda: self._hands.make(one, mooring), at)

    def _after_launch(self, slug: str, made: AgentView | MngrError) -> None:
        if isinstance(made, Busy):  # no attempt at all: it is tried again when there may be room
            self._write("busy", slug=slug, error=made.message)
            self._governor.refused(made.message, self._now())
            return
        if isinstance(made, MngrError):
            self._failed("launch", slug, made)
            return
        self._governor.started()
        self._dock.arrived(self._state.tasks[slug], made)
        self._write("launched", slug=slug, id=made.id, host=made.host, sync=False)
        self._tell(self._state.tasks[slug])

    def _after_prepare(self, snapshot: str, result: str | MngrError) -> None:
        if isinstance(result, Busy):
            self._governor.refused(result.message, self._now())
        self._dock.after_prepare(snapshot, result)

    def _tell(self, one: TaskState) -> None:
        """Give it its task."""
        text = self._recipe.prompt(one)
        if not text:  # a program that needs no word
            self._after_talk(one.task.slug, "none")
            return
        self._crew.do("talk", one.task.slug, lambda: self._hands.brief(one, text), one.host)

    def _after_talk(self, slug: str, proof: str | MngrError) -> None:
        one = self._state.tasks[slug]
        if isinstance(proof, MngrError) and one.state == "launching":
            self._failed("prompt", slug, proof)
        elif isinstance(proof, MngrError):
            self._pull(one, closed=f"{self._talk.asked.get(slug)}, and {proof.message}")
        else:
            kind = {"launching": "prompted", "talking": "reminded"}.get(one.state, "unparked")
            self._write(kind, slug=slug, proof=proof)
            self._dock.woke(one.host)
            self._follow(self._state.tasks[slug])

    _after_remind = _after_talk

    def _follow(self, one: TaskState) -> None:
        """Watch its agent; that is tried at every turn while its host does not answer."""
        if one.agent_id is None or one.agent is None:
            return
        try:
            self._watch.follow(one.agent, one.agent_id)
            self._slugs[one.agent_id] = one.task.slug
        except Unreachable:
            return
        except MngrError:  # its host is known no more
            self._slugs[one.agent_id] = one.task.slug
            self._lost(one.agent_id)

    def _failed(self, stage: str, slug: str, error: MngrError) -> None:
        """A launch that came to nothing: again, unless it is the task's own fault."""
        one = self._state.tasks[slug]
        cause = governing.cause_of(error.message) if not isinstance(error, Unreachable) else "host"
        silent = self._dock.silent(slug) if isinstance(error, Unreachable) else None  # others go elsewhere
        self._write("launch_failed", slug=slug, stage=stage, cause=cause, error=error.message)
        self._alarm(stage, error.message, silent or slug, cause)
        for_all = cause in ("rate_limit", "host")  # could not start: not about this task
        if for_all and silent is None and self._governor.limited(self._now()):
            self._write("window", size=int(self._governor.window), why=cause)
        if one.attempt >= MOST_LAUNCHES * (3 if for_all else 1):
            self._write(
                "settled", slug=slug, outcome="failed", reason=f"could not be launched: {error.message}"
            )
            return
        self._later[slug] = time.monotonic() + 2.0 ** min(one.attempt, 6)

    def _alarm(self, stage: str, text: str, slug: str, cause: str | None = None) -> None:
        if cause is None and governing.is_slow(text) and is_overloaded():
            cause = "host"
        alarm = self._governor.failed(stage, text, slug, self._now(), cause)
        if alarm:
            self._write("alarm", **alarm)

    # Watching

    def _look_at(self, glance: Glance) -> None:
        for text in self._reach.news(glance):
            self._write("alert", text=text)
        for one in self._state.in_state("working") if glance.errors else ():
            error = glance.errors.get(one.host or "")
            if isinstance(error, HostGone):
                self._talk.revive(one, self._recipe.prompt(one))
            elif isinstance(error, HostStopped) and (error.why or one.host in self._state.hosts):
                # By itself, or it is ours and somebody has stopped it: with all that is on it.
                self._talk.start_again(one, f"its host stopped: {error.why or 'by somebody'}", _HOST_STOPS)
            elif error is not None:
                self._alarm("work", f"{one.host} does not answer", self._dock.blame(one), "host")
        for view in glance.seen:
            self._consider(view)
        for agent_id in glance.gone:
            self._lost(agent_id)

    def _consider(self, view: AgentView) -> None:
        """What an agent's state asks for."""
        slug = self._slugs.get(view.id)
        one = self._state.tasks.get(slug or "")
        if one is None or one.agent_id != view.id:
            return
        if one.state == "parked" and view.state == "RUNNING" and not one.is_stopped:
            self._write("unparked", slug=slug, why="it went on by itself")
            self._since[one.task.slug] = time.monotonic()
        elif one.state != "working" or self._later.get(one.task.slug, 0.0) > time.monotonic():
            return
        elif view.state == "PARKED":
            self._since[one.task.slug] = time.monotonic()
            self._talk.park(one, view, self._now())
            if view.state_reason == "login":
                self._alarm("work", "the login is dead", one.task.slug, "login")
        elif view.state == "STOPPED" and view.state_reason == "rescue":  # by who found its host gone
            self._talk.revive(one, self._recipe.prompt(one))
        elif view.state == "STOPPED" and view.id not in self._stopped:  # who destroys it stops it first
            self._stopped.add(view.id)
            self._later[one.task.slug] = time.monotonic() + 2.0
        elif view.state_reason == "lost" and self._talk.start_again(one, "lost", 2):
            pass
        else:
            closed, asks = reminders.wanted(view, self._governor.limits.stall)
            if asks is not None:
                self._remind(one, *asks)
            elif closed is not None:
                self._pull(one, closed=closed or None)

    def _lost(self, agent_id: str) -> None:
        """Somebody destroyed it."""
        one = self._state.tasks.get(self._slugs.get(agent_id, ""))
        if one is not None and not self._hands.wrecks.is_calm(one.host or ""):
            return  # it is just made again
        if one is not None and one.agent_id == agent_id and one.state in ("working", "parked"):
            self._destroyed(one)
        self._watch.drop(agent_id)
        self._slugs.pop(agent_id, None)  # if its work cannot be fetched, it is looked for once more

    def _destroyed(self, one: TaskState) -> None:
        """It is begun again, unless that was done often enough."""
        slug, error = one.task.slug, "it was destroyed"
        self._write("launch_failed", slug=slug, stage="work", cause="host", error=error)
        if one.attempt >= MOST_LAUNCHES:
            self._write("settled", slug=slug, outcome="failed", reason=error)

    def _remind(self, one: TaskState, why: str, text: str, *, counts: bool = True) -> None:
        """Tell it once more what is wanted; after that it is closed as what it is."""
        if not self._talk.remind(one, why, text, counts=counts):
            self._pull(one, closed=why)

    # Bringing home

    def _pull(self, one: TaskState, closed: str | None = None) -> None:
        self._write("pull", slug=one.task.slug, closed=closed)
        one = self._state.tasks[one.task.slug]
        final, hands = closed is not None or one.reminders >= reminders.MOST_REMINDERS, self._hands
        tag = hands.tag(one.host)
        self._crew.do(
            "pull", one.task.slug, lambda: (hands.fetch(one, final=final, tag=tag), closed), one.host
        )

    def _after_pull(self, slug: str, result: tuple[Home, str | None] | MngrError) -> None:
        one = self._state.tasks[slug]
        if isinstance(result, NotFound):
            self._destroyed(one)
            return
        if isinstance(result, MngrError):  # the host is gone for now, or the disk is full: it is there still
            self._pulls[slug] = self._pulls.get(slug, 0) + 1
            self._write("pull_failed", slug=slug, error=result.message)
            is_away = isinstance(result, Unreachable)
            who = self._dock.blame(one) if is_away else slug
            self._alarm("pull", result.message, who, "host" if is_away else None)
            self._later[slug] = time.monotonic() + 2.0 ** min(self._pulls[slug], MOST_PULLS)
            if self._pulls[slug] >= MOST_PULLS * (10 if is_away else 1):
                self._write("settled", slug=slug, outcome="failed", reason=result.message)
            elif isinstance(result, HostGone):  # it may be there again: nobody would say so once more
                self._talk.revive(self._state.tasks[slug], self._recipe.prompt(one))
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
                self._watch.drop(one.agent_id)
                self._slugs.pop(one.agent_id, None)  # another task may be for it
            self._check(one)
        else:
            self._remind(one, "result", home.judgement.problem or "")

    def _check(self, one: TaskState) -> None:
        self._write("check", slug=one.task.slug)
        one = self._state.tasks[one.task.slug]
        lane = "settle" if self._recipe.is_known(one) else "check"
        self._crew.do(lane, one.task.slug, lambda: self._recipe.check(one))

    def _after_check(self, slug: str, seen: dict[str, Any] | MngrError | None) -> None:
        if isinstance(seen, MngrError):
            seen = {"verdict": "unverified", "reason": seen.message}
        if seen is not None:
            self._write("checked", slug=slug, check=seen)
        outcome, reason = self._recipe.settle(self._state.tasks[slug])
        self._write("settled", slug=slug, outcome=outcome, reason=reason)
        if outcome == "failed":
            self._alarm("work", reason or outcome, slug)
        else:
            self._governor.succeeded()
            if self._governor.cause is not None:
                self._governor.close()
                self._write("alarm_over", text="a task went well")

    _after_settle = _after_check

    # Time and money

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _load(self) -> Load:
        return self._purse.weigh(self._now(), self._state)

    def _keep_time(self) -> None:
        now = time.monotonic()
        for one in self._state.in_state("working", "parked"):
            if one.agent_id not in self._slugs:
                self._follow(one)
        for one in self._state.in_state("working"):
            slug, limit = one.task.slug, self._governor.limits.timeout
            if now - self._since.get(slug, now) > limit and self._later.get(slug, 0.0) <= now:
                self._pull(one, closed="timeout")
        for one in self._state.in_state("parked"):
            if not one.is_stopped and now - self._since.get(one.task.slug, now) > _RELEASE:
                self._talk.stop([one], one.reason, one.parked_until)
        self._after_count()
        if self._purse.is_time_to_count():
            at_work = self._state.in_state("working", "parked")
            names = {one.task.slug: one.agent for one in at_work if one.agent}
            self._crew.do("count", "", lambda: self._purse.count(names))

    def _after_count(self, *_: object) -> None:
        why = self._governor.exhausted(self._load())
        if why is not None:
            self._give_up(why)

    def _give_up(self, why: str) -> None:
        """Nothing more may be used: who works is stopped with all it has, and can be woken another day."""
        self._gate_is_final = True
        self._told_why = why
        at_work = self._state.in_state("working", "parked")
        self._talk.stop([one for one in at_work if not one.is_stopped], why)

    # After a crash

    def _adopt(self) -> None:
        """Go on with what was begun: nothing that is settled again, nothing twice."""
        if not self._state.tasks:
            return
        self._write("resumed")
        self._dock.adopt()
        for one in list(self._state.tasks.values()):
            if one.state in ("working", "talking", "parked", "launching", "pulling"):
                self._since[one.task.slug] = time.monotonic()
            if one.state == "launching":
                self._make(one, self._dock.place(one.task.slug))
            elif one.state in ("working", "talking"):
                self._write("reminded", slug=one.task.slug)
                self._follow(self._state.tasks[one.task.slug])
            elif one.state == "parked":
                self._follow(one)
            elif one.state == "pulling" and not one.is_stopped:
                self._pull(one, closed=one.closed)
            elif one.state == "pulling" or (one.state == "checking" and one.check is None):
                self._check(one)
            elif one.state == "checking":
                self._after_check(one.task.slug, one.check)
