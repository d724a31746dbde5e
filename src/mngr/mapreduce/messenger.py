"""Words to agents at work: reminders, and that they may go on; and who waits until a limit of his model ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from mngr.base import clock
from mngr.base.errors import MngrError
from mngr.base.model import AgentView
from mngr.mapreduce import reminders
from mngr.mapreduce.agent_actions import AgentActions
from mngr.mapreduce.governor import Governor
from mngr.mapreduce.run_state import RunState, TaskState
from mngr.mapreduce.worker_threads import WorkerThreads


class Messenger:
    """Writes down what is to be said, and has it said."""

    def __init__(
        self, governor: Governor, hands: AgentActions, crew: WorkerThreads, state: Callable[[], RunState], write: Callable[..., None]
    ) -> None:  # fmt: skip
        self._governor, self._actions, self._workers = governor, hands, crew
        self._state, self._write = state, write
        self.message_reasons: dict[str, str] = {}  # why a task's agent was told something
        self.pending_stops = 0  # under way
        self._restarts: dict[str, int] = {}

    def remind(self, one: TaskState, why: str, text: str, *, counts: bool = True) -> bool:
        """Tell it once more what is wanted; False when it was told often enough."""
        if counts and one.reminders >= reminders.MAX_REMINDERS:
            return False
        number = one.reminders + counts
        said = f"{text}\n\n(Reminder {number} of {reminders.MAX_REMINDERS}.)" if counts else text
        self._write("remind", slug=one.task.slug, number=number, why=why)
        self._send_message(one.task.slug, why, said)
        return True

    def restart_agent(self, one: TaskState, why: str, most: int) -> bool:
        """Have an agent go on that was cut off; False when that was so too often."""
        times = self._restarts.get(one.task.slug, 0)
        if times < most:
            self._restarts[one.task.slug] = times + 1
            self.remind(one, why, reminders.CONTINUE_MESSAGE, counts=False)
        return times < most

    def restart_on_new_host(self, one: TaskState, prompt: str) -> None:
        """Its host is gone: have both made anew from what was kept; no failure of its own, so nothing is counted."""
        slug, why = one.task.slug, "its host is gone"
        self.message_reasons[slug] = why
        self._write("remind", slug=slug, number=one.reminders, why=why)
        one = self._state().tasks[slug]
        self._workers.submit("remind", slug, lambda: self._actions.restart_on_new_host(one, prompt), one.host)

    def _send_message(self, slug: str, why: str, text: str) -> None:
        """One that hangs shall not keep others waiting for a word."""
        self.message_reasons[slug] = why
        one, patience = self._state().tasks[slug], min(self._governor.limits.stall, 30.0)
        self._workers.submit("remind", slug, lambda: self._actions.send_message(one, text, patience), one.host)

    def park_task(self, one: TaskState, view: AgentView, now: float) -> None:
        """Its model wants nothing of it for a while; of others then neither."""
        until = clock.parse_timestamp(view.parked_until) - time.time() if view.parked_until else None
        self._write("parked", slug=one.task.slug, reason=view.state_reason, until=view.parked_until)
        if view.state_reason != "login" and self._governor.record_rate_limit(
            now, None if until is None else now + until
        ):
            self._write("window", size=int(self._governor.max_parallel), why=view.state_reason)

    def stop_agents(self, some: list[TaskState], why: str | None, until: str | None = None) -> None:
        """They wait with all they have, and their programs end: of each host at once, whoever else does not answer."""
        groups: dict[str | None, list[TaskState]] = {}
        for one in some:
            self._write("parked", slug=one.task.slug, reason=why, until=until, stopped=True)
            groups.setdefault(one.host, []).append(one)
        for host, group in groups.items():
            self.pending_stops += 1
            self._workers.submit("stop", host or "", partial(self._actions.stop_agents, group), host)

    def handle_stopped(self, host: str, result: list[str] | MngrError) -> None:
        """Who could not be stopped is named: it may work on."""
        self.pending_stops -= 1
        for text in [f"{host}: {result.message}"] if isinstance(result, MngrError) else result:
            self._write("alert", text=f"could not be stopped and may work on: {text}")

    def can_resume(self, one: TaskState) -> bool:
        """Whether what it was parked for is over."""
        if one.reason == "login":
            return self._governor.alarm_reason is None or self._governor.limits.on_alarm == "probe"
        return one.parked_until is None or clock.parse_timestamp(one.parked_until) <= time.time()

    def resume_task(self, one: TaskState) -> None:
        """It is told to go on, not told its task again."""
        self._write("remind", slug=one.task.slug, number=one.reminders, why="the limit is over")
        self._send_message(
            one.task.slug, "the limit is over", f"{reminders.CONTINUE_MESSAGE} ({clock.format_timestamp()})"
        )
