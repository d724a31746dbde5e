"""Sends reminders to working agents, and parks and resumes agents whose model reached a limit."""

from __future__ import annotations

import time
from functools import partial

from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.base.model import AgentView
from mngr.mapreduce import reminders
from mngr.mapreduce.agent_actions import AgentActions
from mngr.mapreduce.governor import Governor
from mngr.mapreduce.journal.journal_file import JournaledState
from mngr.mapreduce.journal.journal_rows import ParkedRow, PromptedRow, RemindedRow, RemindRow, UnparkedRow
from mngr.mapreduce.journal.run_rows import AlertRow, WindowRow
from mngr.mapreduce.journal.run_state import JournalRow, TaskState
from mngr.mapreduce.worker_threads import JobKind, WorkerThreads


class Messenger:
    """Journals each message to an agent, then lets a worker thread send it."""

    def __init__(
        self, governor: Governor, actions: AgentActions, workers: WorkerThreads, state: JournaledState
    ) -> None:
        self._governor = governor
        self._actions = actions
        self._workers = workers
        self._state = state
        self._write = state.write
        self.message_reasons: dict[str, str] = {}  # task slug -> why its agent got the last message
        self.pending_stops = 0  # stop jobs that have not ended yet
        self._restarts: dict[str, int] = {}

    def remind(self, task: TaskState, reason: str, text: str, *, counts: bool = True) -> bool:
        """Send a reminder to the agent. Return False if it already got the maximum number of reminders."""
        if counts and task.reminders >= reminders.MAX_REMINDERS:
            return False
        number = task.reminders + counts
        message = f"{text}\n\n(Reminder {number} of {reminders.MAX_REMINDERS}.)" if counts else text
        self._write(RemindRow(slug=task.task.slug, number=number, why=reason))
        self._send_message(task.task.slug, reason, message)
        return True

    def restart_agent(self, task: TaskState, reason: str, max_restarts: int) -> bool:
        """Tell an interrupted agent to continue. Return False if that has happened `max_restarts` times."""
        count = self._restarts.get(task.task.slug, 0)
        if count < max_restarts:
            self._restarts[task.task.slug] = count + 1
            self.remind(task, reason, reminders.CONTINUE_MESSAGE, counts=False)
        return count < max_restarts

    def restart_on_new_host(self, task: TaskState, prompt: str) -> None:
        """Rebuild a lost host with its agent. This counts as no reminder, because the agent did not fail."""
        slug, reason = task.task.slug, "its host is gone"
        self.message_reasons[slug] = reason
        self._write(RemindRow(slug=slug, number=task.reminders, why=reason))
        task = self._state.current.tasks[slug]
        self._workers.submit(JobKind.REMIND, slug, lambda: self._actions.restart_on_new_host(task, prompt), task.host)

    def _send_message(self, slug: str, reason: str, text: str) -> None:
        """Send the text from a worker thread, so that one hung agent does not delay the others."""
        self.message_reasons[slug] = reason
        task = self._state.current.tasks[slug]
        timeout = min(self._governor.limits.stall_timeout, 30.0)
        self._workers.submit(JobKind.REMIND, slug, lambda: self._actions.send_message(task, text, timeout), task.host)

    def park_task(self, task: TaskState, view: AgentView, now: float) -> None:
        """Record that the agent's model reached a limit. A rate limit also reduces the number of parallel agents."""
        seconds_left = time_format.parse_timestamp(view.parked_until) - time.time() if view.parked_until else None
        self._write(ParkedRow(slug=task.task.slug, reason=view.state_reason, until=view.parked_until))
        if view.state_reason != "login" and self._governor.record_rate_limit(
            now, None if seconds_left is None else now + seconds_left
        ):
            self._write(WindowRow(size=int(self._governor.max_parallel), why=view.state_reason))

    def stop_agents(self, tasks: list[TaskState], reason: str | None, until: str | None = None) -> None:
        """Park the tasks and stop their agents, one job per host, so that a silent host does not delay the others."""
        groups: dict[str | None, list[TaskState]] = {}
        for task in tasks:
            self._write(ParkedRow(slug=task.task.slug, reason=reason, until=until, stopped=True))
            groups.setdefault(task.host, []).append(task)
        for host, group in groups.items():
            self.pending_stops += 1
            self._workers.submit(JobKind.STOP, host or "", partial(self._actions.stop_agents, group), host)

    def handle_stopped(self, host: str, result: list[str] | MngrError) -> None:
        """Write an alert for each agent that could not be stopped and may still be working."""
        self.pending_stops -= 1
        for text in [f"{host}: {result.message}"] if isinstance(result, MngrError) else result:
            self._write(AlertRow(text=f"mngr could not stop an agent, which may still be working: {text}"))

    def can_resume(self, task: TaskState) -> bool:
        """True when the limit for which the task was parked is over."""
        if task.reason == "login":
            return self._governor.alarm_reason is None or self._governor.limits.on_alarm == "probe"
        return task.parked_until is None or time_format.parse_timestamp(task.parked_until) <= time.time()

    def resume_task(self, task: TaskState) -> None:
        """Tell a parked agent to continue, without repeating its prompt."""
        self._write(RemindRow(slug=task.task.slug, number=task.reminders, why="the limit is over"))
        self._send_message(
            task.task.slug, "the limit is over", f"{reminders.CONTINUE_MESSAGE} ({time_format.format_timestamp()})"
        )


def make_delivery_row(task: TaskState, proof: str) -> JournalRow:
    """Return the row for a delivered message. The task's state tells what the message was for."""
    if task.state == "launching":
        return PromptedRow(slug=task.task.slug, proof=proof)
    if task.state == "talking":
        return RemindedRow(slug=task.task.slug, proof=proof)
    return UnparkedRow(slug=task.task.slug, proof=proof)
